"""A template changes under a whole pool at once, and a budget of 100 % lets every node be replaced.

What is promised: no node is asked to go before its replacement stands, and there is room for every
pod that is evicted. How many pods run meanwhile is not for the pool's budget to say: it counts
nodes. Pods that start more slowly than they stop leave a gap, and only a PodDisruptionBudget
bounds it.
"""

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.kube.transport import Request, Response, Stream, Transport
from karpenter.simulate.invariants import made_nodes
from karpenter_sandbox.kubelet.faults import Timing

V1 = "karpenter.sh/v1"
SIZES = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["16"]}
ANY_NUMBER = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
# Pods take longer to start than to stop, and machines longer than both
SLOW_STARTS = Timing(boot=30.0, start=10.0, shutdown=5.0)
A_TENTH: JsonObject = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app": "web"}}},
}


class Roll:
    """What is seen of a roll: at every deletion of a claim, and every half second."""

    def __init__(self) -> None:
        self.run: Autoscaler | None = None
        self.old: set[str] = set()  # nodes of before
        self.deleted: set[str] = set()  # claims that were asked to go
        self.too_early: list[str] = []
        self.fewest_running = 1 << 30
        self.most_without_room = 0

    def wrap(self, transport: Transport) -> Transport:
        return _Watched(transport, self.deletes)

    def deletes(self, claim: str) -> None:
        """A claim is about to be deleted; as many new nodes must stand as old ones go."""
        assert self.run is not None
        self.deleted.add(claim)
        standing = [n for n in made_nodes(self.run) if _name(n) not in self.old and _stands(n)]
        if len(standing) < len(self.deleted):
            self.too_early.append(f"{claim}: {len(standing)} of {len(self.deleted)} stand")

    async def follow(self, pods: int) -> None:
        """Look on until every old node is gone and every pod runs."""
        run = self.run
        assert run is not None
        self.old = set(map(_name, made_nodes(run)))
        patch = {"spec": {"template": {"metadata": {"labels": {"release": "two"}}}}}
        await run.client.patch("merge", V1, "NodePool", None, "default", patch)

        def is_over() -> bool:
            unbound = [pod for pod in run.pods if not pod["spec"].get("nodeName")]
            self.most_without_room = max(self.most_without_room, len(unbound))
            self.fewest_running = min(self.fewest_running, len(run.running))
            gone = self.old.isdisjoint(map(_name, made_nodes(run)))
            return gone and len(run.running) == pods

        await run.until(is_over, seconds=1800)


class _Watched:
    def __init__(self, transport: Transport, deletes: Callable[[str], None]) -> None:
        self._transport = transport
        self._deletes = deletes

    async def send(self, request: Request) -> Response:
        if request.method == "DELETE" and "/nodeclaims/" in request.path:
            self._deletes(request.path.rsplit("/", 1)[-1])
        return await self._transport.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


def _name(obj: JsonObject) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _stands(node: JsonObject) -> bool:
    """Whether pods can run on a node, by what the node itself says."""
    conditions = node.get("status", {}).get("conditions", ())
    is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return is_ready and not node["spec"].get("taints") and not node["spec"].get("unschedulable")


async def rolled(pods: int, *objects: JsonObject) -> Roll:
    """A pool with so many pods, rolled over to another template."""
    roll = Roll()
    pool = kwok_pool("default", SIZES, disruption=ANY_NUMBER)
    web = deployment("web", pods, terminationGracePeriodSeconds=30)
    async with autoscaler(pool, web, *objects, timing=SLOW_STARTS, wrap=roll.wrap) as run:
        roll.run = run
        await run.until(lambda: len(run.running) == pods, seconds=600)
        await run.pass_time(60)
        await roll.follow(pods)
    return roll


@pytest.mark.parametrize("pods", [45, pytest.param(600, marks=pytest.mark.slow)])
@in_virtual_time
async def test_every_replacement_stands_before_a_node_goes(pods: int) -> None:
    roll = await rolled(pods)

    assert [] == roll.too_early
    assert len(roll.old) == len(roll.deleted)
    assert 0 == roll.most_without_room
    # the gap between pods that stopped and pods that start; nothing was asked to bound it
    assert roll.fewest_running < pods // 2


@pytest.mark.parametrize("pods", [45, pytest.param(600, marks=pytest.mark.slow)])
@in_virtual_time
async def test_a_pod_disruption_budget_bounds_the_pods_that_do_not_run(pods: int) -> None:
    roll = await rolled(pods, A_TENTH)

    assert [] == roll.too_early
    assert roll.fewest_running >= pods - math.ceil(pods / 10)
    assert 0 == roll.most_without_room
