"""What moving pods would save: the cost of a cluster by the share of its pods that are moved.

A row is one rebalance of as many machines as the share allows, whatever budgets and settings say;
it names the first test that the whole of it would fail. Machines that may not be disrupted now stay
in every row, and those without pods go in the first: nothing is moved for them. A row that costs
more than the one before it repeats that one, so moving more never looks worse.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from karpenter.disruption.candidates import Blocked, Candidate, Kind, Why
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.consolidation import Consolidation
from karpenter.disruption.methods.emptiness import empty_candidates
from karpenter.disruption.rebalance.refusals import (
    Proposal,
    Refusal,
    RefusedAs,
    first_refusal,
    moved_pods,
)
from karpenter.disruption.rebalance.search import Rebalancing, in_order
from karpenter.disruption.rebalance.settings import RebalanceMode, mode_of
from karpenter.disruption.rebalance.shares import ClusterShares, MachineExcess
from karpenter.scheduling.attempt import HasTime, always
from karpenter.scheduling.plan import PlannedClaim

FRACTIONS: Final = (0.0, 5.0, 10.0, 25.0, 50.0, 100.0)  # percent of reschedulable pods
_SAME: Final = 1e-9  # dollars per hour that are rounding


@dataclass(frozen=True, slots=True)
class FrontierRow:
    """What moving at most so many pods would save."""

    percent: float  # of reschedulable pods
    hourly: float  # what the cluster costs afterwards
    savings: float = 0.0
    moved_pods: int = 0
    candidates: tuple[str, ...] = ()
    replacements: tuple[PlannedClaim, ...] = ()
    refusal: Refusal | None = None
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class ExcessRow:
    """What a machine costs, what its pods pay of it, and why it may not go, if so."""

    node: str
    price: float
    shares: float
    excess: float
    pods: int
    blocked: Blocked | None


@dataclass(frozen=True, slots=True)
class RebalancePreview:
    """What rebalancing could do with a cluster."""

    now_hourly: float
    lower_bound_hourly: float
    reschedulable_pods: int
    held_pods: int  # on machines that may not go now
    frontier: tuple[FrontierRow, ...]
    excess: tuple[ExcessRow, ...]
    cheapest_hourly: float | None  # all pods packed anew; None where some would have no place
    is_cut: bool = False  # there was no time for some rows

    @property
    def is_estimate(self) -> bool:
        """Whether a saving rests on an estimated price."""
        return any(row.is_estimate for row in self.frontier)


def preview_of(
    view: DisruptionContext, fractions: Sequence[float] = FRACTIONS, has_time: HasTime = always
) -> RebalancePreview:
    """Find what moving each of these percentages of the pods would save.

    Args:
        fractions: percentages of all reschedulable pods, in ascending order.
        has_time: the deadline check; rows for which there is no time repeat the one before them.
    """
    return _Preview(view, has_time).found(fractions)


class _Preview:
    def __init__(self, view: DisruptionContext, has_time: HasTime) -> None:
        self._view = view
        self._has_time = has_time
        self._shares = ClusterShares(view)
        self._consolidation = Consolidation(view)
        priced = {entry.name for entry in self._shares.machines}
        self._candidates = {
            each.name: each
            for each in (*empty_candidates(view)[0], *self._consolidation.candidates)
            if each.name in priced and not _is_excluded(each)
        }
        self._rebalancing = Rebalancing(self._consolidation, [*self._candidates.values()])
        self._tried: dict[tuple[str, ...], Proposal | Refusal] = {}
        self._is_cut = False

    def found(self, fractions: Sequence[float]) -> RebalancePreview:
        """Make the rows one after the other."""
        shares = self._shares
        total = sum(len(entry.pods) for entry in shares.machines)
        movable = sum(len(each.reschedulable) for each in self._candidates.values())
        orders = self._orders()
        rows: list[FrontierRow] = []
        best = FrontierRow(0.0, shares.now_hourly)
        for percent in fractions:
            most = int(total * percent / 100 + _SAME)
            for order in orders:
                best = self._better(best, _within(order, most))
            rows.append(replace(best, percent=percent))
        return RebalancePreview(
            now_hourly=shares.now_hourly,
            lower_bound_hourly=shares.lower_bound,
            reschedulable_pods=total,
            held_pods=total - movable,
            frontier=tuple(rows),
            excess=tuple(map(self._excess, shares.machines)),
            cheapest_hourly=self._packed_anew(best),
            is_cut=self._is_cut,
        )

    def _orders(self) -> list[list[Candidate]]:
        """The machines that cost too much, and then also those that are well bought."""
        mine = [entry for entry in self._shares.machines if entry.name in self._candidates]
        costly = [entry for entry in mine if not entry.is_well_bought]
        orders = [costly] if len(costly) == len(mine) else [costly, mine]
        return [
            [self._candidates[entry.name] for entry in in_order(order, self._candidates)]
            for order in orders
        ]

    def _better(self, best: FrontierRow, going: Sequence[Candidate]) -> FrontierRow:
        proposal = self._proposal(going)
        if isinstance(proposal, Refusal) or proposal.savings.expected <= best.savings + _SAME:
            return best
        command = proposal.command
        return FrontierRow(
            percent=best.percent,
            hourly=self._shares.now_hourly - proposal.savings.expected,
            savings=proposal.savings.expected,
            moved_pods=moved_pods(command),
            candidates=command.names,
            replacements=command.replacements,
            refusal=first_refusal(proposal),
            is_estimate=command.is_estimate,
        )

    def _proposal(self, going: Sequence[Candidate]) -> Proposal | Refusal:
        names = tuple(sorted(each.name for each in going))
        if not names:
            return Refusal(RefusedAs.NO_SAVINGS, "no machine may go")
        known = self._tried.get(names)
        if known is None:
            if not self._has_time():
                self._is_cut = True
                return Refusal(RefusedAs.NO_SAVINGS, "there was no time for it")
            known = self._rebalancing.proposal_without_stranded(going, self._has_time)
            self._tried[names] = known
        return known

    def _excess(self, entry: MachineExcess) -> ExcessRow:
        return ExcessRow(
            entry.name,
            entry.price,
            entry.shares,
            entry.excess,
            len(entry.pods),
            self._blocked(entry.name),
        )

    def _blocked(self, name: str) -> Blocked | None:
        if name in self._candidates:
            return None
        standing = self._view.standing(Kind.GRACEFUL).get(name)
        if isinstance(standing, Blocked):
            return standing
        verdict = self._consolidation.verdicts.get(name)
        if verdict is not None:
            return verdict
        detail = "an annotation of its NodePool excludes it from rebalancing"
        return Blocked(name, Why.UNCONSOLIDATABLE, detail, has_event=False)

    def _packed_anew(self, best: FrontierRow) -> float | None:
        """What the cluster would cost if all pods were packed anew, held or not."""
        if not self._has_time():
            self._is_cut = True
            return None
        hourly = self._shares.packed_anew(self._has_time)
        return None if hourly is None else min(hourly, best.hourly)


def _is_excluded(candidate: Candidate) -> bool:
    """Whether the pool's own annotation keeps rebalancing away."""
    return mode_of(candidate.node_pool, RebalanceMode.ON) is RebalanceMode.OFF


def _within(order: Iterable[Candidate], most: int) -> list[Candidate]:
    """The machines, in order, that hold no more pods together."""
    found = []
    for candidate in order:
        pods = len(candidate.reschedulable)
        if pods <= most:
            most -= pods
            found.append(candidate)
    return found
