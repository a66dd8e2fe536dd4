"""The webhook on a real API server: objects of v1beta1 from the old definitions to the last of them.

One cluster for one story, since each step begins where the one before ended. Two replicas serve, and
a balancer stands for their Service.
"""

import base64
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane.cluster import control_plane as running
from control_plane.processes import free_ports
from helpers.real_cluster import NAMESPACE, Controller, RealCluster, controller, until
from helpers.webhooks import (
    SECRET,
    SERVICE,
    apply,
    balancer,
    install_webhook,
    printed_crds,
    webhook_crds,
)
from karpenter.webhook.certificates import make_leaf, service_names
from karpenter.webhook.rotation import Holdings, read_holdings, written

pytestmark = pytest.mark.slow

Json = dict[str, Any]
KINDS = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")
OLD_POOL: Json = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodePool",
    "metadata": {"name": "old"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "apiVersion": "karpenter.k8s.aws/v1beta1",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "kubelet": {"maxPods": 20},
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
                ],
            }
        },
        "disruption": {
            "budgets": [{"nodes": "10%"}],
            "expireAfter": "700h",
            "consolidationPolicy": "WhenUnderutilized",
        },
        "weight": 7,
    },
}
OLD_CLAIM: Json = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodeClaim",
    "metadata": {"name": "old", "labels": {"karpenter.sh/nodepool": "old"}},
    "spec": {
        "nodeClassRef": {
            "apiVersion": "karpenter.k8s.aws/v1beta1",
            "kind": "EC2NodeClass",
            "name": "default",
        },
        "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
    },
}
OLD_CLASS: Json = {
    "apiVersion": "karpenter.k8s.aws/v1beta1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "amiFamily": "AL2",
        "role": "nodes",
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
    },
}
PROVISIONER: Json = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "alpha"},
    "spec": {"providerRef": {"name": "default"}, "weight": 7},
}
BAD_PROVISIONER = {**PROVISIONER, "metadata": {"name": "bad"}}
BAD_PROVISIONER["spec"] = {
    **PROVISIONER["spec"],
    "consolidation": {"enabled": True},
    "ttlSecondsAfterEmpty": 30,
}


class Webhooks:
    """A cluster with a webhook of two replicas, which are started and stopped together."""

    def __init__(self, cluster: RealCluster, ports: list[int], port: int) -> None:
        self.cluster = cluster
        self.port = port  # of the balancer
        self._ports = ports
        self._account = cluster.account(roles=("karpenter-legacy-kinds",))

    @contextmanager
    def replicas(self) -> Iterator[list[Controller]]:
        """Both replicas, for as long as a block runs; they end in order."""
        with ExitStack() as stack:
            started = [
                stack.enter_context(
                    controller(
                        self.cluster, self._account, f"replica-{port}", WEBHOOK_PORT=str(port)
                    )
                )
                for port in self._ports
            ]
            until(lambda: all(map(is_ready, started)), "both replicas ready", seconds=120)
            yield started
            assert [each.stop() for each in started] == [0, 0]

    def reads(self, kind: str) -> bool:
        """Whether a kind can be read, in the version that its name has."""
        return kubectl(self.cluster, "get", kind, "-o", "name").returncode == 0

    def holdings(self) -> Holdings:
        """What the Secret holds."""
        found = [each for each in self.cluster.items("secrets") if named(each) == SECRET]
        return read_holdings(found[0].get("data") or {}) if found else Holdings()

    def bundles(self) -> set[bytes]:
        """Whom the API server trusts."""
        return {
            base64.b64decode(each["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"])
            for each in self.cluster.items("crd")
            if named(each) in KINDS
        }


@pytest.fixture
def webhooks(kubectl: str, control_plane_programs: None, tmp_path: Path) -> Iterator[Webhooks]:
    """A cluster whose old definitions have stored objects as v1beta1; nothing serves them yet."""
    with running(tmp_path) as plane:
        cluster = RealCluster(plane)
        cluster.install(legacy=True)
        cluster("delete", "crd", *KINDS)
        apply(cluster, old_definitions())
        cluster("wait", "crd", *KINDS, "--for=condition=Established", "--timeout=30s")
        until(lambda: is_created(cluster, OLD_POOL), "v1beta1 served", seconds=30)
        many = [{**OLD_POOL, "metadata": {"name": f"pool-{number:03}"}} for number in range(500)]
        create(cluster, [OLD_CLAIM, OLD_CLASS, *many])
        ports = free_ports(2)
        with balancer(ports) as front:
            install_webhook(cluster, front.port)
            yield Webhooks(cluster, ports, front.port)


@pytest.mark.case("OPS-25", "OPS-26", "OPS-27", "OPS-29", "OPS-30")
def test_from_objects_stored_as_v1beta1_to_definitions_without_it(webhooks: Webhooks) -> None:
    cluster = webhooks.cluster
    apply(cluster, webhook_crds(webhooks.port))
    # from now on the controllers' own lists need the conversion
    until(lambda: not webhooks.reads("nodepools.v1.karpenter.sh"), "unreadable", seconds=30)

    with webhooks.replicas():
        assert len(cluster.items("nodepools.v1.karpenter.sh")) == 501
    with webhooks.replicas():  # all of them restarted at once
        objects_are_read_and_applied_in_both_versions(webhooks)
        certificates_change_without_a_failed_conversion(webhooks)
        an_expired_leaf_is_replaced(webhooks)
        provisioners_are_completed_and_checked(cluster)
        v1beta1_cannot_be_left_before_the_migration(cluster)
        every_object_is_migrated(cluster)
    v1beta1_is_left(cluster)
    an_invalid_provisioner_is_stored_and_told_why(webhooks)


def old_definitions() -> list[Json]:
    """Definitions of the last release that knew no v1."""
    crds = [crd for crd in printed_crds("--conversion-webhook", "a/b") if named(crd) in KINDS]
    for crd in crds:
        del crd["spec"]["conversion"]
        crd["spec"]["versions"] = [
            {**each, "storage": True}
            for each in crd["spec"]["versions"]
            if each["name"] == "v1beta1"
        ]
    return crds


def v1_alone() -> list[Json]:
    """Definitions that know no v1beta1 any more."""
    crds = [crd for crd in printed_crds() if named(crd) in KINDS]
    for crd in crds:
        crd["spec"]["versions"] = [e for e in crd["spec"]["versions"] if e["name"] == "v1"]
    return crds


def named(obj: Json) -> str:
    name: str = obj["metadata"]["name"]
    return name


def kubectl(
    cluster: RealCluster, *arguments: str, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


def is_created(cluster: RealCluster, obj: Json) -> bool:
    return kubectl(cluster, "apply", "-f", "-", given=yaml.safe_dump(obj)).returncode == 0


def create(cluster: RealCluster, objects: list[Json]) -> None:
    body = {"apiVersion": "v1", "kind": "List", "items": objects}
    cluster("create", "-f", "-", given=json.dumps(body))


def migrate(cluster: RealCluster, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "karpenter", "crds", "migrate", *options],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )


def one(cluster: RealCluster, kind: str, name: str) -> Json:
    found: Json = json.loads(cluster("get", kind, name, "-o", "json"))
    return found


class Reader:
    """Reads v1beta1 over and over in a thread, and remembers what failed."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self.reads = 0
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            for version in ("v1", "v1beta1"):
                kind = f"nodepools.{version}.karpenter.sh"
                done = kubectl(self._cluster, "get", kind, "old", "-o", "name")
                self.reads += 1
                if done.returncode:
                    self.failures.append(done.stderr)
            self._stop.wait(0.2)


def is_ready(replica: Controller) -> bool:
    assert replica.process.poll() is None, replica.text[-2000:]
    try:
        with urllib.request.urlopen(replica.readiness_url, timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def objects_are_read_and_applied_in_both_versions(webhooks: Webhooks) -> None:
    cluster = webhooks.cluster
    pool = one(cluster, "nodepools.v1.karpenter.sh", "old")
    claim = one(cluster, "nodeclaims.v1.karpenter.sh", "old")
    node_class = one(cluster, "ec2nodeclasses.v1.karpenter.k8s.aws", "default")
    assert pool["spec"]["template"]["spec"]["expireAfter"] == "700h"
    assert claim["spec"]["expireAfter"] == "700h"
    assert node_class["spec"]["amiSelectorTerms"] == [{"alias": "al2@latest"}]
    assert one(cluster, "nodepools.v1beta1.karpenter.sh", "old")["spec"] == OLD_POOL["spec"]

    again = {**OLD_POOL, "spec": {**OLD_POOL["spec"], "weight": 8}}
    cluster("apply", "-f", "-", given=yaml.safe_dump(again))

    # stored as v1 by now, so that v1beta1 is what is converted
    assert one(cluster, "nodepools.v1beta1.karpenter.sh", "old")["spec"] == again["spec"]
    assert one(cluster, "nodepools.v1.karpenter.sh", "old")["spec"]["weight"] == 8


def certificates_change_without_a_failed_conversion(webhooks: Webhooks) -> None:
    before = webhooks.holdings()
    with Reader(webhooks.cluster) as reader:
        webhooks.cluster("delete", "secret", "-n", NAMESPACE, SECRET)
        until(
            lambda: webhooks.holdings().leaf not in (None, before.leaf),
            "a leaf of a new authority",
            seconds=60,
        )
        seen = reader.reads
        until(lambda: reader.reads > seen + 10, "reads with the new leaf", seconds=60)
    assert reader.failures == []
    after = webhooks.holdings()
    assert len(after.authorities) == 2
    assert webhooks.bundles() == {after.bundle}


def an_expired_leaf_is_replaced(webhooks: Webhooks) -> None:
    """As after three months in which nothing ran."""
    held = webhooks.holdings()
    made = datetime.now(UTC) - timedelta(days=100)
    expired = make_leaf(held.authorities[0], service_names(SERVICE, NAMESPACE), made)
    patch = {"data": written(Holdings(held.authorities, expired))}
    webhooks.cluster("patch", "secret", "-n", NAMESPACE, SECRET, "-p", json.dumps(patch))
    until(lambda: webhooks.holdings().leaf != expired, "another leaf", seconds=60)
    assert webhooks.reads("nodepools.v1.karpenter.sh")


def provisioners_are_completed_and_checked(cluster: RealCluster) -> None:
    refused = kubectl(cluster, "apply", "-f", "-", given=yaml.safe_dump(BAD_PROVISIONER))
    cluster("apply", "-f", "-", given=yaml.safe_dump(PROVISIONER))

    assert refused.returncode != 0
    assert 'admission webhook "validation.webhook.karpenter.sh" denied' in refused.stderr
    assert "spec.ttlSecondsAfterEmpty" in refused.stderr
    stored = one(cluster, "provisioners", "alpha")
    keys = {each["key"] for each in stored["spec"]["requirements"]}
    assert "karpenter.sh/capacity-type" in keys


def v1beta1_cannot_be_left_before_the_migration(cluster: RealCluster) -> None:
    rehearsed = migrate(cluster, "--dry-run")
    assert rehearsed.returncode == 0, rehearsed.stderr
    assert "nodepools.karpenter.sh: would rewrite 50" in rehearsed.stdout
    assert stored_versions(cluster) == {("v1beta1", "v1")}
    manifests = yaml.safe_dump_all(v1_alone())
    refused = kubectl(cluster, "apply", "--server-side", "-f", "-", given=manifests)
    assert "must remain in spec.versions" in refused.stderr


def every_object_is_migrated(cluster: RealCluster) -> None:
    done = migrate(cluster)
    assert done.returncode == 0, done.stderr
    assert "nodepools.karpenter.sh: 50" in done.stdout
    assert stored_versions(cluster) == {("v1",)}


def v1beta1_is_left(cluster: RealCluster) -> None:
    """Nothing answers any more, and nothing is asked: what is stored is what is served."""
    without_trust = '{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}'
    cluster("patch", "crd", *KINDS, "--type=merge", "-p", without_trust)
    apply(cluster, v1_alone())
    pool = one(cluster, "nodepools", "pool-499")
    assert pool["apiVersion"] == "karpenter.sh/v1"
    assert pool["spec"]["template"]["spec"]["expireAfter"] == "700h"
    assert one(cluster, "nodeclaims", "old")["spec"]["expireAfter"] == "700h"


def an_invalid_provisioner_is_stored_and_told_why(webhooks: Webhooks) -> None:
    cluster = webhooks.cluster
    cluster("apply", "-f", "-", given=yaml.safe_dump(BAD_PROVISIONER))
    with webhooks.replicas():
        until(lambda: "ttlSecondsAfterEmpty" in said_of(cluster, "bad"), "a reason", seconds=60)


def said_of(cluster: RealCluster, provisioner: str) -> str:
    """What the conditions of a Provisioner say is wrong."""
    found = one(cluster, "provisioners", provisioner).get("status", {}).get("conditions", [])
    return "; ".join(each["message"] for each in found if each["status"] != "True")


def stored_versions(cluster: RealCluster) -> set[tuple[str, ...]]:
    """The versions that the CRDs say objects are stored in."""
    return {
        tuple(each["status"]["storedVersions"])
        for each in cluster.items("crd")
        if named(each) in KINDS
    }
