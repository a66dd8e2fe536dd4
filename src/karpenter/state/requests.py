"""The requests of a pod: its containers, its init phase, its sidecars and its overhead.

Notation
    sidecar     an init container that restarts ``Always``; it runs beside all that comes after it
    base        application containers and all sidecars together: the running phase
    peak        the most any step of the init phase needs: the step and the sidecars before it

A pod needs the larger of base and peaks, resource by resource. Requests for the whole pod replace
those of its containers where Kubernetes allows it, and the runtime's overhead is added.
Negative amounts count as zero: with one, placing a pod would enlarge the room that is left.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from karpenter.api.pods import Container, ContainerStatus, Pod, PodSpec
from karpenter.model.resources import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    NO_RESOURCES,
    Resources,
    total,
)

_ONE_POD: Final = Resources(pods=1)
_INFEASIBLE: Final = "Infeasible"


def pod_requests(pod: Pod) -> Resources:
    """What the pod needs of a node, the pod slot itself included."""
    return _of(pod.spec, _resized(pod)) + _ONE_POD


def template_requests(spec: PodSpec) -> Resources:
    """What a pod made from ``spec`` would need, the pod slot itself included."""
    return _of(spec, {}) + _ONE_POD


def with_limits_as_requests(spec: PodSpec) -> Resources:
    """What a pod made from ``spec`` would need, with missing requests filled in from limits."""
    defaulted = {
        container.name: Resources.from_wire(
            {**container.resources.limits, **container.resources.requests}
        )
        for container in (*spec.containers, *spec.init_containers)
    }
    return _of(spec, defaulted) + _ONE_POD


def _of(spec: PodSpec, known: Mapping[str, Resources]) -> Resources:
    base = _together(spec.containers, known)
    beside = NO_RESOURCES  # sidecars started so far
    peak = NO_RESOURCES
    for container in spec.init_containers:
        needs = _needs(container, known)
        if container.restart_policy == "Always":
            beside += needs
            peak = peak.highest(beside)
        else:
            peak = peak.highest(beside + needs)
    needed = (base + beside if spec.init_containers else base).highest(peak)
    if spec.resources is not None and spec.resources.requests:
        needed = _replaced(needed, spec.resources.requests)
    return needed + _at_least_nothing(spec.overhead) if spec.overhead else needed


def _together(containers: Sequence[Container], known: Mapping[str, Resources]) -> Resources:
    if len(containers) == 1:
        return _needs(containers[0], known)
    return total(_needs(container, known) for container in containers)


def _needs(container: Container, known: Mapping[str, Resources]) -> Resources:
    found = known.get(container.name)
    return Resources.from_wire(container.resources.requests) if found is None else found


def _replaced(needed: Resources, whole: Mapping[str, str | int | float]) -> Resources:
    stated = _at_least_nothing(whole)
    replacing = {
        name: stated[name]
        for name in whole
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)
    }
    return Resources.of(dict(needed.items()) | replacing)


def _at_least_nothing(stated: Mapping[str, str | int | float]) -> Resources:
    return Resources.from_wire(stated).highest(NO_RESOURCES)


def _resized(pod: Pod) -> dict[str, Resources]:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    if not statuses or not any(_reports_resources(status) for status in statuses):
        return {}
    by_name = {status.name: status for status in statuses}
    infeasible = is_resize_infeasible(pod)
    return {
        container.name: _largest(container, by_name[container.name], infeasible)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        if container.name in by_name and _reports_resources(by_name[container.name])
    }


def _reports_resources(status: ContainerStatus) -> bool:
    return status.resources is not None or bool(status.allocated_resources)


def is_resize_infeasible(pod: Pod) -> bool:
    """Whether the kubelet has reported that the requested size never fits on the node."""
    return pod.status.resize == _INFEASIBLE or any(
        condition.type == "PodResizePending" and condition.reason == _INFEASIBLE
        for condition in pod.status.conditions
    )


def _largest(container: Container, status: ContainerStatus, infeasible: bool) -> Resources:
    sources: Iterable[Mapping[str, str | int | float]] = (
        {} if infeasible else container.resources.requests,
        status.resources.requests if status.resources else {},
        status.allocated_resources,
    )
    largest = NO_RESOURCES
    for source in sources:
        largest = largest.highest(Resources.from_wire(source))
    return largest
