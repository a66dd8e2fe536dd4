"""The annotation with the time since when a node has been empty, as Provisioners had it.

Nodes of pools that stand for a Provisioner carry it while nothing but daemons runs on them. It is
informative only: when an empty node is removed follows from its claim's conditions.
"""

from collections.abc import Iterable

from karpenter.api.karpenter import NodePool
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.mirrors import BY_NODE
from karpenter.controllers.provisioning.claim_bodies import legacy_owner
from karpenter.kube.mirror import Key
from karpenter.model import labels
from karpenter.model.conditions import timestamp
from karpenter.runtime import REASONABLE
from karpenter.state.departing_pods import is_reschedulable


class EmptinessStamps(Controller):
    """Stamps the empty nodes of pools that stand for a Provisioner."""

    name = "node.emptiness"
    kind = Node
    workers = 1
    backoff = REASONABLE

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = context.mirror(Node)
        self._pods = context.mirror(Pod)
        self.follow(self._nodes, self._keys_of_node)
        self.follow(self._pods, self._keys_of_pod)

    async def reconcile(self, key: Key) -> float | None:
        """Stamp a node that has become empty, or take the stamp off."""
        node = self._nodes.get(key[1])
        if node is None or node.metadata.deletion_timestamp is not None:
            return None
        pods = self._pods.by_index(BY_NODE, node.metadata.name)
        is_started = node.metadata.labels.get(labels.INITIALIZED) == "true"
        is_empty = is_started and not any(map(is_reschedulable, pods))
        if is_empty is (labels.EMPTINESS_TIMESTAMP in node.metadata.annotations):
            return None
        stamp = timestamp(self.clock.now()) if is_empty else None
        body = {"metadata": {"annotations": {labels.EMPTINESS_TIMESTAMP: stamp}}}
        await self.context.patch(node, body)
        return None

    def _keys_of_node(self, node: Node) -> Iterable[Key]:
        pool = self.context.mirror(NodePool).get(node.metadata.labels.get(labels.NODEPOOL, ""))
        stands_for_another = pool is not None and legacy_owner(pool) is not None
        return (("", node.metadata.name),) if stands_for_another else ()

    def _keys_of_pod(self, pod: Pod) -> Iterable[Key]:
        node = self._nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        return self._keys_of_node(node) if node is not None else ()
