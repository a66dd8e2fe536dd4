"""Small clusters for tests: chosen controllers on a store of their own, in virtual time."""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

from karpenter.clock import Clock, run_virtual, running_clock
from karpenter_sandbox.backend import Backend, Identity, timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.runtime.runtime import Controller, Runtime
from karpenter_sandbox.store.store import Store

JsonObject = dict[str, Any]
P = ParamSpec("P")
Maker = Callable[[Runtime, Client], Controller] | Callable[[Runtime, Client, Backend], Controller]


def in_virtual_time(
    test: Callable[P, Coroutine[Any, Any, None]],
) -> Callable[P, None]:
    """Run an async test from beginning to end in virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtual(test(*args, **kwargs))

    return run


class ClusterHandle:
    """A store with a client, and what tests do to it over and over."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.client = client
        self.clock = clock

    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.sleep(seconds)

    async def settle(self) -> None:
        """Run all controllers until no work is due, retries after a conflict included."""
        await self.clock.sleep(0.5)

    async def create(self, *objects: JsonObject) -> JsonObject:
        """Create objects and return the last one."""
        for obj in objects:
            created = await self.client.create(obj)
        return created

    async def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Any:
        """One object, as it is stored."""
        return await self.client.get(api_version, kind, namespace, name)

    async def objects(self, api_version: str, kind: str, **selection: str) -> list[JsonObject]:
        """All objects of a kind, in the order of their names."""
        items, _ = await self.client.list(api_version, kind, **selection)
        return items

    async def pods(self, **selection: str) -> list[JsonObject]:
        """All pods."""
        return await self.objects("v1", "Pod", **selection)

    async def change(
        self, api_version: str, kind: str, name: str, patch: JsonObject, namespace: str = "default"
    ) -> JsonObject:
        """Merge a patch into an object."""
        return await self.client.patch("merge", api_version, kind, namespace, name, patch)

    async def scale(self, api_version: str, kind: str, name: str, replicas: int) -> None:
        """Ask for another number of replicas."""
        await self.change(api_version, kind, name, {"spec": {"replicas": replicas}})

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of every event on the object of that name, in order."""
        found = [
            event
            for event in await self.objects("v1", "Event")
            if event["involvedObject"]["name"] == name
        ]
        found.sort(key=lambda event: event["metadata"]["name"])
        return [(event["reason"], event["message"]) for event in found]

    async def run(
        self, pods: Iterable[JsonObject] | None = None, *, node: str = "node-1", ready: bool = True
    ) -> None:
        """Let pods run as a kubelet would report it; all that are not finished by default."""
        for pod in await self.pods() if pods is None else list(pods):
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            await self.place(pod, node)
            value = "True" if ready else "False"
            known = find_condition(pod, "Ready")
            moment = timestamp(self.clock.now())
            if known and known["status"] == value:
                moment = known["lastTransitionTime"]
            condition = {"type": "Ready", "status": value, "lastTransitionTime": moment}
            await self.report(pod, {"phase": "Running", "conditions": [condition]})

    async def reap(self) -> None:
        """Remove terminating pods, as a kubelet does once their containers have ended."""
        for pod in await self.pods():
            metadata = pod["metadata"]
            if "deletionTimestamp" in metadata:
                place = (metadata["namespace"], metadata["name"])
                await self.client.delete("v1", "Pod", *place, grace_period=0)

    async def live(self, rounds: int) -> None:
        """Alternate between controllers and kubelet reports for a while."""
        for _ in range(rounds):
            await self.settle()
            await self.run()
            await self.reap()
        await self.settle()

    async def place(self, pod: JsonObject, node: str) -> None:
        """Bind a pod that has no node yet."""
        if not pod["spec"].get("nodeName"):
            metadata = pod["metadata"]
            await self.client.bind(metadata["namespace"], metadata["name"], node)

    async def finish(self, pod: JsonObject, phase: str = "Succeeded", **status: Any) -> None:
        """Let a pod end."""
        await self.place(pod, "node-1")
        await self.report(pod, {"phase": phase, **status})

    async def report(self, pod: JsonObject, status: JsonObject) -> None:
        """Write the status of a pod."""
        metadata = pod["metadata"]
        await self.client.patch_status("v1", "Pod", metadata["namespace"], metadata["name"], status)


@asynccontextmanager
async def running_controllers(
    *makers: Maker, namespaces: Iterable[str] = ("default",)
) -> AsyncIterator[ClusterHandle]:
    """A cluster in which only the given controllers run; an error in one of them fails the test."""
    clock = running_clock()
    backend = Backend(Store(), Registry(), clock, Identity(7))
    client = Client(backend)
    for name in namespaces:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    runtime = Runtime(client, clock, is_strict=True)
    for maker in makers:
        runtime.add(_made(maker, runtime, client, backend))
    async with running(runtime.run()):
        await runtime.started.wait()
        yield ClusterHandle(client, clock)


def _made(maker: Maker, runtime: Runtime, client: Client, backend: Backend) -> Controller:
    """A controller, given the whole backend where it asks for it."""
    given: tuple[Any, ...] = (runtime, client)
    if "backend" in inspect.signature(maker).parameters:
        given = (*given, backend)
    return maker(*given)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run something in the background for as long as the block takes."""
    task = asyncio.ensure_future(work)
    try:
        yield
        if task.done():
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(
    cluster: ClusterHandle, holds: Callable[[], Awaitable[bool]], *, seconds: float = 60
) -> None:
    """Let time pass until something holds."""
    deadline = cluster.clock.monotonic() + seconds
    while not await holds():
        assert cluster.clock.monotonic() < deadline, "it did not come to hold in time"
        await cluster.clock.sleep(0.5)


def pod_template(labels: dict[str, str], **spec: Any) -> JsonObject:
    """A template of pods with one container."""
    containers = [{"name": "main", "image": "registry.example/app:1"}]
    return {"metadata": {"labels": labels}, "spec": {"containers": containers, **spec}}


def workload(
    kind: str,
    name: str,
    *,
    api_version: str = "apps/v1",
    template: JsonObject | None = None,
    **spec: Any,
) -> JsonObject:
    """A workload that selects its pods by their ``app`` label."""
    labels = {"app": name}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": template or pod_template(labels),
            **spec,
        },
    }


def names(objects: Iterable[JsonObject]) -> list[str]:
    """The names of objects."""
    return [obj["metadata"]["name"] for obj in objects]
