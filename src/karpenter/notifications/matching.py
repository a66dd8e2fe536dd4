"""Which records are sent to a sink."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from karpenter.decision_log.record import DecisionRecord, Kind, Severity

_RANKS: Final = {Severity.INFO: 0, Severity.WARNING: 1}


@dataclass(frozen=True, slots=True)
class Match:
    """The filter of a sink; an empty list matches every record."""

    kinds: frozenset[Kind] = frozenset()
    reasons: frozenset[str] = frozenset()
    node_pools: tuple[str, ...] = ()  # patterns of the shell, such as prod-*
    min_severity: Severity = Severity.WARNING

    def lets_through(self, record: DecisionRecord) -> bool:
        """Whether a record is sent to a sink with this match."""
        return (
            (not self.kinds or record.kind in self.kinds)
            and (not self.reasons or record.reason in self.reasons)
            and rank(record) >= _RANKS[self.min_severity]
            and (not self.node_pools or any(map(self._has_pool, record.node_pools)))
        )

    def _has_pool(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.node_pools)


def rank(record: DecisionRecord) -> int:
    """How severe a record is, as a number."""
    return _RANKS[record.severity]
