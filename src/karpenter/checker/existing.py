"""What must hold of every machine that a plan gives pods to."""

from collections.abc import Iterator, Sequence

from karpenter.checker.amounts import largest, minus, overdrawn, plus, pods_total
from karpenter.checker.inputs import Cluster, Rule, Violation, pod_name
from karpenter.checker.labels import label_meets, node_alternatives, untolerated
from karpenter.checker.machines import Daemon, allocatable_of, is_daemon, is_leaving
from karpenter.checker.places import OldPlace
from karpenter.checker.ports import clashing_ports
from karpenter.checker.volumes import attach_limit, attached, reaching


def machine_violations(
    cluster: Cluster, place: OldPlace, daemons: Sequence[Daemon]
) -> Iterator[Violation]:
    """Yield what the pods put on a machine break."""
    if not place.placed:
        return
    if is_leaving(place.machine):
        yield Violation(Rule.MACHINE, place.name, "is going away")
    soft = not any(
        taint.effect == "PreferNoSchedule"
        for pool in cluster.pools
        for taint in pool.node_pool.spec.template.spec.taints
    )
    for pod in place.placed:
        name = pod_name(pod)
        taint = untolerated(place.taints, pod.spec.tolerations, soft_too=soft)
        if taint is not None:
            yield Violation(Rule.TAINT, name, f"does not tolerate {taint.key} of {place.name}")
        if not any(place.surely(asked) for asked in node_alternatives(pod.spec)):
            yield Violation(Rule.NODE_DEMANDS, name, f"{place.name} does not satisfy them")
        for alternatives in reaching(cluster, pod):
            if not any(place.surely(asked) for asked in alternatives):
                yield Violation(Rule.VOLUME_REACH, name, f"{place.name} does not reach a volume")
    yield from _room(place, daemons)
    yield from _attachments(cluster, place)


def _room(place: OldPlace, daemons: Sequence[Daemon]) -> Iterator[Violation]:
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


def _attachments(cluster: Cluster, place: OldPlace) -> Iterator[Violation]:
    new = attached(cluster, place.placed)
    for driver, claims in attached(cluster, (*place.machine.pods, *place.placed)).items():
        limit = attach_limit(cluster, place.machine, driver)
        if driver in new and limit is not None and len(claims) > limit:
            detail = f"attaches {limit} volumes of {driver}, not {len(claims)}"
            yield Violation(Rule.VOLUME_LIMIT, place.name, detail)
