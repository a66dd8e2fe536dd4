"""Status conditions of the kinds operators watch: how they change, and for how long they last.

A condition that changes is reported in an event on its object, as is a finalizer that disappears.
For objects that existed when a term began the first state is only recorded: their earlier changes
are not known.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from karpenter.api.meta import Condition, Resource, kind_of
from karpenter.controllers.context import Context
from karpenter.kube.events import NORMAL, Event
from karpenter.model.conditions import UNKNOWN
from karpenter.telemetry.exposition import label_name

R = TypeVar("R", bound=Resource)


class ConditionWatch(Generic[R]):
    """Watches the conditions of one kind."""

    def __init__(
        self,
        context: Context,
        kind: type[R],
        conditions_of: Callable[[R], tuple[Condition, ...]],
        *,
        label_keys: Iterable[str] = (),
        has_twin: bool = True,
    ) -> None:
        """Watch a kind.

        Args:
            context: where the objects are.
            kind: the kind.
            conditions_of: gives the conditions of an object.
            label_keys: labels of the objects that metrics carry.
            has_twin: whether the older metrics without the kind in their names are kept as well.
        """
        self.kind: Final = kind_of(kind)
        self.group: Final = kind.api_version.rpartition("/")[0]
        self.name: Final = f"operatorpkg.{self.kind.lower()}.status"
        self.has_twin: Final = has_twin
        self.conditions_of: Final = conditions_of
        self.mirror: Final = context.mirror(kind)
        self._context = context
        self._labels: Final = {label_name(key): key for key in label_keys}
        self._metrics = context.metrics.transitions.of(self.kind, tuple(self._labels))
        self._twin = context.metrics.transitions.of_all_kinds

    async def run(self) -> None:
        """Watch until cancelled."""
        end = self.mirror.on_change(self._changed)
        try:
            await asyncio.Event().wait()
        finally:
            end()

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels that metrics carry besides their own."""
        return tuple(self._labels)

    def labels_of(self, obj: Resource) -> Mapping[str, str]:
        """The labels that metrics about an object carry besides their own."""
        held = obj.metadata.labels
        return {name: held.get(key, "") for name, key in self._labels.items()}

    def _changed(self, old: R | None, new: R | None) -> None:
        if old is None:
            return
        if new is None or new.metadata.uid != old.metadata.uid:
            self._is_gone(old)
            return
        self._finalized(old, set(old.metadata.finalizers) - set(new.metadata.finalizers))
        before = {condition.type: condition for condition in self.conditions_of(old)}
        for condition in self.conditions_of(new):
            known = before.get(condition.type)
            if condition.status != (known.status if known is not None else UNKNOWN):
                self._moved(new, known, condition)

    def _moved(self, obj: R, known: Condition | None, now: Condition) -> None:
        before = known.status if known is not None else UNKNOWN
        own = self.labels_of(obj)
        fields = {"type": now.type, "status": now.status, "reason": now.reason}
        for metrics, more in self._families(own):
            metrics.transitions_total.labels(**fields, **more).inc()
            seconds = _seconds_between(known, now)
            if seconds is not None:
                metrics.transition_seconds.labels(
                    type=now.type, status=before, to_status=now.status, **more
                ).observe(seconds)
        transition = f"Type: {now.type}, Status: {before} -> {now.status}, Reason: {now.reason}"
        why = f", Message: {now.message}" if now.message else ""
        self._say(obj, now.type, f"Status condition transitioned, {transition}{why}")

    def _is_gone(self, obj: R) -> None:
        self._finalized(obj, obj.metadata.finalizers)
        deleted = obj.metadata.deletion_timestamp
        if deleted is None:
            return
        seconds = max((self._context.clock.now() - deleted).total_seconds(), 0.0)
        for metrics, more in self._families(self.labels_of(obj)):
            duration = metrics.termination_duration_seconds
            (duration.labels(**more) if more else duration).observe(seconds)

    def _finalized(self, obj: R, finalizers: Iterable[str]) -> None:
        for finalizer in sorted(finalizers):
            self._say(obj, "Finalized", f"Finalized {finalizer}")

    def _say(self, obj: R, reason: str, message: str) -> None:
        event = Event(obj, NORMAL, reason, message, dedupe_seconds=0.0)
        self._context.recorder.publish(event)

    def _families(self, own: Mapping[str, str]) -> list[tuple[Any, Mapping[str, str]]]:
        families: list[tuple[Any, Mapping[str, str]]] = [(self._metrics, own)]
        if self.has_twin:
            families.append((self._twin, {"group": self.group, "kind": self.kind}))
        return families


def _seconds_between(known: Condition | None, now: Condition) -> float | None:
    """How long the previous status lasted, if that is known."""
    began = known.last_transition_time if known is not None else None
    ended: datetime | None = now.last_transition_time
    if began is None or ended is None:
        return None
    return max((ended - began).total_seconds(), 0.0)
