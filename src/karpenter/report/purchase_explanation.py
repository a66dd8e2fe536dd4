"""Why a node is bought as it is: the ``why`` of ``explain pod`` and ``explain node``.

Of a node that would be created, the figures are those that the packing was decided by. For a node
that exists the packing is no longer known: only its claim's annotations, today's prices and what
its pods take are, and the rest is said to be unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.cloud.types import InstanceType, Offering, price_ceiling
from karpenter.disruption.candidates import Candidate
from karpenter.model import labels
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, MEMORY
from karpenter.report.provisioning import alternative_document, estimate_mark
from karpenter.scheduling.plan import DualPrices, KeptFor, PackingOutcome, PlannedClaim

MILLIS: Final = 1000  # of a cpu
GIB: Final = 2**30
_NOT_RECORDED: Final = (
    "which packing it was made by, and of which others",
    "the shares of its pods, and what one more of them costs",
    "why it keeps its instance types",
)


@dataclass(frozen=True, slots=True)
class Kept:
    """An instance type that a claim keeps; None for what is not known."""

    instance_type: str
    price: float | None  # expected, or for a node that exists today's
    because: KeptFor | None


@dataclass(frozen=True, slots=True)
class PurchaseExplanation:
    """Why a node is bought as it is; prices are dollars per hour, and None is not known."""

    instance_type: str
    pods: int
    packing: PackingOutcome | None
    price: float | None  # expected, with the fixed cost of the node; of one that exists, today's
    ceiling: float | None  # that a launch may cost at most
    per_unit: Mapping[str, float]  # resource -> part of the launch's price, for one unit
    prices: DualPrices | None  # what one more pod and unit cost
    shares: float | None  # of all pods
    share: float | None  # of the explained pod
    kept: tuple[Kept, ...]
    full: tuple[tuple[str, float], ...]  # (resource, taken part of the room), fullest first
    unknown: tuple[str, ...] = ()  # what is not known
    is_estimate: bool = False


def planned_purchase(
    packing: PackingOutcome | None, claim: PlannedClaim, pod: str = ""
) -> PurchaseExplanation | None:
    """Why a node that would be created is as it is, or None if it was not packed by price.

    ``pod``: the pod on it that is explained; without one, prices are those of most of its pods.
    """
    purchase = packing.purchases.get(claim.name) if packing is not None else None
    if purchase is None or claim.launch is None:
        return None
    prices = purchase.duals.get(pod) if pod else purchase.leading
    others = purchase.pods - len(purchase.duals)
    unknown = []
    if others:
        whose = "all pods" if not purchase.duals else f"{others:,} of {purchase.pods:,} pods"
        unknown.append(f"the shares of {whose}: Karpenter's order placed them, not their price")
    return PurchaseExplanation(
        instance_type=claim.launch.instance_type,
        pods=purchase.pods,
        packing=packing,
        price=purchase.price,
        ceiling=_ceiling(claim.annotations),
        per_unit=purchase.per_unit,
        prices=prices,
        shares=purchase.shares if purchase.leading is not None else None,
        share=prices.pod if pod and prices is not None else None,
        kept=tuple(Kept(each.instance_type, each.price, each.because) for each in purchase.kept),
        full=purchase.full,
        unknown=tuple(unknown),
        is_estimate=purchase.is_estimate,
    )


def standing_purchase(candidate: Candidate) -> PurchaseExplanation | None:
    """What is known of why a node that exists was bought; None if not by price."""
    machine = candidate.machine
    claim = machine.node_claim
    if claim is None or labels.PRICE_CEILING not in claim.metadata.annotations:
        return None
    daemons = machine.requested_by_daemons
    room, taken = machine.allocatable - daemons, machine.requested - daemons
    full = [(name, amount / room[name]) for name, amount in taken.items() if room[name] > 0]
    wanted = Requirements.from_wire(claim.spec.requirements)
    ways = {
        name: _cheapest(candidate.types.get(name), wanted, candidate.capacity_type)
        for name in sorted(wanted[labels.INSTANCE_TYPE].values)
    }
    kept = [Kept(name, way.price if way else None, None) for name, way in ways.items()]
    kept.sort(key=lambda each: (each.price is None, each.price, each.instance_type))
    return PurchaseExplanation(
        instance_type=machine.labels.get(labels.INSTANCE_TYPE, ""),
        pods=len(machine.pods),
        packing=None,
        price=candidate.known_price,
        ceiling=_ceiling(claim.metadata.annotations),
        per_unit={},
        prices=None,
        shares=None,
        share=None,
        kept=tuple(kept),
        full=tuple(sorted(full, key=lambda each: (-each[1], each[0]))),
        unknown=_NOT_RECORDED,
        is_estimate=candidate.is_estimate or any(way.is_estimate for way in ways.values() if way),
    )


def _ceiling(annotations: Mapping[str, str]) -> float | None:
    ceiling = price_ceiling(annotations)
    return ceiling if ceiling < float("inf") else None


def _cheapest(
    kind: InstanceType | None, wanted: Requirements, capacity_type: str
) -> Offering | None:
    """The cheapest way to have a type today that a claim allows, with the same capacity type."""
    ways = [
        each
        for each in (kind.offerings if kind is not None else ())
        if each.available
        and each.capacity_type == capacity_type
        and each.price == each.price
        and each.requirements.intersects(wanted)
    ]
    return min(ways, key=lambda each: each.price, default=None)


def purchase_document(explanation: PurchaseExplanation) -> dict[str, Any]:
    """Write why a node is bought as it is as plain data."""
    packing, prices, per_unit = explanation.packing, explanation.prices, explanation.per_unit
    return {
        "candidate": packing.candidate.value if packing is not None else None,
        "alternatives": [
            alternative_document(each) for each in (packing.alternatives if packing else ())
        ],
        "price": explanation.price,
        "priceCeiling": explanation.ceiling,
        "pricePerCpu": per_unit[CPU] * MILLIS if CPU in per_unit else None,
        "pricePerGiB": per_unit[MEMORY] * GIB if MEMORY in per_unit else None,
        "oneMore": _one_more(prices) if prices is not None else None,
        "share": explanation.share,
        "sharesOnNode": explanation.shares,
        "keptTypes": [
            {
                "instanceType": each.instance_type,
                "expectedPrice": each.price,
                "because": each.because.value if each.because is not None else None,
            }
            for each in explanation.kept
        ],
        "limitedBy": [{"resource": name, "percent": part * 100} for name, part in explanation.full],
        "unknown": list(explanation.unknown),
        **estimate_mark(explanation.is_estimate),
    }


def _one_more(prices: DualPrices) -> dict[str, float]:
    return {
        "cpu": prices.rates.get(CPU, 0.0) * MILLIS,
        "memoryGiB": prices.rates.get(MEMORY, 0.0) * GIB,
        "pod": prices.pod,
    }
