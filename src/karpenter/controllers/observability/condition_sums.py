"""Sums about conditions and deletions of claims and nodes by pool, in place of series for each."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from karpenter.clock import Clock
from karpenter.controllers.observability.condition_watch import ConditionWatch
from karpenter.model import labels
from karpenter.telemetry.exposition import AT_A_TIME, label_text, number
from karpenter.telemetry.family import Family

_Key: TypeAlias = tuple[str, ...]
_Tally: TypeAlias = dict[_Key, tuple[int, float]]  # how many, and the longest time in seconds

# Kinds of which a cluster has one for every machine
SUMMED_KINDS: Final = frozenset({"Node", "NodeClaim"})
_OF_CONDITIONS: Final = "kind nodepool type status reason"
_OF_DELETIONS: Final = "kind nodepool"
_CONDITIONS: Final = Family.of_pools(
    "karpenter_nodepools_conditions",
    "How many nodes or claims of a pool have a condition with a status.",
    _OF_CONDITIONS,
)
_LONGEST_CONDITION: Final = Family.of_pools(
    "karpenter_nodepools_conditions_longest_seconds",
    "How long the first of them has had it.",
    _OF_CONDITIONS,
)
_TERMINATING: Final = Family.of_pools(
    "karpenter_nodepools_terminating",
    "How many nodes or claims of a pool are on their way out.",
    _OF_DELETIONS,
)
_LONGEST_TERMINATING: Final = Family.of_pools(
    "karpenter_nodepools_terminating_longest_seconds",
    "How long the first of them has been on its way out.",
    _OF_DELETIONS,
)
CONDITION_SUM_FAMILIES: Final = (
    _CONDITIONS,
    _LONGEST_CONDITION,
    _TERMINATING,
    _LONGEST_TERMINATING,
)


class ConditionSums:
    """The source of these sums; of no kind at all, it has no lines."""

    def __init__(self, clock: Clock, watches: Sequence[ConditionWatch[Any]]) -> None:
        self._clock = clock
        self._watches = watches

    def lines(self) -> Iterable[str]:
        """The sums of all kinds."""
        if not self._watches:
            return
        now = self._clock.now()
        conditions: _Tally = {}
        deletions: _Tally = {}
        for watch in self._watches:
            for count, obj in enumerate(watch.mirror.list(), start=1):
                metadata = obj.metadata
                key = (watch.kind, metadata.labels.get(labels.NODEPOOL, ""))
                for each in watch.conditions_of(obj):
                    described = (*key, each.type, each.status, each.reason)
                    _add(conditions, described, each.last_transition_time, now)
                if metadata.deletion_timestamp is not None:
                    _add(deletions, key, metadata.deletion_timestamp, now)
                if count % AT_A_TIME == 0:
                    yield ""
        for families, tally in (
            ((_CONDITIONS, _LONGEST_CONDITION), conditions),
            ((_TERMINATING, _LONGEST_TERMINATING), deletions),
        ):
            counted, longest = families
            yield counted.text(_samples(counted, {key: n for key, (n, _) in tally.items()}))
            yield longest.text(_samples(longest, {key: at for key, (_, at) in tally.items()}))


def _add(tally: _Tally, key: _Key, since: datetime | None, now: datetime) -> None:
    count, longest = tally.get(key, (0, 0.0))
    age = 0.0 if since is None else (now - since).total_seconds()
    tally[key] = (count + 1, max(longest, age))


def _samples(family: Family, values: Mapping[_Key, float]) -> Iterable[str]:
    names = family.labels.split()
    for key, value in values.items():
        yield f"{{{label_text(dict(zip(names, key, strict=True)))}}} {number(value)}"
