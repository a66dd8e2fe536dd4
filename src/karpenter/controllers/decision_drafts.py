"""The records of what controllers decide about pods, pools, claims and nodes, as sentences.

Those of disruption commands are in ``disruption/command_drafts.py``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodes import Node
from karpenter.decision_log.record import Draft, Kind, Outcome, Severity
from karpenter.disruption.budgets import UNHEALTHY
from karpenter.model import labels
from karpenter.model.conditions import INITIALIZED, LAUNCHED, REGISTERED
from karpenter.scheduling.plan import Plan, PlannedClaim, Unplaced, Why

PROVISIONABLE: Final = "Provisionable"
UNSCHEDULABLE: Final = "FailedScheduling"
LAUNCHES_IN_A_ROW: Final = 3  # failed launches of a pool that make the record a warning
_NAMED: Final = 20  # pods and instance types in the detail of a record


def counted(number: int, noun: str) -> str:
    """A number and what is counted."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sampled(names: Iterable[str], most: int = 3) -> str:
    """A few names, and how many there are beyond them."""
    known = list(names)
    more = len(known) - most
    return ", ".join(known[:most]) + (f" and {more} more" if more > 0 else "")


def pass_planned(plan: Plan) -> Draft:
    """Claims that a pass is about to make."""
    pools = sorted({claim.node_pool for claim in plan.claims})
    pods = sum(len(claim.pods) for claim in plan.claims)
    needed = counted(len(plan.claims), "new node")
    return Draft(
        Kind.PROVISION,
        Outcome.BEGUN,
        PROVISIONABLE,
        f"{counted(pods, 'pod')} without a place: {needed} of {sampled(pools)}",
        node_pools=tuple(pools),
        pods=pods,
        is_estimate=plan.is_estimate,
    )


def claim_created(
    claim: NodeClaim, reason: str, planned: PlannedClaim | None, command: str
) -> Draft:
    """A claim that was made."""
    pool = _pool(claim.metadata)
    detail: dict[str, Any] = {}
    offer, pods = "any type its pool allows", 0
    if planned is not None:
        pods, types = len(planned.pods), planned.instance_types
        detail = {
            "requests": planned.requests.to_wire(),
            "instanceTypes": list(types[:_NAMED]),
            "instanceTypeCount": len(types),
            "pods": list(planned.pods[:_NAMED]),
        }
        if planned.launch is not None:
            launch = planned.launch
            detail["launch"] = {
                "instanceType": launch.instance_type,
                "zone": launch.zone,
                "capacityType": launch.capacity_type,
                "price": launch.price,
                "isEstimate": launch.is_estimate,
            }
        offer = sampled(types)
    for_pods = f" for {counted(pods, 'pod')}" if pods else ""
    return _about(
        claim,
        Kind.PROVISION,
        Outcome.DONE,
        reason[:1].upper() + reason[1:],
        f"of {pool or 'no pool'} requested{for_pods}: {offer}",
        pods=pods,
        command=command,
        detail=detail,
    )


def claim_not_created(pool: str, why: str, *, is_limit: bool, command: str = "") -> Draft:
    """A claim that was not made, because of a limit or because its pool has changed."""
    kind = Kind.LIMIT if is_limit else Kind.PROVISION
    reason = Why.LIMIT_EXCEEDED.value if is_limit else "NotCreated"
    text = f"no node made: {why}"
    return _about_pool(pool, kind, Outcome.ABANDONED, reason, text, command=command)


def pod_refused(entry: Unplaced, why: str, uid: str, *, is_old: bool) -> Draft:
    """A pod that no pool takes; after some minutes it is worth a warning."""
    pod = f"Pod/{entry.pod}"
    full = sorted({each.node_pool for each in entry.reasons if each.why is Why.LIMIT_EXCEEDED})
    judged = tuple(sorted({each.node_pool for each in entry.reasons if each.node_pool}))
    detail = {
        "reasons": [
            {"nodePool": each.node_pool, "reason": each.why.value, "detail": each.detail}
            for each in entry.reasons[:_NAMED]
        ]
    }
    if full and not is_old:
        # Notifications suppress repeats by the first object: the pool, not each refused pod
        return Draft(
            Kind.LIMIT,
            Outcome.FAILED,
            Why.LIMIT_EXCEEDED.value,
            f"no place for {entry.pod}: {why}",
            objects=(*(f"NodePool/{pool}" for pool in full), pod),
            node_pools=tuple(full),
            pods=1,
            detail=detail,
        )
    since = " for over 5 minutes" if is_old else ""
    return Draft(
        Kind.REFUSE,
        Outcome.FAILED,
        UNSCHEDULABLE,
        f"no place for {entry.pod}{since}: {why}",
        objects=(pod,),
        node_pools=judged,
        pods=1,
        detail=detail,
        severity=Severity.WARNING if is_old else Severity.INFO,
        identity=(uid, "old") if is_old and uid else (),
    )


def pod_waits(pod: str, why: str) -> Draft:
    """A pod that another pass will place."""
    return Draft(
        Kind.REFUSE,
        Outcome.BEGUN,
        "WaitsForAnotherPass",
        f"{pod} {why}",
        objects=(f"Pod/{pod}",),
        pods=1,
    )


def pool_problem(pool: str, reason: str, why: str) -> Draft:
    """A pool that is not used, or not as it is written."""
    return _about_pool(pool, Kind.CONFIG, Outcome.FAILED, reason, f"nodepool {pool}: {why}")


def _about_pool(
    pool: str, kind: Kind, outcome: Outcome, reason: str, text: str, *, command: str = ""
) -> Draft:
    objects, pools = (f"NodePool/{pool}",), (pool,)
    return Draft(kind, outcome, reason, text, objects=objects, node_pools=pools, command=command)


def no_pools() -> Draft:
    """Pods wait, and no pool could make nodes for them."""
    text = "pods wait and there is no NodePool that makes nodes for pods"
    return Draft(Kind.CONFIG, Outcome.FAILED, Why.NO_POOLS.value, text)


def launched(claim: NodeClaim, command: str) -> Draft:
    """A claim that has an instance."""
    held = claim.metadata.labels
    bought = ", ".join(
        filter(None, (held.get(key, "") for key in (labels.INSTANCE_TYPE, labels.CAPACITY_TYPE)))
    )
    text = f"launched: {bought} in {held.get(labels.ZONE, '')}"
    provider_id = {"providerID": claim.status.provider_id}
    return _about(
        claim, Kind.LAUNCH, Outcome.DONE, LAUNCHED, text, command=command, detail=provider_id
    )


def launch_failed(claim: NodeClaim, reason: str, why: str, in_a_row: int, command: str) -> Draft:
    """A claim that got no instance; several of a pool in a row are worth a warning."""
    is_row = in_a_row >= LAUNCHES_IN_A_ROW
    count = f", {in_a_row} in a row in {_pool(claim.metadata)}" if is_row else ""
    return _about(
        claim,
        Kind.LAUNCH,
        Outcome.FAILED,
        camel_case(reason),
        f"not launched{count}: {why}",
        # Notifications suppress repeats by the first object: after several failures it is the pool
        objects=(*(_pool_objects(claim.metadata) if is_row else ()), *_objects(claim)),
        severity=Severity.WARNING if is_row else Severity.INFO,
        command=command,
        detail={"inARow": in_a_row},
    )


def not_registered(claim: NodeClaim, reason: str, command: str) -> Draft:
    """A claim whose node did not join in time."""
    text = "given up: its node did not join the cluster in time"
    kind, outcome = Kind.REGISTER, Outcome.FAILED
    return _about(
        claim, kind, outcome, camel_case(reason), text, severity=Severity.INFO, command=command
    )


def registered(claim: NodeClaim, node: Node, command: str) -> Draft:
    """A node that has joined."""
    return _step(
        claim, Kind.REGISTER, REGISTERED, "has joined the cluster", node.metadata.name, command
    )


def initialized(claim: NodeClaim, command: str) -> Draft:
    """A node that is ready for pods."""
    return _step(
        claim, Kind.INITIALIZE, INITIALIZED, "is ready for pods", claim.status.node_name, command
    )


def tainted(node: Node, claim: NodeClaim | None, reason: str, command: str) -> Draft:
    """A node that takes no more pods, and loses those it has."""
    about = (f"NodeClaim/{claim.metadata.name}",) if claim is not None else ()
    text = "takes no new pods"
    return _about_node(node, Kind.DRAIN, Outcome.BEGUN, reason, text, about, command=command)


def node_gone(node: Node, command: str) -> Draft:
    """A node that was drained and released."""
    reason, text = "NodeDeleted", "is gone"
    return _about_node(node, Kind.TERMINATE, Outcome.DONE, reason, text, command=command)


def _about_node(
    node: Node,
    kind: Kind,
    outcome: Outcome,
    reason: str,
    text: str,
    also: tuple[str, ...] = (),
    *,
    command: str,
) -> Draft:
    name, pools = node.metadata.name, _pools(node.metadata)
    objects = (f"Node/{name}", *also)
    text = f"{name} {text}"
    return Draft(kind, outcome, reason, text, objects=objects, node_pools=pools, command=command)


def claim_gone(claim: NodeClaim, command: str) -> Draft:
    """A claim whose instance is gone."""
    kind, text = Kind.TERMINATE, "and its instance are gone"
    provider_id = {"providerID": claim.status.provider_id}
    return _about(
        claim, kind, Outcome.DONE, "NodeClaimDeleted", text, command=command, detail=provider_id
    )


def expired(claim: NodeClaim) -> Draft:
    """A claim that is as old as it may become."""
    return _removed(claim, Kind.DISRUPT, "Expired", "its expireAfter has passed")


def surplus(claim: NodeClaim) -> Draft:
    """A claim that a static pool does not need any more."""
    why = f"nodepool {_pool(claim.metadata)} has more nodes than replicas"
    return _removed(claim, Kind.DISRUPT, "Surplus", why)


def unhealthy(claim: NodeClaim, condition: Condition) -> Draft:
    """A node that is deleted because of an unhealthy condition."""
    return _removed(claim, Kind.REPAIR, UNHEALTHY, f"{condition.type} is {condition.status}")


def instance_lost(claim: NodeClaim) -> Draft:
    """A claim whose instance the cloud does not have any more."""
    return _removed(claim, Kind.TERMINATE, "GarbageCollected", "its instance is gone")


def invalid_budget(pool: str, problem: str) -> Draft:
    """A disruption budget that cannot be read."""
    return pool_problem(pool, "InvalidBudget", problem)


def used_in_part(pool: str, warning: str) -> Draft:
    """A pool of which something has no effect."""
    return pool_problem(pool, "UsedInPart", warning)


def _removed(claim: NodeClaim, kind: Kind, reason: str, why: str) -> Draft:
    identity = (claim.metadata.uid,) if claim.metadata.uid else ()
    return _about(claim, kind, Outcome.BEGUN, reason, f"goes: {why}", identity=identity)


def instance_collected(provider_id: str, carried: Mapping[str, str]) -> Draft:
    """An instance that no claim has."""
    pool = carried.get(labels.NODEPOOL, "")
    return Draft(
        Kind.TERMINATE,
        Outcome.DONE,
        "GarbageCollected",
        f"instance {provider_id} terminated: no NodeClaim has it",
        objects=(f"Instance/{provider_id}",),
        node_pools=(pool,) if pool else (),
    )


def rebooted(claim: NodeClaim, outcome: Outcome, text: str, command: str) -> Draft:
    """A step of restarting a machine in place."""
    reason = {Outcome.BEGUN: "Rebooting", Outcome.DONE: "Rebooted"}.get(outcome, "RebootFailed")
    return _about(claim, Kind.REPAIR, outcome, reason, text, command=command)


def camel_case(reason: str) -> str:
    """Convert a reason label of metrics (``launch_timeout``) to that of records."""
    return "".join(word[:1].upper() + word[1:] for word in reason.split("_"))


def _step(claim: NodeClaim, kind: Kind, reason: str, text: str, node: str, command: str) -> Draft:
    objects = (f"NodeClaim/{claim.metadata.name}", *((f"Node/{node}",) if node else ()))
    return _about(claim, kind, Outcome.DONE, reason, text, objects=objects, command=command)


def _about(
    claim: NodeClaim,
    kind: Kind,
    outcome: Outcome,
    reason: str,
    text: str,
    *,
    objects: tuple[str, ...] = (),
    **more: Any,
) -> Draft:
    """A draft about a claim: its text begins with the claim's name, and it belongs to its pool."""
    return Draft(
        kind,
        outcome,
        reason,
        f"{claim.metadata.name} {text}",
        objects=objects or _objects(claim),
        node_pools=_pools(claim.metadata),
        **more,
    )


def _objects(claim: NodeClaim) -> tuple[str, ...]:
    node = claim.status.node_name
    return (f"NodeClaim/{claim.metadata.name}", *((f"Node/{node}",) if node else ()))


def _pool(metadata: ObjectMeta) -> str:
    return metadata.labels.get(labels.NODEPOOL, "")


def _pools(metadata: ObjectMeta) -> tuple[str, ...]:
    pool = _pool(metadata)
    return (pool,) if pool else ()


def _pool_objects(metadata: ObjectMeta) -> tuple[str, ...]:
    return tuple(f"NodePool/{pool}" for pool in _pools(metadata))
