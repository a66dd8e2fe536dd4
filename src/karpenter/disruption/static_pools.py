"""Static pools as disruption sees them: how many nodes they have, and how many more are allowed."""

from karpenter.api.karpenter import NodePool
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.context import DisruptionContext
from karpenter.model import labels
from karpenter.model.claim_names import planned_name
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.compiled.templates import template_requirements
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.result import NOT_ON_CLAIMS, claim_labels
from karpenter.scheduling.static_pools import static_launches
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash
from karpenter.state.static_node_counts import StaticCount, count_static


def strength_of(view: DisruptionContext, pool: NodePool) -> StaticCount:
    """Count the claims of a static pool, as the scaling controllers count them."""
    return count_static(pool, view.snapshot, now=view.now)


def what_comes_first(count: StaticCount) -> str:
    """Why no node of a static pool is replaced now; empty if one may be."""
    if count.has_too_many:
        return "its NodePool has more nodes than replicas, which is seen to first"
    if count.held_until is not None:
        return "a node of its NodePool could not be launched, and the next is tried a little later"
    return ""


def is_usable(view: DisruptionContext, pool: NodePool) -> bool:
    """Whether a static pool is ready to make new nodes."""
    return pool in view.ground.pools.static


def static_replacement(view: DisruptionContext, candidate: Candidate) -> PlannedClaim:
    """A claim from the template of a static pool, independent of pods."""
    pool = candidate.node_pool
    spec = pool.spec.template.spec
    held = template_requirements(pool)
    return PlannedClaim(
        name=planned_name(pool.metadata.name, (f"instead of {candidate.name}",)),
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
        launch=static_launches(pool, candidate.types.values(), 1)[0],
    )
