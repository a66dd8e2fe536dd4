"""Binding the pods that a rebalance moves to the places of its plan.

Just before the old machines are deleted, the nodes that take pods are closed to the scheduler by a
taint, with an annotation that says which pods they wait for. Both are one write, and this controller
needs nothing else: after a restart it goes on where the last process ended. A pod that comes back is
bound to a node that waits for one of its kind. A node is opened once it holds what was planned, when
no pods come because none of the old machines is being deleted (any more), or when its time is over;
what is left then is placed by the scheduler. Nodes are opened even if pods are not to be bound.

Other pods that the provisioner expects on a closed node are bound there too: the scheduler cannot.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node, Taint
from karpenter.api.pods import Pod
from karpenter.api.times import later
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.disruption.conflict_retry import GoneError, change
from karpenter.controllers.lifecycle.claim_changes import is_deleting
from karpenter.controllers.provisioning.binding import PodBinder
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.triggers import is_provisionable
from karpenter.disruption.rebalance.planned_places import (
    Awaited,
    awaited_by,
    is_closed,
    is_waiting,
    kind_of,
    kinds_on,
    missing_on,
)
from karpenter.kube.mirror import Key
from karpenter.model.labels import AWAITS_PODS as ANNOTATION
from karpenter.model.taints import AWAITS_PODS, first_untolerated, matches
from karpenter.state.nodes import StateNode, nomination_window
from karpenter.state.pods import is_bound
from karpenter.state.pods import key_of as name_of

# A drain that takes longer than this is finished by the scheduler
CLOSED_FOR: Final = timedelta(minutes=10)
_POLL_SECONDS: Final = 1.0
# How long owners have to create the last pods after the machines of these are gone, and a command
# has to delete the first machine after it has closed nodes for the pods
_GRACE_SECONDS: Final = 20.0
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_ALL: Final[Key] = ("", "")


async def close(context: Context, node: Node, awaited: Awaited) -> None:
    """Keep a node from the scheduler for the pods that it waits for.

    Raises:
        GoneError: the node is gone or on its way out.
        KubeError: it could not be written.
    """
    text = awaited.text()

    def closed(found: Node) -> Mapping[str, Any] | None:
        if is_closed(found) and found.metadata.annotations.get(ANNOTATION) == text:
            return None
        return _written(text, (*_others(found), AWAITS_PODS))

    await change(context, node, closed)


@dataclass(slots=True)
class _Place:
    """A node that waits for pods, as pods are bound to it."""

    node: Node
    room: StateNode
    awaited: Awaited | None
    missing: dict[str, int] = field(default_factory=dict)


class MoveBinder(Controller):
    """Binds moved pods to the nodes that wait for them, and opens these nodes again."""

    name = "disruption.binding"
    workers = 1  # places are given away one by one

    def __init__(self, context: Context, planned: PlannedPods) -> None:
        super().__init__(context)
        self._planned = planned
        self._binder = PodBinder(context, self.log)
        self._closed: set[str] = set()
        self._kinds: dict[str, str] = {}  # uid of a pod -> its kind
        self._bound: dict[str, tuple[str, Pod]] = {}  # bindings that no watch has confirmed so far
        self._idle_since: dict[str, float] = {}  # node -> since when no machine of its pods goes
        self._ends.append(context.mirror(Node).on_change(self._node_changed))
        self.follow(context.mirror(Pod), self._keys_of_pod)

    async def reconcile(self, key: Key) -> float | None:
        """Bind what can be bound now, and open nodes that wait no longer."""
        places = self._places()
        if self.context.settings.early_binding:
            await self._bind_moved(places)
            await self._bind_expected(places)
        until = later(self.clock.now(), nomination_window(self.context.settings.batch_max_duration))
        for place in places:
            if self._is_over(place):
                await self._open(place.node)
            else:
                # It may be empty until the first pods are back
                self.context.state.nominate(place.room.name, until)
        return _POLL_SECONDS if self._closed else None

    def _places(self) -> list[_Place]:
        snapshot = self.context.state.snapshot()
        self._forget(snapshot.unbound_pods)
        found: list[_Place] = []
        kinds: dict[str, str] = {}
        for name in sorted(self._closed):
            machine = snapshot.node(name)
            if machine is None or machine.node is None:
                continue
            if machine.node.metadata.deletion_timestamp is not None:
                continue
            arriving = tuple(pod for node, pod in self._bound.values() if node == name)
            place = _Place(
                machine.node,
                replace(machine, pods=(*machine.pods, *arriving)),
                awaited_by(machine.node),
            )
            if place.awaited is not None:
                for pod in place.room.pods:
                    kinds[pod.metadata.uid] = self._kind(pod)
                held = kinds_on(place.room, lambda pod: kinds[pod.metadata.uid])
                place.missing = missing_on(place.awaited, held)
            found.append(place)
        self._kinds = kinds
        return found

    def _forget(self, waiting: Mapping[str, Pod]) -> None:
        """Drop bindings that a watch has confirmed, and those of pods that are gone."""
        self._bound = {
            uid: (node, pod)
            for uid, (node, pod) in self._bound.items()
            if (known := waiting.get(name_of(pod))) is not None and known.metadata.uid == uid
        }

    async def _bind_moved(self, places: Sequence[_Place]) -> None:
        """Bind the pods that have come back, oldest first."""
        wanted = {kind for place in places for kind in place.missing}
        if not wanted:
            return
        for pod in self._waiting():
            kind = self._kind(pod)
            if kind not in wanted:
                continue
            for place in places:
                if place.missing.get(kind, 0) > 0 and await self._bind(pod, place):
                    place.missing[kind] -= 1
                    break

    async def _bind_expected(self, places: Sequence[_Place]) -> None:
        """Bind other pods that are expected on a closed node."""
        pods = self.context.mirror(Pod)
        for place in places:
            claim = place.room.node_claim
            expected = self._planned.pods_of(claim.metadata.name) if claim is not None else ()
            for planned in expected:
                pod = pods.get(planned.metadata.name, planned.metadata.namespace)
                if pod is None or pod.metadata.uid != planned.metadata.uid:
                    continue
                is_free = pod.metadata.uid not in self._bound and is_provisionable(pod)
                if is_free and not _is_missing(self._kind(pod), places):
                    await self._bind(pod, place)

    async def _bind(self, pod: Pod, place: _Place) -> bool:
        """Bind a pod if it may stay there; return whether that was done."""
        node, room = place.node, place.room
        if self._binder.is_refused or room.is_deleting or node.spec.unschedulable:
            return False
        if first_untolerated(room.taints, pod.spec.tolerations, ignore_preferences=True):
            return False
        if not self._binder.may_be_bound(pod, node, room):
            return False
        after = await self._binder.bind(pod, node, room)
        if after is room:
            return False
        place.room = after
        self._bound[pod.metadata.uid] = (room.name, pod)
        return True

    def _waiting(self) -> Iterable[Pod]:
        found = [
            pod
            for pod in self.context.state.snapshot().unbound_pods.values()
            if is_waiting(pod) and pod.metadata.uid not in self._bound
        ]
        return sorted(
            found, key=lambda pod: (pod.metadata.creation_timestamp or _LONG_AGO, name_of(pod))
        )

    def _is_over(self, place: _Place) -> bool:
        awaited, name = place.awaited, place.room.name
        is_able = self.context.settings.early_binding and not self._binder.is_refused
        if not is_able or awaited is None or not any(place.missing.values()):
            return True
        if self.clock.now() >= awaited.until:
            return True
        claims = map(self.context.mirror(NodeClaim).get, awaited.leaving)
        if any(claim is not None and is_deleting(claim) for claim in claims):
            self._idle_since.pop(name, None)
            return False
        idle_since = self._idle_since.setdefault(name, self.clock.monotonic())
        return self.clock.monotonic() - idle_since >= _GRACE_SECONDS

    async def _open(self, node: Node) -> None:
        with suppress(GoneError):
            await change(self.context, node, _opened)
        self._idle_since.pop(node.metadata.name, None)
        self.log.info("opened node to the scheduler", Node={"name": node.metadata.name})

    def _kind(self, pod: Pod) -> str:
        known = self._kinds.get(pod.metadata.uid)
        return known if known is not None else kind_of(pod)

    def _keys_of_pod(self, pod: Pod) -> tuple[Key, ...]:
        return (_ALL,) if self._closed and not is_bound(pod) else ()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        for node in filter(None, (old, new)):
            self._closed.discard(node.metadata.name)
        if new is not None and is_closed(new):
            self._closed.add(new.metadata.name)
            self.queue.add(_ALL)


def _is_missing(kind: str, places: Iterable[_Place]) -> bool:
    return any(place.missing.get(kind, 0) > 0 for place in places)


def _opened(node: Node) -> Mapping[str, Any] | None:
    return _written(None, _others(node)) if is_closed(node) else None


def _others(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if not matches(taint, AWAITS_PODS)]


def _written(text: str | None, taints: Iterable[Taint]) -> Mapping[str, Any]:
    return {
        "metadata": {"annotations": {ANNOTATION: text}},
        "spec": {"taints": [msgspec.to_builtins(taint) for taint in taints]},
    }
