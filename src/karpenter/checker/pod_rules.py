"""The rules for every placed pod: taints, node affinity, volumes and host ports."""

from collections.abc import Iterable, Iterator

from karpenter.api.pods import Pod, PodSpec
from karpenter.checker.inputs import Cluster, Rule, Violation, pod_name
from karpenter.checker.labels import node_alternatives, untolerated
from karpenter.checker.places import Place
from karpenter.checker.volumes import reaching


def pod_violations(cluster: Cluster, place: Place, pod: Pod, *, fails: str) -> Iterator[Violation]:
    """Yield the violations of a placed pod; ``fails`` is "does not", or "may not" of a claim."""
    name = pod_name(pod)
    soft_taints_count = not any(
        taint.effect == "PreferNoSchedule"
        for pool in cluster.pools
        for taint in pool.node_pool.spec.template.spec.taints
    )
    taint = untolerated(place.taints, pod.spec.tolerations, soft_too=soft_taints_count)
    if taint is not None:
        yield Violation(Rule.TAINT, name, f"does not tolerate {taint.key} of {place.name}")
    if not any(place.surely(asked) for asked in node_alternatives(pod.spec)):
        yield Violation(Rule.NODE_DEMANDS, name, f"{place.name} {fails} satisfy them")
    for alternatives in reaching(cluster, pod):
        if not any(place.surely(asked) for asked in alternatives):
            yield Violation(Rule.VOLUME_REACH, name, f"{place.name} {fails} reach a volume")


def clashing_ports(coming: Iterable[PodSpec], there: Iterable[PodSpec] = ()) -> list[str]:
    """The host ports of ``coming`` pods that conflict with each other or with pods there."""
    held = [port for number, spec in enumerate(there) for port in _host_ports(-1 - number, spec)]
    clashes = []
    for number, spec in enumerate(coming):
        for mine in _host_ports(number, spec):
            clashes += [f"{mine[2]}/{mine[1]}" for other in held if _clash(mine, other)]
            held.append(mine)
    return clashes


def _host_ports(owner: int, spec: PodSpec) -> list[tuple[int, str, int, str]]:
    return [
        (owner, port.protocol or "TCP", number, port.host_ip or "0.0.0.0")  # noqa: S104
        for container in spec.containers
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    ]


def _clash(left: tuple[int, str, int, str], right: tuple[int, str, int, str]) -> bool:
    everywhere = ("0.0.0.0", "::")  # noqa: S104
    same_address = left[3] == right[3] or left[3] in everywhere or right[3] in everywhere
    return left[0] != right[0] and left[1:3] == right[1:3] and same_address
