"""Tags instances with their claim, node and cluster, once their nodes have names."""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import NODE_CLASS_KIND, ClusterView
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.instances.instances import Instances
from karpenter.cloud.provider import CloudError, InstanceNotFoundError
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.kube.workqueue import Backoff, WorkQueue

NAME: Final = "Name"
_PAUSE: Final = 1.0  # after each call, because EC2 allows few of them
_DONE: Final = (ec2_labels.TAGGED, ec2_labels.CLUSTER_NAME_TAGGED)

log = structlog.get_logger(__name__)


class Tagging:
    """Tags the instances of claims that have a node, one after the other."""

    name: Final = "nodeclaim.tagging"

    def __init__(self, view: ClusterView, instances: Instances, clock: Clock, cluster: str) -> None:
        self._view = view
        self._instances = instances
        self._clock = clock
        self._cluster = cluster
        self._queue: WorkQueue[str] = WorkQueue(clock, Backoff(1.0, 60.0))

    async def run(self) -> None:
        """Tag what comes, until cancelled."""
        end = self._view.claims.on_change(self._changed)
        try:
            while True:
                name = await self._queue.get()
                try:
                    await self._step(name)
                finally:
                    self._queue.done(name)
                await asyncio.sleep(0)
        finally:
            end()
            self._queue.clear()

    def _changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is not None and needs_tags(new):
            self._queue.add(new.metadata.name)

    async def _step(self, name: str) -> None:
        claim = self._view.claims.get(name)
        if claim is None or not needs_tags(claim):
            return
        try:
            await self.tag(claim)
        except Exception as error:
            is_foreseen = isinstance(error, CloudError | KubeError)
            seconds = self._queue.retry(name)
            log.warning(
                "instance not tagged",
                NodeClaim={"name": name},
                error=str(error) if is_foreseen else f"{type(error).__name__}: {error}",
                retry_in=f"{seconds:g}s",
                exc_info=None if is_foreseen else error,
            )
        else:
            self._queue.forget(name)

    async def tag(self, claim: NodeClaim) -> None:
        """Add the tags that are missing on a claim's instance, and annotate the claim with that."""
        instance_id = instance_id_of(claim.status.provider_id)
        if not instance_id:
            log.warning("claim names no instance", provider_id=claim.status.provider_id)
            return
        try:
            record = await self._instances.get(instance_id, cached=False)
        except InstanceNotFoundError:
            return
        missing = missing_tags(claim, record.tags, self._cluster)
        if missing:
            await self._instances.tag(record, missing)
            await self._clock.sleep(_PAUSE)
        body = {"metadata": {"annotations": dict.fromkeys(_DONE, "true")}}
        try:
            changed = await self._view.kube.patch(NodeClaim, claim.metadata.name, body)
        except NotFoundError:
            return
        self._view.claims.put(changed)


def needs_tags(claim: NodeClaim) -> bool:
    """Whether the instance of a claim may still lack tags."""
    metadata = claim.metadata
    return (
        claim.spec.node_class_ref.kind == NODE_CLASS_KIND
        and bool(claim.status.node_name)
        and metadata.deletion_timestamp is None
        and any(metadata.annotations.get(key) != "true" for key in _DONE)
    )


def missing_tags(claim: NodeClaim, held: Mapping[str, str], cluster: str) -> dict[str, str]:
    """The tags an instance lacks; those it has are left as they are."""
    wanted = {
        NAME: claim.status.node_name,
        ec2_labels.NODECLAIM_TAG: claim.metadata.name,
        ec2_labels.EKS_CLUSTER_NAME_TAG: cluster,
    }
    return {key: value for key, value in wanted.items() if key not in held}
