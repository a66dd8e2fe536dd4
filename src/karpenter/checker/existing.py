"""What must hold of every machine that a plan gives pods to."""

from collections.abc import Iterator, Sequence

from karpenter.checker.amounts import largest, minus, overdrawn, plus, pods_total
from karpenter.checker.inputs import Cluster, Rule, Violation
from karpenter.checker.labels import label_meets, untolerated
from karpenter.checker.machines import Daemon, allocatable_of, is_daemon, is_leaving
from karpenter.checker.places import ExistingPlace
from karpenter.checker.pod_rules import clashing_ports, pod_violations
from karpenter.checker.volumes import attach_limit, attached


def machine_violations(
    cluster: Cluster, place: ExistingPlace, daemons: Sequence[Daemon]
) -> Iterator[Violation]:
    """Yield what the pods put on a machine break."""
    if not place.placed:
        return
    if is_leaving(place.machine):
        yield Violation(Rule.MACHINE, place.name, "is going away")
    for pod in place.placed:
        yield from pod_violations(cluster, place, pod, fails="does not")
    yield from _room(place, daemons)
    yield from _attachments(cluster, place)


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


def _attachments(cluster: Cluster, place: ExistingPlace) -> Iterator[Violation]:
    new = attached(cluster, place.placed)
    for driver, claims in attached(cluster, (*place.machine.pods, *place.placed)).items():
        limit = attach_limit(cluster, place.machine, driver)
        if driver in new and limit is not None and len(claims) > limit:
            detail = f"attaches {limit} volumes of {driver}, not {len(claims)}"
            yield Violation(Rule.VOLUME_LIMIT, place.name, detail)
