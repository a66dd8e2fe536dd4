"""Why each claim of a plan packed by price is as it is: the figures that decided, for ``explain``.

Dual prices are those that a market was bought at: the shares of pods from the configuration program
or, for ``greedy``, from the rates; the rates of resources from the program in which pods are
divisible. Pods that were placed in Karpenter's order have none.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from karpenter.model.resources import Resources
from karpenter.scheduling.attempt import Attempt
from karpenter.scheduling.cheapest.narrowing import Narrowed, expected_price
from karpenter.scheduling.cheapest.pool_markets import PoolMarket
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.inputs.cost_annotations import pool_cost
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.plan import DualPrices, PlannedClaim, Purchase
from karpenter.scheduling.result import with_bookings
from karpenter.state.pods import key_of

DualsOfPods: TypeAlias = Mapping[int, DualPrices]  # by position of the pod


def dual_prices(
    pool: PoolMarket, shares: Sequence[float], rates: Sequence[Sequence[float]]
) -> list[DualPrices]:
    """The dual prices of each class of a market."""
    return [
        DualPrices(share, dict(zip(pool.resources, own, strict=True)))
        for share, own in zip(shares, rates, strict=True)
    ]


def purchases(
    compiled: CompiledProblem,
    attempt: Attempt,
    planned: Sequence[PlannedClaim],
    kept: Mapping[int, Narrowed | None],
    duals: DualsOfPods,
) -> dict[str, Purchase]:
    """Why each claim that can be launched is as it is, by its name.

    Args:
        planned: the claims as they are written.
        kept: what claims of pools that are packed by price keep, by index; others are left out.
        duals: dual prices of pods that were placed by price.
    """

    def name(position: int) -> str:
        return key_of(compiled.problem.pods[position])

    by_first_pod = {claim.pods[0]: claim for claim in planned}
    is_estimate: dict[int, bool] = {}
    found = {}
    for claim in attempt.packing.claims:
        written = by_first_pod.get(name(claim.members[0]))
        if claim.index not in kept or written is None or written.launch is None:
            continue
        template = compiled.templates[claim.template]
        if template.number not in is_estimate:
            offerings = template.universe.offerings
            is_estimate[template.number] = any(each.is_estimate for each in offerings)
        found[written.name] = _purchase(
            compiled,
            claim,
            written,
            kept[claim.index],
            {name(p): duals[p] for p in claim.members if p in duals},
            is_estimate=is_estimate[template.number],
        )
    return found


def _purchase(
    compiled: CompiledProblem,
    claim: OpenClaim,
    written: PlannedClaim,
    kept: Narrowed | None,
    duals: Mapping[str, DualPrices],
    *,
    is_estimate: bool,
) -> Purchase:
    template = compiled.templates[claim.template]
    cost = pool_cost(template.node_pool, compiled.problem.options.cost)
    _, bits = with_bookings(template, claim, compiled.problem.facts)
    launched = template.universe.cheapest_bit(bits & template.universe.launchable)
    room = template.room.left_on(launched)
    leading = _leading(duals.values())
    launch = written.launch
    return Purchase(
        price=expected_price(template, bits, cost) + cost.node_cost,
        pods=len(claim.members),
        duals=duals,
        leading=leading,
        per_unit=_per_unit(launch.price, room, leading.rates) if launch and leading else {},
        kept=tuple(
            each
            for each in (kept.types if kept is not None else ())
            if each.instance_type in written.instance_types
        ),
        full=_taken(claim, room),
        is_estimate=is_estimate,
    )


def _leading(duals: Collection[DualPrices]) -> DualPrices | None:
    """The dual prices of those pods that contribute most together."""
    known = {id(each): each for each in duals}  # one object for each class
    total = dict.fromkeys(known, 0.0)
    for each in duals:
        total[id(each)] += each.pod
    return known[max(total, key=total.__getitem__)] if total else None


def _taken(claim: OpenClaim, room: Resources) -> tuple[tuple[str, float], ...]:
    taken = [(name, n / room[name]) for name, n in claim.requests.items() if room[name]]
    return tuple(sorted(taken, key=lambda each: (-each[1], each[0])))


def _per_unit(price: float, room: Resources, rates: Mapping[str, float]) -> dict[str, float]:
    """A price split over the resources that a machine has for pods, as dual rates value them."""
    worth = sum(rate * room[name] for name, rate in rates.items())
    return {name: price * rate / worth for name, rate in rates.items()} if worth > 0 else {}
