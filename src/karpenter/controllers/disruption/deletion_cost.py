"""Telling ReplicaSets which pods to give up first, so that shrinking them empties nodes.

Once a minute, if anything has happened, machines are ranked and pods are told. Writing takes its
own time: each pod has its own back-off, and one that changed meanwhile is told another time.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from karpenter.api.pods import Pod
from karpenter.controllers.disruption.changes import Changes
from karpenter.controllers.disruption.deletion_ranks import Rank, chosen, ranks
from karpenter.controllers.disruption.planning import Planner
from karpenter.controllers.disruption.queue import CommandQueue
from karpenter.controllers.runtime import Controller, Loop
from karpenter.controllers.world import World
from karpenter.kube.errors import ConflictError, NotFoundError
from karpenter.kube.limiter import Limiter
from karpenter.kube.workqueue import Backoff
from karpenter.state.eviction import POD_DELETION_COST

_AGAIN: Final = 60.0
_UNSYNCED: Final = 1.0
_PER_SECOND: Final = 100


class PodKey(NamedTuple):
    """One pod, and no other of its name."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class _Order:
    text: str | None
    node: str
    node_pool: str


class DeletionCostQueue(Controller):
    """Writes deletion costs on pods."""

    name = "pod.deletioncost.queue"
    workers = 100
    backoff = Backoff(0.1, 10.0)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods = world.mirror(Pod)
        self._limiter = Limiter(world.clock, _PER_SECOND, _PER_SECOND)
        self._orders: dict[PodKey, _Order] = {}
        self._gauged: set[str] = set()  # pools that have a gauge

    def add(self, found: Iterable[Rank]) -> None:
        """Take in what the pods of machines are to say."""
        for rank in found:
            order = _Order(rank.text, rank.machine.name, rank.machine.node_pool)
            for pod in rank.outdated:
                key = PodKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
                self._orders[key] = order
                self.queue.add(key)
        self._measure()

    async def reconcile(self, key: PodKey) -> float | None:
        """Write to one pod."""
        order = self._orders.get(key)
        if order is None:
            return None
        try:
            result = await self._write(key, order)
        except Exception:
            self._count("error")
            raise
        self._count(result)
        if self._orders.get(key) is order:
            del self._orders[key]
        self._measure()
        return None

    async def _write(self, key: PodKey, order: _Order) -> str:
        await self._limiter.take()
        pod = self._pods.get(key.name, key.namespace)
        if pod is None or pod.metadata.uid != key.uid:
            return "skipped_notfound"
        if pod.metadata.annotations.get(POD_DELETION_COST) == order.text:
            return "skipped_unchanged"
        body: dict[str, Any] = {"metadata": {"annotations": {POD_DELETION_COST: order.text}}}
        try:
            await self.world.patch(pod, body, locked=True)
        except NotFoundError:
            return "skipped_notfound"
        except ConflictError:
            return "skipped_conflict"
        return "updated"

    def _count(self, result: str) -> None:
        self.world.metrics.pod_deletion_cost_pod_annotation_writes_total.labels(result=result).inc()

    def _measure(self) -> None:
        gauge = self.world.metrics.pod_deletion_cost_nodes_with_pending_annotation_writes
        waiting = {(order.node_pool, order.node) for order in self._orders.values()}
        counts = Counter(pool for pool, _ in waiting)
        for pool in self._gauged | counts.keys():
            gauge.labels(nodepool=pool).set(counts[pool])
        self._gauged |= counts.keys()


class DeletionCosts(Loop):
    """Ranks machines, and has their pods told."""

    name = "pod.deletioncost"

    def __init__(self, world: World, commands: CommandQueue, queue: DeletionCostQueue) -> None:
        super().__init__(world)
        self._commands = commands
        self._queue = queue
        self._planner = Planner(world, self.log)
        self._changes = Changes(world)
        self._seen = -1  # what had happened when machines were last ranked

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await super().run()
        finally:
            self._changes.end()
            self._planner.end()

    async def step(self) -> float:
        """Rank all machines, if anything has happened."""
        if not self.world.is_synced:
            return _UNSYNCED
        happened = self._changes.count
        if happened == self._seen:
            return _AGAIN
        look = await self._planner.look(self._commands.in_progress)
        self._queue.add(await self._planner.aside(lambda: chosen(ranks(look.view))))
        self._seen = happened
        return _AGAIN
