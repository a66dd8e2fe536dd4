"""What controllers would have written on the objects of a cluster before anything is planned.

Manifests lack it, and a running cluster may lack some of it: whether pools are ready and the drift
hash of their templates, the conditions of claims, whether nodes are ready, what disruption budgets
allow.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

import msgspec

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Condition, Resource
from karpenter.api.nodes import Node, Taint
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.inquiry.pdb_status import judged
from karpenter.model import labels
from karpenter.model.conditions import READY, TRUE
from karpenter.model.taints import DISRUPTED, matches
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash
from karpenter.state.nodes import StateNode
from karpenter.state.object_keys import key_of
from karpenter.state.snapshot import Snapshot

_READY: Final = Condition(type=READY, status=TRUE, reason=READY)
_CLOSED: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_replace = msgspec.structs.replace


def settled_files(objects: Iterable[Resource], unjudged: Collection[str]) -> list[Resource]:
    """Objects of manifests as controllers would have left them.

    Args:
        unjudged: the disruption budgets, as namespace/name, that came without a status.
    """
    found = list(objects)
    pods = [each for each in found if isinstance(each, Pod)] if unjudged else []
    nodes = {each.spec.provider_id: each for each in found if isinstance(each, Node)}
    settled: list[Resource] = []
    for each in found:
        match each:
            case NodePool():
                settled.append(settled_pool(each))
            case Node():
                settled.append(_settled_node(each))
            case NodeClaim():
                settled.append(_settled_claim(each, nodes.get(each.status.provider_id)))
            case PodDisruptionBudget() if key_of(each) in unjudged:
                settled.append(judged(each, pods))
            case _:
                settled.append(each)
    return settled


def settled_pool(pool: NodePool) -> NodePool:
    """A pool that is ready unless it says otherwise, with the drift hash of its template.

    A hash of another version is left alone: it is compared with claims that carry the same.
    """
    conditions = pool.status.conditions
    if all(condition.type != _READY.type for condition in conditions):
        pool = _replace(pool, status=_replace(pool.status, conditions=(*conditions, _READY)))
    annotations = pool.metadata.annotations
    known = annotations.get(labels.NODEPOOL_HASH_VERSION, NODEPOOL_HASH_VERSION)
    if known != NODEPOOL_HASH_VERSION:
        return pool
    stamp = {
        labels.NODEPOOL_HASH: node_pool_hash(pool),
        labels.NODEPOOL_HASH_VERSION: NODEPOOL_HASH_VERSION,
    }
    metadata = _replace(pool.metadata, annotations={**annotations, **stamp})
    return _replace(pool, metadata=metadata)


def with_marks(snapshot: Snapshot) -> Snapshot:
    """A cluster with the machines marked that its controller is about to remove.

    Outside the controller only their taint shows it.
    """
    return replace(snapshot, nodes=tuple(map(_marked, snapshot.nodes)))


def _marked(machine: StateNode) -> StateNode:
    held = machine.node.spec.taints if machine.node is not None else ()
    is_going = machine.is_managed and any(matches(taint, DISRUPTED) for taint in held)
    return replace(machine, is_marked=True) if is_going else machine


def _settled_node(node: Node) -> Node:
    """A node that is ready unless it says otherwise, and closed by a taint if it takes no pods."""
    conditions, taints = node.status.conditions, node.spec.taints
    if all(condition.type != _READY.type for condition in conditions):
        node = _replace(node, status=_replace(node.status, conditions=(*conditions, _READY)))
    if node.spec.unschedulable and not any(matches(taint, _CLOSED) for taint in taints):
        node = _replace(node, spec=_replace(node.spec, taints=(*taints, _CLOSED)))
    return node


def _settled_claim(claim: NodeClaim, node: Node | None) -> NodeClaim:
    """A claim with the labels of what it became, where it was written down without them."""
    held = claim.metadata.labels
    if node is None or not claim.status.provider_id or labels.INSTANCE_TYPE in held:
        return claim
    return _replace(
        claim, metadata=_replace(claim.metadata, labels={**node.metadata.labels, **held})
    )
