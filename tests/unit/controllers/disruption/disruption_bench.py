"""Settled machines on a bare API server, with the disruption loop and its queue beside them.

A machine is registered, initialized, ready and consolidatable unless a test says otherwise. Types
are ``s1`` to ``s32``, a dime per cpu on demand. Nothing evicts pods and nothing launches machines:
tests do that, so that every moment in between can be looked at.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench, gates, run_in_background
from helpers.cluster_texts import class_ref
from helpers.disruption_objects import TYPES
from helpers.manifests import at, condition, container, pod
from helpers.provisioning import FACTS, ready_pool
from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Resource
from karpenter.api.node_classes import kwok_labels
from karpenter.api.nodes import Node
from karpenter.clock import EPOCH
from karpenter.cloud.types import InstanceType
from karpenter.controllers.disruption.loop import DisruptionLoop
from karpenter.controllers.disruption.queue import CommandQueue
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.kube.transport import Request, Response, Transport
from karpenter.model import labels
from karpenter.model.conditions import find
from karpenter.model.taints import DISRUPTED, matches
from karpenter.runtime import Runnable
from karpenter.settings import Settings

V1 = "karpenter.sh/v1"
SETTLED = ("Launched", "Registered", "Initialized", "Ready", "Consolidatable")
SIZES = {kind.name: kind.allocatable.to_wire() for kind in TYPES}


def pool(name: str = "np", *, budget: str = "100%", **spec: Any) -> JsonObject:
    """A ready pool whose nodes may go all at once, on demand only so that prices are simple."""
    disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": budget}]}
    disruption |= spec.pop("disruption", {})
    on_demand = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
    return ready_pool(name, on_demand, disruption=disruption, **spec)


def machine(
    name: str,
    *,
    kind: str = "s4",
    in_pool: str = "np",
    conditions: Sequence[JsonObject] = (),
    without: Sequence[str] = (),
    annotations: Mapping[str, str] | None = None,
    claim_annotations: Mapping[str, str] | None = None,
    node_labels: Mapping[str, str | None] | None = None,
    ready: str = "True",
    node_conditions: Sequence[JsonObject] = (),
    taints: Sequence[JsonObject] = (),
    boot_id: str = "boot-1",
    period: str | None = None,
) -> tuple[JsonObject, JsonObject]:
    """The claim and the node of a settled machine."""
    held = {kind_: condition(kind_, "True") for kind_ in SETTLED if kind_ not in without}
    held |= {each["type"]: each for each in conditions}
    size = SIZES.get(kind, SIZES["s4"])
    common = {
        labels.NODEPOOL: in_pool,
        kwok_labels.NODE_CLASS: "default",
        labels.INSTANCE_TYPE: kind,
        labels.CAPACITY_TYPE: "on-demand",
        labels.ZONE: "z1",
        labels.ARCH: "amd64",
        labels.OS: "linux",
    }
    started = {labels.REGISTERED: "true", labels.INITIALIZED: "true", labels.HOSTNAME: name}
    on_node = {**common, **started, **(node_labels or {})}
    claim: JsonObject = {
        "apiVersion": V1,
        "kind": "NodeClaim",
        "metadata": {
            "name": f"{name}-claim",
            "labels": common,
            "annotations": dict(claim_annotations or {}),
            "finalizers": [labels.TERMINATION],
        },
        "spec": {
            "nodeClassRef": class_ref(),
            "requirements": [],
            "expireAfter": "Never",
            **({"terminationGracePeriod": period} if period is not None else {}),
        },
        "status": {
            "conditions": list(held.values()),
            "providerID": f"fake://{name}",
            "nodeName": name,
            "capacity": size,
            "allocatable": size,
        },
    }
    node: JsonObject = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {key: value for key, value in on_node.items() if value is not None},
            "annotations": dict(annotations or {}),
        },
        "spec": {"providerID": f"fake://{name}", "taints": list(taints)},
        "status": {
            "capacity": size,
            "allocatable": size,
            "nodeInfo": _node_info(boot_id),
            "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": at(0)},
                *node_conditions,
            ],
        },
    }
    return claim, node


def _node_info(boot_id: str) -> JsonObject:
    names = "machineID systemUUID kernelVersion osImage containerRuntimeVersion kubeletVersion"
    names += " kubeProxyVersion operatingSystem architecture"
    return {**dict.fromkeys(names.split(), ""), "bootID": boot_id}


def bad(kind: str = "BadNode", status: str = "False", *, since: float = 0.0) -> JsonObject:
    """A condition of a node that is not well."""
    return {"type": kind, "status": status, "reason": "Broken", "lastTransitionTime": at(since)}


def running(
    name: str,
    on: str,
    *,
    cpu: str = "500m",
    app: str = "web",
    owner: str = "ReplicaSet",
    annotations: Mapping[str, str] | None = None,
    started: str = "",
    **spec: Any,
) -> JsonObject:
    """A pod that runs."""
    api_version = "batch/v1" if owner == "Job" else "apps/v1"
    owners = [
        {"apiVersion": api_version, "kind": owner, "name": "o", "uid": "o", "controller": True}
    ]
    return pod(
        name,
        containers=[container(cpu)],
        metadata={
            "labels": {"app": app},
            "annotations": dict(annotations or {}),
            "ownerReferences": owners if owner else [],
        },
        status={
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            **({"startTime": started} if started else {}),
        },
        nodeName=on,
        **spec,
    )


def pdb(name: str = "pdb", *, app: str = "web", allowed: int = 0, **spec: Any) -> JsonObject:
    """A budget of pods."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": 1, **spec},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 2,
        },
    }


class Disrupting:
    """The disruption loop alone on a bare API server; its queue works in the background."""

    def __init__(self, bench_: Bench, queue: CommandQueue, loop: DisruptionLoop) -> None:
        self.bench = bench_
        self.world = bench_.world
        self.clock = bench_.clock
        self.queue = queue
        self.loop = loop

    async def run_pass(self) -> float:
        """One pass of the loop, validation included."""
        again = await self.loop.step()
        await self.bench.settle()
        return again

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def put(self, *objects: JsonObject | tuple[JsonObject, JsonObject]) -> None:
        for obj in objects:
            for each in obj if isinstance(obj, tuple) else (obj,):
                await self.bench.put(each)
                if each["kind"] == "Node":
                    # The API server closes every node that joins
                    taints = {"spec": {"taints": each["spec"]["taints"]}}
                    await self.change("Node", each["metadata"]["name"], taints)

    @property
    def claims(self) -> dict[str, NodeClaim]:
        return {c.metadata.name: c for c in self.world.mirror(NodeClaim).list()}

    @property
    def replacements(self) -> list[NodeClaim]:
        """Claims that no test has put there."""
        return [c for name, c in sorted(self.claims.items()) if not name.endswith("-claim")]

    def going(self) -> list[str]:
        """The nodes whose claims are deleted."""
        return sorted(
            name.removesuffix("-claim")
            for name, claim in self.claims.items()
            if claim.metadata.deletion_timestamp is not None
        )

    def tainted(self) -> list[str]:
        """The nodes that are closed because they are being disrupted."""
        return sorted(
            node.metadata.name
            for node in self.world.mirror(Node).list()
            if any(matches(taint, DISRUPTED) for taint in node.spec.taints)
        )

    def reason(self, node: str) -> str:
        """Why a claim says that it is disrupted."""
        return self.condition(node, "DisruptionReason")[1]

    def condition(self, node: str, kind: str) -> tuple[str, str]:
        found = find(self.claims[f"{node}-claim"].status.conditions, kind)
        return (found.status, found.reason) if found is not None else ("", "")

    async def bring_up(self, *claims: NodeClaim) -> None:
        """Let machines of claims come up."""
        for claim in claims or self.replacements:
            name = claim.metadata.name
            _, node = machine(name)
            await self.put(node)
            held = [condition(kind, "True") for kind in ("Launched", "Registered", "Initialized")]
            status = {
                "conditions": held,
                "providerID": f"fake://{name}",
                "nodeName": name,
                "capacity": node["status"]["capacity"],
                "allocatable": node["status"]["capacity"],
            }
            await self.change("NodeClaim", name, {"status": status}, subresource="status")

    async def launch(self, *claims: NodeClaim) -> None:
        """Let machines of claims be on their way."""
        for claim in claims or self.replacements:
            size = {"cpu": "4", "memory": "16Gi", "pods": "110"}
            status = {
                "conditions": [condition("Launched", "True")],
                "providerID": f"fake://{claim.metadata.name}",
                "capacity": size,
                "allocatable": size,
            }
            await self.change(
                "NodeClaim", claim.metadata.name, {"status": status}, subresource="status"
            )

    async def vanish(self, claim: NodeClaim) -> None:
        """Let a claim be gone at once."""
        name = claim.metadata.name
        await self.change("NodeClaim", name, {"metadata": {"finalizers": []}})
        await self.bench.client.delete(V1, "NodeClaim", None, name)
        await self.bench.settle()

    async def change(
        self, kind: str, name: str, patch: JsonObject, *, subresource: str = ""
    ) -> None:
        """Merge a patch into an object."""
        api_version = V1 if kind.startswith("Node") and kind != "Node" else "v1"
        if kind == "PodDisruptionBudget":
            api_version = "policy/v1"
        namespace = None if kind.startswith("Node") else "default"
        await self.bench.change(
            api_version, kind, name, patch, namespace=namespace, subresource=subresource
        )

    def heard(self, reason: str) -> list[tuple[str, str]]:
        """Kind and name of the objects that were told something."""
        return [
            (event.target.kind, event.target.metadata.name)
            for event in self.bench.events.heard
            if event.reason == reason and isinstance(event.target, Resource)
        ]

    def messages(self, reason: str) -> list[str]:
        return [event.message for event in self.bench.events.heard if event.reason == reason]

    def lines(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.bench.lines if line["message"] == message]

    def metric(self, name: str, **held: str) -> float:
        """The value of a metric, summed over labels that are not named."""
        family = getattr(self.world.metrics, name)
        return sum(
            float(sample.value)
            for collected in family.collect()
            for sample in collected.samples
            if not sample.name.endswith(("_bucket", "_sum", "_created"))
            and held.items() <= sample.labels.items()
        )


@asynccontextmanager
async def disrupting(
    *objects: JsonObject | tuple[JsonObject, JsonObject],
    settings: Settings | None = None,
    cloud: FakeCloud | None = None,
    types: tuple[InstanceType, ...] = TYPES,
    wrap: Any = lambda transport: transport,
    on: Sequence[str] = (),
) -> AsyncIterator[Disrupting]:
    """A loop and its queue beside these objects; ``on`` are feature gates."""
    settings = settings or Settings(feature_gates=gates(**dict.fromkeys(on, True)))
    fake = cloud or FakeCloud(facts=FACTS, types=types)
    async with bench(settings=settings, cloud=fake, wrap=wrap) as at_work:
        queue = CommandQueue(at_work.world)
        loop = DisruptionLoop(at_work.world, queue, PlannedPods())
        found = Disrupting(at_work, queue, loop)
        await found.put(*objects)
        controllers: list[Runnable] = [queue]
        task = run_in_background(controllers)
        try:
            yield found
            if task.done():
                await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def later(seconds: float) -> str:
    """A moment after the beginning, as an annotation has it."""
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def true(kind: str, reason: str = "", *, since: float = 0.0) -> JsonObject:
    """A condition that holds."""
    return condition(kind, "True", reason, since=since)


class _Tampered:
    """A transport that somebody stands in the way of."""

    def __init__(self, inner: Transport, tamper: Any) -> None:
        self._inner = inner
        self._tamper = tamper

    async def send(self, request: Request) -> Response:
        answer = await self._tamper(request)
        return answer if answer is not None else await self._inner.send(request)

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class Refusing:
    """Refuses so many writes of a kind."""

    def __init__(self, method: str, path: str, times: int, status: int) -> None:
        self._method, self._path, self._status = method, path, status
        self.left = times

    def around(self, transport: Transport) -> Transport:
        return _Tampered(transport, self._tamper)

    async def _tamper(self, request: Request) -> Response | None:
        if request.method != self._method or self._path not in request.path or not self.left:
            return None
        self.left -= 1
        reason = b"Conflict" if self._status == 409 else b"InternalError"
        body = b'{"kind":"Status","status":"Failure","reason":"%s","message":"no"}' % reason
        return Response(self._status, body, {})


class Hanging:
    """Lets a write wait until the test says so."""

    def __init__(self, method: str, path: str) -> None:
        self._method, self._path = method, path
        self.is_waiting = asyncio.Event()
        self.go_on = asyncio.Event()

    def around(self, transport: Transport) -> Transport:
        return _Tampered(transport, self._tamper)

    async def _tamper(self, request: Request) -> Response | None:
        if request.method == self._method and request.path.endswith(self._path):
            self.is_waiting.set()
            await self.go_on.wait()
        return None
