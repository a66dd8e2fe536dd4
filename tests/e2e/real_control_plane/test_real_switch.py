"""From Karpenter's own controller to ours and back, on one real control plane with one lease.

Both are installed side by side; the holder of the lease acts. The other takes over while pods arrive and claims are
being made for them. No claim may be made twice, removed, stamped anew or found to have drifted because of it: hashes
and labels are equal bit for bit, and the next leader goes on with what it finds.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from benchmarks.endtoend import deployment, list_of, node_pool
from benchmarks.peers import CONTROLLER, PeerController, is_built

from helpers.real_cluster import Controller, RealCluster, controller, real_cluster, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("kubectl", "control_plane_programs"),
    pytest.mark.skipif(
        not is_built(CONTROLLER),
        reason="Karpenter's own controller is not built: see `make control-plane`",
    ),
]

PATIENCE: Final = 240.0
# Both look for drift again within this time of taking over; conditions are judged every 10 s or so
LOOKED: Final = 45.0
APP: Final = "web"
TYPES: Final = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]},
]
HASHES: Final = ("karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version")


@pytest.fixture(scope="module")
def cluster(
    kubectl: str, control_plane_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("switch")) as found:
        pool, node_class = node_pool(TYPES)
        pool["spec"]["disruption"] = {"consolidateAfter": "Never"}
        pool["spec"]["template"] |= {"metadata": {"labels": {"team": "shop"}}}
        found("apply", "-f", "-", given=json.dumps(list_of(pool, node_class)))
        yield found


@contextmanager
def theirs(cluster: RealCluster) -> Iterator[Controller]:
    process = PeerController(cluster.kubeconfig, cluster.plane.folder / "peer.log", {})
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


def claims(cluster: RealCluster) -> dict[str, Any]:
    """What a change of the leader must leave as it is, for each claim by its uid."""
    return {
        each["metadata"]["uid"]: {
            "name": each["metadata"]["name"],
            "generation": each["metadata"]["generation"],
            "leaving": "deletionTimestamp" in each["metadata"],
            "hashes": [each["metadata"]["annotations"].get(name) for name in HASHES],
            "drifted": [
                condition
                for condition in each["status"]["conditions"]
                if condition["type"] == "Drifted" and condition["status"] == "True"
            ],
        }
        for each in cluster.items("nodeclaims")
    }


def pool_hashes(cluster: RealCluster) -> list[str]:
    (pool,) = cluster.items("nodepools")
    return [pool["metadata"]["annotations"][name] for name in HASHES]


def ask_for(cluster: RealCluster, replicas: int) -> None:
    """Ask for so many pods, each of which takes most of a node."""
    cluster("apply", "-f", "-", given=json.dumps(deployment(APP, replicas, "3", "1Gi")))


def until_claims_are_made(cluster: RealCluster, before: int) -> None:
    """Wait until the leader is at work for pods that have just arrived."""
    until(lambda: len(cluster.names("nodeclaims")) > before, "claims are made", seconds=PATIENCE)


def running(cluster: RealCluster) -> int:
    """How many pods are ready."""
    return int(cluster("get", "deployment", APP, "-o", "jsonpath={.status.readyReplicas}") or 0)


def until_running(cluster: RealCluster, replicas: int) -> None:
    until(lambda: running(cluster) == replicas, f"{replicas} pods run", seconds=PATIENCE)


def assert_each_claim_was_made_once(cluster: RealCluster, replicas: int) -> None:
    """A node for each pod, and no claim that came or went besides."""
    answers = [
        (each.verb, each.name)
        for each in cluster.audit('"nodeclaims"')
        if each.resource == "nodeclaims" and each.verb in ("create", "delete") and each.status < 300
    ]
    assert replicas == len(cluster.names("nodeclaims"))
    assert ["create"] * replicas == [verb for verb, _ in answers]


def stays_as_it_is(cluster: RealCluster, before: dict[str, Any], hashes: list[str]) -> None:
    with pytest.raises(AssertionError, match="not within"):  # no claim may change
        until(lambda: claims(cluster) != before, "a claim changed", seconds=LOOKED)
    assert before == claims(cluster)
    assert hashes == pool_hashes(cluster)


@pytest.mark.case("OPS-45", "OPS-46")
def test_the_leader_changes_while_pods_arrive_and_no_node_does(cluster: RealCluster) -> None:
    with theirs(cluster) as upstream:
        ask_for(cluster, 4)
        until_running(cluster, 4)
        first = cluster.holder()
        before, hashes = claims(cluster), pool_hashes(cluster)
        assert 4 == len(before)
        assert "v3" == hashes[1]
        assert {tuple(hashes)} == {tuple(each["hashes"]) for each in before.values()}

        with controller(cluster, cluster.account()) as ours:
            until(lambda: bool(ours.lines()), "ours is up", seconds=60)
            assert first == cluster.holder()
            ask_for(cluster, 40)
            until_claims_are_made(cluster, 4)
            upstream.stop()
            ours.until_leading(seconds=PATIENCE)
            second = cluster.holder()
            assert second not in ("", first)
            until_running(cluster, 40)
            after = claims(cluster)
            stays_as_it_is(cluster, after, hashes)
            assert before.items() <= after.items()
            assert {tuple(hashes)} == {tuple(each["hashes"]) for each in after.values()}
            assert_each_claim_was_made_once(cluster, 40)

            with theirs(cluster):
                until(lambda: bool(cluster.holder()), "somebody leads", seconds=60)
                ask_for(cluster, 76)
                until_claims_are_made(cluster, 40)
                assert 0 == ours.stop()
                until(
                    lambda: cluster.holder() not in ("", second), "theirs leads", seconds=PATIENCE
                )
                until_running(cluster, 76)
                last = claims(cluster)
                stays_as_it_is(cluster, last, hashes)
                assert after.items() <= last.items()
                assert {tuple(hashes)} == {tuple(each["hashes"]) for each in last.values()}
                assert_each_claim_was_made_once(cluster, 76)
