"""Nodes that leave, for tests: objects as manifests, and the controllers that see them off.

``leaving`` is a bench on which the termination controllers run. Claims are finalized as the
lifecycle controller does it; pods end when a test calls ``reap``, or lets a kubelet do it.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench, end, run_in_background
from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.clock import running_clock
from karpenter.cloud.provider import Instance
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.lookup import nodes_of
from karpenter.controllers.manager import Manager, Process
from karpenter.controllers.termination.claims import ClaimFinalizer
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.termination.nodes import NodeTermination
from karpenter.kube.client import Client
from karpenter.kube.events import Recorder
from karpenter.kube.mirror import Key, key_of
from karpenter.kube.transport import Request, Response, Stream, Transport
from karpenter.kube.workqueue import Backoff
from karpenter.model.conditions import find
from karpenter.runtime import Runnable
from karpenter.settings import Settings
from karpenter.telemetry import Metrics, recording_logger
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.server.transport import MemoryTransport
from unit.controllers.termination.termination_objects import CLASS_LABEL, FINALIZER, claim


class ClaimsLeaving(Controller):
    """Finalizes claims when they or their nodes change, as the lifecycle controller does."""

    name = "nodeclaim.lifecycle"
    backoff = Backoff(1.0, 60.0)

    def __init__(self, world: Context) -> None:
        super().__init__(world)
        self._claims = world.mirror(NodeClaim)
        self._finalizer = ClaimFinalizer(world)
        self.follow(self._claims)
        self.follow(world.mirror(Node), self._claims_of)

    def _claims_of(self, changed: Node) -> Iterable[Key]:
        return [
            key_of(claim)
            for claim in self._claims.list()
            if any(
                changed.metadata.uid == each.metadata.uid for each in nodes_of(self.context, claim)
            )
            or claim.status.provider_id == changed.spec.provider_id
        ]

    async def reconcile(self, key: Key) -> float | None:
        found = self._claims.get(key[1])
        if found is None or found.metadata.deletion_timestamp is None:
            return None
        return await self._finalizer.finalize(found)


def leaving_controllers(world: Context) -> list[Runnable]:
    """The controllers under test and the one that calls the finalizer."""
    evictions = EvictionQueue(world)
    return [NodeTermination(world, evictions), evictions, ClaimsLeaving(world)]


class Tampering:
    """A transport that writes down what is written, and answers some of it itself."""

    def __init__(self, transport: Transport, answers: dict[str, list[Response]]) -> None:
        self._transport = transport
        self._answers = answers  # end of a path -> answers to be given, first to last
        self.writes: list[tuple[str, str, bytes]] = []

    async def send(self, request: Request) -> Response:
        if request.is_write:
            self.writes.append((request.method, request.path, request.body))
            for end, answers in self._answers.items():
                if request.path.endswith(end) and answers:
                    return answers.pop(0)
        return await self._transport.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


def refusal(code: int, message: str = "", reason: str = "") -> Response:
    """What an API server answers when it refuses."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "message": message,
        "reason": reason,
    }
    return Response(code, msgspec.json.encode(body))


class Leaving:
    """The bench, with the questions these tests ask."""

    def __init__(self, at: Bench, transport: Tampering) -> None:
        self.bench = at
        self.transport = transport
        self.clock = at.clock
        self.cloud = at.cloud
        self.world = at.world
        self.put = at.put
        self.change = at.change

    @property
    def evictions(self) -> list[str]:
        """The pods whose eviction was asked for, in order."""
        return [
            path.split("/")[-2]
            for _, path, _ in self.transport.writes
            if path.endswith("/eviction")
        ]

    @property
    def deletions(self) -> list[tuple[str, int | None]]:
        """The pods whose deletion was asked for, with the grace period, in order."""
        return [
            (path.rsplit("/", 1)[1], msgspec.json.decode(body).get("gracePeriodSeconds"))
            for method, path, body in self.transport.writes
            if method == "DELETE" and "/pods/" in path
        ]

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """Kind of object and reason of what users were told, without what was told before."""
        heard = [(event.target.kind, event.reason) for event in self.bench.events.heard]
        return list(dict.fromkeys(heard))

    @property
    def errors(self) -> list[str]:
        """What was logged as an error."""
        return [line["message"] for line in self.bench.lines if line["level"] == "error"]

    def counted(self, metric: str, **labels: str) -> float:
        """The value of a metric."""
        return self.world.metrics.registry.get_sample_value(f"karpenter_{metric}", labels) or 0.0

    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.sleep(seconds)

    async def delete(self, kind: str, name: str = "n", **options: Any) -> None:
        """Ask for a node, a claim or a pod to be removed, as a user does."""
        api_version = "karpenter.sh/v1" if kind == "NodeClaim" else "v1"
        namespace = "default" if kind == "Pod" else None
        await self.bench.client.delete(api_version, kind, namespace, name, **options)

    async def reap(self) -> None:
        """Let pods that were told to go be gone."""
        for each in self.bench.cluster.store.list("", "pods"):
            if "deletionTimestamp" in each["metadata"]:
                await self.delete("Pod", each["metadata"]["name"], grace_period=0)
        await self.bench.settle()

    async def until(self, holds: Callable[[], bool], *, seconds: float = 120.0) -> float:
        """Let time pass until something holds, and say how long that took."""
        began = self.clock.monotonic()
        while not holds():
            assert self.clock.monotonic() < began + seconds, f"not within {seconds:g} s"
            await self.clock.sleep(0.1)
        return self.clock.monotonic() - began

    def has_node(self, name: str = "n") -> bool:
        return self.bench.has(Node, name)

    def has_claim(self, name: str = "n") -> bool:
        return self.bench.has(NodeClaim, name)

    def has_pod(self, name: str) -> bool:
        return self.bench.has(Pod, name, "default")

    def condition(self, kind: str, name: str = "n") -> tuple[str, str] | None:
        """Status and reason of a condition of a claim."""
        found = find(self.bench.claim(name).status.conditions, kind)
        return (found.status, found.reason) if found is not None else None

    def at(self, seconds: float) -> datetime:
        """A time so many seconds from now."""
        return self.clock.now() + timedelta(seconds=seconds)


@asynccontextmanager
async def leaving(
    *objects: JsonObject,
    answers: dict[str, list[Response]] | None = None,
    gone_after: int = 1,
    make: Callable[[Context], list[Runnable]] = leaving_controllers,
) -> AsyncIterator[Leaving]:
    """A bench on which the termination controllers run; every claim's machine exists."""
    tampering: list[Tampering] = []

    def wrap(transport: Transport) -> Transport:
        tampering.append(Tampering(transport, answers or {}))
        return tampering[0]

    async with bench(wrap=wrap) as at:
        at.cloud.gone_after = gone_after
        for obj in objects:
            machine = obj.get("status", {}).get("providerID")
            if obj["kind"] == "NodeClaim" and machine:
                at.cloud.instances[machine] = Instance(machine)
        await at.put(*objects)
        task = run_in_background(make(at.world))
        try:
            yield Leaving(at, tampering[0])
            if task.done():
                await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Halting:
    """A transport that stops for ever before or after a write: the process dies there.

    Events are not counted; whoever loses one has lost nothing.
    """

    def __init__(self, transport: Transport, number: int, *, after: bool) -> None:
        self._transport = transport
        self._left = number
        self._after = after
        self.halted = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if not request.is_write or request.path.endswith("/events"):
            return await self._transport.send(request)
        self._left -= 1
        if self._left >= 0:
            return await self._transport.send(request)
        if self._after and not self.halted.is_set():
            await self._transport.send(request)
        self.halted.set()
        never: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        return await never

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


class Living:
    """A whole cluster, some of whose nodes are ours, and a process that can be killed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        self.cloud = FakeCloud(clock=cluster.clock)
        self._task: asyncio.Task[None] | None = None

    def start(self, wrap: Callable[[Transport], Transport] = lambda transport: transport) -> None:
        """Start a process, which knows nothing of the one before."""
        kube = Client(wrap(MemoryTransport(self.cluster.api)), self.clock)
        log, _ = recording_logger()
        rng = random.Random(0)
        process = Process(
            kube=kube,
            cloud=self.cloud,
            clock=self.clock,
            settings=Settings(),
            recorder=Recorder(kube, self.clock, rng=rng),
            metrics=Metrics(),
            log=log,
            rng=rng,
        )
        manager = Manager(process, leaving_controllers)
        self._task = asyncio.create_task(manager.run(), name="process")

    async def kill(self) -> None:
        """End the process wherever it is."""
        task, self._task = self._task, None
        await end(task)

    async def adopt(self, count: int) -> None:
        """Add simulated nodes that are ours: with a claim, a machine and a finalizer."""
        for made in await self.cluster.add_nodes(count):
            name = made["metadata"]["name"]
            machine = made["spec"]["providerID"]
            patch = {"metadata": {"finalizers": [FINALIZER], "labels": {CLASS_LABEL: "default"}}}
            await self.cluster.client.patch("merge", "v1", "Node", None, name, patch)
            wanted = claim(name, machine=machine)
            await self.cluster.client.create(wanted)
            await self.cluster.client.patch_status(
                "karpenter.sh/v1", "NodeClaim", None, name, wanted["status"]
            )
            self.cloud.instances[machine] = Instance(machine)

    def names(self, group: str, plural: str) -> list[str]:
        """The names of all objects of a resource."""
        return [obj["metadata"]["name"] for obj in self.cluster.store.list(group, plural)]

    def healthy(self, app: str) -> int:
        """How many pods of an application work and are not on their way out."""
        return sum(
            "deletionTimestamp" not in obj["metadata"]
            and any(
                c["type"] == "Ready" and c["status"] == "True"
                for c in obj.get("status", {}).get("conditions", ())
            )
            for obj in self.cluster.store.list("", "pods")
            if obj["metadata"].get("labels", {}).get("app") == app
        )

    async def until(self, holds: Callable[[], bool], *, seconds: float = 600.0) -> None:
        """Let time pass until something holds."""
        deadline = self.clock.monotonic() + seconds
        while not holds():
            assert self.clock.monotonic() < deadline, f"not within {seconds:g} s"
            await self.clock.sleep(0.5)


@asynccontextmanager
async def living(*objects: JsonObject, ours: int, others: int = 0) -> AsyncIterator[Living]:
    """A cluster with nodes of ours and of others, on which nothing of ours runs yet."""
    cluster = Cluster(running_clock(), seed=0, is_strict=True)
    await cluster.start()
    run = Living(cluster)
    try:
        await run.adopt(ours)
        await cluster.add_nodes(others)
        for obj in objects:
            await cluster.client.create(obj)
        yield run
        await run.kill()
    finally:
        await run.kill()
        await cluster.stop()
