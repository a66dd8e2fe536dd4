"""Consolidation: the same pods on fewer or cheaper machines.

The common part of single- and multi-node consolidation: the eligible machines, the command for a
set of them, and the score threshold of pools with the balanced policy.
"""

from collections.abc import Container, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.disruption.budgets import UNDERUTILIZED
from karpenter.disruption.candidates import Blocked, Candidate, Kind, Why
from karpenter.disruption.claim_conditions import CLOCK_SKEW, patience, quiet_since
from karpenter.disruption.commands import Command, Decision, Score
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.balanced import BALANCED, LEAST_SCORE, score_of
from karpenter.disruption.methods.replacements import (
    FILTERING,
    Option,
    Refused,
    option_of,
    replacement,
)
from karpenter.disruption.methods.return_to_spot import off_spot, returned, returns_of
from karpenter.disruption.simulation import Answer, NoPoolsError, Simulation
from karpenter.disruption.spot_ratio import worsened_ratio
from karpenter.model import durations, labels
from karpenter.model.conditions import CONSOLIDATABLE
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.spot.pool_ratio import effective_ratio
from karpenter.state.pods import key_of

WHEN_EMPTY: Final = "WhenEmpty"
POLICIES: Final = frozenset({WHEN_EMPTY, "WhenEmptyOrUnderutilized", BALANCED})
_PODS_NAMED: Final = 3
NO_SAVINGS: Final = 1e-9  # dollars per hour; sums of prices in another order differ by rounding
PREPAID: Final = "commitments pay for it, and no other machine would use them, so it saves nothing"


def unconsolidatable(candidate: Candidate, view: DisruptionContext) -> Blocked | None:
    """The first reason why consolidation leaves a machine alone."""
    held = candidate.machine.labels
    pool = candidate.node_pool
    disruption = pool.spec.disruption
    name = candidate.name
    if candidate.is_static:
        detail = f"NodePool {candidate.pool} has a fixed number of nodes"
        return Blocked(name, Why.STATIC, detail, has_event=False)
    problem = unreadable(pool)
    type_name = held.get(labels.INSTANCE_TYPE, "")
    for applies, detail, event_message in (
        (bool(problem), problem, ""),
        (
            candidate.instance_type is None,
            f"instance type {type_name!r} is not known",
            f'Instance Type "{type_name}" not found',
        ),
        *(
            (not held.get(label), f"it has no label {label}", f'Node does not have label "{label}"')
            for label in (labels.CAPACITY_TYPE, labels.ZONE)
        ),
    ):
        if applies:
            return Blocked(name, Why.UNCONSOLIDATABLE, detail, event_message=event_message)
    if disruption.consolidate_after == durations.NEVER:
        return turned_off(candidate)
    if candidate.is_empty:
        return Blocked(name, Why.NOT_DISRUPTED, "it is empty", has_event=False)
    if disruption.consolidation_policy == WHEN_EMPTY:
        detail = f"NodePool {candidate.pool} consolidates only empty nodes"
        event_message = (
            f'NodePool "{candidate.pool}" has consolidation policy WhenEmpty, but node is not empty'
        )
        return Blocked(name, Why.UNCONSOLIDATABLE, detail, event_message=event_message)
    return in_peace(candidate, view)


def turned_off(candidate: Candidate) -> Blocked:
    """A machine of a pool that is not consolidated at all."""
    detail = f"NodePool {candidate.pool} has consolidation turned off"
    event_message = f'NodePool "{candidate.pool}" has consolidation disabled'
    return Blocked(candidate.name, Why.UNCONSOLIDATABLE, detail, event_message=event_message)


def unreadable(pool: NodePool) -> str:
    """Which field of a pool is invalid, so that its nodes are not consolidated; empty when none is.

    An API server without this project's CRD rules stores such pools; a guess could remove nodes.
    """
    disruption, name = pool.spec.disruption, pool.metadata.name
    if disruption.consolidation_policy not in POLICIES:
        stated = disruption.consolidation_policy
        return f"NodePool {name} has the unknown consolidation policy {stated!r}"
    stated = disruption.consolidate_after
    if stated != durations.NEVER and durations.period(stated) is None:
        return f"NodePool {name} consolidates after {stated!r}, which is no duration"
    return ""


def in_peace(candidate: Candidate, view: DisruptionContext) -> Blocked | None:
    """Why a machine is not consolidatable yet, if it is not."""
    if candidate.machine.has_condition(CONSOLIDATABLE):
        return None
    since = quiet_since(candidate.claim)
    if since is not None and since - view.now > CLOCK_SKEW:
        detail = f"its pods changed at {_moment(since)}, which has not come yet: a clock was wrong"
        return Blocked(candidate.name, Why.UNCONSOLIDATABLE, detail)
    wait = patience(candidate.claim, candidate.node_pool, now=view.now)
    detail = "it is not marked as consolidatable yet"
    if wait is not None and not wait.is_over and wait.until is not None:
        when = _moment(wait.until)
        detail = f"its pods changed too lately; NodePool {candidate.pool} waits until {when}"
    return Blocked(candidate.name, Why.UNCONSOLIDATABLE, detail, has_event=False)


class Consolidation:
    """The machines that consolidation considers in one pass, and a cluster to simulate on."""

    def __init__(self, view: DisruptionContext, only: Container[str] | None = None) -> None:
        """Determine the candidates; ``only`` limits them to some names."""
        self.view: Final = view
        self.verdicts: Final[dict[str, Blocked]] = {}
        self.candidates: Final[list[Candidate]] = []
        self._alone: dict[str, float] = {}  # machine -> what the bill falls without it
        for candidate in view.candidates(Kind.GRACEFUL):
            if only is not None and candidate.name not in only:
                continue
            verdict = unconsolidatable(candidate, view) or self._prepaid(candidate)
            if verdict is None:
                self.candidates.append(candidate)
            else:
                self.verdicts[candidate.name] = verdict
        # by savings per disruption cost, descending
        self.candidates.sort(key=lambda candidate: (-self._ratio(candidate), candidate.name))
        self._simulation: Simulation = view.simulation(self.candidates)

    def _prepaid(self, candidate: Candidate) -> Blocked | None:
        """A machine that saves nothing because commitments pay for it, and none other needs them."""
        if self.view.ground.ledger is None or not candidate.known_price:
            return None
        self._alone[candidate.name] = saved = self.view.savings([candidate])
        if saved > NO_SAVINGS:
            return None
        return Blocked(candidate.name, Why.UNCONSOLIDATABLE, PREPAID, has_event=False)

    def _ratio(self, candidate: Candidate) -> float:
        saved = self._alone.get(candidate.name)
        return candidate.ratio if saved is None else saved / candidate.cost

    def simulated(self, candidates: Sequence[Candidate]) -> Answer | Refused:
        """Where pods would be placed without these machines, or why they cannot all be."""
        return _placed(self._simulation, candidates)

    def command(self, method: str, candidates: Sequence[Candidate]) -> Command | Refused:
        """The command that removes these machines together, or why it would save nothing."""
        found = self._command(method, candidates, self.simulated(candidates))
        if isinstance(found, Command):
            problem = worsened_ratio(self.view, found)
            return Refused(problem, is_silent=True, why=Why.SPOT_RATIO) if problem else found
        return self._kept_by_ratio(method, candidates) or found

    def _kept_by_ratio(self, method: str, candidates: Sequence[Candidate]) -> Refused | None:
        """A refusal for the sake of a spot ratio, if there would be a command without ratios."""
        keeps = self.view.ground.workloads.keeps
        kept = sorted(key_of(pod) for each in candidates for pod in each.movable if keeps(pod))
        pools = sorted(
            {each.pool for each in candidates if effective_ratio(each.node_pool) is not None}
        )
        if not kept and not pools:
            return None
        freely = self._command(method, candidates, _placed(self._unbound_simulation, candidates))
        if isinstance(freely, Refused):
            return None
        problem = worsened_ratio(self.view, freely)
        if not problem:
            noun = "NodePool" if not kept else "the workload of"
            name = pools[0] if not kept else _first_few(kept)
            problem = f"the spot ratio of {noun} {name} allows no move to spot"
        return Refused(problem, is_silent=True, why=Why.SPOT_RATIO)

    @cached_property
    def _unbound_simulation(self) -> Simulation:
        return self.view.simulation(self.candidates, ignores_ratios=True)

    def _command(
        self, method: str, candidates: Sequence[Candidate], answer: Answer | Refused
    ) -> Command | Refused:
        if isinstance(answer, Refused):
            return answer
        price = self.view.savings(candidates)
        chosen = tuple(candidates)
        if self.view.ground.ledger is not None and price <= NO_SAVINGS:
            return Refused(PREPAID, is_silent=True)
        found = Command(
            method,
            UNDERUTILIZED,
            Decision.DELETE,
            chosen,
            placements=answer.outcome.existing,
            savings=price,
        )
        if not answer.claims:
            return found
        if len(answer.claims) > 1:
            count = len(answer.claims)
            detail = f"it would take {count} nodes to replace what it holds"
            return Refused(
                detail, event_message=f"Can't remove without creating {count} candidates"
            )
        option = self._replacement(answer, chosen, price)
        if isinstance(option, Refused):
            return option
        written = answer.written(option.claim)
        if written is None:
            detail = "the instance types that fit offer less choice than minValues asks for"
            return Refused(detail, event_message=f"{FILTERING}: {detail}")
        return replace(
            found,
            decision=Decision.REPLACE,
            replacements=(written,),
            savings=self.savings(chosen, option, written),
        )

    def savings(
        self, candidates: Sequence[Candidate], option: Option, written: PlannedClaim
    ) -> float:
        """By how much the bill falls when a replacement is launched at its lowest price."""
        listed = sum(candidate.price for candidate in candidates) - option.cheapest
        return listed - self.view.lost_coverage(candidates, [written])

    def _worth_its_risk(
        self, option: Option, candidates: Sequence[Candidate], price: float
    ) -> Option | Refused:
        """A replacement of on-demand by spot, unless the risk of spot costs more than it saves."""
        risk = self.view.settings.planning.options.cost.risk
        universe = option.template.universe
        cheapest = universe.cheapest(option.wanted)
        if risk is None or cheapest is None or cheapest.capacity_type != labels.SPOT:
            return option
        if all(candidate.capacity_type == labels.SPOT for candidate in candidates):
            return option
        bit = universe.cheapest_bit(option.wanted)
        hourly = risk.hourly(universe.type_names[universe.type_of[bit]], cheapest.zone)
        if cheapest.price + hourly < price:
            return option
        detail = (
            f"spot at ${cheapest.price:.4g}/h would save less than the risk of an interruption costs,"
            f" ${hourly:.4g}/h"
        )
        return Refused(detail, is_silent=True)

    def judged(self, command: Command) -> tuple[Command | Refused, tuple[Score, ...]]:
        """A command with its score, or refused by a pool whose score threshold it misses."""
        scores = tuple(
            score_of(self.view, pool, command)
            for pool in sorted({c.pool for c in command.candidates if is_balanced(c)})
        )
        if not scores:
            return command, ()
        worst = min(scores, key=lambda score: score.value)
        if not worst.is_approved:
            detail = "an unknown saving counts as none"
            if command.known_savings is not None:
                detail = f"saving {command.about}${command.known_savings:.4f}/h is not worth it"
            detail += f": score {worst.value:.2f}"
            detail += f" of NodePool {worst.node_pool} is below {LEAST_SCORE:.2f}"
            return Refused(detail, is_silent=True), scores
        return replace(command, scores=scores), scores

    def _replacement(
        self, answer: Answer, candidates: tuple[Candidate, ...], price: float
    ) -> Option | Refused:
        (claim,) = answer.claims
        option = option_of(answer.template(claim), claim, self.view.facts)
        returns = returns_of(candidates)
        if len(candidates) == 1 and returns and returns[0].is_due(self.view.now):
            return returned(option, candidates[0], returns[0])
        if returns:
            kept = off_spot(option, returns[0])
            if isinstance(kept, Refused):
                return kept
            option = kept
        covered = self._covered(option, candidates, price)
        if covered is not None:
            return covered
        found = replacement(option, candidates, price, spot_to_spot=self.view.settings.spot_to_spot)
        if isinstance(found, Option):
            found = self._worth_its_risk(found, candidates, price)
        if returns and isinstance(found, Refused):
            return Refused(f"{returns[0].in_words()}; until then {found.detail}", is_silent=True)
        return found

    def _covered(
        self, option: Option, candidates: Sequence[Candidate], price: float
    ) -> Option | None:
        """The replacement as a machine that commitments pay, where that is cheaper."""
        ledger = self.view.ground.ledger
        if ledger is None or option.claim.bookings:
            return None
        # Imported on demand: few clusters have commitments
        from karpenter.scheduling.cheapest.coverage import Coverage, CoveredOfferings

        balance = ledger.balance({candidate.name for candidate in candidates})
        coverage = Coverage(ledger.book, balance, CoveredOfferings(ledger.book))
        option_price = min(price, option.cheapest)
        settled = coverage.steered(option.template, option.claim, option_price)
        if settled is None or settled.kept is None or settled.shape is None:
            return None
        bits = settled.kept.bits
        pinned = option.with_offerings(settled.shape, bits)
        return pinned if option.template.universe.cheapest(bits) is not None else None


def _placed(simulation: Simulation, candidates: Sequence[Candidate]) -> Answer | Refused:
    try:
        answer = simulation.consolidating(candidates)
    except NoPoolsError as error:
        return Refused(str(error))
    if answer.stranded:
        return Refused(without_place(answer), event_message=not_all_placed(answer))
    return answer


def is_balanced(candidate: Candidate) -> bool:
    """Whether a machine's pool has the balanced policy."""
    return candidate.node_pool.spec.disruption.consolidation_policy == BALANCED


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def without_place(answer: Answer) -> str:
    """The pods without a place, or with one on a machine that is not initialized, as a phrase."""
    unfinished = {pod: machine for machine, pods in answer.outcome.existing.items() for pod in pods}
    early = [pod for pod in sorted(answer.stranded) if pod in unfinished]
    lost = [pod for pod in sorted(answer.stranded) if pod not in unfinished]
    if lost:
        return f"no place for {_first_few(lost)}"
    machines = _first_few(sorted({unfinished[pod] for pod in early}))
    return f"{_first_few(early)} would have to wait for {machines}, not up yet"


def not_all_placed(answer: Answer) -> str:
    """Karpenter's wording about pods without a place, and their names."""
    return f"Not all pods would schedule, {without_place(answer)}"


def _first_few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _PODS_NAMED} more" if len(names) > _PODS_NAMED else ""
    return f"{', '.join(names[:_PODS_NAMED])}{more}"
