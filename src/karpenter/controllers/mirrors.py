"""The mirrors (informer caches) every controller reads from: one reflector for each kind."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from karpenter.api import cluster, devices, karpenter, legacy, policy, storage, workloads
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Resource, kind_of
from karpenter.api.node_classes import NodeClass
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod, PodTemplate
from karpenter.clock import Clock
from karpenter.kube.client import Kube
from karpenter.kube.guard import Guard, GuardObserver
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Reflector, Trouble
from karpenter.settings import Settings

R = TypeVar("R", bound=Resource)

_ALWAYS: Final[tuple[type[Resource], ...]] = (
    Pod,
    Node,
    NodeClaim,
    NodePool,
    workloads.DaemonSet,
    workloads.Deployment,
    workloads.ReplicaSet,
    workloads.ReplicationController,
    workloads.StatefulSet,
    cluster.Namespace,
    cluster.Service,
    policy.PodDisruptionBudget,
    storage.PersistentVolume,
    storage.PersistentVolumeClaim,
    storage.StorageClass,
    storage.CSINode,
    storage.VolumeAttachment,
)
_DEVICES: Final[tuple[type[Resource], ...]] = (
    devices.DeviceClass,
    devices.ResourceClaim,
    devices.ResourceClaimTemplate,
    devices.ResourceSlice,
)
_LEGACY: Final[tuple[type[Resource], ...]] = (legacy.Provisioner, legacy.AWSNodeTemplate)
# What lets the controllers see kinds they can do without; see examples/install
_ROLES: Final[Mapping[type[Resource], str]] = {
    **dict.fromkeys(_DEVICES, "karpenter-devices"),
    **dict.fromkeys(_LEGACY, "karpenter-legacy-kinds"),
    karpenter.NodeOverlay: "karpenter-node-overlay",
    karpenter.CapacityBuffer: "karpenter-capacity-buffer",
    PodTemplate: "karpenter-capacity-buffer",
    karpenter.Commitment: "karpenter-commitment",
}
_CORE_ROLE: Final = "karpenter-core"
# The values of the chart that bind these
_CHART_VALUES: Final[Mapping[str, str]] = {
    "karpenter-devices": "rbac.devices",
    "karpenter-legacy-kinds": "rbac.legacyKinds",
    "karpenter-node-overlay": "settings.featureGates.nodeOverlay",
    "karpenter-capacity-buffer": "settings.featureGates.capacityBuffer",
    "karpenter-commitment": "settings.featureGates.commitments",
    _CORE_ROLE: "rbac.create",
}
# Indexes that several controllers use
BY_PROVIDER_ID: Final = "provider-id"
BY_NODE: Final = "node"
BY_POOL: Final = "node-pool"


def kinds_to_follow(
    settings: Settings, node_classes: Iterable[type[NodeClass]]
) -> tuple[tuple[type[Resource], ...], tuple[type[Resource], ...]]:
    """The kinds that must be served for the controllers to work, and those that may be absent."""
    gates = settings.feature_gates
    optional: tuple[type[Resource], ...] = _LEGACY
    if gates["NodeOverlay"]:
        optional += (karpenter.NodeOverlay,)
    if gates["CapacityBuffer"]:
        optional += (karpenter.CapacityBuffer, PodTemplate)
    if gates["Commitments"]:
        optional += (karpenter.Commitment,)
    if not settings.ignore_dra_requests:
        optional += _DEVICES
    return (*_ALWAYS, *node_classes), optional


def role_for(kind: type[Resource]) -> str:
    """The ClusterRole that lets the controllers see a kind."""
    return _ROLES.get(kind, _CORE_ROLE)


def chart_value_for(role: str) -> str:
    """The value of the chart that binds a ClusterRole."""
    return _CHART_VALUES[role]


class Mirrors:
    """All mirrors of one process."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        required: Iterable[type[Resource]],
        optional: Iterable[type[Resource]] = (),
        *,
        rng: random.Random,
        observer: GuardObserver | None = None,
    ) -> None:
        self._guard = Guard(clock, observer)
        self._mirrors: dict[type[Resource], Mirror[Any]] = {}
        self._reflectors: dict[type[Resource], Reflector[Any]] = {}
        for kinds, is_optional in ((required, False), (optional, True)):
            for kind in kinds:
                mirror = self._mirrors[kind] = Mirror(kind, self._guard)
                role = role_for(kind)
                self._reflectors[kind] = Reflector(
                    kube,
                    kind,
                    mirror,
                    clock,
                    rng=rng,
                    optional=is_optional,
                    role=f"{role} (value {chart_value_for(role)} of the chart)",
                    observer=observer,
                )
        self._index()

    def of(self, kind: type[R]) -> Mirror[R]:
        """The mirror of a kind; one of a kind that is not followed stays empty."""
        if kind not in self._mirrors:
            empty = self._mirrors[kind] = Mirror(kind, self._guard)
            empty.synced.set()
        return cast(Mirror[R], self._mirrors[kind])

    def all(self) -> tuple[Mirror[Any], ...]:
        """Every mirror."""
        return tuple(self._mirrors.values())

    @property
    def followed(self) -> tuple[type[Resource], ...]:
        """The kinds that are read from the API server."""
        return tuple(self._reflectors)

    @property
    def trouble(self) -> Mapping[type[Resource], Trouble]:
        """The kinds that cannot be read at the moment, and why."""
        found = {kind: reflector.trouble for kind, reflector in self._reflectors.items()}
        return {kind: trouble for kind, trouble in found.items() if trouble is not None}

    @property
    def is_synced(self) -> bool:
        """Whether all that was there at the start has been seen."""
        return all(mirror.is_synced for mirror in self._mirrors.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """The kinds that have not been seen yet."""
        return tuple(kind_of(m.kind) for m in self._mirrors.values() if not m.is_synced)

    async def synced(self) -> None:
        """Wait until everything has been seen once."""
        for mirror in self.all():
            await mirror.synced.wait()

    def absorb(self, obj: Resource) -> None:
        """Store the response to a write at once, instead of waiting for the watch event."""
        mirror = self._mirrors.get(type(obj))
        if mirror is not None:
            mirror.absorb(obj)

    def followers(self) -> Mapping[type[Resource], int]:
        """How many handlers each mirror has now."""
        return {kind: mirror.followers for kind, mirror in self._mirrors.items()}

    def forget_followers(self, beyond: Mapping[type[Resource], int]) -> None:
        """Remove the handlers that were added to a mirror since then."""
        for kind, mirror in self._mirrors.items():
            mirror.forget_followers(beyond.get(kind, 0))

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"reflector-{kind_of(kind)}")

    def _index(self) -> None:
        self.of(Node).add_index(BY_PROVIDER_ID, lambda node: _given(node.spec.provider_id))
        claims = self.of(NodeClaim)
        claims.add_index(BY_PROVIDER_ID, lambda claim: _given(claim.status.provider_id))
        claims.add_index(BY_POOL, lambda claim: _given(claim.metadata.labels.get(_POOL_LABEL, "")))
        self.of(Pod).add_index(BY_NODE, lambda pod: _given(pod.spec.node_name))
        attachments = self.of(storage.VolumeAttachment)
        attachments.add_index(BY_NODE, lambda attachment: _given(attachment.spec.node_name))


_POOL_LABEL: Final = "karpenter.sh/nodepool"
Unsubscribe = Callable[[], None]


def _given(value: str) -> tuple[str, ...]:
    return (value,) if value else ()
