"""Pods that no pool takes now, but that a later pass places once this one has been carried out.

A planned node may be in any of several zones, and counts against limits as the largest type it may
become; the next pass has its actual zone and size. So passes are simulated one after the
other, each on the cluster that the previous one leaves, until one changes nothing for such pods.
Both the events of the controllers and the output of ``plan`` use the result.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from karpenter.cloud.types import ProviderFacts
from karpenter.disruption.projected_state import ProjectedState
from karpenter.scheduling.attempt import HasTime, always
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.plan import Plan, Unplaced, Why
from karpenter.scheduling.provisioning import (
    FAILED_SCHEDULING,
    Catalogue,
    PassSettings,
    ProvisioningPlan,
    failed_to_schedule,
    failure_message,
    plan_provisioning,
)
from karpenter.state.snapshot import Snapshot

_MOST_PASSES: Final = 50
# Refusals that may change once planned nodes are up. All others depend on the pod, the pool and the
# catalogue, none of which a pass changes.
_PASSING: Final = frozenset(
    {
        Why.DEVICES,
        Why.LIMIT_EXCEEDED,
        Why.MIN_VALUES,  # limits may leave too little choice
        Why.NO_OFFERING,  # a combination of the others
        Why.RESERVED_CAPACITY,
        Why.TOPOLOGY,
    }
)


def may_fit_later(outcome: ProvisioningPlan) -> bool:
    """Whether there is a pod that no pool takes now and that a later pass may place."""
    return _does_something(outcome.plan) and any(map(_may_change, outcome.plan.unplaced))


def with_later_passes(
    outcome: ProvisioningPlan,
    snapshot: Snapshot,
    catalogue: Catalogue,
    facts: ProviderFacts,
    settings: PassSettings,
    *,
    now: datetime,
    has_time: HasTime = always,
) -> ProvisioningPlan:
    """Distinguish pods that a later pass places from those that fit nowhere.

    The other arguments are those that ``outcome`` was planned with. A pod that is undecided at the
    deadline counts as one that fits nowhere.
    """
    # equal refusals get equal texts, so that views can group the pods
    objections = {
        entry.pod: failure_message(entry) for entry in outcome.plan.unplaced if _may_change(entry)
    }
    after, compiler = ProjectedState(snapshot, facts, catalogue), Compiler()
    passes: dict[str, int] = {}  # pod -> which of the passes to come places it
    done, number = outcome, 0
    while _does_something(done.plan) and objections.keys() - passes and has_time():
        number += 1
        if number > _MOST_PASSES:
            passes |= dict.fromkeys(objections.keys() - passes, number)
            break
        after.carry_out(done.plan)
        done = plan_provisioning(
            after.snapshot,
            after.types,
            facts,
            settings,
            now=now,
            has_time=has_time,
            compiler=compiler,
        )
        placed = _placed(done.plan) & (objections.keys() - passes)
        if not placed:
            break
        passes |= dict.fromkeys(placed, number)
    if not passes:
        return outcome
    unplaced = tuple(entry for entry in outcome.plan.unplaced if entry.pod not in passes)
    awaited = {pod: _explanation(passes[pod], objections[pod]) for pod in sorted(passes)}
    said = {each.target: each for each in (failed_to_schedule(*item) for item in awaited.items())}
    events = tuple(
        said.get(each.target, each) if each.reason == FAILED_SCHEDULING else each
        for each in outcome.events
    )
    plan = replace(outcome.plan, unplaced=unplaced)
    return replace(outcome, plan=plan, next_passes=awaited, events=events)


def _may_change(entry: Unplaced) -> bool:
    return any(reason.why in _PASSING for reason in entry.reasons)


def _does_something(plan: Plan) -> bool:
    return bool(plan.existing) or any(claim.launch is not None for claim in plan.claims)


def _placed(plan: Plan) -> set[str]:
    groups: list[Mapping[str, tuple[str, ...]]] = [
        plan.existing,
        {claim.name: claim.pods for claim in plan.claims if claim.launch is not None},
    ]
    return {pod for group in groups for pods in group.values() for pod in pods}


def _explanation(number: int, objection: str) -> str:
    if number > _MOST_PASSES:
        return f"waits for another pass: more than {_MOST_PASSES} come before it; now {objection}"
    which = "the next pass" if number == 1 else "a later pass"
    nodes = "the nodes of this plan are" if number == 1 else "what is planned before it is"
    return f"waits for {which}: it fits once {nodes} up; until then {objection}"
