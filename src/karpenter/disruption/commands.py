"""What disruption decides: commands, and a reason for every machine that stays.

A command is carried out as a whole: its candidates are deleted when all of its replacements are
initialized. The result of a method in one pass, with or without commands, is a ``Finding``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from karpenter.cloud.repair import Repair
from karpenter.disruption.candidates import Blocked, Candidate
from karpenter.scheduling.plan import ABOUT, PlannedClaim, rests_on_estimates
from karpenter.scheduling.provisioning import Announcement

REPAIR: Final = "repair"
EMPTY: Final = "empty"
STATIC_DRIFT: Final = "static-drift"
DRIFT: Final = "drift"
MULTI: Final = "multi"
SINGLE: Final = "single"
REBALANCE: Final = "rebalance"
EXPIRATION: Final = "expiration"
STATIC: Final = "static"

NO_RESERVED_CAPACITY: Final = "no-reserved-capacity"
STATIC_AT_LIMIT: Final = "static-at-limit"

# Method -> its value of the metrics label; the others have none
_CONSOLIDATION_TYPES: Final = {
    EMPTY: "empty",
    MULTI: "multi",
    SINGLE: "single",
    REBALANCE: "rebalance",
}


class Decision(StrEnum):
    """What is done with the candidates of a command."""

    DELETE = "delete"
    REPLACE = "replace"
    TERMINATE_FIRST = "terminate-first"
    REBOOT = "reboot"


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a move in a pool with the balanced policy."""

    node_pool: str
    value: float
    is_approved: bool
    savings: float = 0.0  # as a fraction of the pool's cost
    disruption: float = 0.0  # as a fraction of the cost of moving all of the pool's pods


@dataclass(frozen=True)
class Command:
    """Machines that are deleted together, and the replacements that must be initialized first."""

    method: str
    reason: str
    decision: Decision
    candidates: tuple[Candidate, ...]
    replacements: tuple[PlannedClaim, ...] = ()
    placements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # machine -> pods
    savings: float = 0.0  # dollars per hour; an unknown price counts as zero
    scores: tuple[Score, ...] = ()  # of the pools with the balanced policy
    terminate_first_reason: str = ""
    drain_bound: timedelta | None = None  # the deadline of the drain, after the deletion
    repair: Repair | None = None  # what is wrong with the machine
    binds_pods: bool = False  # pods that come back are bound to the places of the plan

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the machines that go."""
        return tuple(candidate.name for candidate in self.candidates)

    @property
    def score(self) -> float | None:
        """The lowest score of its pools, if any of them has the balanced policy."""
        return min((score.value for score in self.scores), default=None)

    @property
    def known_savings(self) -> float | None:
        """Savings in dollars per hour; None when a price of a candidate or replacement is unknown.

        Decisions use ``savings``, in which an unknown price counts as zero.
        """
        if self.decision is Decision.REBOOT:
            return 0.0  # the machine stays, whatever it costs
        is_known = all(candidate.known_price is not None for candidate in self.candidates)
        is_known &= all(claim.launch is not None for claim in self.replacements)
        return self.savings if is_known else None

    @property
    def is_estimate(self) -> bool:
        """Whether the savings rest on an estimated price."""
        is_guessed = any(candidate.is_estimate for candidate in self.candidates)
        return is_guessed or rests_on_estimates(self.replacements)

    @property
    def about(self) -> str:
        """The prefix of the savings where they are an estimate."""
        return ABOUT if self.is_estimate else ""

    @property
    def consolidation_type(self) -> str:
        """What metrics call the method; nothing for one that does not consolidate."""
        return _CONSOLIDATION_TYPES.get(self.method, "")

    @property
    def is_static(self) -> bool:
        """Whether replacements are made from the pool's template, for no pod in particular."""
        return any(candidate.is_static for candidate in self.candidates)


@dataclass(frozen=True)
class Finding:
    """What one method found in one pass."""

    method: str
    commands: tuple[Command, ...] = ()
    eligible: int = 0  # how many machines were eligible
    verdicts: Mapping[str, Blocked] = field(default_factory=dict)  # machine -> why it stays
    scores: tuple[Score, ...] = ()
    events: tuple[Announcement, ...] = ()
    is_constrained: bool = False  # a budget excluded a machine from the search
    has_timed_out: bool = False
    unseen_pools: frozenset[str] = frozenset()  # pools that were not reached in time
    previews: tuple[Command, ...] = ()  # what rebalancing would do if it were on
    refused: tuple[str, ...] = ()  # why sets of machines that rebalancing tried stay

    @property
    def consolidation_type(self) -> str:
        """What metrics call the method; nothing for one that does not consolidate."""
        return _CONSOLIDATION_TYPES.get(self.method, "")


def decision_of(replacements: tuple[PlannedClaim, ...]) -> Decision:
    """What a command with these replacements does."""
    return Decision.REPLACE if replacements else Decision.DELETE
