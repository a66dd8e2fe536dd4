"""Pods that no pool takes now, but that a later pass places once this one has been carried out.

A pass knows less than the next one: a node that is only planned may be in any of several zones, and
counts against limits as the largest it may become. So passes are imagined one after the other, each
on the cluster that the one before it leaves, until one of them changes nothing for such pods.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from karpenter.cloud.types import ProviderFacts
from karpenter.disruption.aftermath import Aftermath
from karpenter.scheduling.compiler import Compiler
from karpenter.scheduling.plan import Plan
from karpenter.scheduling.provisioning import (
    Catalogue,
    PassSettings,
    ProvisioningPlan,
    failure_message,
    plan_provisioning,
)
from karpenter.scheduling.solve import HasTime, always
from karpenter.state.snapshot import Snapshot

_MOST_PASSES: Final = 50


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
    """Tell pods that wait for a later pass from those that fit nowhere.

    The other arguments are those that ``outcome`` was planned with.
    """
    # pods that are refused alike are told alike, so that views can put them together
    objections = {entry.pod: failure_message(entry) for entry in outcome.plan.unplaced}
    after, compiler = Aftermath(snapshot, facts, catalogue), Compiler()
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
    awaited = {pod: _told(passes[pod], objections[pod]) for pod in sorted(passes)}
    return replace(outcome, plan=replace(outcome.plan, unplaced=unplaced), next_passes=awaited)


def _does_something(plan: Plan) -> bool:
    return bool(plan.existing) or any(claim.launch is not None for claim in plan.claims)


def _placed(plan: Plan) -> set[str]:
    groups: list[Mapping[str, tuple[str, ...]]] = [
        plan.existing,
        {claim.name: claim.pods for claim in plan.claims if claim.launch is not None},
    ]
    return {pod for group in groups for pods in group.values() for pod in pods}


def _told(number: int, objection: str) -> str:
    if number > _MOST_PASSES:
        return f"waits for another pass: more than {_MOST_PASSES} come before it; now {objection}"
    which = "the next pass" if number == 1 else "a later pass"
    nodes = "the nodes of this plan are" if number == 1 else "what is planned before it is"
    return f"waits for {which}: it fits once {nodes} up; until then {objection}"
