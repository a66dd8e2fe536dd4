"""Why a node is bought as it is, as a branch of the tree of ``explain pod`` and ``explain node``."""

from rich.tree import Tree

from karpenter.console.screen import QUIET, counted, per_hour, words
from karpenter.model.resources import CPU, MEMORY, PODS
from karpenter.report.purchase_explanation import GIB, MILLIS, Kept, PurchaseExplanation
from karpenter.scheduling.plan import Alternative, DualPrices, KeptFor, PackingOutcome

_TYPES_SHOWN = 8
_NOTHING = 5e-5  # dollars an hour; less is not shown
_NEARLY_FULL = 0.9
_BECAUSE = {
    KeptFor.CHEAPEST: "the cheapest",
    KeptFor.MINIMUM: "for the minimum",
    KeptFor.SLACK: "nearly as cheap",
    KeptFor.MIN_VALUES: "for minValues",
    KeptFor.COVERED: "paid by commitments",
}


def add_purchase(tree: Tree, explanation: PurchaseExplanation) -> None:
    """Add why a node is bought as it is."""
    packing = explanation.packing
    branch = tree.add(words(_title(packing)))
    if packing is not None:
        branch.add(words(_mix(explanation, packing)))
        for text in _shares(explanation):
            branch.add(words(text))
    if explanation.full:
        is_full = explanation.full[0][1] >= _NEARLY_FULL
        what = "limited by" if is_full else "taken of its room:"
        branch.add(words(f"{what} {_limits(explanation)}"))
    if explanation.kept:
        branch.add(words(_kept(explanation)))
    if explanation.ceiling is not None:
        price = per_hour(explanation.ceiling, is_estimate=explanation.is_estimate)
        branch.add(words(f"no launch may cost more than {price}/h"))
    if packing is not None:
        others = [e for e in packing.alternatives if e.candidate is not packing.candidate]
        if others:
            twig = branch.add(words("other packings"))
            for each in others:
                twig.add(words(_alternative(each, is_estimate=explanation.is_estimate)))
    for text in explanation.unknown:
        branch.add(words(f"not known: {text}", QUIET))


def _title(packing: PackingOutcome | None) -> str:
    if packing is None:
        return "packed by price, by an earlier plan"
    kept, tried = packing.candidate, len(packing.alternatives)
    if tried == 1:
        return f"packed by price: {kept} alone was tried, as others could save next to nothing"
    return f"packed by price: {kept} was kept, of {tried} packings"


def _mix(explanation: PurchaseExplanation, packing: PackingOutcome) -> str:
    pods = counted(explanation.pods, "pod")
    those = "this pod" if explanation.pods == 1 else f"these {pods}"
    if not explanation.per_unit:
        return f"{explanation.instance_type}: Karpenter's order put {those} on it"
    parts = [
        f"{_dollars(explanation, explanation.per_unit.get(name, 0.0) * unit)} per {noun}"
        for name, unit, noun in ((CPU, MILLIS, "cpu"), (MEMORY, GIB, "GiB"))
        if explanation.per_unit.get(name, 0.0) * unit >= _NOTHING
    ]
    price = " and ".join(parts) or f"{_dollars(explanation, explanation.price or 0.0)}"
    found = f"{explanation.instance_type}: {price}, the cheapest mix for {those}"
    prices = explanation.prices
    return found if prices is None else f"{found}; one more {_one_more(explanation, prices)}"


def _one_more(explanation: PurchaseExplanation, prices: DualPrices) -> str:
    asked = [
        (noun, prices.rates.get(name, 0.0) * unit)
        for name, unit, noun in ((CPU, MILLIS, "cpu"), (MEMORY, GIB, "GiB"))
    ]
    shown = [(noun, rate) for noun, rate in asked if rate >= _NOTHING] or asked[:1]
    (noun, rate), *others = shown
    more = "".join(f", one more {noun} {_dollars(explanation, rate)}" for noun, rate in others)
    return f"{noun} here costs {_dollars(explanation, rate)}{more}"


def _shares(explanation: PurchaseExplanation) -> list[str]:
    found = []
    if explanation.share is not None:
        found.append(f"this pod's share is {_dollars(explanation, explanation.share)}/h")
    if explanation.shares is not None and explanation.price is not None:
        shares, price = (_dollars(explanation, n) for n in (explanation.shares, explanation.price))
        found.append(f"the shares of its pods come to {shares} of {price}/h")
    return found


def _limits(explanation: PurchaseExplanation) -> str:
    usual = (CPU, MEMORY)
    shown = [
        f"{name} {part:.0%}"
        for number, (name, part) in enumerate(explanation.full)
        if not number or name in usual or (part >= _NEARLY_FULL and name != PODS)
    ]
    return ", ".join(shown)


def _kept(explanation: PurchaseExplanation) -> str:
    shown = [_type(explanation, each) for each in explanation.kept[:_TYPES_SHOWN]]
    left = len(explanation.kept) - len(shown)
    more = f" +{left:,}" if left > 0 else ""
    return f"keeps {counted(len(explanation.kept), 'instance type')}: {', '.join(shown)}{more}"


def _type(explanation: PurchaseExplanation, kept: Kept) -> str:
    price = "not on sale now" if kept.price is None else f"{_dollars(explanation, kept.price)}/h"
    because = f", {_BECAUSE[kept.because]}" if kept.because is not None else ""
    return f"{kept.instance_type} ({price}{because})"


def _alternative(entry: Alternative, *, is_estimate: bool) -> str:
    price = per_hour(entry.hourly, is_estimate=is_estimate)
    refused = f"; not possible: it {entry.refused}" if entry.refused else ""
    return f"{entry.candidate}: {price}/h on {counted(entry.nodes, 'node')}{refused}"


def _dollars(explanation: PurchaseExplanation, amount: float) -> str:
    return per_hour(amount, is_estimate=explanation.is_estimate)
