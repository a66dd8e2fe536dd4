"""The explanation of one pod as text: a tree with a tick or a cross for every check."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.tree import Tree

from karpenter.cli.explain.purchase_view import add_purchase
from karpenter.console.screen import (
    BAD,
    GOOD,
    QUIET,
    TITLE,
    WAITING,
    Parts,
    counted,
    hour_and_month,
    sample,
    way,
    without_default,
    words,
)
from karpenter.model.resources import PODS, Resources, readable_amount
from karpenter.report.pod_explanation import Place, PodExplanation, PodOutcome
from karpenter.scheduling.plan import Launch
from karpenter.scheduling.reasons.node_refusals import NodeVerdicts
from karpenter.scheduling.reasons.pool_checks import PoolVerdict

if TYPE_CHECKING:
    from rich.text import Text

_POOLS_SHOWN = 30
_REFUSALS_SHOWN = 8
_FATES = {
    PodOutcome.NEW_NODE: ("goes to a new node", GOOD),
    PodOutcome.EXISTING_NODE: ("goes to a node that exists or is on its way", GOOD),
    PodOutcome.UNPLACED: ("fits nowhere", BAD),
    PodOutcome.DEFERRED: ("waits for another pass", WAITING),
    PodOutcome.IGNORED: ("is left alone", WAITING),
    PodOutcome.RUNNING: ("does not wait for a node", GOOD),
}


def explanation_parts(explanation: PodExplanation) -> Parts:
    """Lay out the explanation of a pod."""
    verdict, style = _FATES[explanation.fate]
    tree = Tree(words(f"Pod {explanation.pod} {verdict}", f"{TITLE} {style}"), guide_style=QUIET)
    if explanation.place is None:
        tree.add(words(explanation.detail))
    if explanation.costly:
        tree.add(words(explanation.costly, WAITING))
    tree.add(words(f"asks for {_amounts(explanation.requests)}"))
    if explanation.place is not None:
        _add_place(tree, explanation.pod, explanation.place, explanation.pools)
    if explanation.preferences:
        branch = tree.add(words("preferences"))
        for preference in explanation.preferences:
            fate = "" if preference.is_met else ": given up"
            branch.add(marked(preference.is_met, f"{preference.text}{fate}"))
    if explanation.pools:
        _add_pools(tree, explanation)
    if explanation.nodes.total:
        _add_nodes(tree, explanation.nodes)
    yield tree


def explanations_parts(explanation: Sequence[PodExplanation], *, omitted: int) -> Parts:
    """Lay out the explanations of several pods, one for all with the same outcome."""
    alike: dict[tuple[object, ...], list[PodExplanation]] = {}
    for each in explanation:
        launch = each.place.launch if each.place is not None else None
        alike.setdefault((each.fate, each.reason, each.detail, launch), []).append(each)
    for number, (first, *others) in enumerate(alike.values()):
        if number:
            yield words("")
        yield from explanation_parts(first)
        if others:
            names = sample([without_default(each.pod) for each in others])
            yield words(f"The same holds for {counted(len(others), 'pod')} more: {names}", QUIET)
    if omitted:
        yield words(f"{counted(omitted, 'further pod')} of it: not evaluated", QUIET)


def _amounts(requests: Resources) -> str:
    shown = [f"{readable_amount(name, n)} {name}" for name, n in requests.items() if name != PODS]
    return ", ".join(shown) or "no cpu or memory"


def _add_place(tree: Tree, pod: str, place: Place, pools: Sequence[PoolVerdict]) -> None:
    pool = f" of pool {place.node_pool}" if place.node_pool else " of no pool"
    branch = tree.add(words(f"node {place.name}{pool}"))
    if place.awaits:
        branch.add(words(f"not up yet: {place.awaits}", WAITING))
    others = [without_default(each) for each in place.pods if each != pod]
    if others:
        shared = f"shared with {counted(len(others), 'other pod')} of this plan"
        branch.add(words(f"{shared}: {sample(others, most=4)}"))
    if place.launch is None:
        return
    first = next((pool for pool in pools if pool.is_possible), None)
    if first is not None and first.node_pool == place.node_pool and len(pools) > 1:
        branch.add(words("its pool is the first that takes the pod: by weight, then by name"))
    left = counted(place.instance_types, "instance type")
    branch.add(words(f"{_offer(place.launch)} is the cheapest of {left} left"))
    if place.equally_cheap:
        branch.add(words(f"{counted(place.equally_cheap, 'other type')} would cost the same"))
    if place.next_best is not None:
        branch.add(words(f"next best: {_offer(place.next_best)}"))
    if place.purchase is not None:
        add_purchase(branch, place.purchase)


def _offer(launch: Launch) -> str:
    price = hour_and_month(launch.price, is_estimate=launch.is_estimate)
    paid = ", ".join(each.commitment for each in launch.covered_by)
    return f"{way(launch)} at {price}" + (f", covered by {paid}" if paid else "")


def _add_pools(tree: Tree, explanation: PodExplanation) -> None:
    possible = sum(pool.is_possible for pool in explanation.pools)
    title = f"pools: {possible} of {len(explanation.pools)} would make a node for it"
    branch = tree.add(words(title))
    pools = list(explanation.pools)
    if len(pools) > _POOLS_SHOWN:  # then what was possible comes first
        pools.sort(key=lambda pool: not pool.is_possible)
    for pool in pools[:_POOLS_SHOWN]:
        used = explanation.place is not None and explanation.place.node_pool == pool.node_pool
        note = " (used)" if used and explanation.fate is PodOutcome.NEW_NODE else ""
        twig = branch.add(marked(pool.is_possible, f"{pool.node_pool}{note}{_verdict(pool)}"))
        for check in pool.checks:
            twig.add(marked(check.passed, f"{check.step.value}: {check.detail}"))
    _add_rest(branch, len(explanation.pools) - _POOLS_SHOWN, "pool")


def _verdict(pool: PoolVerdict) -> str:
    """The verdict of a pool in short; empty if one of its checks has the same text."""
    if pool.cheapest is not None:
        return f": alone on {_offer(pool.cheapest)}"
    said = pool.is_possible or any(check.detail == pool.detail for check in pool.checks)
    return "" if said else f": {pool.detail}"


def _add_nodes(tree: Tree, nodes: NodeVerdicts) -> None:
    able = len(nodes.possible)
    branch = tree.add(words(f"nodes that exist: {able} of {nodes.total} could take it"))
    if able:
        branch.add(marked(True, sample(nodes.possible, most=5)))
    for refusal in nodes.refusals[:_REFUSALS_SHOWN]:
        count = counted(len(refusal.nodes), "node")
        branch.add(marked(False, f"{count}: {refusal.detail} ({sample(refusal.nodes)})"))
    _add_rest(branch, len(nodes.refusals) - _REFUSALS_SHOWN, "reason")


def _add_rest(branch: Tree, left: int, noun: str) -> None:
    if left > 0:
        branch.add(words(f"… and {counted(left, noun)} more; -o json has them all", QUIET))


def marked(good: bool, text: str) -> "Text":
    """Text with a tick or a cross before it."""
    return words("✓ " if good else "✗ ", GOOD if good else BAD).append_text(words(text))
