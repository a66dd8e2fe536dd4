"""A provisioning plan as plain data: the ``provisioning`` part of ``karpenter plan -o json``.

The shape is a contract that other tools depend on; ``plan.schema.json``, which is shipped, states
it. Nothing is decided or omitted here: every pod of the pass is in exactly one of the lists.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from importlib import resources
from typing import Any, Final

from karpenter.model.bodies import requirement_body, taint_body
from karpenter.scheduling.commitments import Use
from karpenter.scheduling.plan import (
    Alternative,
    Launch,
    Plan,
    PlannedClaim,
    RatioOutcome,
    Reason,
    Unplaced,
)
from karpenter.scheduling.provisioning import Announcement, BufferOutcome, ProvisioningPlan
from karpenter.scheduling.spot.workload_ratio import WorkloadOutcome
from karpenter.scheduling.static_pools import StaticOutcome

_CAUSES: Final = 3  # of claims that have not launched
_FILE: Final = "plan.schema.json"
_PROVED: Final = 1e-4  # gaps below it are rounding errors: the plan is optimal


class WhyDeferred(StrEnum):
    """Why a pod that could be placed has to wait for another pass."""

    RESERVED_CAPACITY = "ReservedCapacityTaken"
    NOT_EVALUATED = "NotEvaluated"
    NOT_SYNCED = "ClusterStateNotSynced"
    FITS_LATER = "NextPass"


def provisioning_document(outcome: ProvisioningPlan) -> dict[str, Any]:
    """Write a plan as plain data."""
    plan = outcome.plan
    return {
        "nodeClaims": [claim_document(claim) for claim in plan.claims],
        "existing": {node: list(pods) for node, pods in sorted(plan.existing.items())},
        "unplaced": [
            {"pod": entry.pod, "reasons": reasons} for entry, reasons in _unplaced(outcome)
        ],
        "ignored": [
            {"pod": entry.pod, "reason": entry.why.value, "detail": entry.detail}
            for entry in outcome.ignored
        ],
        "deferred": [
            {"pod": pod, "reason": why.value, "detail": detail}
            for pod, why, detail in deferred_with_reasons(outcome)
        ],
        "buffers": [_buffer(buffer) for buffer in outcome.buffers],
        "static": [_static(pool) for pool in outcome.static],
        "events": [event_document(event) for event in outcome.events],
        "cost": _cost(outcome),
        **_commitments(outcome.plan),
    }


def gap_of(plan: Plan) -> float | None:
    """By how much a plan costs more than its lower bound, as a part of it; None if not known."""
    if plan.lower_bound <= 0:
        return None
    return max(0.0, plan.marginal_cost / plan.lower_bound - 1)


def _cost(outcome: ProvisioningPlan) -> dict[str, Any]:
    plan = outcome.plan
    gap = gap_of(plan)
    found: dict[str, Any] = {
        "hourly": plan.hourly_cost,
        "expectedHourly": plan.expected_cost,
        "lowerBoundHourly": plan.lower_bound,
        "boundMethod": plan.bound.method,
        "gapPercent": None if gap is None else gap * 100,
        "isProvedOptimal": gap is not None and gap < _PROVED,
        **estimate_mark(plan.is_estimate),
    }
    if plan.commitments:
        found["marginalHourly"] = plan.marginal_cost
        found["coveredHourly"] = plan.covered_cost
    if plan.packing is not None:
        found["packing"] = {
            "mode": plan.packing.mode.value,
            "candidate": plan.packing.candidate.value,
            "solver": plan.packing.solver,
            "isCut": plan.packing.is_cut,
            "alternatives": [alternative_document(entry) for entry in plan.packing.alternatives],
        }
    if plan.ratios:
        found["spotRatios"] = [_spot_ratio(ratio) for ratio in plan.ratios]
    if outcome.workload_ratios:
        found["workloadRatios"] = [_workload_ratio(each) for each in outcome.workload_ratios]
    if outcome.cheapest is not None:
        found["cheapest"] = alternative_document(outcome.cheapest)
    return found


def _commitments(plan: Plan) -> dict[str, Any]:
    return {"commitments": [_use(each) for each in plan.commitments]} if plan.commitments else {}


def _use(use: Use) -> dict[str, Any]:
    return {
        "name": use.name,
        "usedHourly": use.used,
        "leftHourly": use.left,
        "wastedHourly": use.wasted,
        "machines": use.machines,
    }


def alternative_document(entry: Alternative) -> dict[str, Any]:
    """Write what one candidate for a packing would cost as plain data."""
    return {
        "candidate": entry.candidate.value,
        "hourly": entry.hourly,
        "expectedHourly": entry.expected_hourly,
        "nodes": entry.nodes,
        "refused": entry.refused,
    }


def _spot_ratio(ratio: RatioOutcome) -> dict[str, Any]:
    return {
        "nodePool": ratio.node_pool,
        "askedPercent": ratio.asked,
        "onDemandBaseCpu": ratio.base,
        "spotPercent": ratio.percent,
        "spotCpu": ratio.spot_cpu,
        "totalCpu": ratio.total_cpu,
        "pinnedClaims": ratio.pinned,
        "isMet": ratio.is_met,
    }


def _workload_ratio(workload: WorkloadOutcome) -> dict[str, Any]:
    return {
        "owner": workload.owner,
        "pods": workload.pods,
        "offSpotAsked": workload.asked,
        "offSpotNow": workload.bound,
        "offSpotPlanned": list(workload.pinned),
        "isMet": workload.is_met,
    }


def estimate_mark(is_estimate: bool) -> dict[str, Any]:
    """The mark of an object whose amounts of money are estimates."""
    return {"isEstimate": True} if is_estimate else {}


def claim_document(claim: PlannedClaim) -> dict[str, Any]:
    """Write a node that would be created as plain data."""
    return {
        "name": claim.name,
        "nodePool": claim.node_pool,
        "pods": list(claim.pods),
        "instanceTypes": list(claim.instance_types),
        "requirements": [requirement_body(entry) for entry in claim.requirements.to_wire()],
        "labels": dict(sorted(claim.labels.items())),
        "annotations": dict(sorted(claim.annotations.items())),
        "taints": [taint_body(taint) for taint in claim.taints],
        "startupTaints": [taint_body(taint) for taint in claim.startup_taints],
        "requests": claim.requests.to_wire(),
        "launch": launch_document(claim.launch) if claim.launch else None,
    }


def launch_document(launch: Launch) -> dict[str, Any]:
    """Write a way to have a machine as plain data."""
    return {
        "instanceType": launch.instance_type,
        "zone": launch.zone,
        "capacityType": launch.capacity_type,
        "price": launch.price,
        **({} if launch.risk_hourly is None else {"riskHourly": launch.risk_hourly}),
        **estimate_mark(launch.is_estimate),
        **_coverage(launch),
    }


def _coverage(launch: Launch) -> dict[str, Any]:
    if not launch.covered_by:
        return {}
    parts = [{"commitment": each.commitment, "hourly": each.hourly} for each in launch.covered_by]
    return {"coveredBy": parts}


def unplaced_with_reasons(
    outcome: ProvisioningPlan,
) -> Iterator[tuple[Unplaced, tuple[Reason, ...]]]:
    """Yield pods that fit nowhere with a reason for each pool, unusable pools included.

    Pods that were refused alike share one tuple of reasons.
    """
    known: dict[int, tuple[Reason, ...]] = {}  # by identity: there may be thousands of pools
    for entry in outcome.plan.unplaced:
        reasons = known.get(id(entry.reasons))
        if reasons is None:
            judged = {reason.node_pool for reason in entry.reasons}
            unused = [each for each in outcome.pools.excluded if each.node_pool not in judged]
            every_pool_is_meant = "" in judged
            reasons = entry.reasons if every_pool_is_meant else (*entry.reasons, *unused)
            known[id(entry.reasons)] = reasons
        yield entry, reasons


def deferred_with_reasons(
    outcome: ProvisioningPlan,
) -> Iterator[tuple[str, WhyDeferred, str]]:
    """Yield the pods that have to wait for another pass, each with why."""
    if outcome.waiting_for:
        named = _named(outcome.waiting_for)
        verb = "has" if len(outcome.waiting_for) == 1 else "have"
        why, detail = WhyDeferred.NOT_SYNCED, f"nothing is planned before {named} {verb} launched"
        if outcome.why_unlaunched:
            causes, left = outcome.why_unlaunched[:_CAUSES], len(outcome.why_unlaunched) - _CAUSES
            more = f"; and {left} more" if left > 0 else ""
            detail = f"{detail} ({'; '.join(causes)}{more})"
    else:
        why = WhyDeferred.RESERVED_CAPACITY
        detail = (
            "every reservation it could use is taken, and it waits for one;"
            " pools that come later are not tried"
        )
    for pod in outcome.plan.deferred:
        yield pod, why, detail
    for pod in outcome.plan.unevaluated:
        late = "the time ran out before its turn; the next pass begins with it"
        if pod in outcome.plan.costly:
            late = "a pass affords only so many pods that are costly to plan for; a later one does"
        yield pod, WhyDeferred.NOT_EVALUATED, late
    for pod, detail in outcome.next_passes.items():
        yield pod, WhyDeferred.FITS_LATER, detail


def _unplaced(outcome: ProvisioningPlan) -> Iterator[tuple[Unplaced, list[dict[str, Any]]]]:
    written: dict[int, list[dict[str, Any]]] = {}  # by identity of the shared reasons
    for entry, reasons in unplaced_with_reasons(outcome):
        if id(reasons) not in written:
            written[id(reasons)] = [_reason(reason) for reason in reasons]
        yield entry, written[id(reasons)]


def _named(claims: Iterable[str]) -> str:
    names = list(claims)
    more = f" and {len(names) - 3} others" if len(names) > 3 else ""
    noun = "NodeClaim" if len(names) == 1 else "NodeClaims"
    return f"{noun} {', '.join(names[:3])}{more}"


def _reason(reason: Reason) -> dict[str, Any]:
    return {"nodePool": reason.node_pool, "reason": reason.why.value, "detail": reason.detail}


def _buffer(buffer: BufferOutcome) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "replicas": buffer.replicas,
        "ready": buffer.ready,
        "nodes": list(buffer.nodes),
    }


def _static(pool: StaticOutcome) -> dict[str, Any]:
    return {
        "nodePool": pool.node_pool,
        "replicas": pool.replicas,
        "have": pool.have,
        "create": pool.create,
        "delete": list(pool.delete),
    }


def event_document(event: Announcement) -> dict[str, Any]:
    """Write an event that users would read as plain data."""
    return {
        "object": event.target,
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        "message": event.message,
    }


def plan_schema() -> str:
    """The schema as text."""
    return resources.files("karpenter.report").joinpath(_FILE).read_text(encoding="utf-8")
