"""Workloads that still select nodes by the name of a Provisioner.

While Provisioners are honoured, nodes carry both the old label and the new one, so the cluster's
scheduler needs no help. The planner knows only the new one and is shown workloads that use it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from karpenter.api.codec import convert_as, to_plain
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod, PodSpec
from karpenter.api.selectors import NodeSelectorTerm
from karpenter.api.workloads import DaemonSet
from karpenter.conversion.keys import RENAMED_LABELS, rename_keys
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot

R = TypeVar("R", bound=Resource)


def in_current_keys(snapshot: Snapshot) -> Snapshot:
    """The same cluster with node selectors and affinity in today's keys."""
    return replace(
        snapshot,
        pods=_pods(snapshot.pods),
        unbound_pods=_pods(snapshot.unbound_pods),
        daemon_pods=_pods(snapshot.daemon_pods),
        daemon_sets={key: _daemon_set(each) for key, each in snapshot.daemon_sets.items()},
        nodes=tuple(_node(node) for node in snapshot.nodes),
    )


def _pods(pods: Mapping[str, Pod]) -> Mapping[str, Pod]:
    changed = {key: _renamed(pod) for key, pod in pods.items() if _uses_old_keys(pod.spec)}
    return {**pods, **changed} if changed else pods


def _daemon_set(daemon_set: DaemonSet) -> DaemonSet:
    return _renamed(daemon_set) if _uses_old_keys(daemon_set.spec.template.spec) else daemon_set


def _node(node: StateNode) -> StateNode:
    """A machine; its pods matter only once they have to leave it."""
    if not node.is_deleting or not any(_uses_old_keys(pod.spec) for pod in node.pods):
        return node
    pods = (_renamed(pod) if _uses_old_keys(pod.spec) else pod for pod in node.pods)
    return replace(node, pods=tuple(pods))


def _renamed(resource: R) -> R:
    return convert_as(rename_keys(to_plain(resource)).object, type(resource))


def _uses_old_keys(spec: PodSpec) -> bool:
    if any(key in spec.node_selector for key in RENAMED_LABELS):
        return True
    if any(each.topology_key in RENAMED_LABELS for each in spec.topology_spread_constraints):
        return True
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None:
        return False
    required = affinity.required.node_selector_terms if affinity.required is not None else ()
    return _mentioned((*required, *(term.preference for term in affinity.preferred)))


def _mentioned(terms: Iterable[NodeSelectorTerm]) -> bool:
    return any(each.key in RENAMED_LABELS for term in terms for each in term.match_expressions)
