"""Early binding: pods are bound to their node before it is ready, so that it can pull images.

A pod is bound only where the scheduler would bind it later: the pod is still pending, there is
room, it tolerates every taint that would evict it, and only the scheduler has to prepare its
volumes or devices. A pod that cannot be bound is left to the scheduler.
"""

from typing import Any

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.lookup import claims_of, nodes_of
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.triggers import is_provisionable
from karpenter.kube.errors import ConflictError, ForbiddenError, NotFoundError
from karpenter.kube.mirror import Key, key_of
from karpenter.model.taints import NO_EXECUTE, first_untolerated
from karpenter.scheduling.inputs.pending_pods import needs_scheduler
from karpenter.state.nodes import StateNode
from karpenter.state.requests import pod_requests


class PodBinder:
    """Binds pods to nodes, where the scheduler is not needed for it."""

    def __init__(self, context: Context, log: Any) -> None:
        self._context = context
        self._log = log
        self.is_refused = False  # the rights to do so are missing

    def may_be_bound(self, pod: Pod, node: Node, room: StateNode) -> bool:
        """Whether a pod that waits for a node may be bound to this one."""
        driving_away = [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]
        free = room.allocatable - room.requested
        return (
            node.metadata.deletion_timestamp is None
            and first_untolerated(driving_away, pod.spec.tolerations) is None
            and pod_requests(pod).fits(free)
            and not needs_scheduler(pod, self._context.state.snapshot().pvcs)
        )

    async def bind(self, pod: Pod, node: Node, room: StateNode) -> StateNode:
        """Bind a pod, and return the machine with the pod on it; unchanged if that failed."""
        metadata = pod.metadata
        try:
            await self._context.kube.bind(
                metadata.name, metadata.namespace, uid=metadata.uid, node=node.metadata.name
            )
        except (ConflictError, NotFoundError):
            return room  # bound or changed by another writer
        except ForbiddenError as error:
            self._report_refusal(error)
            return room
        self._log.info(
            "bound pod",
            Pod={"namespace": metadata.namespace, "name": metadata.name},
            Node={"name": node.metadata.name},
        )
        return StateNode(room.node, room.node_claim, (*room.pods, pod))

    def _report_refusal(self, error: ForbiddenError) -> None:
        """Say once what is missing; until then the scheduler binds all pods."""
        if self.is_refused:
            return
        self.is_refused = True
        self._log.warning(
            "pods are not bound early",
            error=str(error),
            advice="bind the ClusterRole karpenter-early-binding (value rbac.earlyBinding of the"
            " chart), or set EARLY_BINDING=false",
        )


class EarlyBinder(Controller):
    """Binds pods to the nodes that were made for them."""

    name = "provisioner.binding"
    kind = NodeClaim

    def __init__(self, context: Context, planned: PlannedPods) -> None:
        super().__init__(context)
        self._planned = planned
        self._binder = PodBinder(context, self.log)
        self._claims = context.mirror(NodeClaim)
        self.follow(self._claims)
        self.follow(context.mirror(Node), self._claim_keys)

    async def reconcile(self, key: Key) -> float | None:
        claim = self._claims.get(key[1])
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return None
        expected = self._planned.pods_of(claim.metadata.name)
        nodes = nodes_of(self.context, claim) if expected else []
        if len(nodes) != 1:
            return None
        room = self.context.state.snapshot().node(claim.metadata.name)
        for planned in expected:
            pod = self.context.mirror(Pod).get(planned.metadata.name, planned.metadata.namespace)
            if pod is None or pod.metadata.uid != planned.metadata.uid or room is None:
                continue
            if is_provisionable(pod) and self._binder.may_be_bound(pod, nodes[0], room):
                room = await self._binder.bind(pod, nodes[0], room)
        return None

    def _claim_keys(self, node: Node) -> list[Key]:
        return [key_of(claim) for claim in claims_of(self.context, node)]
