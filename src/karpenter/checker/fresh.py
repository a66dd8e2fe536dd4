"""Whether a fresh node of a pool could take a pod, for pods that look at no other pod.

This is the question a plan must not get wrong: such a pod may only be left out, or sent to a less
preferred pool, when the answer is no.
"""

from collections.abc import Iterator, Sequence

from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod, Toleration
from karpenter.checker.amounts import minus, overdrawn, plus, pod_amounts, room_of
from karpenter.checker.inputs import Cluster, Pool, Rule, Violation, pod_name
from karpenter.checker.labels import Demand, about, can_agree, node_alternatives, untolerated
from karpenter.checker.machines import Daemon
from karpenter.checker.neighbours import Standing, means, required_terms
from karpenter.checker.places import (
    NewPlace,
    Way,
    admits,
    clashing_ports,
    daemons_on,
    pool_demands,
    ways_of,
)
from karpenter.checker.spreading import constraints_of

_SOFT = Toleration(operator="Exists", effect="PreferNoSchedule")


def takes_fresh(
    cluster: Cluster,
    pool: Pool,
    pod: Pod,
    asked: Sequence[Demand],
    tolerations: Sequence[Toleration],
    daemons: Sequence[Daemon],
) -> bool:
    """Whether a fresh node of a pool, and nothing else on it, takes a pod with these demands."""
    template = pool.node_pool.spec.template.spec
    if untolerated(template.taints, tolerations, soft_too=True) is not None:
        return False
    promised = pool_demands(pool.node_pool)
    if not admits(promised, asked, cluster.facts.well_known_labels):
        return False
    together = [*promised, *asked]
    ways = [
        way
        for instance_type in pool.instance_types
        for way in ways_of(instance_type)
        if way.can_launch and _agrees(way, together) and _has_room(cluster, pool, pod, way, daemons)
    ]
    return bool(ways) and (
        cluster.policies.best_effort_min_values or _leaves_choice(pool.node_pool, ways, together)
    )


def completeness_violations(
    cluster: Cluster, left_out: Sequence[Pod], everyone: Sequence[Standing], daemons: list[Daemon]
) -> Iterator[Violation]:
    """Yield the pods left out although a fresh node of an unlimited pool would take them."""
    for pod in left_out:
        if not looks_at_no_other(cluster, pod, everyone, left_out):
            continue
        for pool in _unlimited(cluster):
            for asked, tolerations in _last_resorts(cluster, pod):
                if takes_fresh(cluster, pool, pod, asked, tolerations, daemons):
                    detail = f"pool {pool.node_pool.metadata.name} could make a node for it"
                    yield Violation(Rule.COMPLETENESS, pod_name(pod), detail)


def order_violations(
    cluster: Cluster,
    place: NewPlace,
    everyone: Sequence[Standing],
    left_out: Sequence[Pod],
    daemons: list[Daemon],
) -> Iterator[Violation]:
    """Yield the pools that should have made the node for a claim's first pod instead."""
    if not place.placed:
        return
    pod = place.placed[0]
    alternatives = node_alternatives(pod.spec)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    has_wishes = affinity is not None and bool(affinity.preferred)
    if len(alternatives) > 1 or has_wishes:
        return
    if not looks_at_no_other(cluster, pod, everyone, left_out):
        return
    for pool in _unlimited(cluster):
        if _precedence(pool.node_pool) >= _precedence(place.pool.node_pool):
            continue
        if takes_fresh(cluster, pool, pod, alternatives[0], pod.spec.tolerations, daemons):
            detail = f"pool {pool.node_pool.metadata.name} comes first and would take its first pod"
            yield Violation(Rule.POOL_ORDER, place.name, detail)


def looks_at_no_other(
    cluster: Cluster, pod: Pod, everyone: Sequence[Standing], left_out: Sequence[Pod]
) -> bool:
    """Whether a pod's place depends on no other pod's, nor on anything but its node."""
    spec = pod.spec
    if constraints_of(cluster, pod) or spec.volumes or _wants_devices(pod):
        return False
    affinity = spec.affinity
    if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
        return False
    others = [*(standing.pod for standing in everyone), *left_out]
    return not any(
        means(term, other, pod, cluster.namespaces)
        for other in others
        for term in required_terms(other, apart=True)
    )


def _last_resorts(
    cluster: Cluster, pod: Pod
) -> Iterator[tuple[Sequence[Demand], tuple[Toleration, ...]]]:
    """What a pod is sure to have tried; wishes may have cost it its first alternatives."""
    alternatives = node_alternatives(pod.spec)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is not None and affinity.preferred:
        alternatives = alternatives[-1:]
    for asked in alternatives:
        yield asked, pod.spec.tolerations
    if any(
        taint.effect == "PreferNoSchedule"
        for pool in cluster.pools
        for taint in pool.node_pool.spec.template.spec.taints
    ):
        yield alternatives[-1], (*pod.spec.tolerations, _SOFT)


def _agrees(way: Way, together: Sequence[Demand]) -> bool:
    return all(
        can_agree([way.demands[key], *about(key, together)])
        for key in {one.key for one in together}
        if key in way.demands
    )


def _has_room(cluster: Cluster, pool: Pool, pod: Pod, way: Way, daemons: Sequence[Daemon]) -> bool:
    running = daemons_on(pool, way.instance_type, daemons, cluster)
    needed = plus(pod_amounts(pod), *(daemon.amounts for daemon in running))
    if overdrawn(minus(room_of(way.instance_type, way.offering), needed)):
        return False
    return not clashing_ports([pod.spec], [daemon.spec for daemon in running])


def _leaves_choice(pool: NodePool, ways: Sequence[Way], together: Sequence[Demand]) -> bool:
    for entry in pool.spec.template.spec.requirements:
        if entry.min_values is None:
            continue
        own = about(entry.key, together)
        found = {
            value
            for way in ways
            for held in way.instance_type.requirements
            if held.key == entry.key and not held.complement
            for value in held.values
            if all(one.allows(value) for one in own)
        }
        if len(found) < entry.min_values:
            return False
    return True


def _unlimited(cluster: Cluster) -> list[Pool]:
    """The pools that are always ready to make one more node, whatever else the plan does."""
    return [
        pool
        for pool in cluster.pools
        if not pool.node_pool.spec.limits and not _may_book_away_its_choice(pool)
    ]


def _may_book_away_its_choice(pool: Pool) -> bool:
    """Whether a booked reservation may leave a claim of the pool fewer types than it must have."""
    return any(r.min_values for r in pool.node_pool.spec.template.spec.requirements) and any(
        offering.reservation_id for t in pool.instance_types for offering in t.offerings
    )


def _precedence(pool: NodePool) -> tuple[int, list[int]]:
    """Smaller comes first: heavier pools, then later names."""
    return (-(pool.spec.weight or 0), [-ord(letter) for letter in pool.metadata.name] + [1])


def _wants_devices(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or any(
        c.resources.claims for c in (*pod.spec.containers, *pod.spec.init_containers)
    )
