"""The explanation of one node as text: a tree with a tick or a cross for every filter."""

from collections.abc import Mapping
from datetime import datetime

from rich.tree import Tree

from karpenter.cli.explain.pod_view import marked
from karpenter.cli.explain.purchase_view import add_purchase
from karpenter.cli.plan.disruption_view import budget_words, command_sentence
from karpenter.cloud.provider import REBOOT_NODE
from karpenter.console.screen import (
    GOOD,
    QUIET,
    TITLE,
    WAITING,
    Parts,
    counted,
    hour_and_month,
    lasting,
    offer,
    per_hour,
    sample,
    without_default,
    words,
)
from karpenter.disruption.budgets import Allowance
from karpenter.model import labels
from karpenter.report.excess_explanation import NodeExcess
from karpenter.report.node_explanation import (
    Move,
    NodeExplanation,
    PlannedNode,
    TerminationProgress,
    UnhealthyCondition,
)
from karpenter.state.pods import key_of

_MACHINES_SHOWN = 5
_WAITS_SHOWN = 10
_PODS_SHOWN = 3
_TRIFLE = 0.0001  # dollars an hour that are not worth a sentence
_NOTHING = 1e-9  # dollars an hour; rounding error of a difference of equal prices


def node_parts(explanation: NodeExplanation, *, now: datetime) -> Parts:
    """Lay out the explanation of a node."""
    fate, style = _fate(explanation)
    title = words(f"Node {explanation.machine.name} {fate}", f"{TITLE} {style}")
    tree = Tree(title, guide_style=QUIET)
    _add_verdict(tree, explanation, now)
    if explanation.unhealthy_condition is not None:
        tree.add(words(_remedy(explanation.unhealthy_condition, now)))
    if explanation.takes_from:
        tree.add(words(f"would take pods of {sample(explanation.takes_from, most=3)}"))
    tree.add(words(_what_it_is(explanation)))
    node = explanation.machine.node
    if node is not None and node.spec.unschedulable and explanation.termination_progress is None:
        tree.add(words("is cordoned, so no more pods come to it; that does not keep it"))
    if explanation.expires is not None and explanation.termination_progress is None:
        tree.add(words(_end(explanation.expires, now)))
    _add_pods(tree, explanation)
    if explanation.termination_progress is not None:
        _add_waits(tree, explanation.termination_progress)
    else:
        branch = tree.add(words("filters, up to the first that holds it"))
        for each in explanation.filters:
            branch.add(marked(each.passed, f"{each.name}: {each.detail}"))
    if explanation.budgets:
        tree.add(words(f"budgets leave {_left(explanation.budgets)}"))
    if explanation.move is not None and explanation.command is None:
        _add_move(tree, explanation.move, explanation)
    _add_excess(tree, explanation.excess)
    if explanation.purchase is not None:
        add_purchase(tree, explanation.purchase)
    yield tree


def planned_parts(planned: PlannedNode) -> Parts:
    """Lay out the explanation of a node that would be created."""
    claim = planned.claim
    tree = Tree(words(f"Node {claim.name} would be created", f"{TITLE} {GOOD}"), guide_style=QUIET)
    what = offer(claim.launch) if claim.launch is not None else "nothing that can be launched now"
    tree.add(words(f"{what}, of pool {claim.node_pool}"))
    pods = [without_default(pod) for pod in claim.pods]
    shown = sample(pods, most=4) or "for buffers"
    tree.add(words(f"for {counted(len(pods), 'pod')}: {shown}" if pods else shown))
    if planned.purchase is not None:
        add_purchase(tree, planned.purchase)
    else:
        tree.add(words(f"may be {counted(len(claim.instance_types), 'instance type')}"))
        tree.add(words("its pods were packed in Karpenter's order, whatever other packings cost"))
    yield tree


def _add_verdict(tree: Tree, explanation: NodeExplanation, now: datetime) -> None:
    if explanation.termination_progress is not None:
        tree.add(words(_how_far(explanation.termination_progress, now)))
    elif explanation.command is not None:
        tree.add(words(command_sentence(explanation.command, now=now)))
        if explanation.turn > 1:
            tree.add(
                words(f"after {counted(explanation.turn - 1, 'other command')}, as is all below")
            )
    elif explanation.blocked is not None:
        tree.add(words(explanation.blocked.detail))


def _fate(explanation: NodeExplanation) -> tuple[str, str]:
    if explanation.termination_progress is not None:
        return "is on its way out", WAITING
    return ("stays", WAITING) if explanation.command is None else ("would go", GOOD)


def _how_far(termination_progress: TerminationProgress, now: datetime) -> str:
    if termination_progress.since is None:
        return "it takes no more pods, and is deleted when its replacement is ready"
    since = f"since {termination_progress.since:%Y-%m-%d %H:%M:%S} UTC ({lasting(now - termination_progress.since)})"
    if termination_progress.deadline is None:
        return f"{since}, and without a deadline: its claim has no terminationGracePeriod"
    return f"{since}, and until {termination_progress.deadline:%Y-%m-%d %H:%M:%S} UTC at the latest"


def _add_waits(tree: Tree, termination_progress: TerminationProgress) -> None:
    if not termination_progress.waits_for:
        tree.add(words("waits only for its instance to terminate"))
        return
    branch = tree.add(words("what it waits for"))
    for text in termination_progress.waits_for[:_WAITS_SHOWN]:
        branch.add(words(text))
    left = len(termination_progress.waits_for) - _WAITS_SHOWN
    if left > 0:
        branch.add(words(f"… and {counted(left, 'other thing')}", QUIET))


def _what_it_is(explanation: NodeExplanation) -> str:
    held = explanation.machine.labels
    kind = held.get(labels.INSTANCE_TYPE) or "an unknown instance type"
    how = " ".join(filter(None, (kind, held.get(labels.CAPACITY_TYPE, ""))))
    where = f" in {held[labels.ZONE]}" if held.get(labels.ZONE) else ""
    pool = (
        f" of pool {explanation.machine.node_pool}"
        if explanation.machine.node_pool
        else " of no pool"
    )
    if explanation.price is None:
        return f"{how}{where}{pool}, at an unknown price"
    price = hour_and_month(explanation.price, is_estimate=explanation.is_estimate)
    return f"{how}{where}{pool}, at {price}"


def _remedy(unhealthy_condition: UnhealthyCondition, now: datetime) -> str:
    remedy = "restarted" if unhealthy_condition.action == REBOOT_NODE else "replaced"
    moment = f"{unhealthy_condition.due:%Y-%m-%d %H:%M:%S} UTC"
    if unhealthy_condition.due <= now:
        return f"unhealthy: {unhealthy_condition.condition}; due to be {remedy} since {moment}"
    left = lasting(unhealthy_condition.due - now)
    return f"unhealthy: {unhealthy_condition.condition}; to be {remedy} at {moment} (in {left}) if that lasts"


def _end(expires: datetime, now: datetime) -> str:
    when = f"in {lasting(expires - now)}" if expires > now else "now"
    return f"expires {expires:%Y-%m-%d %H:%M:%S} UTC ({when}), whatever holds it until then"


def _add_pods(tree: Tree, explanation: NodeExplanation) -> None:
    pods = sorted(key_of(pod) for pod in explanation.machine.pods)
    if pods:
        shown = sample([without_default(pod) for pod in pods], most=4)
        tree.add(words(f"runs {counted(len(pods), 'pod')}: {shown}"))
    else:
        tree.add(words("runs no pods"))


def _left(held: Mapping[str, Allowance]) -> str:
    return ", ".join(f"{budget_words(left)} for {reason}" for reason, left in held.items())


def _add_move(tree: Tree, move: Move, explanation: NodeExplanation) -> None:
    branch = tree.add(words("the best that could be done with it"))
    for machine, pods in list(move.placements.items())[:_MACHINES_SHOWN]:
        shown = sample([without_default(pod) for pod in pods], most=4)
        branch.add(words(f"{shown} would fit on {machine}"))
    left = len(move.placements) - _MACHINES_SHOWN
    if left > 0:
        branch.add(words(f"… and others on {counted(left, 'other node')}", QUIET))
    for claim in move.replacements:
        what = (
            offer(claim.launch)
            if claim.launch is not None
            else "a node that cannot be launched now"
        )
        branch.add(words(f"{counted(len(claim.pods), 'pod')} would need {what}"))
    if move.savings is not None:
        branch.add(words(_saving(move, move.savings)))
    elif move.cost is not None:
        branch.add(words("the saving is unknown, because the price of this node is"))
    if move.refusal and all(move.refusal != each.detail for each in explanation.filters):
        branch.add(marked(False, move.refusal))


def _add_excess(tree: Tree, excess: NodeExcess | None) -> None:
    if excess is None or not excess.pods or excess.excess < _TRIFLE:
        return
    amount = hour_and_month(excess.excess)
    branch = tree.add(
        words(f"costs {amount} more than its pods are worth in a well-bought cluster")
    )
    for each in excess.pods[:_PODS_SHOWN]:
        pays = f"{without_default(each.pod)} pays {per_hour(each.share)}/h of it"
        branch.add(words(f"{pays}, and costs {each.eviction_cost:g} to move"))
    left = len(excess.pods) - _PODS_SHOWN
    if left > 0:
        branch.add(words(f"… and {counted(left, 'other pod')}, which cost as much or more", QUIET))


def _saving(move: Move, savings: float) -> str:
    if abs(savings) < _NOTHING:
        return "that would save nothing"
    amount = hour_and_month(abs(savings), is_estimate=move.is_estimate)
    if savings < 0:
        return f"that would cost {amount} more"
    return f"that would save {amount}{'' if move.is_sure else ' at best'}"
