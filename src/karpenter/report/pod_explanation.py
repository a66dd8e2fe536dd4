"""The explanation of one pod in a pass: where it went or why nowhere, and what else was possible.

It is made after the pass. For a pod that was placed, pools and machines are checked as if this one
pod had not been.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from karpenter.model.resources import NO_RESOURCES, Resources
from karpenter.report.launch_progress import awaited_by
from karpenter.report.provisioning import (
    deferred_with_reasons,
    launch_document,
    unplaced_with_reasons,
)
from karpenter.report.purchase_explanation import (
    PurchaseExplanation,
    planned_purchase,
    purchase_document,
)
from karpenter.scheduling.attempt import Attempt
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.plan import Launch, PlannedClaim, Reason
from karpenter.scheduling.provisioning import ProvisioningPlan
from karpenter.scheduling.reasons.node_refusals import NodeVerdicts
from karpenter.scheduling.reasons.pod_verdicts import SolveCapture, pod_verdicts
from karpenter.scheduling.reasons.pool_checks import PoolVerdict, other_ways
from karpenter.scheduling.reasons.preferences import Preference
from karpenter.state.pods import is_bound, key_of
from karpenter.state.requests import pod_requests
from karpenter.state.snapshot import Snapshot


class PodOutcome(StrEnum):
    """What becomes of a pod."""

    NEW_NODE = "NewNode"
    EXISTING_NODE = "ExistingNode"
    UNPLACED = "Unplaced"
    DEFERRED = "Deferred"
    IGNORED = "Ignored"
    RUNNING = "Running"


@dataclass(frozen=True, slots=True)
class Place:
    """The node a pod would go to."""

    name: str
    node_pool: str
    pods: tuple[str, ...]  # those planned for the same node, this one included
    launch: Launch | None = None  # of a new node
    instance_types: int = 0  # that a new node could still be
    equally_cheap: int = 0  # how many of them cost the same
    next_best: Launch | None = None  # the cheapest of those that cost more
    awaits: str = ""  # what a node that is not initialized waits for itself
    purchase: PurchaseExplanation | None = None  # of a new node that was packed by price


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """The explanation of one pod."""

    pod: str
    fate: PodOutcome
    reason: str  # CamelCase; nothing for a pod that has a place, or where pools differ
    detail: str
    requests: Resources = NO_RESOURCES
    place: Place | None = None
    preferences: tuple[Preference, ...] = ()
    pools: tuple[PoolVerdict, ...] = ()  # in the order they are tried, unusable ones last
    nodes: NodeVerdicts = field(default_factory=lambda: NodeVerdicts((), ()))
    costly: str = ""  # why it is planned for after others, if it is


def explain_pod(
    pod: str, snapshot: Snapshot, outcome: ProvisioningPlan, captured: SolveCapture
) -> PodExplanation:
    """Explain one pod of a cluster, named as ``namespace/name``."""
    fate, reason, detail = _fate(pod, snapshot, outcome)
    unusable = [PoolVerdict(r.node_pool, 0, False, r.why, r.detail) for r in outcome.pools.excluded]
    explanation = PodExplanation(
        pod=pod,
        fate=fate,
        reason=reason,
        detail=detail,
        requests=pod_requests(snapshot.pods[pod]),
        place=_place(pod, snapshot, outcome),
        pools=tuple(unusable) if fate is PodOutcome.UNPLACED else (),
        costly=outcome.plan.costly.get(pod, ""),
    )
    compiled, attempt = captured.compiled, captured.attempt
    if compiled is None or attempt is None or fate in (PodOutcome.IGNORED, PodOutcome.RUNNING):
        return explanation
    position = next((i for i, p in enumerate(compiled.problem.pods) if key_of(p) == pod), None)
    if position is None:  # it failed before it could be tried
        return explanation
    launch = explanation.place.launch if explanation.place is not None else None
    sight = pod_verdicts(compiled, attempt, position, launch)
    return replace(
        explanation,
        place=_with_choices(explanation.place, compiled, attempt, position),
        preferences=sight.preferences,
        pools=(*sight.pools, *unusable),
        nodes=sight.nodes,
    )


def _with_choices(
    place: Place | None, compiled: CompiledProblem, attempt: Attempt, position: int
) -> Place | None:
    claim = next((c for c in attempt.packing.claims if position in c.members), None)
    if place is None or place.launch is None or claim is None:
        return place
    same, dearer = other_ways(compiled.templates[claim.template], claim, place.launch)
    return replace(place, equally_cheap=same, next_best=dearer)


def _fate(pod: str, snapshot: Snapshot, outcome: ProvisioningPlan) -> tuple[PodOutcome, str, str]:
    for entry, reasons in unplaced_with_reasons(outcome):
        if entry.pod == pod:
            return PodOutcome.UNPLACED, *_summary(reasons)
    for ignored in outcome.ignored:
        if ignored.pod == pod:
            return PodOutcome.IGNORED, ignored.why.value, ignored.detail
    for deferred, why, detail in deferred_with_reasons(outcome):
        if deferred == pod:
            return PodOutcome.DEFERRED, why.value, detail
    if any(pod in pods for pods in outcome.plan.existing.values()):
        return PodOutcome.EXISTING_NODE, "", "it fits on a node that exists or is on its way"
    if any(pod in claim.pods for claim in outcome.plan.claims):
        return PodOutcome.NEW_NODE, "", "it gets a node that would be created"
    return PodOutcome.RUNNING, "", _running(pod, snapshot)


def _summary(reasons: tuple[Reason, ...]) -> tuple[str, str]:
    kinds = {reason.why.value for reason in reasons}
    detail = reasons[0].detail if len(reasons) == 1 else f"none of {len(reasons)} pools takes it"
    return kinds.pop() if len(kinds) == 1 else "", detail


def _running(pod: str, snapshot: Snapshot) -> str:
    found = snapshot.pods[pod]
    if is_bound(found):
        return f"it is on node {found.spec.node_name} and needs no other"
    return "it has no node and waits for none"


def _place(pod: str, snapshot: Snapshot, outcome: ProvisioningPlan) -> Place | None:
    for claim in outcome.plan.claims:
        if pod in claim.pods:
            return _new(claim, planned_purchase(outcome.plan.packing, claim, pod))
    for name, pods in outcome.plan.existing.items():
        if pod in pods:
            node = snapshot.node(name)
            if node is None:
                return Place(name, "", pods)
            return Place(name, node.node_pool, pods, awaits=awaited_by(node))
    return None


def _new(claim: PlannedClaim, purchase: PurchaseExplanation | None) -> Place:
    return Place(
        claim.name,
        claim.node_pool,
        claim.pods,
        claim.launch,
        len(claim.instance_types),
        purchase=purchase,
    )


def explanation_document(explanation: PodExplanation) -> dict[str, Any]:
    """Write the explanation of a pod as plain data."""
    return {
        "pod": explanation.pod,
        "outcome": explanation.fate.value,
        "reason": explanation.reason,
        "detail": explanation.detail,
        **({"costly": explanation.costly} if explanation.costly else {}),
        "requests": explanation.requests.to_wire(),
        "place": _place_document(explanation.place) if explanation.place is not None else None,
        "wishes": [
            {"wish": preference.text, "met": preference.is_met}
            for preference in explanation.preferences
        ],
        "nodePools": [_pool_document(pool) for pool in explanation.pools],
        "nodes": {
            "total": explanation.nodes.total,
            "possible": list(explanation.nodes.possible),
            "refused": [
                {"detail": refusal.detail, "nodes": list(refusal.nodes)}
                for refusal in explanation.nodes.refusals
            ],
        },
    }


def _place_document(place: Place) -> dict[str, Any]:
    return {
        "node": place.name,
        "nodePool": place.node_pool,
        "pods": list(place.pods),
        "launch": launch_document(place.launch) if place.launch is not None else None,
        "instanceTypes": place.instance_types,
        "equallyCheap": place.equally_cheap,
        "nextBest": launch_document(place.next_best) if place.next_best is not None else None,
        **({"awaits": place.awaits} if place.awaits else {}),
        **({"why": purchase_document(place.purchase)} if place.purchase is not None else {}),
    }


def _pool_document(pool: PoolVerdict) -> dict[str, Any]:
    return {
        "nodePool": pool.node_pool,
        "weight": pool.weight,
        "possible": pool.is_possible,
        "reason": pool.why.value if pool.why is not None else "",
        "detail": pool.detail,
        "checks": [
            {"check": check.step.value, "passed": check.passed, "detail": check.detail}
            for check in pool.checks
        ],
        "instanceTypes": pool.instance_types,
        "cheapest": launch_document(pool.cheapest) if pool.cheapest is not None else None,
    }
