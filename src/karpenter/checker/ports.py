"""Host ports: which pods want a port of the host that another pod has."""

from collections.abc import Iterable

from karpenter.api.pods import PodSpec


def clashing_ports(coming: Iterable[PodSpec], there: Iterable[PodSpec] = ()) -> list[str]:
    """The host ports that pods want although one of them, or one that is there, has it."""
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
