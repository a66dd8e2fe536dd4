"""Where a picture of a cluster comes from: mirrors that read alone, fed by lists and watches.

Karpenter's own kinds are read as v1beta1 where v1 is not served. Every kind may be missing or
forbidden: what could not be read is known by name, so that the page can say what it lacks. A
connection that is lost leaves the mirrors as they were, and its age is known.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar, cast

from karpenter.api import cluster, karpenter, policy, storage, workloads
from karpenter.api.codec import KINDS, WatchEvent
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import ObjectList, Resource, kind_of
from karpenter.api.node_classes import NodeClass
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod, PodTemplate
from karpenter.clock import Clock
from karpenter.dashboard.older_versions import ConvertingReads
from karpenter.kube.errors import GoneError, KubeError, NotFoundError
from karpenter.kube.guard import Guard
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Reflector, Trouble

R = TypeVar("R", bound=Resource)

NEEDED: Final[tuple[type[Resource], ...]] = (Pod, Node, NodePool, NodeClaim)
# What examples/install/rbac-viewer.yaml grants; a test compares the two
READ: Final[tuple[type[Resource], ...]] = (
    *NEEDED,
    cluster.Namespace,
    cluster.Service,
    cluster.Event,
    cluster.Lease,
    PodTemplate,
    workloads.ReplicationController,
    workloads.Deployment,
    workloads.ReplicaSet,
    workloads.StatefulSet,
    workloads.DaemonSet,
    workloads.Job,
    policy.PodDisruptionBudget,
    storage.PersistentVolume,
    storage.PersistentVolumeClaim,
    storage.StorageClass,
    storage.CSINode,
    karpenter.NodeOverlay,
    karpenter.CapacityBuffer,
    *(kind for kind in KINDS if issubclass(kind, NodeClass)),
)
# Kinds that many clusters do not serve, so that their absence is not worth a notice
_RARE: Final = frozenset(
    {karpenter.NodeOverlay, karpenter.CapacityBuffer, *READ[READ.index(karpenter.CapacityBuffer) :]}
)
LEASE: Final = "karpenter-leader-election"
ROLE: Final = "karpenter-dashboard of examples/install/rbac-viewer.yaml"

# Called with an object before and after; None stands for "not there"
Changed = Callable[[Any, Any], None]


class Reads(Protocol):
    """The part of a client that mirrors need."""

    async def page(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList[R]:
        """One page of a list."""

    def watch(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        resource_version: str,
        seconds: float,
        field_selector: str = "",
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[R]]]:
        """The changes after a version."""


class Followed(Protocol):
    """A cluster that is followed, whoever reads it."""

    def of(self, kind: type[R]) -> Mirror[R]:
        """The mirror of a kind."""

    def objects(self) -> Iterator[Resource]:
        """Everything that is known now."""

    def follow(self, changed: Changed) -> None:
        """Call ``changed`` for every object there is, and for every change."""

    def follow_trouble(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` when a kind can no longer be read, or can be again."""

    async def reached(self) -> None:
        """Wait until every kind was read once, or could not be."""

    @property
    def trouble(self) -> Mapping[type[Resource], Trouble]:
        """The kinds that are not followed at the moment."""

    def refused(self) -> list[type[Resource]]:
        """The kinds that the server does not show, without those that many do not have."""

    def heard(self) -> datetime:
        """When the cluster was last heard of: now, unless a connection is lost."""

    @property
    def leader(self) -> str:
        """The identity of the leader; empty if it is not known."""


class FollowedCluster:
    """The objects of a cluster that a dashboard reads."""

    def __init__(
        self,
        kube: Reads,
        clock: Clock,
        *,
        rng: random.Random,
        kinds: Iterable[type[Resource]] = READ,
        lease: str = LEASE,
        role: str = ROLE,
    ) -> None:
        """Prepare; ``run`` begins to read.

        Args:
            kube: a client, of which only what reads is used.
            clock: the clock for retries, and the time of the cluster.
            rng: the source of jitter.
            kinds: what to read.
            lease: the name of the lease that the leader holds.
            role: what lets these kinds be read, for the log.
        """
        self._clock = clock
        self._changed: list[Callable[[], object]] = []
        self._trouble: dict[type[Resource], Trouble] = {}
        self._reached: dict[type[Resource], asyncio.Event] = {}
        self._mirrors: dict[type[Resource], Mirror[Any]] = {}
        self._reflectors: list[Reflector[Any]] = []
        guard = Guard(clock)
        reads = ConvertingReads(kube)
        selectors = {
            cluster.Event: "source=karpenter",
            cluster.Lease: f"metadata.name={lease}",
        }
        for kind in kinds:
            mirror = self._mirrors[kind] = Mirror(kind, guard)
            self._reached[kind] = asyncio.Event()
            source = _Observed(self, reads, selectors.get(kind, ""))
            self._reflectors.append(
                Reflector(source, kind, mirror, clock, rng=rng, optional=True, role=role)
            )

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, reflector in zip(self._mirrors, self._reflectors, strict=True):
                group.create_task(reflector.run(), name=f"dashboard {kind_of(kind)}")

    async def reached(self) -> None:
        """Wait until every kind was read once, or could not be."""
        for kind, mirror in self._mirrors.items():
            if not mirror.is_synced:
                await self._reached[kind].wait()

    def of(self, kind: type[R]) -> Mirror[R]:
        """The mirror of a kind."""
        return cast(Mirror[R], self._mirrors[kind])

    def objects(self) -> Iterator[Resource]:
        """Everything that is known now."""
        for mirror in self._mirrors.values():
            yield from mirror.list()

    def follow(self, changed: Changed) -> None:
        """Call ``changed`` for every object there is, and for every change."""
        for mirror in self._mirrors.values():
            mirror.on_change(changed)

    def follow_trouble(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` when a kind can no longer be read, or can be again."""
        self._changed.append(changed)

    @property
    def trouble(self) -> Mapping[type[Resource], Trouble]:
        """The kinds that are not followed at the moment."""
        return self._trouble

    def refused(self) -> list[type[Resource]]:
        """The kinds that the server does not show, without those that many do not have."""
        return refused_of(self._trouble)

    def heard(self) -> datetime:
        """When the cluster was last heard of: now, unless a connection is lost."""
        return heard_of(self._trouble, self._clock.now())

    @property
    def leader(self) -> str:
        """The identity of the leader; empty if it is not known."""
        leases = self.of(cluster.Lease).list() if cluster.Lease in self._mirrors else ()
        held = sorted(each.spec.holder_identity or "" for each in leases)
        return held[-1] if held else ""

    def note(self, kind: type[Resource], error: Exception | None) -> None:
        """Note that a kind could be read, or why not."""
        self._reached[kind].set()
        known = self._trouble.get(kind)
        if error is None:
            if known is not None:
                del self._trouble[kind]
        elif known is None or type(known.error) is not type(error):
            since = known.since if known is not None else self._clock.now()
            self._trouble[kind] = Trouble(error, since)
        else:
            return
        if known is not None or error is not None:
            for changed in self._changed:
                changed()


def refused_of(trouble: Mapping[type[Resource], Trouble]) -> list[type[Resource]]:
    """The kinds that the server does not show, without those that many do not have."""
    return [
        kind
        for kind, each in trouble.items()
        if each.is_refused and not (kind in _RARE and isinstance(each.error, NotFoundError))
    ]


def heard_of(trouble: Mapping[type[Resource], Trouble], now: datetime) -> datetime:
    """When the cluster was last heard of: now, unless a connection is lost."""
    return min((each.since for each in trouble.values() if not each.is_refused), default=now)


class _Observed:
    """The source of one reflector, which tells how its requests go."""

    def __init__(self, followed: FollowedCluster, kube: Reads, selector: str) -> None:
        self._followed = followed
        self._kube = kube
        self._selector = selector

    async def page(
        self, kind: type[R], *, limit: int = 0, continue_token: str = ""
    ) -> ObjectList[R]:
        """One page of what is selected."""
        with self._noted(kind):
            page = await self._kube.page(
                kind, field_selector=self._selector, limit=limit, continue_token=continue_token
            )
            if not page.metadata.continue_token:
                # The mirror is filled after this, in the same task
                asyncio.get_running_loop().call_soon(self._followed.note, kind, None)
            return page

    @asynccontextmanager
    async def watch(
        self, kind: type[R], *, resource_version: str, seconds: float
    ) -> AsyncIterator[AsyncIterator[WatchEvent[R]]]:
        """The changes of what is selected."""
        with self._noted(kind):
            async with self._kube.watch(
                kind,
                resource_version=resource_version,
                seconds=seconds,
                field_selector=self._selector,
            ) as events:
                self._followed.note(kind, None)
                yield events

    @contextmanager
    def _noted(self, kind: type[Resource]) -> Iterator[None]:
        try:
            yield
        except GoneError:
            raise  # the history is too old, and a new list follows
        except (KubeError, TimeoutError) as error:
            self._followed.note(kind, error)
            raise
