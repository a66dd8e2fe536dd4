"""Gauges of status conditions and of objects that are being deleted, for several kinds at once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from karpenter.api.meta import Condition
from karpenter.clock import Clock
from karpenter.controllers.observability.condition_watch import ConditionWatch
from karpenter.telemetry.exposition import AT_A_TIME, escaped, label_text
from karpenter.telemetry.family import Detail, Family

_NAMES: Final = "namespace name"


@dataclass(frozen=True, slots=True)
class ConditionFamilies:
    """The gauges about conditions of one kind, or of all kinds together."""

    count: Family
    age: Family
    going: Family

    def __iter__(self) -> Iterator[Family]:
        """All of them."""
        return iter((self.count, self.age, self.going))


def condition_families(
    prefix: str, labels: Iterable[str] = (), only: Detail | None = None
) -> ConditionFamilies:
    """The gauges whose names begin with a prefix, with ``labels`` besides their own."""
    more = " ".join(labels)
    described = f"{more} {_NAMES} type status reason".strip()
    per_condition, per_object = "condition of an object", "object that is being deleted"
    return ConditionFamilies(
        Family(
            f"{prefix}status_condition_count",
            "Whether an object has a condition with a status.",
            described,
            per=per_condition,
            only=only,
        ),
        Family(
            f"{prefix}status_condition_current_status_seconds",
            "Time since a condition has had its status.",
            described,
            per=per_condition,
            only=only,
        ),
        Family(
            f"{prefix}termination_current_time_seconds",
            "Time since the deletion of an object that still exists.",
            f"{more} {_NAMES}".strip(),
            per=per_object,
            only=only,
        ),
    )


OF_ALL_KINDS: Final = condition_families("operator_", ("group", "kind"))


@dataclass(slots=True)
class _Samples:
    counts: list[str] = field(default_factory=list)
    ages: list[str] = field(default_factory=list)
    going: list[str] = field(default_factory=list)

    def gauges(self, families: ConditionFamilies) -> Iterable[str]:
        """The three gauges."""
        yield from families.count.pieces(self.counts)
        yield from families.age.pieces(self.ages)
        yield from families.going.pieces(self.going)

    def add(
        self, start: str, conditions: Iterable[tuple[str, str]], going: str, names: str
    ) -> None:
        """Add an object: labels that come first, its conditions with their ages, and its end."""
        for inner, age in conditions:
            self.counts.append(f"{{{start}{inner}}} 1")
            if age:
                self.ages.append(f"{{{start}{inner}}} {age}")
        if going:
            self.going.append(f"{{{start}{names}}} {going}")


class ConditionGauges:
    """The source of these gauges."""

    def __init__(self, clock: Clock, watches: Sequence[ConditionWatch[Any]]) -> None:
        self._clock = clock
        self._watches = watches

    def lines(self) -> Iterable[str]:
        """The gauges of every kind, then the older ones of all kinds together."""
        now = self._clock.now()
        of_all_kinds = _Samples()
        for watch in self._watches:
            samples = _Samples()
            twin = f'group="{watch.group}",kind="{watch.kind}",' if watch.has_twin else ""
            for number, obj in enumerate(watch.mirror.list(), start=1):
                metadata = obj.metadata
                names = f'namespace="{metadata.namespace}",name="{escaped(metadata.name)}"'
                conditions = [
                    (f"{names},{_described(each)}", _age(each.last_transition_time, now))
                    for each in watch.conditions_of(obj)
                ]
                going = _age(metadata.deletion_timestamp, now)
                own = label_text(watch.labels_of(obj))
                samples.add(f"{own}," if own else "", conditions, going, names)
                if twin:
                    of_all_kinds.add(twin, conditions, going, names)
                if number % AT_A_TIME == 0:
                    yield ""
            prefix = f"operator_{watch.kind.lower()}_"
            yield from samples.gauges(condition_families(prefix, watch.label_names))
        yield from of_all_kinds.gauges(OF_ALL_KINDS)


def _described(condition: Condition) -> str:
    kind, reason = escaped(condition.type), escaped(condition.reason)
    return f'type="{kind}",status="{condition.status}",reason="{reason}"'


def _age(since: datetime | None, now: datetime) -> str:
    return f"{max((now - since).total_seconds(), 0.0):.3f}" if since is not None else ""
