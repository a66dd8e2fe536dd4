"""The chart is upgraded and rolled back under load, on a real control plane with running replicas.

helm rolls the Deployment, two nodes run its pods as processes, and the next version is a copy of the charts
that is called so: another image, another setting, and CRDs with fields that this program does not know.
The API server's audit log tells which pod wrote what, who held the lease, and that nothing was made twice.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from control_plane.cluster import control_plane
from e2e.real_control_plane.test_real_disruption import SMALL, deployment, node_class, node_pool
from helpers.helm import CRDS, MAIN, NAMESPACE, Helm
from helpers.process_kubelet import ProcessKubelet, process_kubelet
from helpers.real_cluster import ACCOUNT, RealCluster, Request, until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

PATIENCE: Final = 240.0
LEASE_SECONDS: Final = 15.0  # until the lease of a leader that is gone expires
PODS_ON_A_NODE: Final = 3
NEXT: Final = "0.2.0"
WAIT: Final = ("--wait", "--timeout", "240s")
SETTINGS: Final = ("--set", "settings.provider=kwok", "--skip-crds")
APP: Final = "work"

Json = dict[str, Any]


@dataclass(frozen=True)
class Installation:
    """A cluster with helm, and nodes that run the pods of the chart."""

    cluster: RealCluster
    helm: Helm
    kubelet: ProcessKubelet

    def install(self, chart: Path, crds: Path) -> None:
        self.helm("upgrade", "--install", "karpenter-crd", crds, *WAIT)
        self.helm("upgrade", "--install", "karpenter", chart, *SETTINGS, *WAIT)

    def scale(self, replicas: int) -> None:
        self.cluster("scale", "deployment", APP, f"--replicas={replicas}")

    def claims(self) -> list[Json]:
        return self.cluster.items("nodeclaims")

    def running(self) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self.pods())

    def pods(self) -> list[Json]:
        return self.cluster.items("pods", "-l", f"app={APP}")

    def until_running(self, replicas: int) -> None:
        until(lambda: self.running() == replicas, f"{replicas} pods run", seconds=PATIENCE)

    def during_a_scale_up(self, replicas: int, change: Callable[[], None]) -> None:
        """Ask for pods, and change something as soon as the first claims for them are there."""
        before = len(self.claims())
        self.scale(replicas)
        until(lambda: len(self.claims()) > before, "claims are being made", seconds=PATIENCE)
        change()
        self.until_running(replicas)

    def writes(self) -> list[Request]:
        return [each for each in self.cluster.audit() if each.account == ACCOUNT and each.is_write]


@pytest.fixture
def installation(
    kubectl: str, control_plane_programs: None, helm: Helm, tmp_path: Path
) -> Iterator[Installation]:
    folder = tmp_path / "plane"
    folder.mkdir()
    with control_plane(folder, audits=True) as plane:
        plane.start_kwok()
        with process_kubelet(plane, NAMESPACE) as kubelet:
            yield Installation(RealCluster(plane), helm.on(plane.kubeconfig), kubelet)


def next_version(folder: Path) -> tuple[Path, Path]:
    """Charts of the next minor version."""
    made = []
    for chart in (MAIN, CRDS):
        copy = folder / "next" / chart.name
        shutil.copytree(chart, copy)
        about = yaml.safe_load((copy / "Chart.yaml").read_text("utf-8"))
        about |= {"version": NEXT, "appVersion": NEXT}
        (copy / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
        made.append(copy)
    main, crds = made
    _widen(crds / "files" / "nodepools.karpenter.sh.yaml", "spec", "template", "spec")
    _widen(crds / "files" / "nodeclaims.karpenter.sh.yaml", "status")
    return main, crds


def _widen(file: Path, *path: str) -> None:
    """Let a kind have a field that this program does not know."""
    crd = yaml.safe_load(file.read_text("utf-8"))
    for version in (v for v in crd["spec"]["versions"] if v["name"] == "v1"):
        schema = version["schema"]["openAPIV3Schema"]
        for part in path:
            schema = schema["properties"][part]
        schema["properties"]["future"] = {"type": "string"}
    file.write_text(yaml.safe_dump(crd), encoding="utf-8")


def assert_one_leads(installation: Installation) -> str:
    """Both replicas become ready, and one of them leads; return which.

    helm waits for one of two only: ``maxUnavailable`` of the Deployment allows the other to be missing.
    """
    cluster, kubelet = installation.cluster, installation.kubelet
    get = ("get", "deployment", "karpenter", "-n", NAMESPACE, "-o", "json")

    def status() -> Json:
        found: Json = json.loads(cluster(*get))["status"]
        return found

    until(
        lambda: (status().get("readyReplicas"), status()["replicas"]) == (2, 2),
        "two replicas are ready",
        seconds=PATIENCE,
    )
    until(lambda: len(kubelet.alive) == 2, "the others have ended", seconds=PATIENCE)
    until(lambda: len(kubelet.leaders()) == 1, "one leads", seconds=PATIENCE)
    return kubelet.leaders()[0]


def assert_only_the_holder_acted(requests: list[Request]) -> None:
    """Every write was received while the pod that sent it held the lease.

    A released lease is acquired at once, without waiting for its expiry.
    """
    held = [each for each in requests if each.resource == "leases" and each.status < 300]
    held.sort(key=lambda each: each.received)
    for each in requests:
        if each.resource != "leases":
            holders = [lease.pod for lease in held if lease.received <= each.received]
            assert holders[-1:] == [each.pod], (each, holders[-3:])
    for before, after in pairwise(held):
        if before.pod != after.pod:
            assert not before.body["spec"]["holderIdentity"], "released, not expired"
            assert (after.received - before.received).total_seconds() < LEASE_SECONDS


def assert_nothing_lost_or_doubled(installation: Installation, replicas: int) -> None:
    """One machine for each claim, as many as it takes; no pod and no claim ever had to go."""
    cluster = installation.cluster
    made = [n for n in cluster.items("nodes") if n["spec"].get("providerID")]
    machines = sorted(node["spec"]["providerID"] for node in made)
    assert machines == sorted(each["status"]["providerID"] for each in installation.claims())
    assert -(-replicas // PODS_ON_A_NODE) == len(machines)
    audit = cluster.audit()
    created = [
        each
        for each in audit
        if (each.account, each.verb, each.resource, each.status)
        == (ACCOUNT, "create", "nodeclaims", 201)
    ]
    assert len(machines) == len(created)
    deletions = [
        each
        for each in audit
        if each.account == ACCOUNT and (each.verb == "delete" or each.resource == "pods/eviction")
    ]
    assert [] == deletions
    pods = installation.pods()
    bindings = [
        each.name
        for each in audit
        if each.resource == "pods/binding" and each.status == 201 and each.name.startswith(APP)
    ]
    assert sorted(pod["metadata"]["name"] for pod in pods) == sorted(bindings)


def drifted(installation: Installation) -> list[str]:
    return [
        claim["metadata"]["name"]
        for claim in installation.claims()
        for condition in claim["status"]["conditions"]
        if (condition["type"], condition["status"]) == ("Drifted", "True")
    ]


def prepare(installation: Installation) -> None:
    """A pool whose nodes take a while, and a Deployment without pods so far."""
    slow = node_class()
    slow["spec"] = {"nodeRegistrationDelay": "4s"}
    pool = node_pool(APP, types=(SMALL,), expire_after="Never", consolidateAfter="Never")
    objects = [slow, pool, deployment(APP, 0)]
    installation.cluster("apply", "-f", "-", given=yaml.safe_dump_all(objects))


@pytest.mark.case("OPS-2", "OPS-10", "OPS-11")
def test_upgrade_and_rollback_while_pods_arrive(installation: Installation, tmp_path: Path) -> None:
    helm = installation.helm
    main, crds = next_version(tmp_path)
    settings = (*SETTINGS, "--set", "settings.batchIdleDuration=2s")

    def upgrade() -> None:
        helm("upgrade", "karpenter-crd", crds, *WAIT)
        helm("upgrade", "karpenter", main, *settings, *WAIT)

    def roll_back() -> None:
        helm("rollback", "karpenter", *WAIT)

    installation.install(MAIN, CRDS)
    prepare(installation)
    first = assert_one_leads(installation)

    installation.during_a_scale_up(201, upgrade)
    second = assert_one_leads(installation)
    assert second != first
    assert_nothing_lost_or_doubled(installation, 201)

    written = write_fields_of_the_next_version(installation)
    installation.during_a_scale_up(300, roll_back)
    assert assert_one_leads(installation) not in (first, second)
    assert_nothing_lost_or_doubled(installation, 300)
    assert [] == drifted(installation)
    assert written <= fields_of_the_next_version(installation)

    assert_only_the_holder_acted(installation.writes())
    assert {0} == {
        process.process.returncode
        for name, process in installation.kubelet.processes.items()
        if name not in installation.kubelet.alive
    }


def write_fields_of_the_next_version(installation: Installation) -> set[tuple[str, str]]:
    """As the next version would: one in the pool, and one in the status of each claim."""
    cluster = installation.cluster
    pool = {"spec": {"template": {"spec": {"future": "kept"}}}}
    cluster("patch", "nodepool", APP, "--type=merge", "-p", json.dumps(pool))
    status = json.dumps({"status": {"future": "kept"}})
    names = [each["metadata"]["name"] for each in installation.claims()]
    cluster("patch", "nodeclaim", *names, "--subresource=status", "--type=merge", "-p", status)
    written = fields_of_the_next_version(installation)
    assert len(names) + 1 == len(written)
    return written


def fields_of_the_next_version(installation: Installation) -> set[tuple[str, str]]:
    cluster = installation.cluster
    pools = [
        ("NodePool", each["metadata"]["name"])
        for each in cluster.items("nodepools")
        if each["spec"]["template"]["spec"].get("future") == "kept"
    ]
    claims = [
        ("NodeClaim", each["metadata"]["name"])
        for each in installation.claims()
        if each["status"].get("future") == "kept"
    ]
    return {*pools, *claims}
