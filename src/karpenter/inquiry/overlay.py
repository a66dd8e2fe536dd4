"""A cluster with some manifests laid over it: what if these were applied?

An object replaces the one of its kind, namespace and name, and keeps what a server and controllers
added to that one. A workload keeps its pods as long as its template stays the same: additional ones
are pending, and of surplus ones the pending ones are removed first. With another template all of
its pods are recreated, as at the end of a rollout. Everything else is unchanged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from karpenter.api.devices import ResourceClaim, ResourceClaimTemplate
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod
from karpenter.api.policy import LimitRange, PodDisruptionBudget, PriorityClass
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.api.workloads import (
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from karpenter.model.selectors import selects
from karpenter.state.expansion import InputProblem, expand
from karpenter.state.object_keys import identity_of, key_of, namespace_of
from karpenter.state.owners import controller_of, deployment_of, deployment_of_pod
from karpenter.state.pods import is_active, is_bound
from karpenter_sandbox.kinds.defaults.kinds import with_defaults
from karpenter_sandbox.kinds.typed import DecodeError, decode_object

Workload: TypeAlias = Deployment | ReplicaSet | ReplicationController | StatefulSet | Job

WORKLOADS: Final = (Deployment, ReplicaSet, ReplicationController, StatefulSet, Job)
# Kinds that determine which pods a workload has, and what new pods are given
_SURROUNDINGS: Final = (
    Pod,
    PersistentVolumeClaim,
    LimitRange,
    PriorityClass,
    ResourceClaim,
    ResourceClaimTemplate,
)
_replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Overlay:
    """What a cluster is after a change."""

    objects: tuple[Resource, ...] = ()
    budgets: frozenset[str] = frozenset()  # those of the change, whose status is outdated
    problems: tuple[InputProblem, ...] = ()  # positions are those of the change


def overlaid(base: Sequence[Resource], change: Sequence[Resource]) -> Overlay:
    """Lay ``change`` over the objects of a cluster."""
    scoped = [_scoped(each) for each in change]
    before = {identity_of(each): each for each in base}
    kept = [_succeeding(each, before.get(identity_of(each))) for each in scoped]
    replaced = {identity_of(each) for each in kept}
    rest = [each for each in base if identity_of(each) not in replaced]
    workloads = [each for each in kept if isinstance(each, WORKLOADS)]
    gone = {
        identity_of(pod)
        for workload in workloads
        for pod in _pods_to_go(workload, before.get(identity_of(workload)), rest)
    }
    rest = [each for each in rest if identity_of(each) not in gone]
    sets = [each for each in rest if isinstance(each, ReplicaSet) and _is_of(each, workloads)]
    around = [each for each in rest if isinstance(each, _SURROUNDINGS)]
    expansion = expand([*kept, *sets, *around])
    if expansion.problems:
        return Overlay(problems=expansion.problems)
    known = {identity_of(each) for each in (*sets, *around)}
    made = [each for each in expansion.objects if identity_of(each) not in known]
    budgets = frozenset(key_of(each) for each in made if isinstance(each, PodDisruptionBudget))
    return Overlay((*rest, *made), budgets)


def _scoped(resource: Resource) -> Resource:
    """An object with its namespace, as a server would store it."""
    namespace, _, _ = key_of(resource).rpartition("/")
    return _replace(resource, metadata=_replace(resource.metadata, namespace=namespace))


def _succeeding(new: Resource, old: Resource | None) -> Resource:
    """An object with what is not for users to write, as the one it replaces has it."""
    if old is None:
        return new
    changes: dict[str, Any] = {}
    if not new.metadata.uid:
        changes["metadata"] = _replace(
            new.metadata,
            uid=old.metadata.uid,
            creation_timestamp=old.metadata.creation_timestamp,
            owner_references=new.metadata.owner_references or old.metadata.owner_references,
        )
    status = getattr(new, "status", None)
    if status is not None and status == type(status)():
        changes["status"] = getattr(old, "status", status)
    return _replace(new, **changes) if changes else new


def _pods_to_go(
    workload: Workload, old: Resource | None, rest: Sequence[Resource]
) -> Iterator[Pod]:
    """The pods that a workload has and would not have any more."""
    own = list(pods_of(workload, rest))
    if isinstance(old, WORKLOADS) and _template_of(old) != _template_of(workload):
        yield from own
        return
    if isinstance(workload, StatefulSet):
        spec = workload.spec
        first, name = spec.ordinals.start, workload.metadata.name
        wanted = {f"{name}-{n}" for n in range(first, first + spec.replicas)}
        yield from (pod for pod in own if pod.metadata.name not in wanted)
        return
    if isinstance(workload, Job):
        count = 0 if workload.spec.suspend else len(own)
        if workload.spec.parallelism is not None:
            count = min(count, workload.spec.parallelism)
    else:
        count = workload.spec.replicas
    # Those with a node stay first, and of each the oldest
    own.sort(key=lambda pod: (not is_bound(pod), _age(pod), pod.metadata.name))
    yield from own[count:]


def _age(pod: Pod) -> str:
    created = pod.metadata.creation_timestamp
    return created.isoformat() if created is not None else "~"


def pods_of(workload: Workload, rest: Sequence[Resource]) -> Iterator[Pod]:
    """The active pods that a workload has among the objects of a cluster."""
    key, namespace = key_of(workload), namespace_of(workload)
    given = {key_of(each): each for each in rest if isinstance(each, ReplicaSet)}
    deployments = {key: workload} if isinstance(workload, Deployment) else {}
    for pod in rest:
        if not isinstance(pod, Pod) or namespace_of(pod) != namespace or not is_active(pod):
            continue
        owner = controller_of(pod)
        if isinstance(workload, Deployment):
            is_own = deployment_of_pod(pod, given, deployments) == key
        elif owner is not None:
            is_own = (owner.kind, owner.name) == (workload.kind, workload.metadata.name)
        else:
            selector = None if isinstance(workload, Job) else workload.spec.selector
            is_own = (
                bool(selector) and all(pod.metadata.labels.get(k) == v for k, v in selector.items())
                if isinstance(selector, Mapping)
                else selects(selector, pod.metadata.labels)
            )
        if is_own:
            yield pod


def _is_of(replica_set: ReplicaSet, workloads: Sequence[Workload]) -> bool:
    owner = deployment_of(replica_set)
    return any(isinstance(each, Deployment) and key_of(each) == owner for each in workloads)


def _template_of(workload: Workload) -> object:
    """What pods are made from, as far as plans depend on it, with every default filled in."""
    group = workload.api_version.rpartition("/")[0]
    raw = msgspec.json.decode(msgspec.json.encode(workload))
    raw = {key: raw[key] for key in ("apiVersion", "kind", "spec") if key in raw}
    try:
        decoded = decode_object(raw, workload.api_version, workload.kind)
    except DecodeError:
        return workload.spec.template
    assert decoded is not None, "the kind is built in"
    spec = with_defaults({"metadata": {}, **decoded.object}, group, workload.kind)["spec"]
    template = spec.get("template") or {}
    return template.get("spec"), (template.get("metadata") or {}).get("labels")
