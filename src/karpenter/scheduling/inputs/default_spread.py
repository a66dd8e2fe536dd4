"""Default spread constraints that the cluster's scheduler gives to pods without any.

The scheduler's configuration may list default constraints, which have no selector. The selector is
derived from what the pod belongs to: the Services that select it, and the controller that created
it. A pod that belongs to nothing gets no default, and a pod with its own constraints keeps those.
"""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from karpenter.api.meta import OwnerReference
from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.api.selectors import LabelSelector, LabelSelectorRequirement
from karpenter.api.workloads import ReplicaSet, StatefulSet
from karpenter.model.selectors import selects
from karpenter.scheduling.compiled.fingerprints import fingerprint
from karpenter.state.object_keys import DEFAULT_NAMESPACE
from karpenter.state.snapshot import Snapshot

Constraints: TypeAlias = tuple[TopologySpreadConstraint, ...]


def default_spread(
    pods: Iterable[Pod], constraints: Constraints, snapshot: Snapshot
) -> dict[str, Constraints]:
    """The constraints each pod gets because it states none, by the uid of the pod.

    Pods that get none are left out.
    """
    if not constraints:
        return {}
    found: dict[str, Constraints] = {}
    known: dict[bytes, Constraints] = {}  # namespace, labels and owner of pods -> constraints
    for pod in pods:
        if pod.spec.topology_spread_constraints:
            continue
        owner = _controller(pod)
        identity = (owner.api_version, owner.kind, owner.name) if owner is not None else None
        key = fingerprint((pod.metadata.namespace, pod.metadata.labels, identity))
        if key not in known:
            known[key] = _counting(constraints, deduced_selector(pod, snapshot))
        if known[key]:
            found[pod.metadata.uid] = known[key]
    return found


def deduced_selector(pod: Pod, snapshot: Snapshot) -> LabelSelector | None:
    """The selector of the Services and the controller of ``pod``, or None without any.

    The labels of Services and of a ReplicationController are merged. The selector of a ReplicaSet
    or StatefulSet is added to them, so one that contradicts a Service selects nothing.
    """
    labels = _labels_of_services(pod, snapshot)
    expressions: tuple[LabelSelectorRequirement, ...] = ()
    owner = _controller(pod)
    if owner is not None:
        key = f"{pod.metadata.namespace or DEFAULT_NAMESPACE}/{owner.name}"
        match owner.api_version, owner.kind:
            case "v1", "ReplicationController":
                controller = snapshot.replication_controllers.get(key)
                labels |= controller.spec.selector if controller is not None else {}
            case "apps/v1", "ReplicaSet":
                expressions = _expressions_of(snapshot.replica_sets.get(key))
            case "apps/v1", "StatefulSet":
                expressions = _expressions_of(snapshot.stateful_sets.get(key))
    if not labels and not expressions:
        return None
    return LabelSelector(match_labels=labels, match_expressions=expressions)


def _counting(constraints: Constraints, selector: LabelSelector | None) -> Constraints:
    if selector is None:
        return ()
    return tuple(msgspec.structs.replace(c, label_selector=selector) for c in constraints)


def _labels_of_services(pod: Pod, snapshot: Snapshot) -> dict[str, str]:
    merged: dict[str, str] = {}
    for service in snapshot.services_in(pod.metadata.namespace or DEFAULT_NAMESPACE):
        wanted = service.spec.selector
        if wanted is not None and selects(LabelSelector(match_labels=wanted), pod.metadata.labels):
            merged |= wanted
    return merged


def _controller(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def _expressions_of(
    controller: ReplicaSet | StatefulSet | None,
) -> tuple[LabelSelectorRequirement, ...]:
    if controller is None or controller.spec.selector is None:
        return ()
    selector = controller.spec.selector
    equal = (
        LabelSelectorRequirement(key=key, operator="In", values=(value,))
        for key, value in sorted(selector.match_labels.items())
    )
    return (*equal, *selector.match_expressions)
