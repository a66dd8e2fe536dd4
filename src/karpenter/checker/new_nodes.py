"""Whether a new node of a pool could take a pod, for pods without topology rules.

The completeness of plans depends on it: such a pod may be left out, or placed in a pool of lower
precedence, only if no new node could take it.
"""

from collections.abc import Iterator, Sequence

from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod, Toleration
from karpenter.checker.amounts import minus, overdrawn, plus, pod_amounts, room_of
from karpenter.checker.inputs import Cluster, Pool, Rule, Violation, pod_name
from karpenter.checker.labels import Demand, about, can_agree, node_alternatives, untolerated
from karpenter.checker.launch_options import LaunchOption, LaunchOptions, admits, pool_demands
from karpenter.checker.neighbours import Standing, means, required_terms
from karpenter.checker.places import PlannedPlace
from karpenter.checker.pod_rules import clashing_ports
from karpenter.checker.spreading import constraints_of

_SOFT = Toleration(operator="Exists", effect="PreferNoSchedule")


def takes_fresh(
    cluster: Cluster,
    pool: Pool,
    pod: Pod,
    asked: Sequence[Demand],
    tolerations: Sequence[Toleration],
    shelf: LaunchOptions,
) -> bool:
    """Whether a new node of a pool, with no other pod on it, takes a pod with these demands."""
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
        for way in shelf.ways(instance_type)
        if way.can_launch and _agrees(way, together) and _has_room(pool, pod, way, shelf)
    ]
    return bool(ways) and (
        cluster.policies.best_effort_min_values or _leaves_choice(pool.node_pool, ways, together)
    )


def completeness_violations(
    cluster: Cluster, left_out: Sequence[Pod], everyone: Sequence[Standing], shelf: LaunchOptions
) -> Iterator[Violation]:
    """Yield the pods left out although a new node of an unlimited pool would take them."""
    for pod in left_out:
        if not looks_at_no_other(cluster, pod, everyone, left_out):
            continue
        for pool in _unlimited(cluster):
            for asked, tolerations in _last_resorts(cluster, pod):
                if takes_fresh(cluster, pool, pod, asked, tolerations, shelf):
                    detail = f"pool {pool.node_pool.metadata.name} could make a node for it"
                    yield Violation(Rule.COMPLETENESS, pod_name(pod), detail)


def order_violations(
    cluster: Cluster,
    place: PlannedPlace,
    everyone: Sequence[Standing],
    left_out: Sequence[Pod],
    shelf: LaunchOptions,
) -> Iterator[Violation]:
    """Yield the pools of higher precedence that could have taken a claim's first pod."""
    if not place.placed:
        return
    pod = place.placed[0]
    alternatives = node_alternatives(pod.spec)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    has_preferences = affinity is not None and bool(affinity.preferred)
    if len(alternatives) > 1 or has_preferences:
        return
    if not looks_at_no_other(cluster, pod, everyone, left_out):
        return
    for pool in _unlimited(cluster):
        if _precedence(pool.node_pool) >= _precedence(place.pool.node_pool):
            continue
        if takes_fresh(cluster, pool, pod, alternatives[0], pod.spec.tolerations, shelf):
            detail = f"pool {pool.node_pool.metadata.name} comes first and would take its first pod"
            yield Violation(Rule.POOL_ORDER, place.name, detail)


def looks_at_no_other(
    cluster: Cluster, pod: Pod, everyone: Sequence[Standing], left_out: Sequence[Pod]
) -> bool:
    """Whether a pod has no topology rules, devices or volumes, and no anti-affinity selects it."""
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
    """The demands that a pod has certainly tried.

    Preferred node affinity is given up after the alternatives, so with it only the last alternative
    is sure to have been tried without preferences.
    """
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


def _agrees(way: LaunchOption, together: Sequence[Demand]) -> bool:
    return all(
        can_agree([way.demands[key], *about(key, together)])
        for key in {one.key for one in together}
        if key in way.demands
    )


def _has_room(pool: Pool, pod: Pod, way: LaunchOption, shelf: LaunchOptions) -> bool:
    running = shelf.daemons_on(pool, way.instance_type)
    needed = plus(pod_amounts(pod), *(daemon.amounts for daemon in running))
    if overdrawn(minus(room_of(way.instance_type, way.offering), needed)):
        return False
    return not clashing_ports([pod.spec], [daemon.spec for daemon in running])


def _leaves_choice(
    pool: NodePool, ways: Sequence[LaunchOption], together: Sequence[Demand]
) -> bool:
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
    """The pools without limits, which can create one more node whatever else the plan does."""
    if any(map(_may_book_away_its_choice, cluster.pools)):
        return []
    return [pool for pool in cluster.pools if not pool.node_pool.spec.limits]


def _may_book_away_its_choice(pool: Pool) -> bool:
    """Whether reservations may leave a claim fewer types than ``minValues``, so it is dropped."""
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
