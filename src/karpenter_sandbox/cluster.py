"""A whole cluster in one process: store, API, controllers, scheduler and simulated kubelets.

The same cluster lives in real time, faster than real time, or in virtual time, depending on its
clock. In virtual time, two runs with the same seed make the same writes at the same times.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from karpenter.admission.legacy.webhook import Profile
from karpenter.admission.schemas.crds import builtin_crds
from karpenter.api.meta import JsonObject
from karpenter.clock import Clock, running_clock
from karpenter.kube.limiter import Limiter
from karpenter_sandbox.backend import Backend, Identity, parse_timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.client_limits import ClientLimits, Limit, LimitedClient
from karpenter_sandbox.controllers.cluster.garbage_collector import GarbageCollector
from karpenter_sandbox.controllers.cluster.namespace import NamespaceController
from karpenter_sandbox.controllers.cluster.pdb import DisruptionController
from karpenter_sandbox.controllers.cluster.retention import Compaction, EventExpiry
from karpenter_sandbox.controllers.cluster.service_accounts import ServiceAccountController
from karpenter_sandbox.controllers.jobs.cronjob import CronJobController
from karpenter_sandbox.controllers.jobs.job import JobController
from karpenter_sandbox.controllers.nodes.lifecycle import NodeLifecycleController
from karpenter_sandbox.controllers.nodes.pod_gc import PodGarbageCollector
from karpenter_sandbox.controllers.nodes.taint_eviction import TaintEvictionController
from karpenter_sandbox.controllers.services.endpoints import (
    EndpointsController,
    EndpointSliceController,
)
from karpenter_sandbox.controllers.storage.attachments import (
    AttachmentController,
    CsiNodeController,
)
from karpenter_sandbox.controllers.storage.binder import VolumeController
from karpenter_sandbox.controllers.storage.protection import EphemeralVolumes, VolumeProtection
from karpenter_sandbox.controllers.workloads.daemonset import DaemonSetController
from karpenter_sandbox.controllers.workloads.deployment import DeploymentController
from karpenter_sandbox.controllers.workloads.hpa import AutoscalerController
from karpenter_sandbox.controllers.workloads.replicaset import (
    ReplicaSetController,
    ReplicationController,
)
from karpenter_sandbox.controllers.workloads.statefulset import StatefulSetController
from karpenter_sandbox.initial_objects import NodeShape, first_objects, new_node
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.kubelet.faults import Delays, Timing
from karpenter_sandbox.kubelet.kubelet import KubeletClient, add_kubelets
from karpenter_sandbox.kubelet.machines import Machines
from karpenter_sandbox.runtime.runtime import Controller, Runtime
from karpenter_sandbox.scheduling.scheduler import Scheduler
from karpenter_sandbox.server.api import Api
from karpenter_sandbox.server.crds import CustomKinds
from karpenter_sandbox.status import ApiError
from karpenter_sandbox.store.journal import Journal, JournalError, has_history, restore
from karpenter_sandbox.store.store import Store

_NOT_FOUND: Final = 404
_NODE_NAME: Final = re.compile(r"node-([0-9]+)")
# The controllers of the controller manager, in the order in which they run
_CONTROLLERS: Final[tuple[Callable[[Runtime, Client], Controller], ...]] = (
    ServiceAccountController,  # admission of pods needs their service account
    NodeLifecycleController,  # removes the not-ready taint, before which no pod is placed
    TaintEvictionController,
    CsiNodeController,
    DaemonSetController,  # before other pods take the resources
    DeploymentController,
    ReplicaSetController,
    ReplicationController,
    StatefulSetController,
    CronJobController,
    JobController,
    AutoscalerController,
    EphemeralVolumes,
    VolumeController,
    VolumeProtection,
    AttachmentController,
    DisruptionController,
    EndpointsController,
    EndpointSliceController,
    PodGarbageCollector,
)


class Cluster:
    """A cluster that runs from ``start`` to ``stop``."""

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int | None = None,
        data_file: Path | None = None,
        timing: Timing | None = None,
        provider: str = "kwok",
        legacy_defaults: Profile = "late",
        is_strict: bool = False,
        delays: Delays | None = None,
        limits: ClientLimits | None = None,
    ) -> None:
        """Make a cluster that does nothing yet.

        Args:
            clock: the clock of the cluster.
            seed: the seed of names, identifiers and ties; without one, every run differs.
            data_file: where it is kept from one run to the next.
            timing: how long machines and pods take where nothing else is declared.
            provider: whose rules Provisioners and AWSNodeTemplates are checked by.
            legacy_defaults: which releases' defaults Provisioners get.
            is_strict: an unexpected error ends the run; otherwise it is logged and retried.
            delays: how long single machines and pods take where nothing is declared.
            limits: how many requests the controllers may make; without them, any number.

        Raises:
            JournalError: the data file cannot be used.
        """
        self.clock: Final = clock
        self.store: Final = Store()
        self._journal = Journal(data_file, self.store) if data_file is not None else None
        # What of the data file could not be read, as a sentence
        self.lost: Final = self._journal.lost if self._journal is not None else None
        self.backend: Final = Backend(
            self.store, Registry(), clock, Identity(seed), provider, legacy_defaults
        )
        CustomKinds(self.backend)
        self.client: Final = Client(self.backend)
        self.api: Final = Api(self.backend)
        self.runtime: Final = Runtime(self.client, clock, is_strict=is_strict)
        self.machines: Final = Machines(timing, delays)
        self._limits = limits or ClientLimits()
        self._limited: list[LimitedClient] = []
        self._scheduler: Scheduler | None = None
        self._seed = seed or 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Create the initial objects, and start all controllers."""
        await self.create_first_objects()
        self._add_controllers()
        self._task = asyncio.create_task(self.runtime.run(), name="cluster")
        started = asyncio.create_task(self.runtime.started.wait(), name="cluster-start")
        try:
            await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                await self._task
        finally:
            started.cancel()

    async def stop(self) -> None:
        """Stop everything, and put the last changes into the data file.

        Raises:
            ExceptionGroup: something went wrong while the cluster ran.
            JournalError: the last changes cannot be written.
        """
        task, self._task = self._task, None
        try:
            if task is not None:
                has_failed = task.done()
                task.cancel()
                outcome = (await asyncio.gather(task, return_exceptions=True))[0]
                if has_failed and isinstance(outcome, BaseException):
                    raise outcome
        finally:
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    @contextmanager
    def furnished(self) -> Iterator[None]:
        """While the block runs, controllers need not wait for their turn, and no pod is placed.

        So a cluster gets what it is to have from the start, and pods the nodes they are to be on.
        """
        assert self._scheduler is not None, "the cluster has started"
        self._scheduler.hold()
        for client in self._limited:
            client.is_limited = False
        try:
            yield
        finally:
            for client in self._limited:
                client.is_limited = True
            self._scheduler.resume()

    async def wait(self) -> None:
        """Wait until the cluster ends by itself, which only an error makes it do."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def add_nodes(self, count: int, shape: NodeShape | None = None) -> list[JsonObject]:
        """Create simulated nodes, numbered on from those there are."""
        known = self.store.list("", "nodes")
        numbers = [_NODE_NAME.fullmatch(node["metadata"]["name"]) for node in known]
        last = max((int(found[1]) for found in numbers if found), default=0)
        return [
            await self.client.create(new_node(last + number, shape or NodeShape()))
            for number in range(1, count + 1)
        ]

    async def create_first_objects(self) -> None:
        """Create the initial objects, without starting controllers."""
        for obj in first_objects():
            # An object kept from the last run may have been changed on purpose
            if await self.find(obj) is None:
                await self.client.create(obj)
        for crd in builtin_crds().values():
            known = await self.find(crd)
            if known is None:
                await self.client.create(crd)
            elif "deletionTimestamp" not in known["metadata"]:
                await self.client.update({**known, "spec": crd["spec"]})

    async def find(self, obj: JsonObject, namespace: str | None = None) -> JsonObject | None:
        """The stored object of that kind and name, in its own namespace or in ``namespace``."""
        metadata = obj["metadata"]
        try:
            return await self.client.get(
                obj["apiVersion"],
                obj["kind"],
                metadata.get("namespace", namespace),
                metadata["name"],
            )
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            return None

    def _add_controllers(self) -> None:
        runtime, manager = self.runtime, self._limits.controller_manager
        runtime.add(NamespaceController(runtime, self._client(manager), self.backend))
        runtime.add(GarbageCollector(runtime, self._client(manager), self.backend))
        for maker in _CONTROLLERS:
            runtime.add(maker(runtime, self._client(manager)))
        runtime.add(EventExpiry(runtime, self.client, self.backend))
        runtime.add(Compaction(runtime, self.backend))
        scheduler = Scheduler(runtime, self._client(self._limits.scheduler), seed=self._seed)
        self._scheduler = scheduler
        runtime.add_task(scheduler.name, scheduler.run)
        add_kubelets(runtime, KubeletClient(self.backend), self.machines)

    def _client(self, limit: Limit | None) -> Client:
        """A client for one controller, which alone its limit counts for."""
        if limit is None:
            return self.client
        limited = LimitedClient(self.backend, Limiter(self.clock, limit.qps, limit.burst))
        self._limited.append(limited)
        return limited


def last_moment(data_file: Path) -> datetime | None:
    """The latest time that anything in a data file mentions, or None when it holds nothing.

    A cluster that ran faster than real time is ahead of the wall clock, and continues from there.

    Raises:
        JournalError: the data file cannot be used.
    """
    store = Store()
    try:
        if has_history(data_file):
            restore(data_file, store)
    except OSError as error:
        raise JournalError(f"{data_file}: {error.strerror}; choose another file") from error
    times = [stored.obj["metadata"]["creationTimestamp"] for stored in store.everything()]
    leases = store.list("coordination.k8s.io", "leases")
    times += [lease["spec"]["renewTime"] for lease in leases if lease["spec"].get("renewTime")]
    return max(map(parse_timestamp, times), default=None)


@asynccontextmanager
async def virtual_cluster(
    *,
    nodes: int = 0,
    seed: int = 0,
    shape: NodeShape | None = None,
    timing: Timing | None = None,
) -> AsyncIterator[Cluster]:
    """A cluster for as long as a block runs, in the time of the running loop.

    Meant for ``run_virtual``, where hours pass in moments. An unexpected error ends the run.
    """
    cluster = Cluster(running_clock(), seed=seed, timing=timing, is_strict=True)
    await cluster.start()
    try:
        await cluster.add_nodes(nodes, shape)
        yield cluster
    finally:
        await cluster.stop()
