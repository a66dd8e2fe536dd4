"""Which pools may be used for new nodes, and why the others may not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.api.meta import Condition
from karpenter.api.node_classes import NodeClass
from karpenter.cloud.types import ProviderFacts
from karpenter.model.conditions import (
    FALSE,
    NODE_REGISTRATION_HEALTHY,
    READY,
    STATIC_CAPACITY,
    find,
    in_words,
    is_true,
)
from karpenter.scheduling.plan import Reason, Why

# Ready itself, which is derived from others, and conditions that may be false on a ready pool
_HARMLESS: Final = frozenset({READY, STATIC_CAPACITY, NODE_REGISTRATION_HEALTHY})


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools by use; each list is sorted by name."""

    dynamic: tuple[NodePool, ...]  # may be used for pods
    static: tuple[NodePool, ...]  # have a fixed number of nodes
    excluded: tuple[Reason, ...]


def sort_out_pools(
    pools: Iterable[NodePool],
    node_classes: Mapping[NodeClassReference, NodeClass],
    facts: ProviderFacts,
) -> Pools:
    """Determine which pools may be used.

    A missing node class excludes a pool only if the snapshot has node classes of that kind at all:
    files often omit them.
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
    if not facts.serves(reference):
        names = " or ".join(kind for _, kind in facts.node_classes) or "no node class"
        return Why.CLASS_UNSUPPORTED, (
            f"provider {facts.name} serves {names}, not {reference.kind} of {reference.group}"
        )
    if pool.metadata.deletion_timestamp is not None:
        return Why.POOL_DELETING, "the pool is being deleted"
    node_class = node_classes.get(reference)
    if node_class is None and (reference.group, reference.kind) in kinds:
        return Why.CLASS_NOT_FOUND, f"there is no {reference.kind} {reference.name}"
    held = node_class.status.conditions if node_class is not None else ()
    ready = find(held, READY)
    if ready is not None and ready.status == FALSE:
        return Why.CLASS_NOT_READY, f"{reference.kind} {reference.name} is not ready: {_why(held)}"
    held = pool.status.conditions
    if not is_true(held, READY):
        return Why.POOL_NOT_READY, f"the pool is not ready: {_why(held)}"
    return None


def _why(conditions: Iterable[Condition]) -> str:
    """Why an object is not ready: the failed conditions that Ready is derived from.

    Conditions of a pool that do not affect Ready are skipped.
    """
    held = list(conditions)
    ready = find(held, READY)
    if ready is None:
        return "nothing has judged it so far"
    failing = [each for each in held if each.status == FALSE and each.type not in _HARMLESS]
    if failing:
        return "; ".join(map(in_words, failing))
    return ready.message or ready.reason or ready.status
