"""Which pools may be used for new nodes, and why the others may not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.api.meta import Condition
from karpenter.cloud.types import ProviderFacts
from karpenter.scheduling.plan import Reason, Why
from karpenter.state.snapshot import NodeClass


@dataclass(frozen=True, slots=True)
class Pools:
    """Pools sorted out; each list is sorted by name."""

    dynamic: tuple[NodePool, ...]  # may be used for pods
    static: tuple[NodePool, ...]  # have a fixed number of nodes
    excluded: tuple[Reason, ...]


def sort_out_pools(
    pools: Iterable[NodePool],
    node_classes: Mapping[NodeClassReference, NodeClass],
    facts: ProviderFacts,
) -> Pools:
    """Sort out which pools may be used.

    A class that is missing counts against a pool only where classes of its kind are known at all:
    a set of files often leaves them out.
    """
    dynamic: list[NodePool] = []
    static: list[NodePool] = []
    excluded: list[Reason] = []
    kinds = {(reference.group, reference.kind) for reference in node_classes}
    for pool in sorted(pools, key=lambda pool: pool.metadata.name):
        objection = _objection(pool, node_classes, kinds, facts)
        if objection is not None:
            excluded.append(Reason(pool.metadata.name, *objection))
        elif pool.spec.replicas is not None:
            static.append(pool)
        else:
            dynamic.append(pool)
    return Pools(tuple(dynamic), tuple(static), tuple(excluded))


def _objection(
    pool: NodePool,
    node_classes: Mapping[NodeClassReference, NodeClass],
    kinds: set[tuple[str, str]],
    facts: ProviderFacts,
) -> tuple[Why, str] | None:
    reference = pool.spec.template.spec.node_class_ref
    served = facts.node_classes
    if served and (reference.group, reference.kind) not in served:
        names = " or ".join(kind for _, kind in served)
        return Why.CLASS_UNSUPPORTED, (
            f"provider {facts.name} serves {names}, not {reference.kind} of {reference.group}"
        )
    if pool.metadata.deletion_timestamp is not None:
        return Why.POOL_DELETING, "the pool is being deleted"
    node_class = node_classes.get(reference)
    if node_class is None and (reference.group, reference.kind) in kinds:
        return Why.CLASS_NOT_FOUND, f"there is no {reference.kind} {reference.name}"
    ready = _ready(node_class.status.conditions) if node_class is not None else None
    if ready is not None and ready.status == "False":
        return Why.CLASS_NOT_READY, f"{reference.kind} {reference.name} is not ready: {_why(ready)}"
    ready = _ready(pool.status.conditions)
    if ready is None or ready.status != "True":
        return Why.POOL_NOT_READY, f"the pool is not ready: {_why(ready)}"
    return None


def _ready(conditions: Iterable[Condition]) -> Condition | None:
    return next((condition for condition in conditions if condition.type == "Ready"), None)


def _why(condition: Condition | None) -> str:
    if condition is None:
        return "nothing has judged it so far"
    return condition.message or condition.reason or condition.status
