"""Two replicas on a real control plane: one acts, the other takes over, and never do both.

Each replica has a service account of its own, so the API server's audit log shows which replica
wrote what and when; the writes of the lease in the same log show which one held it.
"""

import json
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from helpers.real_cluster import (
    Controller,
    RealCluster,
    Request,
    controller,
    real_cluster,
    until,
)
from helpers.reliability import slow_pool

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

FIRST, SECOND = "karpenter-first", "karpenter-second"
LEASE_SECONDS = 15.0
SLACK = 15.0  # seconds for the retry period, and a busy machine
PATIENCE = 120.0
PODS_ON_A_NODE = 3

Json = dict[str, Any]


def pool() -> list[Json]:
    return slow_pool("10s")


def work() -> Json:
    requests = {"cpu": "1"}
    container = {"name": "a", "image": "example.com/a:v1", "resources": {"requests": requests}}
    labels = {"app": "work"}
    pod = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "work"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


@contextmanager
def two_replicas(folder: Path) -> Iterator[tuple[RealCluster, Controller, Controller]]:
    """A cluster with a leader and another that waits."""
    with real_cluster(folder) as cluster:
        objects = {"apiVersion": "v1", "kind": "List", "items": [*pool(), work()]}
        cluster("apply", "-f", "-", given=json.dumps(objects))
        accounts = [cluster.account(name) for name in (FIRST, SECOND)]
        with controller(cluster, accounts[0], FIRST) as first:
            first.until_leading()
            with controller(cluster, accounts[1], SECOND) as second:
                until(lambda: bool(second.lines("starting")), "it starts", seconds=PATIENCE)
                yield cluster, first, second


def scale(cluster: RealCluster, replicas: int) -> None:
    cluster("scale", "deployment", "work", f"--replicas={replicas}")


def until_busy(cluster: RealCluster, nodes: int) -> None:
    """Wait until claims are being made, and nodes not there yet."""
    until(lambda: len(cluster.names("nodeclaims")) > 0, "a claim is made", seconds=PATIENCE)
    assert len(cluster.names("nodes")) < nodes


def until_running(cluster: RealCluster, replicas: int) -> None:
    until(
        lambda: replicas == sum(p["status"]["phase"] == "Running" for p in cluster.items("pods")),
        f"{replicas} pods run",
        seconds=PATIENCE,
    )


def assert_one_machine_for_each_claim(cluster: RealCluster, replicas: int) -> None:
    """Nothing is missing, leaked or doubled."""
    machines = sorted(node["spec"]["providerID"] for node in cluster.items("nodes"))
    claimed = sorted(claim["status"]["providerID"] for claim in cluster.items("nodeclaims"))
    assert machines == claimed
    assert replicas // PODS_ON_A_NODE == len(machines)


def assert_gone(cluster: RealCluster) -> None:
    scale(cluster, 0)
    until(lambda: not cluster.names("nodes"), "all nodes are gone", seconds=PATIENCE)
    until(lambda: not cluster.names("nodeclaims"), "all claims are gone", seconds=PATIENCE)


def assert_only_the_holder_acted(requests: Sequence[Request]) -> None:
    """Every write was received while its author, and no other replica, held the lease."""
    ours = [each for each in requests if each.account in (FIRST, SECOND) and each.is_write]
    held = sorted(lease_writes(ours), key=lambda each: each.received)
    intruders = [
        (each.account, each.verb, each.resource, each.name)
        for each in ours
        if each.resource != "leases" and each.account != holder_at(each.received, held)
    ]
    assert [] == intruders
    assert {"nodeclaims", "nodes"} <= {each.resource for each in ours}
    for before, after in pairwise(held):
        if before.account != after.account and before.body["spec"]["holderIdentity"]:
            waited = (after.received - before.received).total_seconds()
            assert LEASE_SECONDS <= waited


def lease_writes(requests: Iterable[Request]) -> Iterator[Request]:
    """The successful writes of the lease."""
    for each in requests:
        if each.resource == "leases" and each.status < HTTPStatus.MULTIPLE_CHOICES:
            yield each


def holder_at(moment: datetime, held: Sequence[Request]) -> str:
    """The account that had written the lease last at a moment."""
    return next((each.account for each in reversed(held) if each.received <= moment), "")


def test_the_leader_is_killed_under_load_and_the_other_goes_on(tmp_path: Path) -> None:
    replicas = 60
    with two_replicas(tmp_path) as (cluster, first, second):
        scale(cluster, replicas)
        until_busy(cluster, replicas // PODS_ON_A_NODE)

        first.process.kill()
        second.until_leading(seconds=LEASE_SECONDS + SLACK)

        until_running(cluster, replicas)
        assert_one_machine_for_each_claim(cluster, replicas)
        assert_gone(cluster)
        assert 0 == second.stop()
        assert_only_the_holder_acted(cluster.audit())


def test_a_leader_that_was_stopped_for_too_long_writes_nothing_and_stands_for_election_again(
    tmp_path: Path,
) -> None:
    replicas, more = 60, 90
    with two_replicas(tmp_path) as (cluster, first, second):
        scale(cluster, replicas)
        until_busy(cluster, replicas // PODS_ON_A_NODE)

        first.signal(signal.SIGSTOP)
        second.until_leading(seconds=LEASE_SECONDS + SLACK)
        until_running(cluster, replicas)
        first.signal(signal.SIGCONT)

        until(lambda: bool(first.lines("lost the lease")), "it notices", seconds=PATIENCE)
        assert 1 == len(first.lines("became leader"))
        assert_one_machine_for_each_claim(cluster, replicas)

        assert 0 == second.stop()
        first.until_leading(terms=2, seconds=LEASE_SECONDS + SLACK)
        scale(cluster, more)
        until_running(cluster, more)
        assert_one_machine_for_each_claim(cluster, more)
        assert_gone(cluster)
        assert 0 == first.stop()
        assert_only_the_holder_acted(cluster.audit())
