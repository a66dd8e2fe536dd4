"""The eviction queue: pods that are to leave their nodes, each asked at its own pace.

A pod is known by its uid, so one of the same name that takes its place is never touched. What holds
one pod (a disruption budget, its own annotation) never holds another: each has its own back-off.
The queue lives in memory only; whoever drains a node puts its pods in again at every look.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from karpenter.api.legacy import Provisioner
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.controllers.legacy.old_keys import is_protected_as_of_old
from karpenter.controllers.runtime import Controller
from karpenter.controllers.termination import reports
from karpenter.controllers.termination.deadline import grace_left
from karpenter.controllers.termination.drain import reason_of
from karpenter.controllers.termination.lookup import claim_of
from karpenter.controllers.termination.orders import (
    Order,
    Step,
    combined,
    next_step,
    seconds_until_due,
)
from karpenter.controllers.world import World
from karpenter.kube.errors import ApiError, ConflictError, NotFoundError, TooManyRequestsError
from karpenter.kube.limiter import Limiter
from karpenter.kube.workqueue import Backoff
from karpenter.state.pods import is_terminating

_PER_SECOND: Final = 100
# A pod that was told to go and shows no sign of it is told again after this
_UNHEARD_SECONDS: Final = 10.0
# The eviction API has no other word for it than the text of its refusal
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"


class EvictionKey(NamedTuple):
    """One pod, and no other of its name."""

    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class _Entry:
    order: Order
    refusals: int = 0  # in a row


class EvictionQueue(Controller):
    """Evicts pods, and deletes those whose time is up."""

    name = "eviction-queue"
    workers = 100
    backoff = Backoff(0.1, 10.0)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods = world.mirror(Pod)
        self._nodes = world.mirror(Node)
        self._provisioners = world.mirror(Provisioner)
        self._limiter = Limiter(world.clock, _PER_SECOND, _PER_SECOND)
        self._entries: dict[EvictionKey, _Entry] = {}
        self._ends.append(self._pods.on_change(self._pod_changed))

    def add(self, pods: Iterable[Pod], order: Order) -> None:
        """Take in pods; one that is in the queue already is given the stricter order."""
        for pod in pods:
            key = _key(pod)
            entry = self._entries.get(key)
            if entry is None:
                self._entries[key] = _Entry(order)
                self.queue.add(key)
            elif (stricter := combined(entry.order, order)) != entry.order:
                entry.order = stricter
                self.queue.add(key)

    def __contains__(self, pod: Pod) -> bool:
        """Whether the pod is in the queue."""
        return _key(pod) in self._entries

    async def reconcile(self, key: EvictionKey) -> float | None:
        """Do what can be done about one pod now."""
        if self._step_of(key).acts:
            await self._limiter.take()
        step = self._step_of(key)
        if step is Step.DROP:
            self._drop(key)
            return None
        pod, entry = self._pods.get(key.name, key.namespace), self._entries[key]
        assert pod is not None
        if note := reports.protection(pod, now=self.clock.now()):
            self.world.recorder.publish(note)
        match step:
            case Step.DELETE:
                return await self._delete(pod, entry)
            case Step.EVICT:
                return await self._evict(pod, entry)
            case _:
                return self._wait(pod, entry)

    def _step_of(self, key: EvictionKey) -> Step:
        pod, entry = self._pods.get(key.name, key.namespace), self._entries.get(key)
        if entry is None or pod is None or pod.metadata.uid != key.uid:
            return Step.DROP
        step = next_step(pod, entry.order, now=self.clock.now())
        return Step.WAIT if step is Step.EVICT and self._is_held_as_of_old(pod) else step

    def _is_held_as_of_old(self, pod: Pod) -> bool:
        return is_protected_as_of_old(pod) and len(self._provisioners) > 0

    async def _evict(self, pod: Pod, entry: _Entry) -> float | None:
        metadata = pod.metadata
        try:
            await self.world.kube.evict(metadata.name, metadata.namespace, uid=metadata.uid)
        except ApiError as error:
            self._count(error.status)
            return self._refused(pod, entry, error)
        self._count(200)
        reason = self._reason_of(pod)
        self.world.metrics.pods_drained_total.labels(reason=reason).inc()
        self.world.recorder.publish(reports.evicted(pod, reason))
        return _UNHEARD_SECONDS

    def _refused(self, pod: Pod, entry: _Entry, error: ApiError) -> float | None:
        if isinstance(error, NotFoundError | ConflictError):
            self._drop(_key(pod))
            return None
        are_several = _SEVERAL_BUDGETS in str(error)
        if not isinstance(error, TooManyRequestsError) and not are_several:
            raise error
        node = self._nodes.get(pod.spec.node_name)
        if node is None:
            # Nobody drains it any more, and the pod goes with what is left of its node
            self._drop(_key(pod))
            return None
        self.world.recorder.publish(
            reports.budget_in_the_way(node, pod, str(error), are_several=are_several)
        )
        told = min(error.retry_after or 0.0, self.backoff.last)
        return self._wait(pod, entry, at_least=told)

    async def _delete(self, pod: Pod, entry: _Entry) -> float | None:
        deadline = entry.order.deadline
        assert deadline is not None
        grace = grace_left(deadline, now=self.clock.now())
        try:
            was_there = await self.world.delete(pod, grace_period_seconds=grace)
        except ConflictError:
            was_there = False
        if not was_there:
            self._drop(_key(pod))
            return None
        self.world.metrics.pods_drained_total.labels(reason=self._reason_of(pod)).inc()
        self.world.recorder.publish(reports.disrupted(pod, deadline, grace=grace))
        return _UNHEARD_SECONDS

    def _wait(self, pod: Pod, entry: _Entry, *, at_least: float = 0.0) -> float:
        seconds = max(self.backoff.after(entry.refusals), at_least)
        entry.refusals += 1
        due = seconds_until_due(pod, entry.order, now=self.clock.now())
        return seconds if due is None else min(seconds, due)

    def _drop(self, key: EvictionKey) -> None:
        self._entries.pop(key, None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or (key := _key(old)) not in self._entries:
            return
        if new is None or _key(new) != key or is_terminating(new):
            self._drop(key)
        elif new.metadata.annotations != old.metadata.annotations:
            self.queue.add(key)

    def _reason_of(self, pod: Pod) -> str:
        node = self._nodes.get(pod.spec.node_name)
        return reason_of(claim_of(self.world, node)) if node is not None else ""

    def _count(self, code: int) -> None:
        self.world.metrics.pods_eviction_requests_total.labels(code=str(code)).inc()


def _key(pod: Pod) -> EvictionKey:
    return EvictionKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
