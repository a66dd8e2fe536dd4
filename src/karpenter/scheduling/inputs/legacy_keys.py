"""Workloads that still select nodes by the name of a Provisioner, or use ``do-not-evict``.

While Provisioners are served, nodes carry both the old label and the new one, so the cluster's
scheduler needs no change. The planner reads only the new keys and is given workloads rewritten to
them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from karpenter.api.codec import convert_as, to_plain
from karpenter.api.meta import Resource
from karpenter.api.pods import Affinity, Pod, PodAffinityTerm, PodSpec
from karpenter.api.selectors import NodeSelectorTerm
from karpenter.api.workloads import DaemonSet
from karpenter.conversion.keys import RENAMED_LABELS, rename_keys
from karpenter.model import labels
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot

R = TypeVar("R", bound=Resource)


def in_current_keys(snapshot: Snapshot) -> Snapshot:
    """The same cluster with node selectors, affinity and protection in the current keys."""
    pods = _pods(snapshot.pods)
    return replace(
        snapshot,
        pods=pods,
        unbound_pods=_pods(snapshot.unbound_pods),
        daemon_pods=_pods(snapshot.daemon_pods),
        daemon_sets={key: _daemon_set(each) for key, each in snapshot.daemon_sets.items()},
        nodes=tuple(_node(node, pods) for node in snapshot.nodes),
    )


def is_protected_as_of_old(pod: Pod) -> bool:
    """Whether a pod has the old ``do-not-evict`` annotation."""
    return pod.metadata.annotations.get(labels.DO_NOT_EVICT) == "true"


def _pods(pods: Mapping[str, Pod]) -> Mapping[str, Pod]:
    changed = {key: _renamed(pod) for key, pod in pods.items() if _is_outdated(pod)}
    return {**pods, **changed} if changed else pods


def _daemon_set(daemon_set: DaemonSet) -> DaemonSet:
    return _renamed(daemon_set) if _uses_old_keys(daemon_set.spec.template.spec) else daemon_set


def _node(node: StateNode, translated: Mapping[str, Pod]) -> StateNode:
    """A machine with its pods translated, since they may have to move."""
    if not any(map(_is_outdated, node.pods)):
        return node
    return replace(node, pods=tuple(translated.get(key_of(pod), pod) for pod in node.pods))


def _renamed(resource: R) -> R:
    return convert_as(rename_keys(to_plain(resource)).object, type(resource))


def _is_outdated(pod: Pod) -> bool:
    return is_protected_as_of_old(pod) or _uses_old_keys(pod.spec)


def _uses_old_keys(spec: PodSpec) -> bool:
    if any(key in spec.node_selector for key in RENAMED_LABELS):
        return True
    if any(each.topology_key in RENAMED_LABELS for each in spec.topology_spread_constraints):
        return True
    affinity = spec.affinity
    if affinity is None:
        return False
    return any(term.topology_key in RENAMED_LABELS for term in _pod_terms(affinity)) or any(
        each.key in RENAMED_LABELS
        for term in _node_terms(affinity)
        for each in term.match_expressions
    )


def _pod_terms(affinity: Affinity) -> Iterator[PodAffinityTerm]:
    for each in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if each is not None:
            yield from each.required
            yield from (weighted.pod_affinity_term for weighted in each.preferred)


def _node_terms(affinity: Affinity) -> Iterator[NodeSelectorTerm]:
    if affinity.node_affinity is not None:
        if affinity.node_affinity.required is not None:
            yield from affinity.node_affinity.required.node_selector_terms
        yield from (term.preference for term in affinity.node_affinity.preferred)
