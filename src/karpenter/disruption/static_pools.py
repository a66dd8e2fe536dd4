"""Static pools as disruption sees them: how many nodes they have, and how many more they may have."""

from collections.abc import Iterable
from dataclasses import dataclass

from karpenter.api.karpenter import NodePool
from karpenter.cloud.types import InstanceType
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.passes import Pass
from karpenter.model import labels
from karpenter.model.quantity import units
from karpenter.model.requirements import Requirements
from karpenter.model.resources import NODES, Resources
from karpenter.scheduling.plan import Launch, PlannedClaim
from karpenter.scheduling.result import NOT_ON_CLAIMS, claim_labels, claim_name
from karpenter.scheduling.templates import template_requirements
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash


@dataclass(frozen=True, slots=True)
class Strength:
    """How many claims a static pool has."""

    replicas: int
    running: int  # and meant to stay
    being_replaced: int  # by a command under way
    free_slots: int | None  # more that its limit allows; None without a limit

    @property
    def has_too_many(self) -> bool:
        """Whether scaling down comes first."""
        return self.running + self.being_replaced > self.replicas

    def slots(self, wanted: int) -> int:
        """How many of so many more claims the limit allows."""
        return wanted if self.free_slots is None else max(0, min(wanted, self.free_slots))


def strength_of(view: Pass, pool: NodePool) -> Strength:
    """Count the claims of a static pool."""
    name = pool.metadata.name
    machines = [m for m in view.snapshot.nodes_of(name) if m.node_claim is not None]
    waiting = [
        claim
        for claim in view.snapshot.unlaunched
        if claim.metadata.labels.get(labels.NODEPOOL) == name
    ]
    running = sum(not machine.is_deleting for machine in machines)
    running += sum(claim.metadata.deletion_timestamp is None for claim in waiting)
    total = len(machines) + len(waiting)
    limit = pool.spec.limits.get(NODES)
    return Strength(
        replicas=pool.spec.replicas or 0,
        running=running,
        being_replaced=sum(
            machine.is_marked
            and machine.node_claim is not None
            and machine.node_claim.metadata.deletion_timestamp is None
            for machine in machines
        ),
        free_slots=None if limit is None else units(limit) - total,
    )


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
