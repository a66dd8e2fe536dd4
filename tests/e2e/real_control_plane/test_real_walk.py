"""The first half of the scale walk on a real control plane, with the roles of the installation.

kube-apiserver, kube-controller-manager and kube-scheduler are the real ones, kwok plays the
kubelets, ``karpenter controller`` is a process of its own that may do what
``examples/install/rbac.yaml`` allows and no more, and everything else is plain ``kubectl``.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.real_cluster import (
    ACCOUNT,
    Controller,
    RealCluster,
    controller,
    real_cluster,
    until,
)
from helpers.scale_walk import EXAMPLE, FIXED

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

LEGACY_ROLES = ("karpenter-legacy-kinds", "karpenter-early-binding")
LEGACY_KINDS = {"provisioners", "awsnodetemplates"}
UNSCHEDULABLE = "could not schedule pod"  # for want of a pool, once it is deleted
PATIENCE = 60.0
GOING = 150.0  # 30 s of emptiness, the next pass, and the drain


@contextmanager
def walked(folder: Path, pool: str, *, legacy: bool) -> Iterator[tuple[RealCluster, Controller]]:
    """The cluster of the walk with its controller, the pool and one pod of the app."""
    roles = LEGACY_ROLES if legacy else ()
    with real_cluster(folder, legacy=legacy) as cluster:
        cluster("apply", "-f", str(EXAMPLE / "cluster.yaml"))
        until(lambda: 5 == running(cluster), "5 pods of the system run", seconds=PATIENCE)
        settings = {
            "INSTANCE_TYPES_FILE_PATH": str(EXAMPLE / "instance-types.json"),
            "EARLY_BINDING": str(legacy).lower(),
            # On a busy machine the scheduler may take a while for all pods
            "BATCH_IDLE_DURATION": "3s",
        }
        with controller(cluster, cluster.account(roles=roles), **settings) as process:
            process.until_leading()
            cluster("apply", "-f", str(EXAMPLE / pool), "-f", str(EXAMPLE / "app.yaml"))
            until(lambda: [1] == placement(cluster), "the first pod runs", seconds=PATIENCE)
            yield cluster, process


def running(cluster: RealCluster, *options: str) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in cluster.items("pods", *options))


def placement(cluster: RealCluster) -> list[int]:
    """How many pods of the app run on each node, fewest first."""
    pods = cluster.items("pods", "-l", "app=app")
    nodes = [p["spec"].get("nodeName") for p in pods if p["status"].get("phase") == "Running"]
    return sorted(Counter(nodes).values())


def types(cluster: RealCluster) -> list[str]:
    """The types of the nodes that have been launched, by name."""
    nodes = [n for n in cluster.items("nodes") if n["metadata"]["name"] != FIXED]
    return sorted(n["metadata"]["labels"]["node.kubernetes.io/instance-type"] for n in nodes)


def assert_nothing_was_refused(
    cluster: RealCluster, process: Controller, *, except_for: set[str]
) -> None:
    """Everything the controller asked for, its roles allow, and nothing went wrong."""
    refused = {
        (request.verb, request.resource)
        for request in cluster.audit()
        if request.account == ACCOUNT and request.is_refused
    }
    assert set() == {each for each in refused if each[1] not in except_for}
    # A kind that is not followed is logged once, which is no failure
    unfollowed = process.lines("kind not followed")
    assert except_for == {line["advice"].split()[-1].partition(".")[0] for line in unfollowed}
    assert len(unfollowed) == len(except_for)
    assert process.text.count("orbidden") == len(unfollowed)
    errors = {line["message"] for line in process.lines() if line["level"] == "ERROR"}
    assert errors <= {UNSCHEDULABLE}


def walk(cluster: RealCluster, process: Controller) -> None:
    """Scale the app to 5 and to 20, and see what comes of it."""
    assert ([], set()) == (types(cluster), cluster.names("nodeclaims"))

    cluster("scale", "deployment", "app", "--replicas=5")
    until(lambda: [1, 4] == placement(cluster), "1 and 4 pods run", seconds=PATIENCE)
    first = cluster.names("nodeclaims")
    assert (["c4.xlarge"], 1) == (types(cluster), len(first))
    reasons = {event["reason"] for event in cluster.items("events")}
    assert {"FailedScheduling", "Nominated"} <= reasons

    cluster("scale", "deployment", "app", "--replicas=20")
    until(lambda: [1, 7, 12] == placement(cluster), "1, 7 and 12 pods run", seconds=PATIENCE)
    second = cluster.names("nodeclaims")
    assert (["c4.xlarge", "t3a.2xlarge"], 2) == (types(cluster), len(second))
    assert first < second
    assert 2 == len(process.lines("initialized nodeclaim"))


@pytest.mark.row("S3-15", "S3-17", "S3-23", "S3-24", "S3-29", "S3-30", "S3-31", "S3-41")
def test_the_walk_with_a_pool_of_today_needs_no_role_beyond_those_of_the_installation(
    tmp_path: Path,
) -> None:
    with walked(tmp_path, "nodepool.yaml", legacy=False) as (cluster, process):
        walk(cluster, process)

        cluster("scale", "deployment", "app", "--replicas=0")
        until(lambda: {FIXED} == cluster.names("nodes"), "empty nodes are gone", seconds=GOING)
        until(lambda: not cluster.names("nodeclaims"), "claims are gone", seconds=PATIENCE)

        assert 0 == process.stop()
        assert_nothing_was_refused(cluster, process, except_for=LEGACY_KINDS)


@pytest.mark.row("S3-25", "S3-28")
def test_the_walk_with_a_provisioner_of_2022_and_the_roles_for_that(tmp_path: Path) -> None:
    with walked(tmp_path, "provisioner.yaml", legacy=True) as (cluster, process):
        walk(cluster, process)
        bound = cluster.audit()
        labels = [
            n["metadata"]["labels"] for n in cluster.items("nodes", "-l", "karpenter.sh/nodepool")
        ]

        cluster("delete", "provisioner", "default", "--wait=false")
        until(lambda: {FIXED} == cluster.names("nodes"), "nodes of the pool go", seconds=GOING)
        until(lambda: not cluster.names("nodeclaims"), "claims are gone", seconds=PATIENCE)
        until(lambda: not cluster.names("nodepools"), "the pool is gone", seconds=PATIENCE)

        assert 0 == process.stop()
        assert_nothing_was_refused(cluster, process, except_for=set())
    early = [each for each in bound if each.account == ACCOUNT and each.resource == "pods/binding"]
    # 409: the scheduler was faster
    assert {201} <= {each.status for each in early} <= {201, 409}
    keys = {"karpenter.sh/provisioner-name", "karpenter.sh/capacity-type", "kubernetes.io/hostname"}
    assert [keys, keys] == [keys & each.keys() for each in labels]


def test_nothing_is_left_of_a_pool_that_is_deleted_while_its_pods_run(tmp_path: Path) -> None:
    with walked(tmp_path, "nodepool.yaml", legacy=False) as (cluster, process):
        cluster("scale", "deployment", "app", "--replicas=5")
        until(lambda: [1, 4] == placement(cluster), "1 and 4 pods run", seconds=PATIENCE)

        cluster("delete", "nodepool", "default", "--timeout=60s")
        until(lambda: {FIXED} == cluster.names("nodes"), "the node is gone", seconds=PATIENCE)
        until(lambda: not cluster.names("nodeclaims"), "its claim is gone", seconds=PATIENCE)

        assert 0 == process.stop()
        assert_nothing_was_refused(cluster, process, except_for=LEGACY_KINDS)
