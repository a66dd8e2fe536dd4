"""The eviction work queue: pods to be evicted, each with its own back-off.

Pods are identified by uid, so a new pod of the same name is never evicted. A pod that is blocked
(by a disruption budget, or its own annotation) never blocks another. The queue lives in memory
only; each reconcile of a draining node adds its pods again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from karpenter.api.legacy import Provisioner
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.lookup import claim_of
from karpenter.controllers.termination import events
from karpenter.controllers.termination.deadline import grace_left
from karpenter.controllers.termination.drain import reason_of
from karpenter.controllers.termination.eviction_requests import (
    EvictionRequest,
    EvictionStep,
    combined,
    next_step,
    seconds_until_due,
)
from karpenter.kube.errors import ApiError, ConflictError, NotFoundError, TooManyRequestsError
from karpenter.kube.limiter import Limiter
from karpenter.kube.workqueue import Backoff
from karpenter.scheduling.inputs.legacy_keys import is_protected_as_of_old
from karpenter.state.pods import is_terminating

_PER_SECOND: Final = 100
# An evicted pod that is not terminating yet is evicted again after this
_UNHEARD_SECONDS: Final = 10.0
# The eviction API shows it only in the text of its refusal
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"


class EvictionKey(NamedTuple):
    """A pod, identified by its uid."""

    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class _Entry:
    order: EvictionRequest
    refusals: int = 0  # in a row


class EvictionQueue(Controller):
    """Evicts pods, and deletes those whose time is up."""

    name = "eviction-queue"
    workers = 100
    backoff = Backoff(0.1, 10.0)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.mirror(Pod)
        self._nodes = context.mirror(Node)
        self._provisioners = context.mirror(Provisioner)
        self._limiter = Limiter(context.clock, _PER_SECOND, _PER_SECOND)
        self._entries: dict[EvictionKey, _Entry] = {}
        self._ends.append(self._pods.on_change(self._pod_changed))

    def add(self, pods: Iterable[Pod], order: EvictionRequest) -> None:
        """Add pods; one that is in the queue already gets the stricter request."""
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
        if step is EvictionStep.DROP:
            self._drop(key)
            return None
        pod, entry = self._pods.get(key.name, key.namespace), self._entries[key]
        assert pod is not None
        if note := events.protection(pod, now=self.clock.now()):
            self.context.recorder.publish(note)
        match step:
            case EvictionStep.DELETE:
                return await self._delete(pod, entry)
            case EvictionStep.EVICT:
                return await self._evict(pod, entry)
            case _:
                return self._wait(pod, entry)

    def _step_of(self, key: EvictionKey) -> EvictionStep:
        pod, entry = self._pods.get(key.name, key.namespace), self._entries.get(key)
        if entry is None or pod is None or pod.metadata.uid != key.uid:
            return EvictionStep.DROP
        step = next_step(pod, entry.order, now=self.clock.now())
        return (
            EvictionStep.WAIT
            if step is EvictionStep.EVICT and self._is_held_as_of_old(pod)
            else step
        )

    def _is_held_as_of_old(self, pod: Pod) -> bool:
        return is_protected_as_of_old(pod) and len(self._provisioners) > 0

    async def _evict(self, pod: Pod, entry: _Entry) -> float | None:
        metadata = pod.metadata
        try:
            await self.context.kube.evict(metadata.name, metadata.namespace, uid=metadata.uid)
        except ApiError as error:
            self._count(error.status)
            return self._refused(pod, entry, error)
        self._count(200)
        reason = self._reason_of(pod)
        self.context.metrics.pods_drained_total.labels(reason=reason).inc()
        self.context.recorder.publish(events.evicted(pod, reason))
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
            # The node is gone, so its pod is garbage-collected
            self._drop(_key(pod))
            return None
        self.context.recorder.publish(
            events.budget_in_the_way(node, pod, str(error), are_several=are_several)
        )
        retry_after = min(error.retry_after or 0.0, self.backoff.last)
        return self._wait(pod, entry, at_least=retry_after)

    async def _delete(self, pod: Pod, entry: _Entry) -> float | None:
        deadline = entry.order.deadline
        assert deadline is not None
        grace = grace_left(deadline, now=self.clock.now())
        try:
            was_there = await self.context.delete(pod, grace_period_seconds=grace)
        except ConflictError:
            was_there = False
        if not was_there:
            self._drop(_key(pod))
            return None
        self.context.metrics.pods_drained_total.labels(reason=self._reason_of(pod)).inc()
        self.context.recorder.publish(events.disrupted(pod, deadline, grace=grace))
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
        return reason_of(claim_of(self.context, node)) if node is not None else ""

    def _count(self, code: int) -> None:
        self.context.metrics.pods_eviction_requests_total.labels(code=str(code)).inc()


def _key(pod: Pod) -> EvictionKey:
    return EvictionKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
