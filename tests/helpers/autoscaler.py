"""Controllers at work in tests: on a whole virtual cluster, or alone on a bare store.

``autoscaler`` is the sandbox's cluster with simulated kubelets and every controller on the kwok
provider, in virtual time. ``bench`` is a world for one controller at a time: a bare API server, a
cloud that follows a script, and a recorder whose events can be read.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from helpers.bare_clusters import furnish
from helpers.manifests import container
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Resource
from karpenter.api.nodes import Node
from karpenter.clock import Clock, running_clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import CloudProvider, Instance, InstanceNotFoundError
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.manager import Manager, Process
from karpenter.controllers.mirrors import Mirrors, kinds_to_follow
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.warning_events import observing
from karpenter.kube.client import Client
from karpenter.kube.events import Event, Recorder
from karpenter.kube.transport import Transport
from karpenter.runtime import Runnable
from karpenter.settings import FeatureGates, Settings
from karpenter.telemetry import Metrics, recording_logger
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.kubelet.faults import Timing
from karpenter_sandbox.server.transport import MemoryTransport

JsonObject = dict[str, Any]
R = TypeVar("R", bound=Resource)

KWOK_CLASS = "karpenter.kwok.sh/v1alpha1"
FAKE_FACTS = ProviderFacts("fake", (("karpenter.kwok.sh", "KWOKNodeClass"),), frozenset())


def gates(**on: bool) -> FeatureGates:
    """Feature gates that differ from the defaults."""
    return FeatureGates({**FeatureGates().gates, **on})


# Every feature gate that changes what the controllers read or write
MORE_GATES: Final = gates(
    NodeRepair=True,
    StaticCapacity=True,
    CapacityBuffer=True,
    NodeOverlay=True,
    PodDeletionCostManagement=True,
    Commitments=True,
)


def kwok_class(name: str = "default") -> JsonObject:
    """A node class of the simulated provider."""
    return {
        "apiVersion": KWOK_CLASS,
        "kind": "KWOKNodeClass",
        "metadata": {"name": name},
        "spec": {},
    }


def kwok_pool(name: str = "default", *requirements: JsonObject, **spec: Any) -> JsonObject:
    """A NodePool of the simulated provider; ``template`` changes the template's spec."""
    metadata = spec.pop("metadata", {})
    template = {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": list(requirements),
        "expireAfter": "Never",
        **spec.pop("template", {}),
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": metadata, "spec": template}, **spec},
    }


def deployment(
    name: str, replicas: int, *, cpu: str = "1", memory: str = "256Mi", **pod: Any
) -> JsonObject:
    """A Deployment; further arguments go into the spec of its pods."""
    return deployment_of(name, replicas, [container(cpu, memory)], **pod)


def deployment_of(
    name: str, replicas: int, containers: Sequence[JsonObject], **pod: Any
) -> JsonObject:
    """A Deployment of pods with these containers, which stop at once."""
    labels = {"app": name}
    spec = {"containers": list(containers), "terminationGracePeriodSeconds": 0, **pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


class Autoscaler:
    """A cluster with the controllers, and what tests do to it."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        *,
        seed: int,
        wrap: Callable[[Transport], Transport],
        make_cloud: "CloudMaker",
        clock: Clock | None = None,
    ) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.clock = cluster.clock
        self._own_clock = clock or cluster.clock
        self.settings = settings
        self.log, self.lines = recording_logger()
        self.metrics = Metrics(detail=settings.metrics_detail)
        self.decisions = DecisionLog()
        self._seed = seed
        self._wrap = wrap
        self._make_cloud = make_cloud
        self._task: asyncio.Task[None] | None = None
        self.manager: Manager | None = None
        self.cloud: CloudProvider | None = None
        self.expects_failures = False

    @property
    def guarded(self) -> list[str]:
        """The non-zero failure counters: unexpected errors that a guard caught."""
        families = (
            self.metrics.objects_handler_failures_total,
            self.metrics.controllers_failures_total,
            self.metrics.objects_set_aside,
        )
        return [
            f"{sample.name} {sample.labels}"
            for family in families
            for metric in family.collect()
            for sample in metric.samples
            if not sample.name.endswith("_created")
        ]

    @property
    def world(self) -> Context:
        """The world of the present term."""
        assert self.manager is not None
        assert self.manager.context is not None
        return self.manager.context

    def start(self) -> None:
        """Start the controllers with empty memory, like a new process."""
        from karpenter.controllers.controllers import make_controllers

        rng = random.Random(self._seed)
        self._seed += 1
        transport = self._wrap(MemoryTransport(self.cluster.api))
        kube = Client(transport, self._own_clock)
        self.cloud = self._make_cloud(kube, self._own_clock, rng)
        process = Process(
            kube=kube,
            cloud=self.cloud,
            clock=self._own_clock,
            settings=self.settings,
            recorder=Recorder(
                kube, self._own_clock, rng=rng, observer=observing(self.decisions, self._own_clock)
            ),
            metrics=self.metrics,
            log=self.log,
            rng=rng,
            decisions=self.decisions,
        )
        self.manager = Manager(process, make_controllers)
        self._task = asyncio.create_task(self.manager.run(), name="autoscaler")

    async def kill(self) -> None:
        """Cancel the controllers without an orderly end."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def stop(self) -> None:
        """End the process, and raise the error that ended it before.

        A run in which a guard caught an error has failed too, unless the test caused the error.
        """
        task, self._task = self._task, None
        if not self.expects_failures:
            assert [] == self.guarded
        await end(task)

    async def apply(self, *objects: JsonObject) -> None:
        """Create objects."""
        for obj in objects:
            await self.client.create(obj, namespace=obj["metadata"].get("namespace", "default"))

    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.sleep(seconds)

    async def until(
        self, holds: Callable[[], bool], *, seconds: float = 600.0, step: float = 0.5
    ) -> None:
        """Let time pass until something holds."""
        deadline = self.clock.monotonic() + seconds
        while not holds():
            assert self.clock.monotonic() < deadline, f"not within {seconds:g} s"
            await self.clock.sleep(step)

    async def scale(self, name: str, replicas: int) -> None:
        """Ask for another number of replicas of a Deployment."""
        patch = {"spec": {"replicas": replicas}}
        await self.client.patch("merge", "apps/v1", "Deployment", "default", name, patch)

    def objects(self, group: str, plural: str) -> list[JsonObject]:
        """All objects of a resource, as they are stored."""
        return list(self.cluster.store.list(group, plural))

    @property
    def claims(self) -> list[JsonObject]:
        return self.objects("karpenter.sh", "nodeclaims")

    @property
    def nodes(self) -> list[JsonObject]:
        return self.objects("", "nodes")

    @property
    def pods(self) -> list[JsonObject]:
        return self.objects("", "pods")

    @property
    def running(self) -> list[JsonObject]:
        """Pods that run."""
        return [pod for pod in self.pods if pod.get("status", {}).get("phase") == "Running"]

    @property
    def events(self) -> list[tuple[str, str, str]]:
        """Kind, reason and message of the events of the autoscaler."""
        return [
            (event["involvedObject"]["kind"], event["reason"], event["message"])
            for event in self.objects("", "events")
            if event.get("source", {}).get("component") == "karpenter"
        ]


CloudMaker = Callable[[Client, Clock, random.Random], CloudProvider]


def kwok_cloud(kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
    """The simulated provider with its built-in catalogue."""
    return KwokProvider(kube, clock, built_in())


@asynccontextmanager
async def autoscaler(
    *objects: JsonObject,
    nodes: int = 0,
    settings: Settings | None = None,
    seed: int = 0,
    timing: Timing | None = None,
    wrap: Callable[[Transport], Transport] = lambda transport: transport,
    make_cloud: CloudMaker = kwok_cloud,
    clock: Clock | None = None,
    starts: bool = True,
) -> AsyncIterator[Autoscaler]:
    """A virtual cluster with the controllers; ``objects`` are created before they start.

    ``clock`` is that of the controllers, where it is not the cluster's.
    """
    cluster = Cluster(running_clock(), seed=seed, timing=timing, is_strict=True)
    await cluster.start()
    try:
        await cluster.add_nodes(nodes)
        run = Autoscaler(
            cluster,
            settings or Settings(),
            seed=seed,
            wrap=wrap,
            make_cloud=make_cloud,
            clock=clock,
        )
        await run.apply(kwok_class(), *objects)
        if starts:
            run.start()
        try:
            yield run
        finally:
            await run.stop()
    finally:
        await cluster.stop()


@dataclass
class FakeCloud:
    """A cloud with scripted answers.

    ``failures`` are raised by the named method, one call after the other, before it works;
    ``gone_after`` is how often ``delete`` must be called until the instance is gone.
    """

    facts: ProviderFacts = field(default_factory=lambda: FAKE_FACTS)
    types: tuple[InstanceType, ...] = ()
    repair_policies: tuple[Any, ...] = ()
    registration_hooks: tuple[Any, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=lambda: {"cpu": "4", "memory": "8Gi"})
    gone_after: int = 1
    drift: str = ""
    failures: dict[str, list[Exception]] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    clock: Clock = field(default_factory=running_clock)
    _deletes: dict[str, int] = field(default_factory=dict)

    def calls_of(self, method: str) -> list[str]:
        """What a method was called with, in order."""
        return [argument for name, argument in self.calls if name == method]

    async def create(self, claim: NodeClaim) -> Instance:
        self._note("create", claim.metadata.name)
        provider_id = f"fake://{claim.metadata.uid}"
        instance = Instance(
            provider_id,
            image_id="image-1",
            labels=self.labels,
            annotations=self.annotations,
            capacity=self.capacity,
            allocatable=self.capacity,
            created_at=self.clock.now(),
        )
        return self.instances.setdefault(provider_id, instance)

    async def delete(self, claim: NodeClaim) -> None:
        provider_id = claim.status.provider_id
        self._note("delete", claim.metadata.name)
        if provider_id not in self.instances:
            raise InstanceNotFoundError(f"no instance {provider_id}")
        count = self._deletes[provider_id] = self._deletes.get(provider_id, 0) + 1
        instance = self.instances[provider_id]
        self.instances[provider_id] = replace(instance, is_deleting=True)
        if count >= self.gone_after:
            del self.instances[provider_id]

    async def get(self, provider_id: str) -> Instance:
        self._note("get", provider_id)
        if provider_id not in self.instances:
            raise InstanceNotFoundError(f"no instance {provider_id}")
        return self.instances[provider_id]

    async def list(self) -> Sequence[Instance]:
        self._note("list", "")
        return tuple(self.instances.values())

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        self._note("instance_types", pool.metadata.name)
        return self.types

    async def drift_reason(self, claim: NodeClaim) -> str:
        self._note("drift_reason", claim.metadata.name)
        return self.drift

    async def reboot(self, claim: NodeClaim, operation: str) -> None:
        self._note("reboot", operation)

    async def run(self) -> None:
        return

    def _note(self, method: str, argument: str) -> None:
        self.calls.append((method, argument))
        waiting = self.failures.get(method)
        if waiting:
            raise waiting.pop(0)


class HeardEvents(Recorder):
    """A recorder whose events can be read."""

    def __init__(self, kube: Client, clock: Clock) -> None:
        super().__init__(kube, clock, rng=random.Random(0))
        self.heard: list[Event] = []

    def publish(self, event: Event) -> None:
        self.heard.append(event)
        super().publish(event)

    @property
    def reasons(self) -> list[str]:
        return [event.reason for event in self.heard]


class Bench:
    """A world for one controller at a time."""

    def __init__(self, cluster: Cluster, world: Context, events: HeardEvents, lines: Any) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.clock = world.clock
        self.world = world
        self.events = events
        self.lines = lines

    @property
    def cloud(self) -> FakeCloud:
        assert isinstance(self.world.cloud, FakeCloud)
        return self.world.cloud

    async def put(self, *objects: JsonObject) -> JsonObject:
        """Create objects, status included, and let the mirrors see them."""
        stored: JsonObject = {}
        for obj in objects:
            status = obj.get("status")
            stored = await self.client.create(obj)
            if status and "status" in obj and stored.get("status") != status:
                metadata = stored["metadata"]
                stored = await self.client.patch(
                    "merge",
                    obj["apiVersion"],
                    obj["kind"],
                    metadata.get("namespace"),
                    metadata["name"],
                    {"status": status},
                    subresource="status",
                )
        await self.settle()
        return stored

    async def settle(self) -> None:
        """Let the mirrors see everything."""
        await self.clock.sleep(0.01)

    async def change(
        self,
        api_version: str,
        kind: str,
        name: str,
        patch: JsonObject,
        *,
        namespace: str | None = None,
        subresource: str = "",
    ) -> JsonObject:
        """Merge a patch into an object, and let the mirrors see it."""
        changed = await self.client.patch(
            "merge", api_version, kind, namespace, name, patch, subresource=subresource
        )
        await self.settle()
        return changed

    async def reconcile(self, controller: Controller, name: str, namespace: str = "") -> Any:
        """One step of a controller; then let the mirrors see what it did."""
        try:
            return await controller.reconcile((namespace, name))
        finally:
            await self.settle()

    def claim(self, name: str) -> NodeClaim:
        """A claim as the mirrors see it."""
        found = self.world.mirror(NodeClaim).get(name)
        assert found is not None, f"there is no NodeClaim {name}"
        return found

    def node(self, name: str) -> Node:
        """A node as the mirrors see it."""
        found = self.world.mirror(Node).get(name)
        assert found is not None, f"there is no Node {name}"
        return found

    def has(self, kind: type[R], name: str, namespace: str = "") -> bool:
        """Whether the mirrors still see an object."""
        return self.world.mirror(kind).get(name, namespace) is not None


@asynccontextmanager
async def bench(
    *objects: JsonObject,
    settings: Settings | None = None,
    cloud: CloudProvider | None = None,
    wrap: Callable[[Transport], Transport] = lambda transport: transport,
) -> AsyncIterator[Bench]:
    """A bare API server with Karpenter's kinds, its mirrors, and a world; nothing runs by itself."""
    clock = running_clock()
    cluster = Cluster(clock, seed=0, is_strict=True)
    await furnish(cluster)
    settings = settings or Settings()
    kube = Client(wrap(MemoryTransport(cluster.api)), clock)
    provider: CloudProvider = cloud or FakeCloud()
    rng = random.Random(0)
    required, optional = kinds_to_follow(settings, provider.facts.readable_node_classes)
    mirrors = Mirrors(kube, clock, required, optional, rng=rng)
    log, lines = recording_logger()
    events = HeardEvents(kube, clock)
    world = Context(
        kube=kube,
        cloud=provider,
        clock=clock,
        settings=settings,
        mirrors=mirrors,
        recorder=events,
        metrics=Metrics(detail=settings.metrics_detail),
        log=log,
        rng=rng,
    )
    task = asyncio.create_task(mirrors.run(), name="mirrors")
    try:
        await mirrors.synced()
        world.begin()
        at_work = Bench(cluster, world, events, lines)
        await at_work.put(kwok_class(), *objects)
        yield at_work
    finally:
        world.end()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def run_in_background(controllers: Sequence[Runnable]) -> asyncio.Task[None]:
    """Run controllers until the returned task is cancelled."""

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for controller in controllers:
                group.create_task(controller.run(), name=controller.name)

    return asyncio.create_task(run(), name="controllers")


async def end(task: asyncio.Task[None] | None) -> None:
    """Cancel a background task, and raise the error that ended it before."""
    if task is not None:
        has_failed = task.done()
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        if has_failed and isinstance(outcome, BaseException):
            raise outcome
