"""Candidates for a plan, and the choice among them.

Every candidate begins alike: pods that Karpenter's order puts on machines stay there, and pods that
are not free are packed in Karpenter's order. Then the free pods are packed: ``apart`` in Karpenter's
order too, but on claims of their own for each set of offerings they may use; ``greedy`` and
``configurations`` by price. A packing by price ends as claims with their pods, which are replayed
through the rules of joining; pods that a claim refuses are packed in Karpenter's order at the end.
So no candidate can break a rule that Karpenter's order keeps.

A candidate is admissible when it places every pod that Karpenter's order places, and neither its
list price nor its expected price is higher. Of the admissible ones the cheapest is kept, at
expected prices and with the fixed cost per node; Karpenter's own wins a tie.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from karpenter.scheduling.attempt import Attempt, Begin, Beginning, HasTime, pod_order
from karpenter.scheduling.attempt import begin as begin_attempt
from karpenter.scheduling.cheapest import configurations, fluid, greedy
from karpenter.scheduling.cheapest.coverage import Coverage, Settled, coverage_of
from karpenter.scheduling.cheapest.market import Configuration, Draw, Market, Solution, Work
from karpenter.scheduling.cheapest.narrowing import Narrowed, expected_price, narrowed
from karpenter.scheduling.cheapest.pool_markets import (
    PoolMarket,
    free_stages,
    in_turn,
    is_free,
    pool_markets,
)
from karpenter.scheduling.cheapest.purchases import DualsOfPods, dual_prices, purchases
from karpenter.scheduling.cheapest.solver_library import SolverError
from karpenter.scheduling.cheapest.topping_up import TopUps
from karpenter.scheduling.commitments import Balance
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.inputs.cost_annotations import pool_cost
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.packing.packer import Packing, Recipe
from karpenter.scheduling.plan import Alternative, Candidate, DualPrices, PackingOutcome, Plan
from karpenter.scheduling.problem import PackingMode
from karpenter.scheduling.result import with_bookings
from karpenter.scheduling.spot.pool_ratio import RatioRule, keep_off_spot

_CLOSE_ENOUGH: Final = 1.01  # of the bound; Karpenter's order is kept up to there
_SAME: Final = 1 + 1e-9  # prices this near are equal
_TINY: Final = 1e-9
_MOST_CLASSES: Final = 400  # of a market that the configuration program takes
_GREEDY_SECONDS: Final = 1.0  # nominal, for the built-in algorithms, whatever the budget
_TOP_UP_SECONDS: Final = 0.25  # nominal, of each candidate, for claims that were opened before
_PROVISIONING: Final = RatioRule()

Write: TypeAlias = Callable[[Attempt], Plan]
_Chooser: TypeAlias = Callable[[Market, Sequence[float]], Solution | None]


@dataclass(slots=True)
class _Search:
    """The candidates that one choice has compared."""

    solver: str = "builtin"
    is_cut: bool = False
    failures: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Found:
    candidate: Candidate
    attempt: Attempt
    plan: Plan
    expected: float
    hourly: float
    refused: str = ""
    duals: DualsOfPods = field(default_factory=dict)

    def objective(self, compiled: CompiledProblem) -> float:
        """What is minimised: expected prices, and the fixed cost of each node."""
        settings = compiled.problem.options.cost
        return self.expected + sum(
            pool_cost(compiled.templates[claim.template].node_pool, settings).node_cost
            for claim in self.attempt.packing.claims
        )


def choose(
    compiled: CompiledProblem,
    attempt: Attempt,
    plan: Plan,
    write: Write,
    has_time: HasTime,
    *,
    insists: bool,
    order: Sequence[int] | None = None,
    begin: Begin | None = None,
    ratios: RatioRule = _PROVISIONING,
    balance: Balance | None = None,
) -> tuple[Attempt, Plan]:
    """The cheapest admissible packing, with its plan.

    Where there are commitments, prices are marginal ones: by how much a machine raises the bill.

    Args:
        attempt: the packing in Karpenter's order, with its ``plan``.
        write: makes a plan of a packing.
        insists: whether that packing insisted on the best domains of spreads.
        order: the pods to place, in Karpenter's order; all pods of the problem by default.
        begin: prepares an attempt; on the cluster as it is by default.
        ratios: how the spot ratios of pools are kept.
        balance: what machines that run leave of commitments.
    """
    search = _Search()
    coverage = coverage_of(compiled, balance)
    base = _found(compiled, Candidate.KARPENTER, attempt, plan, coverage)
    found = [base]
    if order is None:
        order = pod_order(compiled.problem.pods, compiled.class_of)
    if _is_worth_it(compiled, base):
        start = begin or partial(begin_attempt, compiled)
        drafts = partial(
            _Draft,
            compiled,
            base.attempt,
            order,
            has_time,
            start,
            coverage,
            ratios,
            insists=insists,
        )
        for candidate, draft in _made(compiled, drafts, search, has_time):
            made = draft.finished()
            ratios.pin(compiled, made.packing.claims)
            entry = _found(compiled, candidate, made, write(made), coverage)
            entry.duals = draft.duals
            entry.refused = _refusal(base, entry)
            found.append(entry)
    admissible = [entry for entry in found if not entry.refused]
    chosen = base
    for entry in admissible:
        if entry.objective(compiled) * _SAME < chosen.objective(compiled):
            chosen = entry
    kept = narrow(compiled, chosen.attempt, coverage)
    narrower = write(chosen.attempt)
    outcome = PackingOutcome(
        mode=PackingMode.CHEAPEST,
        candidate=chosen.candidate,
        solver=search.solver,
        is_cut=search.is_cut,
        alternatives=tuple(
            Alternative(e.candidate, e.hourly, e.expected, len(e.plan.claims), e.refused)
            for e in found
        ),
        failures=tuple(search.failures),
        purchases=purchases(compiled, chosen.attempt, narrower.claims, kept, chosen.duals),
    )
    return chosen.attempt, narrower.with_packing(outcome)


def expected_cost(
    compiled: CompiledProblem, attempt: Attempt, balance: Balance | None = None
) -> float:
    """The expected cost of a packing's claims per hour: spot may launch above its lowest price.

    ``balance``: what machines that run leave of commitments, which pay for on-demand machines.
    """
    coverage = coverage_of(compiled, balance)
    if coverage is not None:
        return math.fsum(each.expected for _, each in _settled(compiled, attempt, coverage))
    facts, settings = compiled.problem.facts, compiled.problem.options.cost
    total = 0.0
    for claim in attempt.packing.claims:
        template = compiled.templates[claim.template]
        _, bits = with_bookings(template, claim, facts)
        total += expected_price(template, bits, pool_cost(template.node_pool, settings))
    return total


def _found(
    compiled: CompiledProblem,
    candidate: Candidate,
    attempt: Attempt,
    plan: Plan,
    coverage: Coverage | None,
) -> _Found:
    if coverage is None:
        expected = expected_cost(compiled, attempt)
        return _Found(candidate, attempt, plan, expected, plan.hourly_cost)
    settled = _settled(compiled, attempt, coverage)
    expected = math.fsum(each.expected for _, each in settled)
    return _Found(candidate, attempt, plan, expected, math.fsum(each.hourly for _, each in settled))


def _settled(
    compiled: CompiledProblem, attempt: Attempt, coverage: Coverage
) -> list[tuple[OpenClaim, Settled]]:
    """What each claim costs beyond commitments, in plan order."""
    claims = attempt.packing.claims
    found = coverage.settled(compiled, claims, partial(_is_all_free, compiled))
    return list(zip(claims, found, strict=True))


def _is_all_free(compiled: CompiledProblem, claim: OpenClaim) -> bool:
    return all(is_free(compiled.class_of[position]) for position in claim.members)


def narrow(
    compiled: CompiledProblem, attempt: Attempt, coverage: Coverage | None = None
) -> dict[int, Narrowed | None]:
    """Narrow each claim of a pool that is packed by price, and set its price ceiling.

    Returns what each of these claims keeps, by its index; None for one that stays as it is.
    """
    found: dict[int, Narrowed | None] = {}
    if coverage is not None:
        for claim, settled in _settled(compiled, attempt, coverage):
            if not settled.is_by_price:
                continue
            found[claim.index] = settled.kept
            if settled.shape is not None:
                claim.shape = settled.shape
            if settled.kept is not None:
                claim.bits, claim.ceiling = settled.kept.bits, settled.kept.ceiling
        return found
    settings = compiled.problem.options.cost
    for claim in attempt.packing.claims:
        template = compiled.templates[claim.template]
        cost = pool_cost(template.node_pool, settings)
        if cost.packing is not PackingMode.CHEAPEST:
            continue
        kept = found[claim.index] = narrowed(template, claim, cost)
        if kept is not None:
            claim.bits, claim.ceiling = kept.bits, kept.ceiling
    return found


def _is_worth_it(compiled: CompiledProblem, base: _Found) -> bool:
    """Whether new claims hold free pods, and the bound leaves something to be saved on them."""
    members = [p for claim in base.attempt.packing.claims for p in claim.members]
    free = sum(is_free(compiled.class_of[position]) for position in members)
    return free >= 2 and base.expected > _CLOSE_ENOUGH * base.plan.rough_bound


def _refusal(base: _Found, entry: _Found) -> str:
    """Why a candidate may not be kept, or nothing."""
    if entry.plan.unevaluated:
        return "there was no time for it"
    left_out = entry.plan.names_left_out - base.plan.names_left_out
    if left_out:
        return f"leaves {len(left_out)} pods behind"
    if entry.plan.existing != base.plan.existing:
        return "puts other pods on machines that exist"
    if entry.plan.spot_excess > base.plan.spot_excess + _TINY:
        return "exceeds a spot ratio by more"
    if entry.plan.names_left_out == base.plan.names_left_out:
        if entry.hourly > base.hourly * _SAME:
            return "costs more"
        if entry.expected > base.expected * _SAME:
            return "is expected to cost more"
    return ""


def _made(
    compiled: CompiledProblem,
    drafts: Callable[[], "_Draft"],
    search: _Search,
    has_time: HasTime,
) -> Iterator[tuple[Candidate, "_Draft"]]:
    """Yield drafts of the candidates beside Karpenter's order, as long as there is time."""
    budget = compiled.problem.options.cost.budget
    built_in = Work(_GREEDY_SECONDS, has_time)
    work = Work(budget, has_time)

    def by_greed(market: Market, worth: Sequence[float]) -> Solution | None:
        return greedy.solved(market, worth, built_in)

    def by_configurations(market: Market, worth: Sequence[float]) -> Solution | None:
        if len(market.demand) > _MOST_CLASSES:
            return greedy.solved(market, worth, work)
        return configurations.solved(market, worth, work)

    makers: list[tuple[Candidate, Callable[[_Draft], bool]]] = [
        (Candidate.APART, _Draft.pack_apart),
        (Candidate.GREEDY, lambda draft: draft.buy(by_greed, built_in)),
    ]
    if budget > 0:
        makers.append((Candidate.CONFIGURATIONS, lambda draft: draft.buy(by_configurations, work)))
    for candidate, make in makers:
        if not has_time():
            search.is_cut = True
            return
        draft = drafts()
        try:
            is_made = make(draft)
        except SolverError as error:
            search.failures.append(str(error))
            continue
        if candidate is Candidate.CONFIGURATIONS:
            search.solver = "highs"
        if is_made:
            yield candidate, draft
    search.is_cut = search.is_cut or built_in.is_cut or work.is_cut


class _Draft:
    """A packing in progress: pods on machines, and pods that are not free, are placed already."""

    def __init__(
        self,
        compiled: CompiledProblem,
        base: Attempt,
        order: Sequence[int],
        has_time: HasTime,
        begin: Begin,
        coverage: Coverage | None,
        ratios: RatioRule,
        *,
        insists: bool,
    ) -> None:
        self._compiled = compiled
        self._coverage = coverage.afresh() if coverage is not None else None
        self._ratios = ratios
        self._has_time = has_time
        self._rank = {position: number for number, position in enumerate(order)}
        machines = (1 << len(compiled.nodes.targets)) - 1
        staying = {p: number for number, pods in base.packing.on_nodes.items() for p in pods}
        barred = {p: machines & ~(1 << staying[p]) if p in staying else machines for p in order}
        self._beginning: Beginning = begin(insists=insists, barred=barred if machines else None)
        packer, class_of = self._beginning.packer, compiled.class_of
        free = [p for p in order if p not in staying and is_free(class_of[p])]
        self._markets = pool_markets(compiled, self._beginning.joining, free)
        bought = {p for market in self._markets for entry in market.classes for p in entry.pods}
        self._packing = packer.pack([p for p in order if p not in bought], class_of, has_time)
        self._left = packer.take_back()
        self._top_up_work = Work(_TOP_UP_SECONDS, has_time)
        self.duals: dict[int, DualPrices] = {}  # of pods that were placed by price
        for claim in packer.claims if self._coverage is not None else ():
            if self._coverage is not None:
                self._coverage.take(compiled, claim)

    def finished(self) -> Attempt:
        """Place what is left in Karpenter's order, on any claim there is."""
        packer = self._beginning.packer
        packer.reopen_claims()
        left = sorted(self._left, key=self._rank.__getitem__)
        packer.pack(left, self._compiled.class_of, self._has_time)
        return Attempt(self._packing, self._beginning.diagnosis)

    def pack_apart(self) -> bool:
        """Pack classes that may use different offerings on different claims, narrowest first."""
        packer = self._beginning.packer
        groups: dict[tuple[int, int], list[int]] = {}
        for market in self._markets:
            for entry in market.classes:
                groups.setdefault((market.template.number, entry.allowed), []).extend(entry.pods)
        for key in sorted(groups, key=lambda key: (key[1].bit_count(), key)):
            packer.close_claims()
            pods = sorted(groups[key], key=self._rank.__getitem__)
            packer.pack(pods, self._compiled.class_of, self._has_time)
        self._left += packer.take_back()
        return True

    def buy(self, chooser: _Chooser, work: Work) -> bool:
        """Pack every market by price; return whether the work budget was enough for it."""
        parts = [part for market in self._markets for part in in_turn(market)]
        for number, (part, with_choice) in enumerate(parts, start=1):
            work.keep_for(len(parts) - number)
            if with_choice:
                self._top_up(part)
            if not self._bought(part, chooser, with_choice=with_choice):
                return False
        return True

    def _bought(self, pool: PoolMarket, chooser: _Chooser, *, with_choice: bool) -> bool:
        pool = pool.with_pods()
        spot_left = self._spot_left(pool)
        market = pool.market(with_choice=with_choice, coverage=self._coverage, spot_left=spot_left)
        # What commitments cover is limited, and may hold a class that nothing else holds
        sizes = zip(market.sizes, market.most, strict=True)
        held = {user for size, most in sizes if size.is_unlimited for user in most}
        if len(held) < len(pool.classes):  # no price is known of what would hold the others
            others = [e for user, e in enumerate(pool.classes) if user not in held]
            self._left += [position for entry in others for position in entry.pods]
            pool = replace(pool, classes=[pool.classes[user] for user in sorted(held)])
            market = pool.market(
                with_choice=with_choice, coverage=self._coverage, spot_left=spot_left
            )
        if not pool.classes:
            return True
        rates = fluid.class_rates(market)
        found = chooser(market, fluid.worths_at(market, rates))
        if found is None:
            return False
        duals = dual_prices(pool, found.shares, rates)
        ordered = sorted(found.bought, key=lambda each: _largest_first(market, each[0]))
        for column, copies in ordered:
            drawn, off_spot = market.sizes[column.size].draw, False
            if spot_left is not None:  # the last amount is what may be spot
                is_spot = drawn is not None and drawn.limit == len(market.limits) - 1
                drawn, off_spot = None if is_spot else drawn, not is_spot
            for _ in range(copies):
                self._replay(pool, column.pods, duals, drawn, off_spot=off_spot)
        self._left += [position for entry in pool.classes for position in entry.pods]
        return True

    def _spot_left(self, pool: PoolMarket) -> float | None:
        """The cpu that may still be spot in a pool that has a spot ratio."""
        wanted = {
            position
            for market in self._markets
            if market.template.number == pool.template.number
            for entry in market.classes
            for position in entry.pods
        }
        wanted.update(position for entry in pool.classes for position in entry.pods)
        cpu = sum(self._compiled.class_of[position].requests.cpu for position in wanted)
        claims = self._beginning.packer.claims
        return self._ratios.spot_left(self._compiled, pool.template, claims, cpu)

    def _replay(
        self,
        pool: PoolMarket,
        pods: Sequence[tuple[int, int]],
        duals: Sequence[DualPrices],
        drawn: Draw | None,
        *,
        off_spot: bool,
    ) -> None:
        """Buy one configuration: its pods leave their classes; refused pods stay unplaced.

        ``drawn``: what it takes of a commitment, if one is to pay for it.
        """
        members = []
        for user, count in pods:
            entry = pool.classes[user]
            taken, entry.pods[:] = entry.pods[:count], entry.pods[count:]
            members += [(p, self._compiled.class_of[p], entry.stage) for p in taken]
            self.duals.update(dict.fromkeys(taken, duals[user]))
        members.sort(key=lambda member: self._rank[member[0]])

        def keep(claim: OpenClaim) -> int:
            if off_spot:
                keep_off_spot(pool.template, claim)
            kept = narrowed(pool.template, claim, pool.cost)
            bits = claim.bits if kept is None else kept.bits
            if drawn is None or self._coverage is None:
                return bits
            # It may still become either: in the end other claims may need the commitment more
            self._coverage.draw(drawn)
            steered = self._coverage.afresh().steered(
                pool.template, claim, math.inf, slack=pool.cost.price_slack, is_free=True
            )
            return bits | steered.kept.bits if steered and steered.kept else bits

        refused = self._beginning.packer.buy(pool.template, members, keep)
        for position in refused:
            del self.duals[position]  # it is placed in Karpenter's order instead
        self._left += refused

    def _top_up(self, pool: PoolMarket) -> None:
        """Add free pods to claims that others opened, where that is cheaper than a new claim."""
        packer = self._beginning.packer
        market = pool.market()
        if not packer.claims or not market.sizes:
            return
        rates = fluid.class_rates(market)
        worth = fluid.worths_at(market, rates)
        duals = dual_prices(pool, worth, rates)
        top_ups = TopUps(self._compiled, pool, rates, worth, self._top_up_work)
        for claim in packer.claims:
            if not any(entry.pods for entry in pool.classes):
                return
            for user, count in sorted(top_ups.filling(claim).items()):
                entry, joined = pool.classes[user], 0
                for position in entry.pods[:count]:
                    pod_class = self._compiled.class_of[position]
                    if not packer.join(claim, pod_class, entry.stage, position):
                        break
                    self.duals[position] = duals[user]
                    joined += 1
                del entry.pods[:joined]


def replayed(
    compiled: CompiledProblem, order: Sequence[int], recipes: Sequence[Recipe], begin: Begin
) -> Packing:
    """Open claims that were planned before, and place all other pods in Karpenter's order.

    Pods that are not free are packed in Karpenter's order, as they were when the claims were
    planned; free pods join the claim of their recipe. A pod that its claim refuses is placed
    wherever there is room, so the caller has to compare the claims with the recipes.
    """
    beginning = begin()
    packer, class_of = beginning.packer, compiled.class_of
    rank = {position: number for number, position in enumerate(order)}
    planned = {p for recipe in recipes for p in recipe.pods if is_free(class_of[p])}
    stages = free_stages(compiled, beginning.joining, sorted(planned, key=rank.__getitem__))
    packing = packer.pack([p for p in order if p not in planned], class_of)
    left = packer.take_back()
    for recipe in recipes:
        own = sorted((p for p in recipe.pods if p in planned), key=rank.__getitem__)
        mine = [(p, class_of[p], stages[p][1]) for p in own if p in stages]
        left += [p for p in own if p not in stages]
        held = set(recipe.pods)
        opened = next((c for c in packer.claims if not held.isdisjoint(c.members)), None)
        if opened is not None:
            left += [p for p, kind, stage in mine if not packer.join(opened, kind, stage, p)]
        elif mine:
            template = stages[mine[0][0]][0]
            left += packer.buy(template, mine, partial(_listed, template, recipe))
    packer.pack(sorted(left, key=rank.__getitem__), class_of)
    return packing


def _listed(template: Template, recipe: Recipe, claim: OpenClaim) -> int:
    """The offerings of the types that a recipe lists, as far as a claim allows them."""
    return claim.bits & template.universe.of_types(recipe.instance_types) or claim.bits


def _largest_first(market: Market, column: Configuration) -> tuple[object, ...]:
    return -market.sizes[column.size].price, column
