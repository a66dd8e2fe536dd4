"""Metrics about pods: the state of each, how long it has waited, and how long its start took.

Gauges are computed on each scrape; durations are observed when a pod that was seen pending changes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final, Protocol

from karpenter.api.meta import Condition
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.controllers.context import Context
from karpenter.controllers.observability.pod_sums import PodSums
from karpenter.controllers.provisioning.planned_pods import PlannedPods, PodTimes
from karpenter.model import labels
from karpenter.model.conditions import POD_SCHEDULED, READY, TRUE, find
from karpenter.telemetry.exposition import escaped, number
from karpenter.telemetry.family import Detail, Family

_NOWHERE: Final = 'nodepool="",zone="",arch="",capacity_type="",instance_type=""'
_NODE_LABELS: Final = {
    "nodepool": labels.NODEPOOL,
    "zone": labels.ZONE,
    "arch": labels.ARCH,
    "capacity_type": labels.CAPACITY_TYPE,
    "instance_type": labels.INSTANCE_TYPE,
}
_PENDING: Final = "Pending"
_NAMES: Final = "name namespace"
_DEVICES: Final = "dynamic_resources"
_STATE: Final = Family(
    "karpenter_pods_state",
    "State of a pod, with its node, NodePool and owner as labels.",
    f"{_NAMES} owner node scheduled nodepool zone arch capacity_type instance_type managed phase"
    " ready",
    per="pod",
    only=Detail.OBJECT,
)


def _wait(name: str, meaning: str, labels: str = _NAMES) -> Family:
    full = f"karpenter_pods_{name}_time_seconds"
    return Family(full, meaning, labels, per="pending pod", only=Detail.OBJECT)


_UNSTARTED: Final = _wait("unstarted", "Time that a pod has not been running.")
_UNBOUND: Final = _wait(
    "unbound", "Time that a pod has not been bound to a node.", f"{_NAMES} {_DEVICES}"
)
_PLACED_UNSTARTED: Final = _wait(
    "provisioning_unstarted",
    "Time since the scheduling decision about a pod that is not running yet.",
)
_PLACED_UNBOUND: Final = _wait(
    "provisioning_unbound",
    "Time since the scheduling decision about a pod that is not bound yet.",
    f"{_NAMES} {_DEVICES}",
)
_UNDECIDED: Final = _wait(
    "provisioning_scheduling_undecided",
    "Time that a pod has waited for the first scheduling decision about it.",
)
POD_FAMILIES: Final = (
    _STATE,
    _UNSTARTED,
    _UNBOUND,
    _PLACED_UNSTARTED,
    _PLACED_UNBOUND,
    _UNDECIDED,
)


class PodMetrics:
    """The source of all metrics about pods."""

    name = "metrics.pod"

    def __init__(self, context: Context, planned: PlannedPods) -> None:
        self._context = context
        self._planned = planned
        is_summed = context.metrics.detail is Detail.POOL
        self._lines = PodSums(context, planned).lines if is_summed else self.lines
        self._starting: set[str] = set()  # uids of pods that were seen pending

    async def run(self) -> None:
        """Offer the gauges and take the durations, until cancelled."""
        ends = [
            self._context.metrics.add_lines(self._lines),
            self._context.mirror(Pod).on_change(self._changed),
        ]
        try:
            await asyncio.Event().wait()
        finally:
            for end in ends:
                end()

    def lines(self) -> Iterable[str]:
        """All gauges, each with all its pods."""
        pods = self._context.mirror(Pod).list()
        yield from _STATE.pieces(self._states(pods))
        waiting = [pod for pod in pods if pod.status.phase == _PENDING]
        unbound = [pod for pod in waiting if not pod.spec.node_name]
        for family, among, since in (
            (_UNSTARTED, waiting, _creation),
            (_UNBOUND, unbound, _creation),
            (_PLACED_UNSTARTED, waiting, self._placed),
            (_PLACED_UNBOUND, unbound, self._placed),
            (_UNDECIDED, unbound, self._undecided),
        ):
            is_by_devices = _DEVICES in family.labels
            yield from family.pieces(self._waits(among, since, is_by_devices))

    def _states(self, pods: Iterable[Pod]) -> Iterator[str]:
        places: dict[str, str] = {}  # by name of the node
        for pod in pods:
            node = pod.spec.node_name
            place = places.get(node)
            if place is None:
                place = places[node] = self._place(node)
            yield (
                f'{{{_named(pod)},owner="{_owner(pod)}",node="{escaped(node)}",'
                f'scheduled="{"true" if node else "false"}",{place},'
                f'phase="{pod.status.phase}",ready="{_is(pod, READY)}"}} 1'
            )

    def _place(self, name: str) -> str:
        node = self._context.mirror(Node).get(name) if name else None
        if node is None:
            return f'{_NOWHERE},managed="false"'
        held = node.metadata.labels
        where = ",".join(
            f'{label}="{escaped(held.get(key, ""))}"' for label, key in _NODE_LABELS.items()
        )
        return f'{where},managed="{"true" if labels.NODEPOOL in held else "false"}"'

    def _waits(
        self, pods: Iterable[Pod], since: Callable[[Pod], datetime | None], is_by_devices: bool
    ) -> Iterator[str]:
        now = self._context.clock.now()
        for pod in pods:
            begin = since(pod)
            if begin is not None:
                more = f',dynamic_resources="{_dynamic(pod)}"' if is_by_devices else ""
                yield f"{{{_named(pod)}{more}}} {number((now - begin).total_seconds())}"

    def _times(self, pod: Pod) -> PodTimes | None:
        return self._planned.times_of(pod.metadata.uid)

    def _placed(self, pod: Pod) -> datetime | None:
        times = self._times(pod)
        return times.placed if times is not None else None

    def _undecided(self, pod: Pod) -> datetime | None:
        times = self._times(pod)
        return times.seen if times is not None and times.decided is None else None

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._starting.discard(old.metadata.uid)
            old = None
        if new is None:
            return
        if new.status.phase == _PENDING:
            self._starting.add(new.metadata.uid)
        if old is not None and not old.spec.node_name and new.spec.node_name:
            self._was_bound(new)
        if new.metadata.uid in self._starting and _is(new, READY) == "true":
            self._starting.discard(new.metadata.uid)
            self._was_started(new)

    def _was_bound(self, pod: Pod) -> None:
        metrics = self._context.metrics
        moment = self._moment(pod, POD_SCHEDULED)
        devices = _dynamic(pod)
        total = metrics.pods_bound_duration_seconds.labels(dynamic_resources=devices)
        _observe(total, _creation(pod), moment)
        ours = metrics.pods_provisioning_bound_duration_seconds.labels(dynamic_resources=devices)
        _observe(ours, self._placed(pod), moment)

    def _was_started(self, pod: Pod) -> None:
        metrics = self._context.metrics
        moment = self._moment(pod, READY)
        _observe(metrics.pods_startup_duration_seconds, _creation(pod), moment)
        _observe(metrics.pods_provisioning_startup_duration_seconds, self._placed(pod), moment)

    def _moment(self, pod: Pod, kind: str) -> datetime:
        condition = _condition(pod, kind)
        since = condition.last_transition_time if condition is not None else None
        return since or self._context.clock.now()


class _Durations(Protocol):
    def observe(self, amount: float, /) -> object: ...


def _observe(durations: _Durations, begin: datetime | None, end: datetime) -> None:
    if begin is not None:
        durations.observe(max((end - begin).total_seconds(), 0.0))


def _named(pod: Pod) -> str:
    return f'name="{pod.metadata.name}",namespace="{pod.metadata.namespace}"'


def _owner(pod: Pod) -> str:
    """Where the first owner of a pod is found, as the API server would have linked it."""
    if not pod.metadata.owner_references:
        return ""
    owner = pod.metadata.owner_references[0]
    place = f"/apis/{owner.api_version}/namespaces/{pod.metadata.namespace}"
    return escaped(f"{place}/{owner.kind.lower()}s/{owner.name}")


def _dynamic(pod: Pod) -> str:
    return "true" if pod.spec.resource_claims else "false"


def _condition(pod: Pod, kind: str) -> Condition | None:
    return find(pod.status.conditions, kind)


def _is(pod: Pod, kind: str) -> str:
    condition = _condition(pod, kind)
    return "true" if condition is not None and condition.status == TRUE else "false"


def _creation(pod: Pod) -> datetime | None:
    return pod.metadata.creation_timestamp
