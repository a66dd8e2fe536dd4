"""How much of everything a pod asks for, counted as the scheduler counts it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter.model.resources import CPU, HUGEPAGES_PREFIX, MEMORY, Resources

# The assumed requests of a container without any, for scores only
_ASSUMED_CPU: Final = 100
_ASSUMED_MEMORY: Final = 200 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Requests:
    """What a pod takes away from a node."""

    cpu: int  # millicores
    memory: int
    storage: int
    scalars: tuple[tuple[str, int], ...]  # extended resources and huge pages
    weighed_cpu: int  # with the assumptions for containers that ask for nothing
    weighed_memory: int

    @property
    def is_best_effort(self) -> bool:
        """Whether the pod asks for neither cpu nor memory."""
        return not self.cpu and not self.memory


def pod_requests(spec: JsonObject) -> Requests:
    """Add up the requests of a pod's containers, the way the scheduler does."""
    total = _with_pod_level(spec, _sum(spec, _requests))
    weighed = _with_pod_level(spec, _sum(spec, _weighed_requests))
    overhead = Resources.from_wire(spec.get("overhead") or {})
    total, weighed = total + overhead, weighed + overhead
    return Requests(
        cpu=total.cpu,
        memory=total.memory,
        storage=total.ephemeral_storage,
        scalars=tuple(sorted(total.others.items())),
        weighed_cpu=weighed.cpu,
        weighed_memory=weighed.memory,
    )


def _sum(spec: JsonObject, read: Callable[[JsonObject], Resources]) -> Resources:
    total = Resources()
    for container in spec.get("containers") or ():
        total += read(container)
    sidecars = Resources()
    starting = Resources()
    for container in spec.get("initContainers") or ():
        needed = read(container)
        if container.get("restartPolicy") == "Always":
            # goes on beside the containers, and beside every init container after it
            total += needed
            sidecars += needed
            needed = sidecars
        else:
            needed += sidecars
        starting = starting.highest(needed)
    return total.highest(starting)


def _requests(container: JsonObject) -> Resources:
    resources = container.get("resources") or {}
    return Resources.from_wire(resources.get("requests") or {})


def _weighed_requests(container: JsonObject) -> Resources:
    requests = (container.get("resources") or {}).get("requests") or {}
    read = Resources.from_wire(requests)
    return Resources(
        cpu=read.cpu if CPU in requests else _ASSUMED_CPU,
        memory=read.memory if MEMORY in requests else _ASSUMED_MEMORY,
        ephemeral_storage=read.ephemeral_storage,
        others=read.others,
    )


def _with_pod_level(spec: JsonObject, total: Resources) -> Resources:
    """Pod-level requests replace the sum of the containers' requests."""
    requests = (spec.get("resources") or {}).get("requests")
    if not requests:
        return total
    instead = {
        name: amount
        for name, amount in Resources.from_wire(requests).items()
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)
    }
    return Resources.of({**dict(total.items()), **instead})


def allocatable(node: JsonObject) -> Resources:
    """The allocatable resources of a node; its capacity where they are not stated."""
    status = node.get("status") or {}
    return Resources.from_wire(status.get("allocatable") or status.get("capacity") or {})
