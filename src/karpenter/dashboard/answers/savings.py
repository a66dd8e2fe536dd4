"""What a plan would save, what is not saved because something holds a node, and who holds it.

Moves are judged one by one, after the commands of the plan: two of them may want the same room, so
that what is blocked adds up to a figure that is "up to".
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import fsum
from typing import Final

from karpenter.dashboard.contract import BlockedNode, BlockedSaving, Savings
from karpenter.disruption.candidates import Blocked, Inspection, Why
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.plan import DisruptionPlan
from karpenter.disruption.rebalance.shares import ClusterShares
from karpenter.report.node_explanation import best_move
from karpenter.state.departing_pods import is_protected
from karpenter.state.nodes import StateNode
from karpenter.state.object_keys import key_of
from karpenter.state.pods import is_active

_LEAST: Final = 1e-6  # dollars an hour that are rounding
# Machines that no move could take, because they go anyway, are not there yet or are not ours
_OUT_OF_QUESTION: Final = frozenset(
    {Why.IN_PROGRESS, Why.NOT_MANAGED, Why.NO_NODE, Why.DELETING, Why.NOT_INITIALIZED, Why.STATIC}
)


@dataclass(frozen=True, slots=True)
class Bound:
    """A cost below which no nodes for the pods that run now can go, and how far it is."""

    hourly: float
    gap: float | None  # cost / bound - 1


def savings_of(
    plan: DisruptionPlan, view: DisruptionContext, has_time: Callable[[], bool]
) -> Savings:
    """What a plan would save, and what it would if nothing held the nodes that stay.

    Args:
        plan: what would be done.
        view: the cluster once all commands of the plan have begun.
        has_time: the deadline check; dear nodes are judged first.
    """
    known = [each.known_savings for each in plan.commands if each.known_savings is not None]
    held: dict[str, list[BlockedNode]] = {}
    is_partial = any(each.why is Why.NOT_EVALUATED for each in plan.blocked)
    for blocked, machine in _by_price(plan.blocked, view):
        if not has_time():
            is_partial = True
            break
        move = best_move(view, view.inspection.described(machine))
        if move.decision is None or move.refusal or (move.savings or 0.0) < _LEAST:
            continue
        assert move.savings is not None
        objects = _holders(blocked, machine, view.inspection)
        found = BlockedNode(
            node=blocked.node,
            hourly=move.savings,
            detail=blocked.detail,
            objects=objects,
            is_estimate=move.is_estimate,
        )
        held.setdefault(blocked.why.value, []).append(found)
    summed = [
        BlockedSaving(
            reason=reason,
            hourly=fsum(each.hourly for each in nodes),
            nodes=nodes,
            is_estimate=any(each.is_estimate for each in nodes),
        )
        for reason, nodes in held.items()
    ]
    return Savings(
        planned=fsum(known),
        commands=len(plan.commands),
        blocked=sorted(summed, key=lambda each: (-each.hourly, each.reason)),
        is_partial=is_partial,
        is_estimate=any(
            each.is_estimate for each in plan.commands if each.known_savings is not None
        ),
    )


def bound_of(view: DisruptionContext) -> Bound | None:
    """The least that nodes for the pods of a cluster cost; None where nothing is known of it."""
    shares = ClusterShares(view)
    bound = shares.lower_bound
    if bound <= 0:
        return None
    return Bound(bound, max(0.0, shares.now_hourly / bound - 1))


def _by_price(
    blocked: Iterable[Blocked], view: DisruptionContext
) -> list[tuple[Blocked, StateNode]]:
    found = []
    for each in blocked:
        machine = view.snapshot.node(each.node)
        if machine is None or each.why in _OUT_OF_QUESTION or machine.node_claim is None:
            continue
        if machine.node is None or machine.node_pool not in view.snapshot.node_pools:
            continue
        price = view.inspection.described(machine).known_price
        if price is not None:
            found.append((-price, each.node, each, machine))
    return [(each, machine) for _, _, each, machine in sorted(found, key=lambda row: row[:2])]


def _holders(blocked: Blocked, machine: StateNode, inspection: Inspection) -> list[str]:
    """Who holds a node, such as ``PodDisruptionBudget/default/web``."""
    match blocked.why:
        case Why.PDB:
            held = next((pod for pod in machine.pods if inspection.held_by(pod)), None)
            matching = inspection.pdbs.matching(held) if held is not None else ()
            return [f"PodDisruptionBudget/{key_of(pdb)}" for pdb in matching]
        case Why.POD_DO_NOT_DISRUPT:
            now = inspection.now
            held = next(
                (p for p in machine.pods if is_active(p) and is_protected(p, now=now)), None
            )
            return [f"Pod/{key_of(held)}"] if held is not None else []
        case Why.DO_NOT_DISRUPT | Why.NOMINATED | Why.REBOOTING:
            return [f"Node/{machine.name}"]
        case _:
            return [f"NodePool/{machine.node_pool}"]
