"""Default requests and priorities: from limits, LimitRanges and PriorityClasses.

An API server fills them in when it stores a pod. This module does the same for pods that come from
manifests.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from karpenter.api.meta import Quantity, ResourceMap
from karpenter.api.pods import Container, PodSpec, ResourceRequirements
from karpenter.api.policy import LimitRange, LimitRangeItem, PriorityClass
from karpenter.state.object_keys import namespace_of

# They exist in every cluster, and manifests seldom include them
_SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_replace = msgspec.structs.replace


def with_requests(spec: PodSpec) -> PodSpec:
    """Fill in missing requests from limits; a spec that lacks none is returned as it is."""
    whole = spec.resources
    containers = (*spec.containers, *spec.init_containers)
    if not any(map(_lacks_requests, containers)) and (whole is None or not whole.limits):
        return spec
    filled = _with_containers(
        spec, [_container(each, each.resources.limits) for each in containers]
    )
    if whole is None:
        return filled
    return _replace(filled, resources=_whole(whole, (*filled.containers, *filled.init_containers)))


class RangeDefaults:
    """The requests that the LimitRanges of a cluster give to containers without any."""

    def __init__(self, limit_ranges: Iterable[LimitRange]) -> None:
        """Merge the ranges of each namespace; the first by name that has a default decides."""
        self._by_namespace: dict[str, dict[str, Quantity]] = {}
        self._filled: dict[tuple[str, int], tuple[PodSpec, PodSpec]] = {}  # pods share specs
        for limit_range in sorted(limit_ranges, key=lambda each: each.metadata.name):
            defaults = self._by_namespace.setdefault(namespace_of(limit_range), {})
            for item in limit_range.spec.limits:
                for name, amount in _default_requests(item).items():
                    defaults.setdefault(name, amount)

    def fill(self, namespace: str, spec: PodSpec) -> PodSpec:
        """Give a pod's containers the requests they lack; equal objects stay one object."""
        defaults = self._by_namespace.get(namespace)
        if not defaults:
            return spec
        key = (namespace, id(spec))
        if key not in self._filled:
            containers = [
                _container(e, defaults) for e in (*spec.containers, *spec.init_containers)
            ]
            self._filled[key] = (spec, _with_containers(spec, containers))
        return self._filled[key][1]


class PriorityDefaults:
    """The priorities that an API server writes on new pods."""

    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        """Index the classes of a cluster, besides those that every cluster has.

        Of several global defaults, which an API server does not admit, the lowest value counts.
        """
        found = {each.metadata.name: each for each in classes}
        values = {name: each.value for name, each in found.items()}
        self._values: Mapping[str, int] = {**_SYSTEM_PRIORITIES, **values}
        defaults = [(each.value, name) for name, each in found.items() if each.global_default]
        self._default = min(defaults, default=(0, ""))[1]
        self._filled: dict[int, tuple[PodSpec, PodSpec]] = {}  # pods share specs

    def fill(self, spec: PodSpec) -> PodSpec:
        """Give a pod that has no priority that of its class; equal objects stay one object.

        An unknown class gives none.
        """
        if spec.priority is not None:
            return spec
        name = spec.priority_class_name or self._default
        value = self._values.get(name)
        if value is None:
            return spec
        if id(spec) not in self._filled:
            admitted = _replace(spec, priority_class_name=name, priority=value)
            self._filled[id(spec)] = (spec, admitted)
        return self._filled[id(spec)][1]


def _default_requests(item: LimitRangeItem) -> Mapping[str, Quantity]:
    # The API server's defaulting of a LimitRange: missing values follow from those given
    if item.type != "Container":
        return {}
    return {**item.min, **item.max, **item.default, **item.default_request}


def _lacks_requests(container: Container) -> bool:
    resources = container.resources
    return not resources.limits.keys() <= resources.requests.keys()


def _container(container: Container, defaults: ResourceMap) -> Container:
    resources = container.resources
    requests = {**defaults, **resources.requests}
    return _replace(container, resources=_replace(resources, requests=requests))


def _with_containers(spec: PodSpec, containers: Sequence[Container]) -> PodSpec:
    """The spec with other containers: first those of the application, then the init containers."""
    first_init = len(spec.containers)
    return _replace(
        spec,
        containers=tuple(containers[:first_init]),
        init_containers=tuple(containers[first_init:]),
    )


def _whole(whole: ResourceRequirements, containers: Sequence[Container]) -> ResourceRequirements:
    """Pod-level requests; a resource that containers request is taken from their sum."""
    asked = {name for container in containers for name in container.resources.requests}
    limits: ResourceMap = {name: most for name, most in whole.limits.items() if name not in asked}
    return _replace(whole, requests={**limits, **whole.requests})
