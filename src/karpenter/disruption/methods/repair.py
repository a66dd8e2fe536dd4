"""Repair: unhealthy machines are replaced, or rebooted, the most urgent first.

The provider's policies state which conditions are unhealthy and which repair they need. Budgets
limit the rate of repair, and a circuit breaker stops it when too many machines of a pool fail at
once, because then the fault is most likely elsewhere.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.provider import REBOOT_NODE, REPLACE_NODE
from karpenter.cloud.repair import Repair, RepairMatch, RepairPolicies
from karpenter.disruption import budgets
from karpenter.disruption.candidates import Blocked, Candidate, Why
from karpenter.disruption.commands import (
    NO_RESERVED_CAPACITY,
    REPAIR,
    STATIC_AT_LIMIT,
    Command,
    Decision,
    Finding,
    decision_of,
)
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.drift import no_replacement
from karpenter.disruption.methods.single_node import over_budget
from karpenter.disruption.methods.static_drift import at_limit, reservations_full
from karpenter.disruption.methods.terminate_first import credit_for, holds_slot, is_full
from karpenter.disruption.simulation import NoPoolsError, Simulation
from karpenter.disruption.static_pools import (
    is_usable,
    static_replacement,
    strength_of,
    what_comes_first,
)
from karpenter.model import durations, labels
from karpenter.model.conditions import FALSE, REBOOTING
from karpenter.state.nodes import StateNode

# After so many reboots within such a time a machine is replaced instead
MOST_REBOOTS: Final = 2
REBOOTS_COUNT_FOR: Final = timedelta(hours=24)
_MOST_UNHEALTHY: Final = 0.2


@dataclass(frozen=True)
class UnhealthyMachine:
    """An unhealthy machine that may be repaired."""

    candidate: Candidate
    repair: Repair
    bound: timedelta | None  # the policy's deadline of the drain, if it has one


def find_repair(view: DisruptionContext) -> Finding:
    """Repair the most urgent machine that can be repaired."""
    if view.policies is None or not view.settings.repair:
        return Finding(REPAIR)
    patients, verdicts = patients_of(view, view.policies)
    left = view.remaining(budgets.UNHEALTHY)
    failing = _Failing(view, view.policies)
    command = None
    by_name = {patient.candidate.name: patient for patient in patients}
    for candidate, simulation in view.simulations([p.candidate for p in patients]):
        patient = by_name[candidate.name]
        found = _treated(view, patient, left, failing, simulation)
        if isinstance(found, Command):
            command = found
            break
        verdicts[patient.candidate.name] = found
    return Finding(
        REPAIR,
        (command,) if command else (),
        eligible=len(patients),
        verdicts=verdicts,
        events=tuple(view.closed_budgets(budgets.UNHEALTHY)) if patients else (),
    )


def patients_of(
    view: DisruptionContext, policies: RepairPolicies
) -> tuple[list[UnhealthyMachine], dict[str, Blocked]]:
    """The machines to repair, the most urgent first, and why others are not repaired."""
    patients: list[UnhealthyMachine] = []
    verdicts: dict[str, Blocked] = {}
    for machine in view.snapshot.nodes:
        repair = due_repair(machine, policies, view.memory.reboots, now=view.now)
        if repair is None:
            continue
        found = _as_patient(view, machine, repair)
        if isinstance(found, UnhealthyMachine):
            patients.append(found)
        else:
            verdicts[machine.name] = found
    ours = view.settings.planning.deletion_cost_is_ours

    def urgency(patient: UnhealthyMachine) -> tuple[float, float, str]:
        cost = patient.candidate.lifetime_cost(now=view.now, deletion_cost_is_ours=ours)
        return -patient.repair.score, cost, patient.candidate.name

    return sorted(patients, key=urgency), verdicts


def due_repair(
    machine: StateNode,
    policies: RepairPolicies,
    reboots: Mapping[str, Iterable[datetime]],
    *,
    now: datetime,
) -> Repair | None:
    """The repair that a machine is due for now, if any.

    After too many reboots a machine is replaced; ``reboots`` holds their times by claim uid.
    """
    if machine.node is None or machine.node_claim is None:
        return None
    rebooted_at = _rebooted_at(machine.node_claim)
    repair = policies.repair(policies.matches(machine.node), now=now, rebooted_at=rebooted_at)
    if repair is None or repair.action != REBOOT_NODE:
        return repair
    done = reboots.get(machine.node_claim.metadata.uid, ())
    lately = sum(now - moment < REBOOTS_COUNT_FOR for moment in done)
    return replace(repair, action=REPLACE_NODE) if lately >= MOST_REBOOTS else repair


def foreseen_repair(
    machine: StateNode, policies: RepairPolicies
) -> tuple[datetime, RepairMatch] | None:
    """When a machine with its present conditions may first be repaired, and for what."""
    if machine.node is None or machine.node_claim is None:
        return None
    rebooted_at = _rebooted_at(machine.node_claim)
    found = ((match.eligible_at(rebooted_at), match) for match in policies.matches(machine.node))
    return min(found, key=lambda each: (each[0], each[1].condition.type), default=None)


def _rebooted_at(claim: NodeClaim) -> datetime | None:
    """When the last reboot of a machine ended."""
    for condition in claim.status.conditions:
        if condition.type == REBOOTING and condition.status == FALSE:
            return condition.last_transition_time
    return None


def _as_patient(
    view: DisruptionContext, machine: StateNode, repair: Repair
) -> UnhealthyMachine | Blocked:
    look = view.inspection
    blocked = _machine_blocker(view, machine) or look.pool_blocker(machine)
    if blocked is not None:
        return blocked
    if machine.annotations.get(labels.DO_NOT_REPAIR) == "true":
        detail = f"the node has the annotation {labels.DO_NOT_REPAIR}"
        event_message = f'repair is blocked through the "{labels.DO_NOT_REPAIR}" annotation'
        return Blocked(machine.name, Why.DO_NOT_REPAIR, detail, event_message=event_message)
    candidate = look.described(machine)
    deadline = _grace_period(candidate)
    if repair.grace_period is None and deadline is None:
        held = look.pod_blocker(machine)
        if held is not None:
            event_message = "repair requires a termination grace period to bypass blocking pods"
            return replace(held, event_message=f"{event_message}: {held.detail}")
    bound = repair.grace_period
    if bound is not None and deadline is not None:
        bound = min(bound, deadline)
    return UnhealthyMachine(candidate, repair, bound)


def _machine_blocker(view: DisruptionContext, machine: StateNode) -> Blocked | None:
    look = view.inspection
    if not machine.node_pool:
        blocked = look.pool_blocker(machine)
        event_message = "repair requires a NodePool to construct and budget a safe replacement"
        return None if blocked is None else replace(blocked, event_message=event_message)
    blocked = look.machine_blocker(machine)
    if blocked is None:
        return None
    match blocked.why:
        case Why.DO_NOT_DISRUPT:
            return None
        case Why.NOT_INITIALIZED if machine.is_registered:
            return None  # an unhealthy machine may never be initialized, so repair does not wait
    return blocked


def _treated(
    view: DisruptionContext,
    patient: UnhealthyMachine,
    left: Mapping[str, int],
    failing: "_Failing",
    simulation: Simulation,
) -> Command | Blocked:
    candidate = patient.candidate
    blocked = failing.breaker(candidate)
    if blocked is not None:
        return blocked
    if candidate.machine.is_initialized and left[candidate.pool] <= 0:
        return over_budget(candidate)
    if patient.repair.action == REBOOT_NODE:
        return _command(patient, Decision.REBOOT)
    if candidate.is_static:
        return _static(view, patient)
    return _dynamic(view, patient, simulation)


def _dynamic(
    view: DisruptionContext, patient: UnhealthyMachine, simulation: Simulation
) -> Command | Blocked:
    candidate = patient.candidate
    try:
        answer = simulation.repairing(candidate)
    except NoPoolsError as error:
        return Blocked(candidate.name, Why.UNSCHEDULABLE, str(error))
    replacements = None if answer.stranded else answer.replacements()
    if replacements is not None:
        return replace(
            _command(patient, decision_of(replacements)),
            replacements=replacements,
            placements=answer.outcome.existing,
            savings=view.savings([candidate], replacements),
        )
    credit = credit_for(candidate, view.facts)
    if answer.stranded and view.settings.terminate_first_repair and credit:
        again = simulation.repairing(candidate, is_strict=True, credit=credit)
        if not again.stranded:
            return replace(
                _command(patient, Decision.TERMINATE_FIRST),
                placements=again.outcome.existing,
                terminate_first_reason=NO_RESERVED_CAPACITY,
            )
    return no_replacement(candidate, answer)


def _static(view: DisruptionContext, patient: UnhealthyMachine) -> Command | Blocked:
    candidate = patient.candidate
    name = candidate.name
    count = strength_of(view, candidate.node_pool)
    detail = what_comes_first(count)
    if detail:
        return Blocked(name, Why.STATIC, detail, has_event=False)
    may_go_first = view.settings.terminate_first_repair
    types = view.inspection.types[candidate.pool]
    full = may_go_first and is_full(candidate.node_pool, types)
    if full and not holds_slot(candidate, types, view.facts):
        return reservations_full(candidate)
    if full or not count.slots(1):
        if not may_go_first or not is_usable(view, candidate.node_pool):
            return reservations_full(candidate) if full else at_limit(candidate)
        reason = NO_RESERVED_CAPACITY if full else STATIC_AT_LIMIT
        return replace(_command(patient, Decision.TERMINATE_FIRST), terminate_first_reason=reason)
    replacements = (static_replacement(view, candidate),)
    return replace(
        _command(patient, Decision.REPLACE),
        replacements=replacements,
        savings=view.savings([candidate], replacements),
    )


def _command(patient: UnhealthyMachine, decision: Decision) -> Command:
    return Command(
        REPAIR,
        budgets.UNHEALTHY,
        decision,
        (patient.candidate,),
        drain_bound=patient.bound,
        repair=patient.repair,
    )


def _grace_period(candidate: Candidate) -> timedelta | None:
    return durations.parse(candidate.claim.spec.termination_grace_period)


class _Failing:
    """How many machines of each pool have an unhealthy condition, however recent."""

    def __init__(self, view: DisruptionContext, policies: RepairPolicies) -> None:
        self._counts: dict[str, tuple[int, int]] = {}
        for machine in view.snapshot.nodes:
            if machine.node is None:
                continue
            pool = machine.node.metadata.labels.get(labels.NODEPOOL, "")
            total, failing = self._counts.get(pool, (0, 0))
            is_failing = any(map(policies.covers, machine.node.status.conditions))
            self._counts[pool] = total + 1, failing + is_failing

    def breaker(self, candidate: Candidate) -> Blocked | None:
        """The circuit breaker: block repair in a pool with too many unhealthy machines."""
        total, failing = self._counts.get(candidate.pool, (0, 0))
        most = math.ceil(total * _MOST_UNHEALTHY)
        if failing <= most:
            return None
        detail = (
            f"{failing} of {total} nodes of NodePool {candidate.pool} are unhealthy,"
            f" and no more than {most} may be for any of them to be repaired"
        )
        event_message = (
            f'more than {_MOST_UNHEALTHY:.0%} of nodes in nodepool "{candidate.pool}" are unhealthy'
        )
        return Blocked(
            candidate.name, Why.REPAIR_BLOCKED, detail, event_message=f"{event_message}: {detail}"
        )
