"""Static pools as disruption sees them: how many nodes they have, and how many more they may have."""

from collections.abc import Iterable

from karpenter.api.karpenter import NodePool
from karpenter.cloud.types import InstanceType
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.passes import Pass
from karpenter.model import labels
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.plan import Launch, PlannedClaim
from karpenter.scheduling.result import NOT_ON_CLAIMS, claim_labels, claim_name
from karpenter.scheduling.templates import template_requirements
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash
from karpenter.state.static_count import StaticCount, count_static


def strength_of(view: Pass, pool: NodePool) -> StaticCount:
    """Count the claims of a static pool, as whoever scales it counts them."""
    return count_static(pool, view.snapshot, now=view.now)


def what_comes_first(count: StaticCount) -> str:
    """Why no node of a static pool is replaced for now; nothing if it may be."""
    if count.has_too_many:
        return "its NodePool has more nodes than replicas, which is seen to first"
    if count.held_until is not None:
        return "a node of its NodePool could not be launched, and the next is tried a little later"
    return ""


def is_usable(view: Pass, pool: NodePool) -> bool:
    """Whether a static pool is ready to make new nodes."""
    return pool in view.ground.pools.static


def static_replacement(view: Pass, candidate: Candidate) -> PlannedClaim:
    """A claim straight from the template of a static pool, for no pod in particular."""
    pool = candidate.node_pool
    spec = pool.spec.template.spec
    held = template_requirements(pool)
    return PlannedClaim(
        name=claim_name(pool.metadata.name, (f"instead of {candidate.name}",)),
        node_pool=pool.metadata.name,
        pods=(),
        instance_types=(),
        requirements=Requirements(entry for entry in held if entry.key not in NOT_ON_CLAIMS),
        labels=claim_labels(pool, held, view.facts),
        annotations={
            **pool.spec.template.metadata.annotations,
            labels.NODEPOOL_HASH: node_pool_hash(pool),
            labels.NODEPOOL_HASH_VERSION: NODEPOOL_HASH_VERSION,
            labels.REPLACES: candidate.claim.metadata.name,
        },
        taints=spec.taints,
        startup_taints=spec.startup_taints,
        requests=Resources(),
        node_class_ref=spec.node_class_ref,
        expire_after=spec.expire_after,
        termination_grace_period=spec.termination_grace_period
        or view.facts.default_termination_grace_period,
        launch=_cheapest(held, candidate.types.values()),
    )


def _cheapest(held: Requirements, types: Iterable[InstanceType]) -> Launch | None:
    ways = [
        Launch(
            each.name, offering.zone, offering.capacity_type, offering.price, offering.is_estimate
        )
        for each in types
        if each.requirements.intersects(held)
        for offering in each.offerings
        if offering.is_launchable and offering.requirements.intersects(held)
    ]
    return min(
        ways,
        key=lambda way: (way.price, way.instance_type, way.zone, way.capacity_type),
        default=None,
    )
