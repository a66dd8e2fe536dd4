"""The entry point: a cluster and a plan in, all violations of the plan out.

Checking is naive on purpose. Each rule is written from the documented behaviour, one pod and one
launch option at a time, with none of the planner's shortcuts; expect seconds where planning takes
milliseconds. What depends only on the launch is checked for the launch that the plan names; labels,
room, ports and volumes are checked for every type and offering that a claim allows.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from karpenter.api.pods import Pod
from karpenter.checker.amounts import Amounts, amounts, plus
from karpenter.checker.inputs import Cluster, PlanShape, Rule, Violation, pod_name
from karpenter.checker.launch_options import LaunchOptions
from karpenter.checker.machines import (
    capacity_of,
    daemons_of,
    is_daemon,
    is_leaving,
    name_of,
    pool_of,
)
from karpenter.checker.neighbours import (
    affinity_violations,
    anti_affinity_violations,
    standings,
)
from karpenter.checker.new_nodes import completeness_violations, order_violations
from karpenter.checker.nodes import claim_violations, machine_violations
from karpenter.checker.places import ExistingPlace, Place, PlannedPlace
from karpenter.checker.spreading import spread_violations


def check_plan(cluster: Cluster, plan: PlanShape) -> list[Violation]:
    """List the violations of a plan for this cluster."""
    found = [*accounting_violations(cluster, plan)]
    by_name = {pod_name(pod): pod for pod in cluster.pods}
    names = {name_of(machine) for machine in cluster.machines}
    if found or len(by_name) < len(cluster.pods) or len(names) < len(cluster.machines):
        return found  # the other rules need to know the place of each pod
    daemons = daemons_of(cluster)
    old = _old_places(cluster, plan, by_name)
    shelf = LaunchOptions(cluster, daemons)
    new = _new_places(plan, by_name, shelf)
    places: list[Place] = [*old, *new]
    everyone = standings(places)
    left_out = [by_name[entry.pod] for entry in plan.unplaced]
    found += _ignored_kinds(cluster, places)
    for old_place in old:
        found += machine_violations(cluster, old_place, daemons)
    for place in new:
        found += claim_violations(cluster, place)
        found += order_violations(cluster, place, everyone, left_out, shelf)
    found += spread_violations(cluster, everyone)
    found += affinity_violations(everyone, cluster.namespaces)
    found += anti_affinity_violations(everyone, cluster.namespaces)
    found += _limits(cluster, new)
    found += _reservations(cluster, new)
    found += _cost(plan)
    found += completeness_violations(cluster, left_out, everyone, shelf)
    return found


def accounting_violations(cluster: Cluster, plan: PlanShape) -> Iterator[Violation]:
    """Yield the pods that are not in a plan exactly once, and places that do not exist."""
    asked = Counter(pod_name(pod) for pod in cluster.pods)
    answered = Counter(
        [
            *(pod for claim in plan.claims for pod in claim.pods),
            *(pod for pods in plan.existing.values() for pod in pods),
            *(entry.pod for entry in plan.unplaced),
            *plan.deferred,
            *plan.unevaluated,
        ]
    )
    for pod in sorted({*asked, *answered}):
        if asked[pod] != answered[pod]:
            detail = f"asked about {asked[pod]} times, answered {answered[pod]} times"
            yield Violation(Rule.ACCOUNTING, pod, detail)
    machines = {name_of(machine) for machine in cluster.machines}
    for name in sorted(plan.existing.keys() - machines):
        yield Violation(Rule.ACCOUNTING, name, "there is no such machine")
    pools = {pool.node_pool.metadata.name for pool in cluster.pools}
    for claim in plan.claims:
        if claim.node_pool not in pools:
            yield Violation(Rule.ACCOUNTING, claim.name, f"there is no pool {claim.node_pool}")


def _old_places(
    cluster: Cluster, plan: PlanShape, by_name: Mapping[str, Pod]
) -> list[ExistingPlace]:
    moving = {pod_name(pod) for pod in cluster.pods}
    return [
        ExistingPlace(
            machine,
            [pod for pod in machine.pods if pod_name(pod) not in moving],
            [by_name[pod] for pod in plan.existing.get(name_of(machine), ())],
        )
        for machine in cluster.machines
    ]


def _new_places(
    plan: PlanShape, by_name: Mapping[str, Pod], shelf: LaunchOptions
) -> list[PlannedPlace]:
    pools = {pool.node_pool.metadata.name: pool for pool in shelf.cluster.pools}
    return [
        PlannedPlace(claim, pools[claim.node_pool], [by_name[pod] for pod in claim.pods], shelf)
        for claim in plan.claims
    ]


def _ignored_kinds(cluster: Cluster, places: Sequence[Place]) -> Iterator[Violation]:
    staying = {name_of(machine) for machine in cluster.machines if not is_leaving(machine)}
    for place in places:
        for pod in place.placed:
            if is_daemon(pod):
                yield Violation(Rule.IGNORED_KIND, pod_name(pod), "belongs to a DaemonSet")
            if any(o.kind == "Node" for o in pod.metadata.owner_references):
                yield Violation(Rule.IGNORED_KIND, pod_name(pod), "mirrors a static pod")
            if pod.spec.node_name in staying:
                yield Violation(Rule.IGNORED_KIND, pod_name(pod), "has a node already")
            if cluster.policies.ignore_device_claims and pod.spec.resource_claims:
                yield Violation(Rule.IGNORED_KIND, pod_name(pod), "asks for devices")


def _limits(cluster: Cluster, places: Sequence[PlannedPlace]) -> Iterator[Violation]:
    for pool in cluster.pools:
        name = pool.node_pool.metadata.name
        claims = [place for place in places if place.pool is pool]
        limits = amounts(pool.node_pool.spec.limits)
        if not claims or not limits:
            continue
        used = plus(
            *(
                {**capacity_of(machine), "nodes": 1}
                for machine in cluster.machines
                if pool_of(machine) == name and not is_leaving(machine)
            ),
            *map(_largest_size, claims),
        )
        for resource, limit in sorted(limits.items()):
            if used.get(resource, 0) > limit:
                detail = f"{resource} may reach {used.get(resource, 0)}, beyond {limit}"
                yield Violation(Rule.POOL_LIMITS, name, detail)


def _largest_size(place: PlannedPlace) -> Amounts:
    sizes = [dict(instance_type.capacity.items()) for instance_type in place.types]
    names = {name for size in sizes for name in size}
    return {name: max(size.get(name, 0) for size in sizes) for name in names} | {"nodes": 1}


def _reservations(cluster: Cluster, places: Sequence[PlannedPlace]) -> Iterator[Violation]:
    label = cluster.facts.reservation_id_label
    if not label or not cluster.policies.reserved_capacity:
        return
    left: dict[str, int] = {}
    for pool in cluster.pools:
        for instance_type in pool.instance_types:
            for offering in instance_type.offerings:
                if offering.reservation_id:
                    count = offering.reservation_capacity
                    known = left.get(offering.reservation_id, count)
                    left[offering.reservation_id] = min(known, count)
    promised = Counter(
        name
        for place in places
        for held in place.claim.requirements
        if held.key == label and not held.complement
        for name in held.values
    )
    for name, count in sorted(promised.items()):
        if count > left.get(name, 0):
            detail = f"has {left.get(name, 0)} machines and is promised to {count} claims"
            yield Violation(Rule.RESERVATION, name, detail)


def _cost(plan: PlanShape) -> Iterator[Violation]:
    prices = [claim.launch.price for claim in plan.claims if claim.launch is not None]
    if not all(math.isfinite(price) and price >= 0 for price in prices):
        return
    if not math.isclose(plan.hourly_cost, math.fsum(prices), abs_tol=1e-9):
        detail = f"{plan.hourly_cost} is not the sum of the launches, {math.fsum(prices)}"
        yield Violation(Rule.COST, "plan", detail)
    if plan.lower_bound > plan.hourly_cost * (1 + 1e-9):
        detail = f"costs {plan.hourly_cost}, which is less than the bound {plan.lower_bound}"
        yield Violation(Rule.COST, "plan", detail)
