"""Expands manifests to the cluster that an API server and its controllers would make of them.

Manifests lack what a cluster adds to them. This module fills it in: namespaces, names and uids,
default requests and priorities, pods a workload lacks, and the conditions that a scheduler and a
pool's controller would have set. Everything is derived from the objects themselves, so the same
files always stand for the same cluster, in whatever order they are read.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Final

import msgspec

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Condition, Resource
from karpenter.api.pods import Pod, PodTemplate, PodTemplateSpec
from karpenter.api.policy import LimitRange, PriorityClass
from karpenter.api.workloads import TemplatedWorkload
from karpenter.model.conditions import FALSE, POD_SCHEDULED, READY, TRUE
from karpenter.state.defaults import PriorityDefaults, RangeDefaults, with_requests
from karpenter.state.object_keys import Identity, identity_of, key_of, namespace_of, uid_of
from karpenter.state.pod_claims import missing_claims
from karpenter.state.pods import is_active, is_bound
from karpenter.state.replicas import TooManyPodsError, missing_objects

UNSCHEDULABLE: Final = Condition(type=POD_SCHEDULED, status=FALSE, reason="Unschedulable")
GATED: Final = Condition(type=POD_SCHEDULED, status=FALSE, reason="SchedulingGated")
_IS_READY: Final = Condition(type=READY, status=TRUE, reason=READY)

_replace = msgspec.structs.replace
_canonical: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A problem of the objects at some positions of the input."""

    text: str
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Expansion:
    """The objects that manifests expand to, sorted; none when there are problems."""

    objects: tuple[Resource, ...] = ()
    problems: tuple[InputProblem, ...] = ()


def expand(objects: Sequence[Resource]) -> Expansion:
    """Fill in what an API server and its controllers would have added to ``objects``."""
    given = _named([_scoped(resource) for resource in objects])
    identities = [identity_of(resource) for resource in given]
    problems = (*_nameless(given), *_duplicates(given, identities))
    if problems:
        return Expansion(problems=problems)
    uids = _Uids(given)
    defaults = _Defaults(
        RangeDefaults(each for each in given if isinstance(each, LimitRange)),
        PriorityDefaults(each for each in given if isinstance(each, PriorityClass)),
    )
    completed = {
        identity: uids.given(_complete(resource, defaults))
        for identity, resource in sorted(zip(identities, given, strict=True), key=itemgetter(0))
    }
    try:
        made = missing_objects(completed.values())
    except TooManyPodsError as error:
        at = identities.index(identity_of(error.workload))
        return Expansion(problems=(InputProblem(str(error), (at,)),))
    for resource in made:
        completed[identity_of(resource)] = uids.given(_complete(resource, defaults))
    for identity, resource in missing_claims(completed).items():
        completed[identity] = uids.given(resource)
    return Expansion(tuple(completed[identity] for identity in sorted(completed)))


@dataclass(frozen=True, slots=True)
class _Defaults:
    """The defaults that an API server adds to new pods."""

    ranges: RangeDefaults
    priorities: PriorityDefaults


def _complete(resource: Resource, defaults: _Defaults) -> Resource:
    match resource:
        case Pod():
            return _pod(resource, defaults)
        case PodTemplate():
            return _replace(resource, template=_template(resource.template))
        case _ if isinstance(resource, TemplatedWorkload):
            template = _template(resource.spec.template)
            if template is resource.spec.template:
                return resource
            return _replace(resource, spec=_replace(resource.spec, template=template))
        case NodePool() if all(each.type != READY for each in resource.status.conditions):
            conditions = (*resource.status.conditions, _IS_READY)
            return _replace(resource, status=_replace(resource.status, conditions=conditions))
    return resource


def _pod(pod: Pod, defaults: _Defaults) -> Pod:
    """Complete a pod; one without a node or any condition gets the scheduler's Unschedulable.

    A pod with a uid was stored by an API server, so it has the defaults of LimitRanges already.
    """
    spec, has_node = with_requests(pod.spec), is_bound(pod)
    if not pod.metadata.uid and not has_node:
        spec = defaults.ranges.fill(namespace_of(pod), spec)
    spec = defaults.priorities.fill(spec)
    status = pod.status
    if not has_node and is_active(pod) and not status.conditions:
        condition = GATED if pod.spec.scheduling_gates else UNSCHEDULABLE
        status = _replace(status, phase=status.phase or "Pending", conditions=(condition,))
    if spec is pod.spec and status is pod.status:
        return pod
    return _replace(pod, spec=spec, status=status)


def _template(template: PodTemplateSpec) -> PodTemplateSpec:
    """Complete a template; one that lacks nothing is returned as it is."""
    spec = with_requests(template.spec)
    return template if spec is template.spec else _replace(template, spec=spec)


def _scoped(resource: Resource) -> Resource:
    namespace = namespace_of(resource) if resource.namespaced else ""
    if namespace == resource.metadata.namespace:
        return resource
    return _replace(resource, metadata=_replace(resource.metadata, namespace=namespace))


def _named(resources: Sequence[Resource]) -> list[Resource]:
    """Give names to objects with a ``generateName`` only."""
    seen: Counter[str] = Counter()
    named = []
    for resource in resources:
        metadata = resource.metadata
        if not metadata.name and metadata.generate_name:
            digest = hashlib.sha256(_canonical.encode(resource)).hexdigest()[:5]
            name = f"{metadata.generate_name}{digest}"
            copy = seen[name]  # equal objects get numbers, so their order does not matter
            seen[name] += 1
            named.append(
                _replace(
                    resource, metadata=_replace(metadata, name=f"{name}-{copy}" if copy else name)
                )
            )
        else:
            named.append(resource)
    return named


def _nameless(resources: Iterable[Resource]) -> Iterator[InputProblem]:
    for position, resource in enumerate(resources):
        if not resource.metadata.name:
            text = f"this {resource.kind} has no name; set metadata.name"
            yield InputProblem(text, (position,))


def _duplicates(
    resources: Sequence[Resource], identities: Sequence[Identity]
) -> Iterator[InputProblem]:
    if len(set(identities)) == len(identities):
        return
    first: dict[Identity, int] = {}
    for position, (resource, identity) in enumerate(zip(resources, identities, strict=True)):
        earlier = first.setdefault(identity, position)
        if earlier != position and resource.metadata.name:
            text = f"{resource.kind} {key_of(resource)} is given twice; remove one of the two"
            yield InputProblem(text, (earlier, position))


class _Uids:
    """Gives uids to objects that no API server has stored.

    An owner without a uid gets the uid by which owner references name it.
    """

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = resources

    def given(self, resource: Resource) -> Resource:
        """The object with a uid."""
        metadata = resource.metadata
        if metadata.uid:
            return resource
        uid = uid_of(resource)
        if resource.namespaced:
            uid = self._by_reference.get((resource.kind, key_of(resource)), uid)
        return _replace(resource, metadata=_replace(metadata, uid=uid))

    @cached_property
    def _by_reference(self) -> Mapping[tuple[str, str], str]:
        """The uids in owner references, by kind and key of the owner."""
        known: dict[tuple[str, str], str] = {}
        for resource in self._resources:
            for owner in resource.metadata.owner_references:
                key = (owner.kind, f"{namespace_of(resource)}/{owner.name}")
                if owner.uid:
                    known[key] = min(owner.uid, known.get(key, owner.uid))
        return known
