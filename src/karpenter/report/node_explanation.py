"""The explanation of one node: whether it would be removed, what blocks it, what else was possible.

Filters are those of disruption in their order, up to the first that the node does not pass. The
move is what consolidation would do with the node without the filters, and what it would save. Both
describe the moment of the node's turn: after the commands before its own have begun, or all when it
stays. For a departing node it says what the drain waits for, for an unhealthy one when repair
begins.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from karpenter.api.pods import Pod
from karpenter.disruption import budgets
from karpenter.disruption.budgets import Allowance
from karpenter.disruption.candidates import Blocked, Candidate, Inspection, Why
from karpenter.disruption.commands import (
    EXPIRATION,
    REPAIR,
    SINGLE,
    STATIC,
    Command,
    Decision,
    decision_of,
)
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.consolidation import (
    NO_SAVINGS,
    PREPAID,
    Consolidation,
    unconsolidatable,
    without_place,
)
from karpenter.disruption.methods.emptiness import empty_candidates
from karpenter.disruption.methods.expiration import expires_at
from karpenter.disruption.methods.repair import foreseen_repair
from karpenter.disruption.methods.replacements import Refused, option_of, replacement
from karpenter.disruption.plan import DisruptionPlan
from karpenter.disruption.simulation import Answer, NoPoolsError
from karpenter.model import labels
from karpenter.model.conditions import DRIFTED, moment_of, timestamp
from karpenter.report.disruption import command_document, reported_reasons
from karpenter.report.excess_explanation import NodeExcess, excess_document, excess_of
from karpenter.report.launch_progress import awaited_by
from karpenter.report.provisioning import claim_document, estimate_mark
from karpenter.report.purchase_explanation import (
    PurchaseExplanation,
    planned_purchase,
    purchase_document,
    standing_purchase,
)
from karpenter.scheduling.plan import PlannedClaim, rests_on_estimates
from karpenter.scheduling.provisioning import ProvisioningPlan
from karpenter.state.departing_pods import is_evictable, is_protected, protection_in_words
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_active, is_terminating, key_of

_UNHELD: Final = frozenset({EXPIRATION, REPAIR, STATIC})  # methods with rules of their own
MACHINE: Final = "machine"
POOL: Final = "pool"
PODS: Final = "pods"
CAUSE: Final = "cause"
BUDGET: Final = "budget"
MOVE: Final = "move"


@dataclass(frozen=True, slots=True)
class UnhealthyCondition:
    """What is wrong with a node, and what is done about it if that lasts."""

    condition: str  # its type, its status and why it is so
    action: str
    due: datetime


def unhealthy_condition_of(
    view: DisruptionContext, machine: StateNode
) -> UnhealthyCondition | None:
    """What is wrong with a machine, where machines are repaired."""
    foreseen = foreseen_repair(machine, view.policies) if view.policies is not None else None
    if foreseen is None:
        return None
    due, match = foreseen
    found = match.condition
    because = f" ({found.reason})" if found.reason else ""
    return UnhealthyCondition(f"{found.type} is {found.status}{because}", match.policy.action, due)


def unhealthy_condition_document(unhealthy: UnhealthyCondition) -> dict[str, Any]:
    """Write what is wrong with a node as plain data."""
    return {
        "condition": unhealthy.condition,
        "action": unhealthy.action,
        "due": timestamp(unhealthy.due),
    }


@dataclass(frozen=True, slots=True)
class TerminationProgress:
    """The progress of a node's termination."""

    since: datetime | None  # None while it only waits for its replacement
    deadline: datetime | None  # when it is removed whatever blocks it
    waits_for: tuple[str, ...]  # sentences without a full stop


def termination_progress_of(
    machine: StateNode, inspection: Inspection
) -> TerminationProgress | None:
    """The progress of a machine's termination; None if it has not begun."""
    if not machine.is_deleting:
        return None
    held = [each for each in (machine.node_claim, machine.node) if each is not None]
    begun = [each.metadata.deletion_timestamp for each in held]
    since = min(filter(None, begun), default=None)
    if since is None:
        return TerminationProgress(None, None, ("whatever takes its place is awaited first",))
    waits = [each for pod in machine.pods if (each := _holds(pod, inspection))]
    waits += _foreign_finalizers(machine)
    return TerminationProgress(since, _deadline(machine), tuple(waits))


def _holds(pod: Pod, inspection: Inspection) -> str:
    """Why a pod keeps a drain waiting; nothing when it does not."""
    name, now = f"pod {key_of(pod)}", inspection.now
    if is_terminating(pod):
        return f"{name} has until {timestamp(pod.metadata.deletion_timestamp)} to end"
    if is_active(pod) and is_protected(pod, now=now):
        return protection_in_words(pod)
    if not is_evictable(pod, now=now):
        return ""
    return inspection.held_by(pod) or f"{name} is to be evicted"


def _foreign_finalizers(machine: StateNode) -> Iterator[str]:
    named = (("Node", machine.node), ("NodeClaim", machine.node_claim))
    for kind, obj in named:
        others = (
            [name for name in obj.metadata.finalizers if name != labels.TERMINATION] if obj else []
        )
        if others:
            yield f"its {kind} has finalizers that other controllers remove: {', '.join(others)}"


def _deadline(machine: StateNode) -> datetime | None:
    claim = machine.node_claim
    text = claim.metadata.annotations.get(labels.TERMINATION_TIMESTAMP) if claim else None
    return moment_of(text) if text is not None else None


def termination_document(progress: TerminationProgress) -> dict[str, Any]:
    """Write the progress of a node's termination as plain data."""
    return {
        "since": timestamp(progress.since),
        "deadline": timestamp(progress.deadline),
        "waitsFor": list(progress.waits_for),
    }


@dataclass(frozen=True, slots=True)
class Filter:
    """One check before a node may be disrupted, and its result."""

    name: str
    passed: bool
    detail: str
    reason: str = ""  # CamelCase; nothing when it passed


@dataclass(frozen=True, slots=True)
class Move:
    """The best that consolidation could do with a node."""

    decision: Decision | None  # None when its pods would be without a place
    placements: Mapping[str, tuple[str, ...]]  # machine -> pods of the node that fit there
    replacements: tuple[PlannedClaim, ...]
    cost: float | None  # of the replacements, an hour
    savings: float | None
    refusal: str  # why it is not done; empty when nothing prevents it
    is_estimate: bool = False  # cost and savings rest on an estimated price
    is_sure: bool = True  # false: the savings are an upper bound


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """The explanation of one node."""

    machine: StateNode
    price: float | None
    is_estimate: bool  # the price is an estimate
    command: Command | None  # that removes it
    turn: int  # of the command among all of a plan, from 1
    blocked: Blocked | None  # why it stays
    takes_from: tuple[str, ...]  # machines of the plan whose pods would come to it
    filters: tuple[Filter, ...]
    budgets: Mapping[str, Allowance]  # reason -> what its pool allows
    move: Move | None
    termination_progress: TerminationProgress | None = None  # of one that is being deleted
    expires: datetime | None = None  # None when it may stay for good
    unhealthy_condition: UnhealthyCondition | None = None  # only while repair has not begun
    purchase: PurchaseExplanation | None = None  # of one that was packed by price
    excess: NodeExcess | None = None  # beyond what its pods are worth, of one whose pods may move


def explain_node(
    name: str, plan: DisruptionPlan, view_after: Callable[[Sequence[Command]], DisruptionContext]
) -> NodeExplanation:
    """Explain a machine of the cluster that a plan was made for.

    Args:
        name: of its Node, or of its NodeClaim.
        plan: what would be done.
        view_after: the cluster once some of the plan's commands have begun.
    """
    now = view_after(())
    machine = now.snapshot.node(name)
    assert machine is not None
    name = machine.name
    turn, command = next(
        ((n, each) for n, each in enumerate(plan.commands, start=1) if name in each.names),
        (0, None),
    )
    view = view_after(plan.commands[: turn - 1] if turn else plan.commands)
    machine = view.snapshot.node(name) or machine
    candidate = view.inspection.described(machine)
    has_pool = machine.node_pool in view.snapshot.node_pools
    is_ours = machine.node_claim is not None and machine.node is not None and has_pool
    termination_progress = termination_progress_of(machine, view.inspection)
    may_move = is_ours and not candidate.is_static and termination_progress is None
    move = best_move(view, candidate) if may_move else None
    blocked = next((each for each in plan.blocked if each.node == name), None)
    reasons = reported_reasons(with_repair=view.settings.repair)
    held = {r: view.allowance(machine.node_pool, r) for r in reasons} if has_pool else {}
    return NodeExplanation(
        machine=machine,
        price=candidate.known_price,
        is_estimate=candidate.is_estimate,
        command=command,
        turn=turn,
        blocked=blocked,
        takes_from=tuple(
            candidate.name
            for each in plan.commands
            for candidate in each.candidates
            if _moves_to(name, each, candidate)
        ),
        filters=tuple(_filters(view, candidate, command, blocked)),
        budgets=held,
        move=move,
        termination_progress=termination_progress,
        expires=expires_at(machine.node_claim) if machine.node_claim is not None else None,
        unhealthy_condition=unhealthy_condition_of(view, machine)
        if command is None and termination_progress is None
        else None,
        purchase=standing_purchase(candidate),
        excess=excess_of(now, name) if may_move else None,
    )


def _moves_to(name: str, command: Command, candidate: Candidate) -> bool:
    """Whether a command puts a pod of a candidate on the machine of that name."""
    own = {key_of(pod) for pod in candidate.movable}
    return not own.isdisjoint(command.placements.get(name, ()))


def _filters(
    view: DisruptionContext, candidate: Candidate, command: Command | None, blocked: Blocked | None
) -> list[Filter]:
    if command is not None and command.method == REPAIR and view.settings.repair:
        return [
            Filter(CAUSE, True, f"{command.reason}, and nothing that holds repairs back applies")
        ]
    if command is not None and command.method in _UNHELD:
        return [Filter(CAUSE, True, f"{command.reason}, which nothing of all this holds back")]
    found = _up_to_the_first_failure(view, candidate)
    if command is not None and not candidate.movable:
        return found
    if command is not None:
        others = len(command.candidates) - 1
        with_others = f", together with {others} other nodes" if others else ""
        return [*found, Filter(MOVE, True, f"its pods find a place{with_others}")]
    if blocked is not None and found[-1].reason != blocked.why.value:
        # the last method that considered the node had another reason
        passed = [each for each in found if each.passed]
        return [*passed, Filter(MOVE, False, blocked.detail, blocked.why.value)]
    return found


def _up_to_the_first_failure(view: DisruptionContext, candidate: Candidate) -> list[Filter]:
    passed: list[Filter] = []
    for look in (_machine, _pool, _pods, _cause, _budget):
        found = look(view, candidate)
        passed.append(found)
        if not found.passed:
            break
    return passed


def _machine(view: DisruptionContext, candidate: Candidate) -> Filter:
    blocked = view.inspection.machine_blocker(candidate.machine)
    if blocked is not None and blocked.why is Why.NOT_INITIALIZED:
        why = awaited_by(candidate.machine)
        more = f": {why}" if why else ""
        return Filter(MACHINE, False, f"{blocked.detail}{more}", blocked.why.value)
    return _filter(MACHINE, blocked, "it is initialized, and no pods are expected on it")


def _pool(view: DisruptionContext, candidate: Candidate) -> Filter:
    blocked = view.inspection.pool_blocker(candidate.machine)
    sold = (
        f"there is a NodePool {candidate.pool}, and {len(candidate.types)} instance types on sale"
    )
    return _filter(POOL, blocked, sold)


def _pods(view: DisruptionContext, candidate: Candidate) -> Filter:
    blocked = view.inspection.pod_blocker(candidate.machine)
    if blocked is not None and _is_drifted(candidate) and _has_deadline(candidate):
        detail = f"{blocked.detail}, which ends with the claim's termination grace period"
        return Filter(PODS, True, detail)
    moving = len(candidate.movable)
    said = f"{moving} of {len(candidate.machine.pods)} pods would move, and none of them is held"
    return _filter(PODS, blocked, said if moving else "it has no pods that would have to move")


def _cause(view: DisruptionContext, candidate: Candidate) -> Filter:
    """The reason to disrupt the node, or why there is none."""
    if _is_drifted(candidate):
        condition = candidate.condition(DRIFTED)
        return Filter(CAUSE, True, f"it has drifted: {condition.reason if condition else ''}")
    if candidate.is_empty and not candidate.is_static:
        _, verdicts = empty_candidates(view)
        return _filter(CAUSE, verdicts.get(candidate.name), "it is empty")
    return _filter(CAUSE, unconsolidatable(candidate, view), "it may be consolidated")


def _budget(view: DisruptionContext, candidate: Candidate) -> Filter:
    reason = _reason(candidate)
    held = view.allowance(candidate.pool, reason)
    detail = f"{held.allowed} of {held.total} nodes may be disrupted for {reason}"
    if held.allowed >= budgets.UNLIMITED:
        detail = f"no budget limits how many nodes may be disrupted for {reason}"
    elif held.disrupting:
        going = "is on its" if held.disrupting == 1 else "are on their"
        detail += f"; {held.disrupting} {going} way out or not ready already"
    if held.problem:
        detail = held.problem
    is_left = held.remaining > 0
    return Filter(BUDGET, is_left, detail, "" if is_left else Why.BUDGET.value)


def _reason(candidate: Candidate) -> str:
    if _is_drifted(candidate):
        return budgets.DRIFTED
    return budgets.EMPTY if candidate.is_empty else budgets.UNDERUTILIZED


def _filter(name: str, blocked: Blocked | None, passed: str) -> Filter:
    if blocked is None:
        return Filter(name, True, passed)
    return Filter(name, False, blocked.detail, blocked.why.value)


def _is_drifted(candidate: Candidate) -> bool:
    return candidate.machine.has_condition(DRIFTED)


def _has_deadline(candidate: Candidate) -> bool:
    return candidate.claim.spec.termination_grace_period is not None


def best_move(view: DisruptionContext, candidate: Candidate) -> Move:
    """The best that consolidation could do with a node, whatever holds it."""
    simulation = view.simulation([candidate])
    is_held = view.inspection.pod_blocker(candidate.machine) is not None
    try:
        # protected pods are simulated as if they were not protected
        if is_held:
            answer = simulation.repairing(candidate)
        else:
            answer = simulation.consolidating([candidate])
    except NoPoolsError as error:
        return Move(None, {}, (), None, None, str(error))
    placements = _own(answer, candidate)
    if answer.stranded:
        placements = _without(answer.stranded, placements)
        return Move(None, placements, (), None, None, without_place(answer))
    needed = [claim for claim in answer.claims if answer.cluster.is_needed(claim)]
    written = tuple(filter(None, map(answer.written, needed)))
    if len(written) < len(needed):
        refusal = "the instance types that fit offer less choice than minValues asks for"
        return Move(Decision.REPLACE, placements, written, None, None, refusal)
    refusal, written, is_sure = _judged(view, candidate, answer, written)
    launches = [claim.launch for claim in written if claim.launch is not None]
    cost = sum(each.price for each in launches) if len(launches) == len(written) else None
    savings = None
    if candidate.known_price is not None and cost is not None:
        savings = view.savings([candidate], written)
    is_estimate = candidate.is_estimate or rests_on_estimates(written)
    decision = decision_of(written)
    return Move(decision, placements, written, cost, savings, refusal, is_estimate, is_sure)


def _own(answer: Answer, candidate: Candidate) -> dict[str, tuple[str, ...]]:
    own = {key_of(pod) for pod in candidate.machine.pods}
    found = {
        machine: tuple(pod for pod in pods if pod in own)
        for machine, pods in sorted(answer.outcome.existing.items())
    }
    return {machine: pods for machine, pods in found.items() if pods}


def _without(
    stranded: Sequence[str], placements: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Omit pods that are placed on a machine that does not count, such as one not initialized."""
    found = {
        machine: tuple(pod for pod in pods if pod not in stranded)
        for machine, pods in placements.items()
    }
    return {machine: pods for machine, pods in found.items() if pods}


def _judged(
    view: DisruptionContext,
    candidate: Candidate,
    answer: Answer,
    written: tuple[PlannedClaim, ...],
) -> tuple[str, tuple[PlannedClaim, ...], bool]:
    """Why consolidation would reject the move, by prices and pools; empty if it would not.

    Returned with the replacements, narrowed to offerings that are certainly cheaper, and whether
    their cost is certain.
    """
    if len(answer.claims) > max(1, len(written)):
        explanation = (
            f"pods that wait for a node come first: {len(answer.claims)} new nodes at once"
        )
        return explanation, written, True
    if len(written) > 1:
        return f"it would take {len(written)} nodes to replace what it holds", written, True
    cost, price = 0.0, view.savings([candidate])
    if view.ground.ledger is not None and price <= NO_SAVINGS:
        return PREPAID, written, True
    if answer.claims:
        (claim,) = answer.claims
        option = replacement(
            option_of(answer.template(claim), claim, view.facts),
            [candidate],
            price,
            spot_to_spot=view.settings.spot_to_spot,
        )
        if isinstance(option, Refused):
            return option.detail, written, False
        cost = option.cheapest
        narrowed = answer.written(option.claim) if written else None
        written = (narrowed,) if narrowed is not None else written
    command = Command(
        SINGLE,
        budgets.UNDERUTILIZED,
        decision_of(written),
        (candidate,),
        written,
        savings=candidate.price - cost - view.lost_coverage([candidate], written),
    )
    judged, _ = Consolidation(view, only=()).judged(command)
    return (judged.detail if isinstance(judged, Refused) else ""), written, True


def node_document(explanation: NodeExplanation) -> dict[str, Any]:
    """Write the explanation of a node as plain data."""
    machine, blocked = explanation.machine, explanation.blocked
    claim = machine.node_claim
    return {
        "node": machine.name,
        "nodeClaim": claim.metadata.name if claim is not None else "",
        "nodePool": machine.node_pool,
        "instanceType": machine.labels.get(labels.INSTANCE_TYPE, ""),
        "zone": machine.labels.get(labels.ZONE, ""),
        "capacityType": machine.labels.get(labels.CAPACITY_TYPE, ""),
        "price": explanation.price,
        **estimate_mark(explanation.is_estimate),
        "expires": timestamp(explanation.expires),
        "repair": unhealthy_condition_document(explanation.unhealthy_condition)
        if explanation.unhealthy_condition is not None
        else None,
        "pods": sorted(key_of(pod) for pod in machine.pods),
        "outcome": "Removed" if explanation.command is not None else "Kept",
        "reason": explanation.command.reason
        if explanation.command
        else blocked.why.value
        if blocked
        else "",
        "detail": blocked.detail if blocked is not None else "",
        "command": command_document(explanation.command)
        if explanation.command is not None
        else None,
        "turn": explanation.turn or None,
        "takesFrom": list(explanation.takes_from),
        "filters": [
            {
                "filter": each.name,
                "passed": each.passed,
                "reason": each.reason,
                "detail": each.detail,
            }
            for each in explanation.filters
        ],
        "budgets": {reason: _allowance(held) for reason, held in explanation.budgets.items()},
        "move": _move_document(explanation.move) if explanation.move is not None else None,
        "leaving": termination_document(explanation.termination_progress)
        if explanation.termination_progress is not None
        else None,
        "why": purchase_document(explanation.purchase) if explanation.purchase else None,
        "excess": excess_document(explanation.excess) if explanation.excess else None,
    }


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """The explanation of a node that a plan would create."""

    claim: PlannedClaim
    purchase: PurchaseExplanation | None  # None in Karpenter's order


def explain_planned(name: str, outcome: ProvisioningPlan) -> PlannedNode | None:
    """Explain a node by the name that a plan gives it, or None if the plan creates no such node."""
    for claim in outcome.plan.claims:
        if claim.name == name:
            return PlannedNode(claim, planned_purchase(outcome.plan.packing, claim))
    return None


def planned_document(planned: PlannedNode) -> dict[str, Any]:
    """Write the explanation of a node that would be created as plain data."""
    return {
        "node": planned.claim.name,
        "nodePool": planned.claim.node_pool,
        "outcome": "Planned",
        "claim": claim_document(planned.claim),
        "why": purchase_document(planned.purchase) if planned.purchase is not None else None,
    }


def _allowance(held: Allowance) -> dict[str, int]:
    return {
        "allowed": held.allowed,
        "nodes": held.total,
        "disrupting": held.disrupting,
        "remaining": held.remaining,
    }


def _move_document(move: Move) -> dict[str, Any]:
    return {
        "decision": move.decision.value if move.decision is not None else None,
        "placements": {machine: list(pods) for machine, pods in move.placements.items()},
        "replacements": [claim_document(claim) for claim in move.replacements],
        "costHourly": move.cost,
        "savingsHourly": move.savings,
        **estimate_mark(move.is_estimate),
        "refused": move.refusal,
    }
