"""What triggers a pass: pending pods, and nodes that are being removed.

Both trigger again every ten seconds while that lasts, so that a plan that failed, was dropped or
was contradicted by the scheduler is made again.
"""

from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.provisioning.batching import Batcher
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.kube.mirror import Key, key_of
from karpenter.model.taints import DISRUPTED, matches
from karpenter.scheduling.inputs.pending_pods import why_not_waiting

AGAIN: Final = 10.0


class PodTrigger(Controller):
    """Requests a plan while a pod is pending, and drops the records of pods that are gone."""

    name = "provisioner.trigger.pod"
    kind = Pod

    def __init__(self, context: Context, batcher: Batcher, planned: PlannedPods) -> None:
        super().__init__(context)
        self._batcher = batcher
        self._planned = planned
        self._pods = context.mirror(Pod)
        self.follow(self._pods, _waiting_keys)
        self._ends.append(self._pods.on_change(self._forget_pod))
        self._ends.append(context.mirror(NodeClaim).on_change(self._forget_claim))

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key[1], key[0])
        if pod is None or not is_provisionable(pod):
            return None
        self._planned.see(pod.metadata.uid, self.clock.now())
        self._batcher.trigger(pod.metadata.uid)
        return AGAIN

    def _forget_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._planned.forget_pod(old.metadata.uid)

    def _forget_claim(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if old is not None and new is None:
            self._planned.forget_claim(old.metadata.name)


class NodeTrigger(Controller):
    """Requests a plan while a node is being disrupted, because its pods will need room."""

    name = "provisioner.trigger.node"
    kind = Node

    def __init__(self, context: Context, batcher: Batcher) -> None:
        super().__init__(context)
        self._batcher = batcher
        self._nodes = context.mirror(Node)
        self.follow(self._nodes, _disrupted_keys)

    async def reconcile(self, key: Key) -> float | None:
        node = self._nodes.get(key[1])
        if node is None or not _is_disrupted(node):
            return None
        self._batcher.trigger(node.metadata.uid)
        return AGAIN


def is_provisionable(pod: Pod) -> bool:
    """Whether a pod waits for a node, and no other component will provide one."""
    # The cheap test first: this is called for every change of every pod, and most are bound
    return not pod.spec.node_name and why_not_waiting(pod) is None


def _waiting_keys(pod: Pod) -> tuple[Key, ...]:
    return (key_of(pod),) if is_provisionable(pod) else ()


def _is_disrupted(node: Node) -> bool:
    return any(matches(taint, DISRUPTED) for taint in node.spec.taints)


def _disrupted_keys(node: Node) -> tuple[Key, ...]:
    return (key_of(node),) if _is_disrupted(node) else ()
