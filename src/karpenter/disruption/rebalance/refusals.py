"""What a rebalance must pass before it is proposed: one test after the other, each with a name.

The preview shows the name of the first test that a row fails; the method tries fewer machines. To
add a test, write a function that returns why it fails, and give it a row in ``TESTS``. What
kube-scheduler would do with the pods is asked last, since it costs the most.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from karpenter.api.times import earlier, later
from karpenter.disruption.budgets import UNDERUTILIZED
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import Command
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.balanced import LEAST_SCORE, score_of
from karpenter.disruption.methods.consolidation import is_balanced
from karpenter.disruption.methods.replacements import LEAST_SPOT_TYPES
from karpenter.disruption.methods.return_to_spot import early_return
from karpenter.disruption.rebalance.history import RebalanceHistory, owners_of
from karpenter.disruption.rebalance.money import Savings
from karpenter.disruption.rebalance.predicted_placement import objection
from karpenter.disruption.rebalance.settings import MOVES_WINDOW
from karpenter.disruption.spot_ratio import worsened_ratio
from karpenter.model import labels
from karpenter.model.conditions import timestamp
from karpenter.scheduling.plan import ABOUT
from karpenter.state.departing_pods import is_reschedulable
from karpenter.state.snapshot import Snapshot

LEAST_SAVINGS: Final = 0.02  # of the candidates' price
_SAME: Final = 1e-9  # dollars per hour that are rounding


class RefusedAs(StrEnum):
    """What a rebalance is refused as."""

    UNSCHEDULABLE = "Unschedulable"  # a pod would be without a place
    NO_SAVINGS = "NoSavings"
    NOT_WORTH_IT = "NotWorthIt"
    MOVE_BUDGET = "MoveBudget"
    BUDGET = "Budget"
    PDB = "PodDisruptionBudget"
    SPOT_TO_SPOT = "SpotToSpot"
    SPOT_RATIO = "SpotRatio"
    RETURN_TO_SPOT = "ReturnToSpot"  # a machine that fell back to on-demand is not due
    COOLDOWN = "Cooldown"
    REGRETTED = "Regretted"
    PREDICTED_REDISRUPTION = "PredictedRedisruption"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why machines are not rebalanced."""

    test: RefusedAs
    detail: str

    def __str__(self) -> str:
        """The name and the reason."""
        return f"{self.test}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rebalance with everything it is judged by."""

    view: DisruptionContext
    command: Command
    savings: Savings
    history: RebalanceHistory

    @property
    def about(self) -> str:
        """The prefix of its savings where they rest on estimated prices."""
        return ABOUT if self.command.is_estimate else ""


def first_refusal(proposal: Proposal) -> Refusal | None:
    """The first test that a rebalance fails."""
    return quick_refusal(proposal) or predicted_refusal(proposal)


def quick_refusal(proposal: Proposal) -> Refusal | None:
    """The first test that a rebalance fails, of those that cost little."""
    for test, why in TESTS.items():
        detail = why(proposal)
        if detail:
            return Refusal(test, detail)
    return None


def predicted_refusal(proposal: Proposal) -> Refusal | None:
    """Whether kube-scheduler would undo a rebalance; it places every moved pod in turn.

    It is not asked where the pods are bound to the places of the plan.
    """
    if proposal.command.binds_pods:
        return None
    detail = objection(proposal.view, proposal.command)
    return Refusal(RefusedAs.PREDICTED_REDISRUPTION, detail) if detail else None


def moved_pods(command: Command) -> int:
    """How many pods a rebalance moves."""
    return sum(len(candidate.reschedulable) for candidate in command.candidates)


def most_moves(view: DisruptionContext) -> int:
    """How many pods may be moved in an hour."""
    share = view.settings.rebalance.moves
    return max(1, math.floor(reschedulable_pods(view.snapshot) * share + _SAME))


def reschedulable_pods(snapshot: Snapshot) -> int:
    """How many pods the nodes of NodeClaims hold that would run elsewhere without them."""
    ours = (machine for machine in snapshot.nodes if machine.node_claim is not None)
    return sum(is_reschedulable(pod) for machine in ours for pod in machine.pods)


def moves_left(view: DisruptionContext, history: RebalanceHistory) -> int:
    """How many more pods may be moved now."""
    return max(0, most_moves(view) - history.moved_since(earlier(view.now, MOVES_WINDOW)))


def cooling_until(
    when: Mapping[str, datetime], uid: str, cooldown: timedelta, now: datetime
) -> datetime | None:
    """Until when something that was touched stays in peace, if it still does."""
    at = when.get(uid)
    if at is None:
        return None
    end = later(at, cooldown)
    return end if now < end else None


def _saves_nothing(proposal: Proposal) -> str:
    worst = proposal.savings.worst
    unknown = [c.name for c in proposal.command.candidates if c.known_price is None]
    if unknown:
        return f"the price of {unknown[0]} is unknown"
    if worst > _SAME:
        return ""
    if not math.isfinite(worst):
        return "the price of a replacement is unknown"
    return (
        f"at the highest prices that replacements may be launched at it would save"
        f" {proposal.about}${worst:.4f}/h"
    )


def _is_not_worth_it(proposal: Proposal) -> str:
    command, settings = proposal.command, proposal.view.settings.rebalance
    saved = proposal.savings.expected
    price = sum(candidate.price for candidate in command.candidates)
    amount = f"saving {proposal.about}${saved:.4f}/h"
    if saved < LEAST_SAVINGS * price:
        return f"{amount} is less than {LEAST_SAVINGS:.0%} of {proposal.about}${price:.4f}/h"
    hours = settings.payback / timedelta(hours=1)
    cost = sum(candidate.cost for candidate in command.candidates) * settings.pod_cost
    if saved * hours < cost:
        return f"{amount} does not repay a disruption of ${cost:.2f} within {hours:g} hours"
    return _misses_a_score(proposal)


def _misses_a_score(proposal: Proposal) -> str:
    """The first source pool with the balanced policy that scores the move too low."""
    command = proposal.command
    for pool in sorted({c.pool for c in command.candidates if is_balanced(c)}):
        score = score_of(proposal.view, pool, command)
        if not score.is_approved:
            return f"score {score.value:.2f} of NodePool {pool} is below {LEAST_SCORE:.2f}"
    return ""


def _moves_too_many(proposal: Proposal) -> str:
    moved, left = moved_pods(proposal.command), moves_left(proposal.view, proposal.history)
    if moved <= left:
        return ""
    most = most_moves(proposal.view)
    return f"it would move {moved} pods, and {left} of {most} may be moved in this hour"


def _exceeds_a_budget(proposal: Proposal) -> str:
    going: dict[str, int] = {}
    for candidate in proposal.command.candidates:
        going[candidate.pool] = going.get(candidate.pool, 0) + 1
    for pool, count in sorted(going.items()):
        left = proposal.view.allowance(pool, UNDERUTILIZED).remaining
        if left < count:
            return f"the budgets of NodePool {pool} allow {left} more disruptions, not {count}"
    return ""


def _is_held_by_a_pdb(proposal: Proposal) -> str:
    inspection = proposal.view.inspection
    for candidate in proposal.command.candidates:
        for pod in candidate.machine.pods:
            detail = inspection.held_by(pod)
            if detail:
                return detail
    return ""


def _swaps_spot_for_spot(proposal: Proposal) -> str:
    command = proposal.command
    if not all(each.capacity_type == labels.SPOT for each in command.candidates):
        return ""
    on_spot = [
        claim
        for claim in command.replacements
        if claim.requirements[labels.CAPACITY_TYPE].has(labels.SPOT)
    ]
    if not on_spot:
        return ""
    if not proposal.view.settings.spot_to_spot:
        return "SpotToSpotConsolidation is off, so spot does not replace spot"
    least = min(len(claim.instance_types) for claim in on_spot)
    if least >= LEAST_SPOT_TYPES:
        return ""
    return (
        f"spot replaces spot only with {LEAST_SPOT_TYPES} instance types to choose from,"
        f" and a replacement has {least}"
    )


def _returns_too_early(proposal: Proposal) -> str:
    command = proposal.command
    return early_return(command, command.candidates, proposal.view.now)


def resting(
    view: DisruptionContext, history: RebalanceHistory, candidate: Candidate
) -> Refusal | None:
    """Why a machine is left in peace because of earlier moves, if it is."""
    detail = _why_too_early(view, history, candidate)
    if detail:
        return Refusal(RefusedAs.COOLDOWN, detail)
    detail = _why_regretted(history, candidate)
    return Refusal(RefusedAs.REGRETTED, detail) if detail else None


def _is_too_early(proposal: Proposal) -> str:
    view, history = proposal.view, proposal.history
    reasons = (_why_too_early(view, history, each) for each in proposal.command.candidates)
    return next(filter(None, reasons), "")


def _why_too_early(view: DisruptionContext, history: RebalanceHistory, candidate: Candidate) -> str:
    cooldown = view.settings.rebalance.cooldown
    uid = candidate.claim.metadata.uid
    until = cooling_until(history.claims, uid, cooldown, view.now)
    if until is not None:
        return f"{candidate.name} came from a rebalance; it stays until {timestamp(until)}"
    for owner in sorted(owners_of(candidate.reschedulable)) if history.owners else ():
        until = cooling_until(history.owners, owner, cooldown, view.now)
        if until is not None:
            return (
                f"pods of a workload on {candidate.name} were moved by a rebalance;"
                f" the others stay until {timestamp(until)}"
            )
    return ""


def _is_regretted(proposal: Proposal) -> str:
    history = proposal.history
    reasons = (_why_regretted(history, each) for each in proposal.command.candidates)
    return next(filter(None, reasons), "")


def _why_regretted(history: RebalanceHistory, candidate: Candidate) -> str:
    if candidate.claim.metadata.uid in history.regretted:
        return f"{candidate.name} had to be made after moves that saved nothing"
    return ""


TESTS: Final[Mapping[RefusedAs, Callable[[Proposal], str]]] = {
    RefusedAs.NO_SAVINGS: _saves_nothing,
    RefusedAs.NOT_WORTH_IT: _is_not_worth_it,
    RefusedAs.MOVE_BUDGET: _moves_too_many,
    RefusedAs.BUDGET: _exceeds_a_budget,
    RefusedAs.PDB: _is_held_by_a_pdb,
    RefusedAs.SPOT_TO_SPOT: _swaps_spot_for_spot,
    RefusedAs.SPOT_RATIO: lambda proposal: worsened_ratio(proposal.view, proposal.command),
    RefusedAs.RETURN_TO_SPOT: _returns_too_early,
    RefusedAs.COOLDOWN: _is_too_early,
    RefusedAs.REGRETTED: _is_regretted,
}
