"""A companion beside Karpenter's own controller on a real control plane: it sees all, and touches nothing."""

import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks.endtoend import deployment, list_of, node_pool
from benchmarks.peers import CONTROLLER, PeerController, is_built

from control_plane.access import service_account_kubeconfig
from helpers.real_cluster import NAMESPACE, RealCluster, real_cluster, until
from helpers.rights import INSTALL
from karpenter.clock import SystemClock
from karpenter.dashboard.observed.watching import WatchedDecisions
from karpenter.dashboard.picture import Picture
from karpenter.dashboard.sources import FollowedCluster
from karpenter.dashboard.view import ViewBuilder
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Source
from karpenter.kube.access.config import load_config
from karpenter.kube.http import HttpTransport
from karpenter.kube.read_only import ReadOnlyClient
from karpenter.state.cluster import ClusterState

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("kubectl", "control_plane_programs"),
    pytest.mark.skipif(
        not is_built(CONTROLLER),
        reason="Karpenter's own controller is not built: see `make control-plane`",
    ),
]

PATIENCE: Final = 240.0
CLOSING: Final = 2.0  # TLS connections say goodbye in the background
PODS: Final = 100
APP: Final = "web"
ACCOUNT: Final = "karpenter-dashboard"
TYPES: Final = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["16"]},
]


class Companion(threading.Thread):
    """A companion in a thread of its own, as it would be a process of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(daemon=True)
        self.log: Final = DecisionLog()
        self.state: Final = ClusterState()
        self._environment = {"KUBECONFIG": str(kubeconfig)}
        self._begun = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()

    def run(self) -> None:
        """Follow the cluster until stopped."""
        asyncio.run(self._follow())

    def stop(self) -> None:
        """End it."""
        assert self._begun.wait(30)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self.join(30)

    def told(self, kind: str, outcome: str) -> Counter[str]:
        """What records of a kind are about, and how many there are about each."""
        return Counter(
            record.subject
            for record in self.log.newest()
            if (record.kind, record.outcome) == (kind, outcome)
        )

    def view(self) -> Any:
        """What the page would show."""
        builder = ViewBuilder(epoch="e", source="live", provider="kwok", cluster="", is_live=True)
        return builder.build(Picture(self.state.snapshot(), SystemClock().now()))

    async def _follow(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun.set()
        clock = SystemClock()
        transport = HttpTransport(
            load_config(self._environment),
            clock,
            user_agent="karpenter-dashboard/test",
            environment=self._environment,
        )
        followed = FollowedCluster(ReadOnlyClient(transport, clock), clock, rng=random.Random(1))
        watched = WatchedDecisions(followed, self.log, clock)
        followed.follow(self._apply)
        tasks = [asyncio.ensure_future(each) for each in (followed.run(), watched.run())]
        try:
            await self._end.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await transport.close()
            await asyncio.sleep(CLOSING)

    def _apply(self, old: Any, new: Any) -> None:
        if new is not None:
            self.state.apply(new)
        elif old is not None:
            self.state.delete(old)


@pytest.fixture(scope="module")
def cluster(
    kubectl: str, control_plane_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """A control plane with a pool, the viewer's role and no controller."""
    with real_cluster(tmp_path_factory.mktemp("upstream")) as found:
        pool, node_class = node_pool(TYPES, 5)
        pool["spec"]["disruption"]["budgets"] = [{"nodes": "100%"}]
        found("apply", "-f", "-", given=json.dumps(list_of(pool, node_class)))
        found("apply", "-f", str(INSTALL / "rbac-viewer.yaml"))
        yield found


@contextmanager
def upstream(cluster: RealCluster) -> Iterator[None]:
    """Karpenter's own controller for as long as a block runs."""
    process = PeerController(cluster.kubeconfig, cluster.plane.folder / "peer.log", {})
    try:
        until(lambda: bool(process.lines("Starting workers")), "it is up", seconds=PATIENCE)
        yield
    finally:
        process.process.kill()
        process.process.wait()


def ask_for(cluster: RealCluster, replicas: int) -> None:
    """Ask for so many pods."""
    cluster("apply", "-f", "-", given=json.dumps(deployment(APP, replicas, "1", "1Gi")))


def running(cluster: RealCluster) -> int:
    """How many pods are ready."""
    return int(cluster("get", "deployment", APP, "-o", "jsonpath={.status.readyReplicas}") or 0)


def up_and_down(cluster: RealCluster, companion: Companion) -> set[str]:
    """Let upstream launch nodes for pods and remove them again; return the claims that it made."""
    with upstream(cluster):
        ask_for(cluster, PODS)
        until(lambda: running(cluster) == PODS, f"{PODS} pods run", seconds=PATIENCE)
        claims = {f"NodeClaim/{name}" for name in cluster.names("nodeclaims")}
        until(
            lambda: claims <= companion.told("Initialize", "done").keys(),
            "every launch is seen",
            seconds=60,
        )
        view = companion.view()
        assert {f"NodeClaim/{name}" for name in view.nodes.claim} == claims
        assert view.totals.pods == PODS

        ask_for(cluster, 0)
        until(lambda: not cluster.names("nodeclaims"), "all nodes are gone", seconds=PATIENCE)
        until(
            lambda: claims <= companion.told("Terminate", "done").keys(),
            "every removal is seen",
            seconds=60,
        )
    return claims


@pytest.mark.case("DASH-38")
def test_every_launch_and_removal_of_upstream_is_seen_and_nothing_is_touched(
    cluster: RealCluster,
) -> None:
    companion = Companion(service_account_kubeconfig(cluster.plane, NAMESPACE, ACCOUNT))
    companion.start()
    try:
        claims = up_and_down(cluster, companion)
    finally:
        companion.stop()
    for kind in ("Provision", "Launch", "Register", "Initialize"):
        assert companion.told(kind, "done") == Counter(claims)
    assert {name for name in companion.told("Terminate", "done") if "Claim" in name} == claims
    reasons = {each.reason for each in companion.log.newest() if each.kind == "Disrupt"}
    assert reasons <= {"Empty", "Underutilized", "ConsolidationCandidate", "ConsolidationRejected"}
    records = [*companion.log.newest()]
    assert len({each.id for each in records}) == len(records)
    assert all(each.source is Source.OBSERVED for each in records)
    assert all(each.text.startswith("seen: ") for each in records)
    own = [each for each in cluster.audit(ACCOUNT) if each.account == ACCOUNT]
    assert {each.verb for each in own} == {"list", "watch"}
