"""Pod deletion costs: a ReplicaSet that scales down removes the pods of outgoing nodes first.

Once a minute, if anything has happened, every machine gets a rank for its pods: machines that are
being removed first, then those that disruption would remove next, in its order. The others get no
rank, so nothing is written for them. Each pod is written with its own back-off, and a pod that has
changed since the ranking waits for the next one.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from karpenter.api.pods import Pod
from karpenter.controllers.context import Context, Controller, Loop
from karpenter.controllers.disruption.consolidation_state import Changes
from karpenter.controllers.disruption.planner import DisruptionPlanner
from karpenter.controllers.disruption.queue import CommandQueue
from karpenter.disruption import budgets
from karpenter.disruption.candidates import Candidate, Kind
from karpenter.disruption.context import DisruptionContext
from karpenter.kube.errors import ConflictError, NotFoundError
from karpenter.kube.limiter import Limiter
from karpenter.kube.workqueue import Backoff
from karpenter.model.conditions import DRIFTED
from karpenter.model.durations import NEVER
from karpenter.model.taints import DISRUPTED, matches
from karpenter.state.eviction_cost import POD_DELETION_COST
from karpenter.state.nodes import StateNode

FIRST_OF_ALL: Final = -(2**31)
MOST_NODES: Final = 50  # whose pods are annotated after one ranking

_REPLICA_SET: Final = ("apps/v1", "ReplicaSet")
_EASY_OWNERS: Final = frozenset({_REPLICA_SET, ("batch/v1", "Job"), ("apps/v1", "DaemonSet")})
_SYSTEM: Final = "kube-system"
_AGAIN: Final = 60.0
_UNSYNCED: Final = 1.0
_PER_SECOND: Final = 100


@dataclass(frozen=True, slots=True)
class Rank:
    """The deletion cost for the pods of a machine; without a value they get none."""

    machine: StateNode
    value: int | None
    is_going: bool = False

    @property
    def text(self) -> str | None:
        """The value as it is written."""
        return None if self.value is None else str(self.value)

    @property
    def outdated(self) -> tuple[Pod, ...]:
        """The pods whose annotation differs."""
        return tuple(
            pod
            for pod in self.machine.pods
            if is_of_replica_set(pod)
            and pod.metadata.annotations.get(POD_DELETION_COST) != self.text
        )


def ranks(view: DisruptionContext) -> list[Rank]:
    """The rank of every machine of ours: those that go, those to go next, and all others."""
    going: list[Rank] = []
    candidates: list[Candidate] = []
    staying: list[Rank] = []
    for name, standing in view.standing(Kind.GRACEFUL).items():
        machine = view.snapshot.node(name)
        if machine is None or machine.node_claim is None:
            continue
        if machine.is_deleting or _is_tainted(machine):
            going.append(Rank(machine, FIRST_OF_ALL, is_going=True))
        elif isinstance(standing, Candidate) and _is_easy(standing):
            candidates.append(standing)
        else:
            staying.append(Rank(machine, None))
    candidates.sort(key=lambda candidate: (-candidate.ratio, candidate.name))
    drifted, rest = _within_budget(view, budgets.DRIFTED, candidates, _may_drift)
    next_ones, others = _within_budget(view, budgets.UNDERUTILIZED, rest, _may_shrink)
    ordered = [*drifted, *next_ones]
    return [
        *going,
        *(Rank(each.machine, place - len(ordered)) for place, each in enumerate(ordered)),
        *staying,
        *(Rank(each.machine, None) for each in others),
    ]


def chosen(found: Iterable[Rank]) -> list[Rank]:
    """The ranks to write now: all departing machines, and at most ``MOST_NODES`` others."""
    changed = [rank for rank in found if rank.outdated]
    going = [rank for rank in changed if rank.is_going]
    others = [rank for rank in changed if not rank.is_going]
    others.sort(key=lambda rank: rank.value is None)  # stable: those with a value, in rank order
    return [*going, *others[:MOST_NODES]]


def is_of_replica_set(pod: Pod) -> bool:
    """Whether a ReplicaSet controls the pod."""
    return _controller(pod) == _REPLICA_SET


def _within_budget(
    view: DisruptionContext,
    reason: str,
    candidates: Iterable[Candidate],
    belongs: Callable[[Candidate], bool],
) -> tuple[list[Candidate], list[Candidate]]:
    left = view.remaining(reason)
    within: list[Candidate] = []
    rest: list[Candidate] = []
    for candidate in candidates:
        if belongs(candidate) and left[candidate.pool] > 0:
            left[candidate.pool] -= 1
            within.append(candidate)
        else:
            rest.append(candidate)
    return within, rest


def _may_drift(candidate: Candidate) -> bool:
    return not candidate.is_static and candidate.machine.has_condition(DRIFTED)


def _may_shrink(candidate: Candidate) -> bool:
    wanted = candidate.node_pool.spec.disruption.consolidate_after
    return not candidate.is_static and wanted != NEVER


def _is_easy(candidate: Candidate) -> bool:
    """Whether its pool still offers the type of a machine, and all its pods are easy to move."""
    if candidate.instance_type is None:
        return False
    return all(
        pod.metadata.namespace == _SYSTEM or _controller(pod) in _EASY_OWNERS
        for pod in candidate.machine.pods
    )


def _is_tainted(machine: StateNode) -> bool:
    return machine.node is not None and any(
        matches(taint, DISRUPTED) for taint in machine.node.spec.taints
    )


def _controller(pod: Pod) -> tuple[str, str]:
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return owner.api_version, owner.kind
    return "", ""


class PodKey(NamedTuple):
    """A pod, identified by its uid."""

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

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.mirror(Pod)
        self._limiter = Limiter(context.clock, _PER_SECOND, _PER_SECOND)
        self._orders: dict[PodKey, _Order] = {}
        self._gauged: set[str] = set()  # pools that have a gauge

    def add(self, found: Iterable[Rank]) -> None:
        """Enqueue the pods whose annotation has to change."""
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
            await self.context.patch(pod, body, locked=True)
        except NotFoundError:
            return "skipped_notfound"
        except ConflictError:
            return "skipped_conflict"
        return "updated"

    def _count(self, result: str) -> None:
        self.context.metrics.pod_deletion_cost_pod_annotation_writes_total.labels(
            result=result
        ).inc()

    def _measure(self) -> None:
        gauge = self.context.metrics.pod_deletion_cost_nodes_with_pending_annotation_writes
        waiting = {(order.node_pool, order.node) for order in self._orders.values()}
        counts = Counter(pool for pool, _ in waiting)
        for pool in self._gauged | counts.keys():
            gauge.labels(nodepool=pool).set(counts[pool])
        self._gauged |= counts.keys()


class DeletionCosts(Loop):
    """Ranks machines, and has their pods annotated."""

    name = "pod.deletioncost"

    def __init__(self, context: Context, commands: CommandQueue, queue: DeletionCostQueue) -> None:
        super().__init__(context)
        self._commands = commands
        self._queue = queue
        self._planner = DisruptionPlanner(context, self.log)
        self._changes = Changes(context)
        self._seen = -1  # count of changes when machines were last ranked

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await super().run()
        finally:
            self._changes.end()
            self._planner.end()

    async def step(self) -> float:
        """Rank all machines, if anything has happened."""
        if not self.context.is_synced:
            return _UNSYNCED
        happened = self._changes.count
        if happened == self._seen:
            return _AGAIN
        begun = await self._planner.begin_pass(self._commands.in_progress)
        self._queue.add(await self._planner.aside(lambda: chosen(ranks(begun.view))))
        self._seen = happened
        return _AGAIN
