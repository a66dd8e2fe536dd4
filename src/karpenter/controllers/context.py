"""What controllers share: mirrors and state to read, a client and a cloud provider to write to.

One context lasts for one term of leadership. What it holds beyond the API server's objects
(nominations, marks, writes in flight) is a cache and may be lost at any time.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from structlog.typing import FilteringBoundLogger

from karpenter import runtime
from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Resource
from karpenter.clock import Clock
from karpenter.cloud.metered import MeteredProvider
from karpenter.cloud.provider import CloudProvider, CommittedProvider
from karpenter.controllers.mirrors import Mirrors
from karpenter.decision_log.log import DecisionLog, Say
from karpenter.decision_log.record import Draft
from karpenter.kube.client import Kube
from karpenter.kube.errors import NotFoundError
from karpenter.kube.events import Recorder
from karpenter.kube.mirror import Mirror
from karpenter.scheduling.inputs.commitments import declared_over
from karpenter.scheduling.spot.risk import Place, Seen
from karpenter.settings import Settings
from karpenter.state.cluster import ClusterState
from karpenter.state.snapshot import Snapshot
from karpenter.telemetry import Metrics

R = TypeVar("R", bound=Resource)
STATUS: Final = "status"


@dataclass(frozen=True)
class Context:
    """The mirrors, state, client and cloud provider of one term of leadership."""

    kube: Kube
    cloud: CloudProvider
    clock: Clock
    settings: Settings
    mirrors: Mirrors
    recorder: Recorder
    metrics: Metrics
    log: FilteringBoundLogger
    rng: random.Random
    decisions: DecisionLog = field(default_factory=DecisionLog)
    state: ClusterState = field(default_factory=ClusterState)
    spot_seen: dict[Place, Seen] = field(default_factory=dict)  # interruptions and hours of spot
    _ends: list[Callable[[], None]] = field(default_factory=list)

    def begin(self) -> None:
        """Fill the state from the mirrors, and update it on every change of theirs."""
        for mirror in self.mirrors.all():
            self._ends.append(mirror.on_change(self._apply))

    def end(self) -> None:
        """Stop updating the state."""
        while self._ends:
            self._ends.pop()()

    def mirror(self, kind: type[R]) -> Mirror[R]:
        """The mirror of a kind."""
        return self.mirrors.of(kind)

    def decide(self, say: Say, message: str, draft: Draft, /, **facts: Any) -> None:
        """Write the log line of a decision with ``say``, such as ``log.info``, and its record."""
        self.decisions.decide(self.clock.now(), say, message, draft, **facts)

    def command_of(self, claim: NodeClaim) -> str:
        """The disruption command a claim is part of; empty if there is none."""
        return self.decisions.command_of(claim.metadata.uid)

    def snapshot(self) -> Snapshot:
        """The cluster as it is now, with the commitments that the cloud provider reports."""
        found = self.state.snapshot()
        cloud = self.cloud.wrapped if isinstance(self.cloud, MeteredProvider) else self.cloud
        if not (
            self.settings.feature_gates["Commitments"] and isinstance(cloud, CommittedProvider)
        ):
            return found
        reported = cloud.commitments()
        if not reported:
            return found
        return replace(found, commitments=declared_over(found.commitments, reported))

    @property
    def is_synced(self) -> bool:
        """Whether the mirrors are in sync and no claim lacks its machine."""
        return self.mirrors.is_synced and self.state.is_synced

    def is_managed(self, claim: NodeClaim) -> bool:
        """Whether the claim is for the cloud of this process; all others are not ours."""
        return self.cloud.facts.serves(claim.spec.node_class_ref)

    async def create(self, kind: type[R], body: Mapping[str, Any]) -> R:
        """Create an object, and store the response in its mirror at once."""
        created = await self.kube.create(kind, body)
        self.mirrors.absorb(created)
        return created

    async def patch(
        self, obj: R, body: Mapping[str, Any], *, locked: bool = False, subresource: str = ""
    ) -> R:
        """Merge ``body`` into an object, and store the response in its mirror at once.

        Args:
            obj: what was read.
            body: the fields to change.
            locked: refuse when the object has changed since it was read; always so when a list
                is replaced.
            subresource: such as ``status``.
        """
        metadata = obj.metadata
        if locked:
            lock = {"resourceVersion": metadata.resource_version}
            body = {**body, "metadata": {**body.get("metadata", {}), **lock}}
        changed = await self.kube.patch(
            type(obj), metadata.name, body, metadata.namespace, subresource=subresource
        )
        self.mirrors.absorb(changed)
        return changed

    async def delete(self, obj: Resource, *, grace_period_seconds: int | None = None) -> bool:
        """Delete exactly this object, by its uid; return whether it still existed."""
        metadata = obj.metadata
        try:
            await self.kube.delete(
                type(obj),
                metadata.name,
                metadata.namespace,
                uid=metadata.uid,
                grace_period_seconds=grace_period_seconds,
            )
        except NotFoundError:
            return False
        return True

    def _apply(self, old: Resource | None, new: Resource | None) -> None:
        for obj, change in (
            (new, self.state.apply),
            (old if new is None else None, self.state.delete),
        ):
            if obj is not None and (not isinstance(obj, NodeClaim) or self.is_managed(obj)):
                change(obj)


class Controller(runtime.KeyedController):
    """Base of the controllers that work on keys."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.clock, context.log, context.metrics)
        self.context: Final = context


class Loop(runtime.LoopController):
    """Base of the controllers that run one step after another, without a queue of keys."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.clock, context.log, context.metrics)
        self.context: Final = context
