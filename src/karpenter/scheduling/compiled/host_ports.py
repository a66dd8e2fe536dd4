"""Host ports: which pods cannot share a machine because they use the same port of the host."""

from collections.abc import Sequence
from typing import NamedTuple

from karpenter.api.pods import PodSpec

_UNSPECIFIED = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- compared with, never bound to


class HostPort(NamedTuple):
    """A port of the machine itself."""

    address: str
    port: int
    protocol: str

    def conflicts(self, other: "HostPort") -> bool:
        """Whether two pods cannot hold both ports on one machine."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return (
            self.address == other.address
            or self.address in _UNSPECIFIED
            or other.address in _UNSPECIFIED
        )


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The host ports of a pod's application containers.

    With ``hostNetwork``, every container port is a host port. The API server writes that into pods
    it stores; manifests do not have it.
    """
    return tuple(
        HostPort(port.host_ip or "0.0.0.0", number, port.protocol or "TCP")  # noqa: S104
        for container in spec.containers
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    )


def conflict(wanted: Sequence[HostPort], taken: Sequence[HostPort]) -> HostPort | None:
    """Return the first wanted port that is taken, or None when all are free."""
    if not (wanted and taken):
        return None
    held: dict[tuple[int, str], list[HostPort]] = {}  # a pod may have thousands
    for port in taken:
        held.setdefault((port.port, port.protocol), []).append(port)
    return next(
        (
            port
            for port in wanted
            if any(map(port.conflicts, held.get((port.port, port.protocol), ())))
        ),
        None,
    )
