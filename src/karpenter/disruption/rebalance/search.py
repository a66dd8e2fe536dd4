"""Rebalancing: several machines are replaced by any number of cheaper ones, planned together.

Machines are ordered by what they pay too much per cost of moving their pods. A part of that order is
removed in a what-if question: pods go to free room of machines that stay, and the others are packed
by price, whatever the setting for new pods. A quarter, half, three quarters and all of the machines
that budgets and the limit of moves allow are tried, and what saves the most is proposed. An excess is
measured against machines that are bought in parts, so those with the most may be unable to save
anything: a pod may be alone on the smallest machine that holds it. Where no set passes the quick
tests, the next machines of the order have their turn, or a tight budget would end at these for ever.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from karpenter.disruption.budgets import UNDERUTILIZED
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import REBALANCE, Command, Finding, decision_of
from karpenter.disruption.methods.balanced import score_of
from karpenter.disruption.methods.consolidation import Consolidation, is_balanced, without_place
from karpenter.disruption.rebalance.history import RebalanceHistory, history_of
from karpenter.disruption.rebalance.money import savings_of
from karpenter.disruption.rebalance.planned_places import can_be_bound
from karpenter.disruption.rebalance.refusals import (
    Proposal,
    Refusal,
    RefusedAs,
    moves_left,
    predicted_refusal,
    quick_refusal,
    resting,
)
from karpenter.disruption.rebalance.settings import RebalanceMode, mode_of
from karpenter.disruption.rebalance.shares import ClusterShares, MachineExcess, by_group
from karpenter.disruption.simulation import Answer, NoPoolsError, Simulation
from karpenter.scheduling.attempt import HasTime, always
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.packing.packer import Recipe
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.problem import PackingMode
from karpenter.state.pods import key_of

MOST_AT_ONCE: Final = 100
_PARTS: Final = (0.25, 0.5, 0.75, 1.0)
_MOST_TURNS: Final = 8  # of machines further down in the order
_MOST_RETRIES: Final = 5  # without the machines whose pods would be without a place


class Rebalancing:
    """Prices sets of machines that may be replaced together."""

    def __init__(
        self, consolidation: Consolidation, candidates: Sequence[Candidate], plans: int = 1
    ) -> None:
        """Prepare to replace any of these candidates of consolidation.

        ``plans``: how many sets share the effort that the settings allow for one plan.
        """
        view = consolidation.view
        settings = view.settings.planning.options.cost
        cost = replace(
            settings,
            packing=PackingMode.CHEAPEST,
            is_forced=True,
            budget=settings.budget / plans,
        )
        self.view: Final = view
        self.history: Final = view.memory.rebalance.merged(history_of(view.snapshot))
        self._by_name = {candidate.name: candidate for candidate in candidates}
        self._simulation: Simulation = view.simulation(candidates, cost=cost)

    def proposal(
        self, candidates: Sequence[Candidate], has_time: HasTime = always
    ) -> Proposal | Refusal:
        """The replacement of these machines together, not judged so far."""
        found = self._simulated(candidates, None, has_time)
        if isinstance(found, Refusal):
            return found
        needed = [claim for claim in found.claims if found.cluster.is_needed(claim)]
        made = [(claim, planned) for claim in needed if (planned := found.written(claim))]
        if len(made) < len(needed):
            detail = "the instance types that fit offer less choice than minValues asks for"
            return Refusal(RefusedAs.UNSCHEDULABLE, detail)
        return self._proposed(candidates, found, made)

    def proposal_without_stranded(
        self, candidates: Sequence[Candidate], has_time: HasTime = always
    ) -> Proposal | Refusal:
        """The same; machines whose pods would be without a place are left out if there are some."""
        kept = list(candidates)
        found = self.proposal(kept, has_time)
        for _ in range(_MOST_RETRIES):
            if not isinstance(found, Refusal) or not self._stranded:
                break
            kept = [each for each in kept if self._stranded.isdisjoint(map(key_of, each.movable))]
            if not kept:
                break
            found = self.proposal(kept, has_time)
        return found

    def again(self, command: Command) -> Proposal | Refusal:
        """A command proposed earlier, replayed on the cluster as it is now.

        The replacements stay as they were planned; savings are those at present prices.
        """
        missing = [name for name in command.names if name not in self._by_name]
        if missing:
            return Refusal(RefusedAs.UNSCHEDULABLE, f"{missing[0]} may not be disrupted any more")
        candidates = [self._by_name[name] for name in command.names]
        found = self._simulated(candidates, recipes_of(command), always)
        if isinstance(found, Refusal):
            return found
        home = {pod: planned for planned in command.replacements for pod in planned.pods}
        made: list[tuple[OpenClaim, PlannedClaim]] = []
        for claim in filter(found.cluster.is_needed, found.claims):
            planned = next(filter(None, map(home.get, found.cluster.names(claim))), None)
            if planned is None or any(planned is other for _, other in made):
                detail = "another new node would be needed now"
                return Refusal(RefusedAs.UNSCHEDULABLE, detail)
            universe = found.template(claim).universe
            possible = {universe.type_names[index] for index in universe.types_in(claim.bits)}
            for name in planned.instance_types:
                if name not in possible:
                    detail = f"{name} would not do as a replacement any more"
                    return Refusal(RefusedAs.UNSCHEDULABLE, detail)
            made.append((claim, planned))
        for planned in command.replacements:
            if not any(planned is other for _, other in made):
                detail = f"replacement {planned.name} is not needed any more"
                return Refusal(RefusedAs.UNSCHEDULABLE, detail)
        return self._proposed(candidates, found, made)

    def _simulated(
        self, candidates: Sequence[Candidate], recipes: Sequence[Recipe] | None, has_time: HasTime
    ) -> Answer | Refusal:
        self._stranded: frozenset[str] = frozenset()
        try:
            answer = self._simulation.rebalancing(candidates, recipes=recipes, has_time=has_time)
        except NoPoolsError as error:
            return Refusal(RefusedAs.UNSCHEDULABLE, str(error))
        if answer.stranded:
            self._stranded = frozenset(answer.stranded)
            return Refusal(RefusedAs.UNSCHEDULABLE, without_place(answer))
        return answer

    def _proposed(
        self,
        candidates: Sequence[Candidate],
        answer: Answer,
        made: Sequence[tuple[OpenClaim, PlannedClaim]],
    ) -> Proposal:
        savings = savings_of(self.view, candidates, answer, made)
        replacements = tuple(planned for _, planned in made)
        command = Command(
            REBALANCE,
            UNDERUTILIZED,
            decision_of(replacements),
            tuple(candidates),
            replacements,
            placements=answer.outcome.existing,
            savings=savings.expected,
        )
        pools = sorted({each.pool for each in candidates if is_balanced(each)})
        scores = tuple(score_of(self.view, pool, command) for pool in pools)
        wants_binding = self.view.settings.rebalance.binds_pods
        binds_pods = wants_binding and can_be_bound(self.view, command)
        command = replace(command, scores=scores, binds_pods=binds_pods)
        return Proposal(self.view, command, savings, self.history)


def recipes_of(command: Command) -> tuple[Recipe, ...]:
    """The replacements of a command, to be opened again as they were planned."""
    return tuple(
        Recipe(planned.node_pool, planned.pods, planned.instance_types)
        for planned in command.replacements
    )


def find_rebalance(consolidation: Consolidation) -> Finding:
    """Search for machines that are worth being replaced together."""
    view = consolidation.view
    history = view.memory.rebalance.merged(history_of(view.snapshot))
    if history.is_busy:
        return Finding(REBALANCE)
    found: dict[RebalanceMode, _Search] = {}
    for mode in (RebalanceMode.ON, RebalanceMode.PREVIEW):
        candidates = [
            each
            for each in consolidation.candidates
            if mode_of(each.node_pool, view.settings.rebalance.mode) is mode
        ]
        if candidates:
            found[mode] = search = _Search(consolidation, candidates, history)
            search.run()
    done, shown = found.get(RebalanceMode.ON), found.get(RebalanceMode.PREVIEW)
    return Finding(
        REBALANCE,
        (done.best.command,) if done is not None and done.best is not None else (),
        eligible=len(done.candidates) if done is not None else 0,
        scores=done.best.command.scores if done is not None and done.best is not None else (),
        is_constrained=any(search.is_constrained for search in found.values()),
        has_timed_out=any(search.has_timed_out for search in found.values()),
        previews=(shown.best.command,) if shown is not None and shown.best is not None else (),
        refused=tuple(str(each) for search in found.values() for each in search.refused),
    )


class _Search:
    """The state of a search."""

    def __init__(
        self,
        consolidation: Consolidation,
        candidates: Sequence[Candidate],
        history: RebalanceHistory,
    ) -> None:
        self._consolidation = consolidation
        self._view = consolidation.view
        self._history = history
        self.candidates: Final = candidates
        self.best: Proposal | None = None
        self._passing: list[Proposal] = []  # every test but the prediction
        self.refused: list[Refusal] = []
        self.is_constrained = False  # a budget, or the limit of moves, left a machine out
        self.has_timed_out = False

    def run(self) -> None:
        """Search every group of pools that share pods, and keep what saves the most."""
        has_time = self._view.timer(REBALANCE)
        self._collect(has_time)
        self._passing.sort(key=lambda each: -each.savings.expected)
        for proposal in self._passing:
            if not has_time():
                self.has_timed_out = True
                return
            refusal = predicted_refusal(proposal)
            if refusal is None:
                self.best = proposal
                return
            self.refused.append(refusal)

    def _collect(self, has_time: HasTime) -> None:
        for group in self._groups():
            left, passing = group, len(self._passing)
            for _ in range(_MOST_TURNS):
                chosen = self._within_limits(left)
                if not chosen:
                    break
                self._try(chosen, has_time)
                if self.has_timed_out:
                    return
                if len(self._passing) > passing:
                    break
                tried = {each.name for each in chosen}
                left = [each for each in left if each.name not in tried]

    def _try(self, chosen: Sequence[Candidate], has_time: HasTime) -> None:
        """Judge parts of these machines, the largest first."""
        rebalancing = Rebalancing(self._consolidation, chosen, len(_PARTS))
        for count in sorted({math.ceil(len(chosen) * part) for part in _PARTS}, reverse=True):
            if not has_time():
                self.has_timed_out = True
                return
            self._consider(rebalancing.proposal_without_stranded(chosen[:count], has_time))

    def _consider(self, proposal: Proposal | Refusal) -> None:
        refusal = proposal if isinstance(proposal, Refusal) else quick_refusal(proposal)
        if refusal is not None:
            self.refused.append(refusal)
        elif isinstance(proposal, Proposal):
            self._passing.append(proposal)

    def _groups(self) -> list[list[Candidate]]:
        """The candidates with an excess, by group, each group in the order they would go."""
        by_name = {candidate.name: candidate for candidate in self._movable()}
        if not by_name:
            return []
        shares = ClusterShares(self._view, self._view.share_cache, 1 / len(_PARTS))
        costly = [e for e in shares.machines if e.name in by_name and not e.is_well_bought]
        return [
            [by_name[entry.name] for entry in in_order(entries, by_name)]
            for _, entries in sorted(by_group(costly, shares.groups).items())
        ]

    def _movable(self) -> list[Candidate]:
        """The machines of which each by itself might go now, which costs little to find out."""
        view = self._view
        budgets, moves = view.remaining(UNDERUTILIZED), moves_left(view, self._history)
        found: list[Candidate] = []
        held: dict[RefusedAs, Refusal] = {}
        for candidate in self.candidates:
            refusal = resting(view, self._history, candidate)
            pods = len(candidate.reschedulable)
            if refusal is not None:
                self.refused.append(refusal)
            elif budgets[candidate.pool] <= 0:
                detail = f"the budgets of NodePool {candidate.pool} allow no more disruptions now"
                held.setdefault(RefusedAs.BUDGET, Refusal(RefusedAs.BUDGET, detail))
            elif pods > moves:
                detail = f"{candidate.name} has {pods} pods, and {moves} may be moved now"
                held.setdefault(RefusedAs.MOVE_BUDGET, Refusal(RefusedAs.MOVE_BUDGET, detail))
            else:
                found.append(candidate)
        self.is_constrained = bool(held)
        if not found:
            self.refused += held.values()
        return found

    def _within_limits(self, ordered: Sequence[Candidate]) -> list[Candidate]:
        """The machines that may go together by budgets and moves."""
        view = self._view
        budgets, moves = view.remaining(UNDERUTILIZED), moves_left(view, self._history)
        chosen: list[Candidate] = []
        for candidate in ordered:
            if len(chosen) >= MOST_AT_ONCE:
                break
            pods = len(candidate.reschedulable)
            if budgets[candidate.pool] <= 0 or pods > moves:
                self.is_constrained = True
                continue
            budgets[candidate.pool] -= 1
            moves -= pods
            chosen.append(candidate)
        return chosen


def in_order(
    entries: Iterable[MachineExcess], by_name: Mapping[str, Candidate]
) -> list[MachineExcess]:
    """Machines by what they pay too much for each unit of the cost of moving their pods."""
    return sorted(entries, key=lambda entry: (-entry.excess / by_name[entry.name].cost, entry.name))
