"""The rules for every node that a plan places pods on.

A planned claim is checked for every launch option, a machine as it is.
"""

import math
from collections.abc import Iterator, Sequence

from karpenter.checker.amounts import largest, minus, overdrawn, plus, pods_total
from karpenter.checker.inputs import Cluster, Rule, ValueSet, Violation
from karpenter.checker.labels import (
    CAPACITY_TYPE,
    about,
    demand,
    demand_of,
    label_meets,
    trials,
    untolerated,
)
from karpenter.checker.launch_options import pool_demands
from karpenter.checker.machines import Daemon, allocatable_of, is_daemon, is_leaving
from karpenter.checker.places import ExistingPlace, PlannedPlace
from karpenter.checker.pod_rules import clashing_ports, pod_violations
from karpenter.checker.volumes import attach_limit, attached
from karpenter.cloud.types import InstanceType


def claim_violations(cluster: Cluster, place: PlannedPlace) -> Iterator[Violation]:
    """Yield the violations of a claim."""
    yield from _form(cluster, place)
    yield from _types(place)
    yield from _launch(place)
    yield from _within_pool(place)
    yield from _min_values(cluster, place)
    for pod in place.placed:
        yield from pod_violations(cluster, place, pod, fails="may not")
    yield from _ports(place)
    yield from _claim_attachments(cluster, place)


def _form(cluster: Cluster, place: PlannedPlace) -> Iterator[Violation]:
    claim = place.claim
    template = place.pool.node_pool.spec.template.spec
    if not place.placed:
        yield Violation(Rule.CLAIM, place.name, "holds no pod")
    if tuple(claim.taints) != tuple(template.taints):
        yield Violation(Rule.CLAIM, place.name, "has other taints than its pool")
    if len(set(claim.instance_types)) != len(claim.instance_types):
        yield Violation(Rule.CLAIM, place.name, "lists a type twice")
    if not 0 < len(claim.instance_types) <= cluster.policies.most_instance_types:
        yield Violation(Rule.CLAIM, place.name, f"lists {len(claim.instance_types)} types")
    missing = set(claim.instance_types) - {t.name for t in place.types}
    if missing:
        yield Violation(Rule.CLAIM, place.name, f"lists types its pool lacks: {sorted(missing)}")


def _types(place: PlannedPlace) -> Iterator[Violation]:
    for instance_type in place.types:
        ways = place.ways_of(instance_type)
        if not ways:
            detail = f"{instance_type.name} has no available offering that agrees with the claim"
            yield Violation(Rule.OFFERING, place.name, detail)
        elif all(place.lacks(way) for way in ways):
            lacking = ", ".join(place.lacks(ways[0]))
            detail = f"{instance_type.name} alone cannot hold it: too little {lacking}"
            yield Violation(Rule.ROOM, place.name, detail)


def _launch(place: PlannedPlace) -> Iterator[Violation]:
    launch = place.claim.launch
    possible = [way for way in place.roomy if way.can_launch]
    if launch is None:
        if possible:
            yield Violation(Rule.LAUNCH, place.name, "could be launched, but is not")
        return
    chosen = place.launched()
    if chosen is None or not chosen.can_launch:
        yield Violation(Rule.LAUNCH, place.name, f"cannot be launched as {launch}")
        return
    cheapest = min(way.price for way in possible)
    price = math.inf if math.isnan(launch.price) else launch.price
    if price > cheapest:
        detail = f"is launched for {price}, although {cheapest} would do"
        yield Violation(Rule.LAUNCH, place.name, detail)


def _within_pool(place: PlannedPlace) -> Iterator[Violation]:
    pool = pool_demands(place.pool.node_pool)
    for key in sorted({one.key for one in pool}):
        wanted = about(key, pool)
        for way in place.roomy:
            for value in place.possible(way, key, pool):
                if not all(one.allows(value) for one in wanted):
                    detail = f"{key} may become {value} on {way.instance_type.name}"
                    yield Violation(Rule.POOL_REQUIREMENTS, place.name, detail)
                    break
    for one in place.demands:
        wanted = about(one.key, pool)
        if any(
            one.allows(value) and not all(w.allows(value) for w in wanted)
            for value in trials([one, *wanted])
            if value is not None  # whether the label is present depends on the types
        ):
            detail = f"allows {one.key} more than its pool does"
            yield Violation(Rule.POOL_REQUIREMENTS, place.name, detail)


def _min_values(cluster: Cluster, place: PlannedPlace) -> Iterator[Violation]:
    held = {one.key: one for one in place.claim.requirements}
    wanted: dict[str, int] = {}
    for entry in place.pool.node_pool.spec.template.spec.requirements:
        if entry.min_values is not None:
            key = demand(entry.key, entry.operator, entry.values).key
            wanted[key] = max(wanted.get(key, 0), entry.min_values)
    for key, stated in sorted(wanted.items()):
        least = stated
        if cluster.policies.best_effort_min_values:
            least = min(stated, held[key].min_values or 0) if key in held else 0
        if key == CAPACITY_TYPE and place.is_booked:
            continue  # a reservation takes precedence over minValues
        found = _advertised(place.types, key, held.get(key))
        if len(found) < least:
            detail = f"offers {len(found)} values of {key} instead of {least}"
            yield Violation(Rule.MIN_VALUES, place.name, detail)
    for one in held.values():  # the API server refuses such a claim
        if one.values and not one.complement and len(one.values) < (one.min_values or 0):
            detail = f"lists {len(one.values)} values of {one.key} but wants {one.min_values}"
            yield Violation(Rule.MIN_VALUES, place.name, detail)


def _advertised(types: list[InstanceType], key: str, held: ValueSet | None) -> set[str]:
    allowed = demand_of(held) if held is not None else demand(key, "Exists", ())
    return {
        value
        for instance_type in types
        for own in instance_type.requirements
        if own.key == key and not own.complement
        for value in own.values
        if allowed.allows(value)
    }


def _ports(place: PlannedPlace) -> Iterator[Violation]:
    for instance_type in place.types:
        daemons = [daemon.spec for daemon in place.daemons_on(instance_type)]
        clashes = clashing_ports([pod.spec for pod in place.placed], daemons)
        if clashes:
            detail = f"{', '.join(sorted(set(clashes)))} on {instance_type.name}"
            yield Violation(Rule.HOST_PORT, place.name, detail)


def _claim_attachments(cluster: Cluster, place: PlannedPlace) -> Iterator[Violation]:
    for driver, claims in attached(cluster, place.placed).items():
        for instance_type in place.types:
            limit = instance_type.volume_attachment_limits.get(driver)
            if limit is not None and len(claims) > limit:
                detail = f"{instance_type.name} attaches {limit} of {driver}, not {len(claims)}"
                yield Violation(Rule.VOLUME_LIMIT, place.name, detail)


def machine_violations(
    cluster: Cluster, place: ExistingPlace, daemons: Sequence[Daemon]
) -> Iterator[Violation]:
    """Yield the violations of the pods placed on a machine."""
    if not place.placed:
        return
    if is_leaving(place.machine):
        yield Violation(Rule.MACHINE, place.name, "is going away")
    for pod in place.placed:
        yield from pod_violations(cluster, place, pod, fails="does not")
    yield from _room(place, daemons)
    yield from _machine_attachments(cluster, place)


def _room(place: ExistingPlace, daemons: Sequence[Daemon]) -> Iterator[Violation]:
    there = place.machine.pods
    expected = plus(
        *(
            daemon.amounts
            for daemon in daemons
            if untolerated(place.taints, daemon.tolerations, soft_too=False) is None
            and any(label_meets(place.labels, asked) for asked in daemon.alternatives)
        )
    )
    still_to_come = largest(minus(expected, pods_total(pod for pod in there if is_daemon(pod))))
    taken = plus(pods_total(there), pods_total(place.placed), still_to_come)
    lacking = overdrawn(minus(allocatable_of(place.machine), taken))
    if lacking:
        yield Violation(Rule.ROOM, place.name, f"has too little {', '.join(lacking)}")
    clashes = clashing_ports([pod.spec for pod in place.placed], [pod.spec for pod in there])
    if clashes:
        yield Violation(Rule.HOST_PORT, place.name, ", ".join(sorted(set(clashes))))


def _machine_attachments(cluster: Cluster, place: ExistingPlace) -> Iterator[Violation]:
    new = attached(cluster, place.placed)
    for driver, claims in attached(cluster, (*place.machine.pods, *place.placed)).items():
        limit = attach_limit(cluster, place.machine, driver)
        if driver in new and limit is not None and len(claims) > limit:
            detail = f"attaches {limit} volumes of {driver}, not {len(claims)}"
            yield Violation(Rule.VOLUME_LIMIT, place.name, detail)
