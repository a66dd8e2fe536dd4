"""Rights used are rights granted, by the audit log of a real API server and the roles of the chart.

The chart is installed by helm, and the controller runs as a process under its service account and with
its environment. It lives through what its roles are for: first with default values, then with every
optional role on. What the audit log shows it used must be granted; what its roles grant must have been
used, but for ``RARE``, where each right has its reason and the test that uses it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from control_plane.access import service_account_kubeconfig
from control_plane.cluster import ControlPlane, control_plane
from control_plane.processes import free_ports
from e2e.real_control_plane.test_real_disruption import SMALL, deployment, node_class, node_pool
from helpers.cluster_texts import class_ref
from helpers.helm import CRDS, MAIN, NAMESPACE, Helm, environment, read
from helpers.real_cluster import (
    ACCOUNT,
    Controller,
    RealCluster,
    Request,
    controller,
    run_kubectl,
    until,
)
from helpers.rights import Right

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

PATIENCE: Final = 180.0
ADMISSION: Final = "OwnerReferencesPermissionEnforcement"
EVERYTHING: Final[Mapping[str, Any]] = {
    "rbac.legacyKinds": True,
    "rbac.earlyBinding": True,
    "settings.earlyBinding": True,
    "settings.ignoreDRARequests": False,
    "settings.featureGates.nodeOverlay": True,
    "settings.featureGates.capacityBuffer": True,
    "settings.featureGates.commitments": True,
    "settings.featureGates.podDeletionCostManagement": True,
    "settings.featureGates.nodeRepair": True,
    "webhook.enabled": True,
}
# Kinds that the controller looks for and does without when it may not read them
LOOKED_FOR: Final = {
    ("karpenter.sh", "provisioners", "list"),
    ("karpenter.k8s.aws", "awsnodetemplates", "list"),
}
ASKED_BY_ADMISSION: Final = (
    f"no request: {ADMISSION} asks whether we have it; assert_admission_asks"
)
CONFLICT: Final = (
    "read again when a write conflicts: integration/test_roles.py::test_with_default_settings"
)
# Rights that this life does not use: why each is granted, and what uses it
RARE: Final[Mapping[Right, str]] = {
    ("karpenter.sh", "nodepools", "get"): CONFLICT,
    ("karpenter.sh", "nodeclaims", "get"): CONFLICT,
    ("karpenter.sh", "nodepools/finalizers", "update"): ASKED_BY_ADMISSION,
    ("karpenter.sh", "nodeclaims/finalizers", "update"): ASKED_BY_ADMISSION,
    ("karpenter.sh", "provisioners/finalizers", "update"): ASKED_BY_ADMISSION,
    ("karpenter.k8s.aws", "awsnodetemplates/finalizers", "update"): ASKED_BY_ADMISSION,
}

Json = dict[str, Any]


class Installed(RealCluster):
    """A control plane with the charts, and the controller of the chart as a process."""

    def __init__(self, plane: ControlPlane, helm: Helm) -> None:
        super().__init__(plane)
        self.helm: Final = helm.on(plane.kubeconfig)
        self._seen: set[tuple[Right, int]] = set()
        self._read = 0  # bytes of the audit log

    def install_chart(self, values: Mapping[str, Any] | None = None) -> None:
        """Install or upgrade both charts; the pods of the chart are the processes of the test."""
        on = bool(values)
        crds = {"legacyKinds": on, "webhook.enabled": on}
        self.helm("upgrade", "--install", "karpenter-crd", CRDS, *self.helm.given(crds), "--wait")
        given = self.helm.given({"replicas": 0, **(values or {})})
        self.helm("upgrade", "--install", "karpenter", MAIN, *given, "--skip-crds")

    def used(self) -> set[Right]:
        """What requests of the controller have taken so far, those that were refused included."""
        return {right for right, _ in self._requests()}

    def until_used(self, right: Right) -> None:
        """Wait until a request of the controller has taken a right."""
        until(lambda: right in self.used(), f"{right} is used", seconds=PATIENCE)

    def refused(self) -> set[Right]:
        """What it asked for and was not allowed."""
        return {right for right, status in self._requests() if status == HTTPStatus.FORBIDDEN}

    def _requests(self) -> set[tuple[Right, int]]:
        """Rights and answers of the controller's requests; only what is new in the log is read."""
        with self.plane.audit_log.open("rb") as log:
            log.seek(self._read)
            lines = log.read().split(b"\n")
        self._read += sum(len(line) + 1 for line in lines[:-1])
        for line in lines[:-1]:
            if f":{ACCOUNT}".encode() in line:
                self._take(Request.read(json.loads(line)))
        return self._seen

    def _take(self, request: Request) -> None:
        if request.account != ACCOUNT or request.resource.startswith("/"):
            return
        right = (request.group, request.resource)
        self._seen.add(((*right, request.verb), request.status))
        # Apply to a missing object needs the right to create as well
        if request.verb == "patch" and request.status == HTTPStatus.CREATED:
            self._seen.add(((*right, "create"), request.status))

    def granted(self) -> set[Right]:
        """What the roles that are bound to the controller allow."""
        bound = {
            (each["roleRef"]["kind"], each["roleRef"]["name"])
            for kind in ("clusterrolebindings", "rolebindings")
            for each in self.items(kind)
            if {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
            in each.get("subjects", ())
        }
        return {
            (group, resource, verb)
            for kind in ("clusterroles", "roles")
            for each in self.items(kind)
            if (each["kind"], each["metadata"]["name"]) in bound
            for rule in each["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    @contextmanager
    def running(self) -> Iterator[Controller]:
        """The controller with the environment of the installed chart, until it has ended in order."""
        deployed = read(self.helm("get", "manifest", "karpenter"))
        metrics, health, webhook = map(str, free_ports(3))
        ports = {"METRICS_PORT": metrics, "HEALTH_PROBE_PORT": health}
        settings = environment(deployed) | ports
        if "WEBHOOK_PORT" in settings:
            settings["WEBHOOK_PORT"] = webhook
        account = service_account_kubeconfig(self.plane, NAMESPACE, ACCOUNT)
        with controller(self, account, **settings) as process:
            process.until_leading()
            yield process
            assert 0 == process.stop()

    def apply(self, *objects: Json) -> None:
        self("apply", "-f", "-", given=yaml.safe_dump_all(objects))


@pytest.fixture
def installed(
    kubectl: str, control_plane_programs: None, helm: Helm, tmp_path: Path
) -> Iterator[Installed]:
    with control_plane(tmp_path, audits=True, admission=[ADMISSION]) as plane:
        plane.start_kwok()
        yield Installed(plane, helm)


@pytest.mark.case("OPS-17")
def test_by_default_the_controller_uses_what_the_chart_grants_and_nothing_else(
    installed: Installed,
) -> None:
    installed.install_chart()
    with installed.running():
        a_node_of_each_way_out(installed)

    used, granted = installed.used(), installed.granted()
    assert LOOKED_FOR == used - granted
    assert set() == granted - used - set(RARE)
    assert LOOKED_FOR == installed.refused()
    assert_admission_asks(installed)


@pytest.mark.case("OPS-17")
def test_each_optional_role_of_the_chart_is_used_by_what_it_is_for(installed: Installed) -> None:
    installed.install_chart()
    by_default = installed.granted()
    installed.install_chart(EVERYTHING)
    installed.apply(node_class())
    with installed.running():
        optional_kinds(installed)
        certificates(installed)
        a_provisioner(installed)
        for each in (
            ("karpenter.sh", "nodeoverlays/status", "patch"),
            ("autoscaling.x-k8s.io", "capacitybuffers/status", "patch"),
            ("cost.karpenter.sh", "commitments/status", "patch"),
            ("", "pods/binding", "create"),
            ("", "pods", "patch"),  # once a minute
        ):
            installed.until_used(each)
        a_repair(installed)

    used, granted = installed.used(), installed.granted()
    assert set() == used - granted
    assert set() == granted - by_default - used - set(RARE)
    assert set(RARE) <= granted
    assert set() == installed.refused()


def serve(installed: Installed, name: str, replicas: int) -> None:
    """Wait until so many pods of a Deployment run."""
    until(lambda: running(installed, name) == replicas, f"{replicas} of {name}", seconds=PATIENCE)


def running(installed: Installed, name: str) -> int:
    return sum(
        pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        for pod in installed.items("pods", "-l", f"app={name}")
    )


def nodes_of(installed: Installed, pool: str) -> set[str]:
    found = installed.items("nodes", "-l", f"karpenter.sh/nodepool={pool}")
    return {each["metadata"]["name"] for each in found}


def until_empty(installed: Installed, pool: str) -> None:
    """Wait until a pool has no node any more."""
    until(lambda: not nodes_of(installed, pool), f"{pool} has no node", seconds=PATIENCE)


def a_node_of_each_way_out(installed: Installed) -> None:
    """Pods come; a node drifts and is replaced, one is drained by force, and all end empty."""
    left = node_class()
    left["metadata"]["annotations"] = {"karpenter.kwok.sh/sold-out-everywhere": "c-2x-*/*/spot"}
    forced = node_pool("forced", types=(SMALL,), expire_after="Never")
    forced["spec"]["template"]["spec"]["terminationGracePeriod"] = "5s"
    stays = deployment("forced", 1)
    annotations = {"karpenter.sh/do-not-disrupt": "true"}
    stays["spec"]["template"]["metadata"]["annotations"] = annotations
    work = node_pool("work", types=(SMALL,), expire_after="Never")
    installed.apply(left, forced, stays, work, deployment("work", 2))
    serve(installed, "forced", 1)
    serve(installed, "work", 2)

    before = nodes_of(installed, "work")
    labels = {"spec": {"template": {"metadata": {"labels": {"release": "two"}}}}}
    installed("patch", "nodepool", "work", "--type=merge", "-p", json.dumps(labels))
    until(lambda: not before & nodes_of(installed, "work"), "drifted nodes go", seconds=PATIENCE)
    serve(installed, "work", 2)

    (node,) = nodes_of(installed, "forced")
    installed("delete", "node", node, "--wait=false")
    until(lambda: node not in nodes_of(installed, "forced"), "it is drained", seconds=PATIENCE)
    serve(installed, "forced", 1)

    installed("scale", "deployment", "forced", "work", "--replicas=0")
    for name in ("forced", "work"):
        until_empty(installed, name)


def assert_admission_asks(installed: Installed) -> None:
    """Without the right to the finalizers of its owner, no object can block the owner's deletion."""
    pool, claim = "work", node_claim("owned")
    (owner,) = [p for p in installed.items("nodepools") if p["metadata"]["name"] == pool]
    claim["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "name": pool,
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
    ]
    account = service_account_kubeconfig(installed.plane, NAMESPACE, ACCOUNT)
    create = ("create", "--dry-run=server", "-f", "-")
    run_kubectl(account, *create, given=json.dumps(claim))
    role = json.loads(installed("get", "clusterrole", "karpenter-core", "-o", "json"))
    rules = [r for r in role["rules"] if "nodepools/finalizers" not in r["resources"]]
    installed("patch", "clusterrole", "karpenter-core", "-p", json.dumps({"rules": rules}))

    def is_refused() -> bool:
        try:
            run_kubectl(account, *create, given=json.dumps(claim))
        except AssertionError as error:
            return "cannot set blockOwnerDeletion" in str(error)
        return False

    until(is_refused, "refused without the right", seconds=30)


def node_claim(name: str) -> Json:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name},
        "spec": {
            "nodeClassRef": class_ref(),
            "requirements": [],
        },
    }


def optional_kinds(installed: Installed) -> None:
    """Overlays, buffers, commitments, deletion costs, devices and pods that are bound early."""
    template = deployment("headroom", 1)["spec"]["template"]
    del template["spec"]["nodeSelector"]
    installed.apply(
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "cheaper"},
            "spec": {"requirements": [], "priceAdjustment": "-10%"},
        },
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "headroom", "namespace": "default"},
            "template": template,
        },
        {
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "metadata": {"name": "headroom", "namespace": "default"},
            "spec": {"podTemplateRef": {"name": "headroom"}, "replicas": 1},
        },
        {
            "apiVersion": "cost.karpenter.sh/v1alpha1",
            "kind": "Commitment",
            "metadata": {"name": "plan"},
            "spec": {"type": "SavingsPlan", "hourly": "1.00", "discount": "25%"},
        },
        node_pool("early", types=(SMALL,), expire_after="Never"),
        deployment("early", 2),
    )
    serve(installed, "early", 2)


def certificates(installed: Installed) -> None:
    """The Secret of the webhook is filled, and created again after a deletion."""
    name = "karpenter-webhook-cert"

    def is_filled() -> bool:
        found = [s for s in installed.items("secrets") if s["metadata"]["name"] == name]
        return any(each.get("data", {}).get("tls.crt") for each in found)

    until(is_filled, "a certificate", seconds=PATIENCE)
    installed("delete", "secret", "-n", NAMESPACE, name)
    until(is_filled, "another certificate", seconds=PATIENCE)


def a_provisioner(installed: Installed) -> None:
    """A kind of 2022 is honoured; the node class that stands for its provider is kept, then removed."""
    provider = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
    old = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "old"},
        "spec": {"provider": provider},
    }
    installed.apply(old)

    def made() -> list[Json]:
        found = installed.items("kwoknodeclasses")
        return [each for each in found if each["metadata"].get("ownerReferences")]

    until(lambda: len(made()) == 1, "a node class stands for it", seconds=PATIENCE)
    (stands,) = made()
    changed = json.dumps({"spec": {"nodeRegistrationDelay": "5s"}})
    name = stands["metadata"]["name"]
    installed("patch", "kwoknodeclass", name, "--type=merge", "-p", changed)
    until(lambda: made()[0]["spec"] == stands["spec"], "it is put right", seconds=PATIENCE)
    elsewhere = json.dumps({"spec": {"provider": None, "providerRef": {"name": "default"}}})
    installed("patch", "provisioner", "old", "--type=merge", "-p", elsewhere)
    until(lambda: not made(), "it is removed", seconds=PATIENCE)


def a_repair(installed: Installed) -> None:
    """A node that asks for a reboot gets one, which the simulated provider writes in its status."""
    node = installed.items("nodes", "-l", "karpenter.sh/nodepool=early")[0]
    condition = {
        "type": "KWOKRebootRequired",
        "status": "True",
        "reason": "Test",
        "message": "a test asks for it",
        "lastTransitionTime": node["metadata"]["creationTimestamp"],
    }
    body = json.dumps({"status": {"conditions": [condition]}})
    installed("patch", "node", node["metadata"]["name"], "--subresource=status", "-p", body)
    installed.until_used(("", "nodes/status", "patch"))
