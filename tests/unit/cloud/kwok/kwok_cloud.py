"""The simulated cloud on an API of its own, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from helpers.manifests import claim_metadata, claim_to_launch, launched_metadata, launched_status
from karpenter.admission.schemas.crds import builtin_crds
from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import kwok_labels
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.api.nodes import Node
from karpenter.clock import Clock, running_clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.types import InstanceType
from karpenter.kube.client import Client
from karpenter.kube.transport import Request, Response
from karpenter.model import labels
from karpenter_sandbox.backend import Backend, Identity
from karpenter_sandbox.client import Client as MemoryClient
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.server.api import Api
from karpenter_sandbox.server.crds import CustomKinds
from karpenter_sandbox.server.transport import MemoryTransport
from karpenter_sandbox.store.store import Store

NODE_CLASS = "default"
POOL = "general"
CRDS = ("kwoknodeclasses.karpenter.kwok.sh", "nodeclaims.karpenter.sh")
SMALL = ("c-2x-amd64-linux",)


class CountedTransport(MemoryTransport):
    """Remembers when Nodes were created, and refuses to do it as often as it is told to."""

    def __init__(self, api: Api, clock: Clock) -> None:
        super().__init__(api)
        self.refusals = 0
        self.posted_at: list[float] = []
        self.requests: list[str] = []
        self._clock = clock

    async def send(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.path}")
        await asyncio.sleep(0)  # others have their turn, as they do while a network is waited for
        if request.method == "POST" and request.path == "/api/v1/nodes":
            self.posted_at.append(self._clock.monotonic())
            if self.refusals > 0:
                self.refusals -= 1
                return Response(500, b'{"kind":"Status","code":500,"message":"out of order"}')
        return await super().send(request)


@dataclass(slots=True)
class KwokCloud:
    """A provider and what tests do with it."""

    clock: Clock
    transport: CountedTransport
    memory: MemoryClient
    kube: Client
    types: tuple[InstanceType, ...]
    provider: KwokProvider
    running: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        """Let the provider lead."""
        self.running.append(asyncio.ensure_future(self.provider.run()))

    async def crash(self) -> None:
        """End the provider as a crash would, and put another one in its place."""
        await self.stop()
        self.provider = KwokProvider(self.kube, self.clock, self.types)

    async def stop(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        self.running.clear()

    async def claim(
        self,
        name: str = "general-x7k2p",
        *,
        types: Sequence[str] | None = SMALL,
        requirements: Sequence[Mapping[str, Any]] = (),
        requests: Mapping[str, str] | None = None,
        pool_labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        node_class: str = NODE_CLASS,
    ) -> NodeClaim:
        """A claim that exists in the API."""
        listed = list(requirements)
        if types is not None:
            listed.append({"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(types)})
        else:
            listed.append({"key": labels.ARCH, "operator": "In", "values": ["amd64"]})
        body = claim_to_launch(
            name,
            {"group": kwok_labels.DOMAIN, "kind": "KWOKNodeClass", "name": node_class},
            listed,
            requests=requests,
            metadata=claim_metadata(
                POOL, {kwok_labels.NODE_CLASS: node_class, **(pool_labels or {})}, annotations
            ),
        )
        return await self.kube.create(NodeClaim, body)

    async def write_launched(self, claim: NodeClaim) -> NodeClaim:
        """Launch a claim and write what the controllers write about it."""
        instance = await self.provider.create(claim)
        name = claim.metadata.name
        await self.kube.patch(NodeClaim, name, launched_metadata(instance))
        await self.kube.patch(NodeClaim, name, launched_status(instance), subresource="status")
        return await self.set_condition(name, "Launched")

    async def set_condition(self, name: str, kind: str, status: str = "True") -> NodeClaim:
        """Add a condition to a claim."""
        claim = await self.kube.get(NodeClaim, name)
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "lastTransitionTime": (each.last_transition_time or self.clock.now()).strftime(
                    "%Y-%m-%dT%H:%M:%SZ"
                ),
            }
            for each in claim.status.conditions
            if each.type != kind
        ]
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": kind,
                "message": "",
                "lastTransitionTime": now,
            }
        )
        body = {"status": {"conditions": conditions}}
        return await self.kube.patch(NodeClaim, name, body, subresource="status")

    async def nodes(self) -> tuple[Node, ...]:
        return await self.kube.list(Node)

    async def only_node(self) -> Node:
        (node,) = await self.nodes()
        return node

    async def stored(self, node: str) -> dict[str, Any]:
        """A Node with every field, as the API has it."""
        return await self.memory.get("v1", "Node", None, node)

    async def set_node_class(self, **changes: Any) -> None:
        """Change the node class."""
        await self.kube.patch(KWOKNodeClass, NODE_CLASS, changes)

    async def set_ready(self, status: str) -> None:
        """Write the Ready condition of the node class."""
        condition = {
            "type": "Ready",
            "status": status,
            "reason": "Ready",
            "message": "out of paint",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        body = {"status": {"conditions": [condition]}}
        await self.kube.patch(KWOKNodeClass, NODE_CLASS, body, subresource="status")

    async def settle(self) -> None:
        await self.clock.sleep(1.0)


async def api_in_memory(clock: Clock) -> tuple[MemoryClient, CountedTransport]:
    """An API server that serves claims and node classes."""
    backend = Backend(Store(), Registry(), clock, Identity(7))
    CustomKinds(backend)
    memory = MemoryClient(backend)
    for name in CRDS:
        await memory.create(builtin_crds()[name])
    return memory, CountedTransport(Api(backend), clock)


@asynccontextmanager
async def kwok_cloud(
    types: tuple[InstanceType, ...] | None = None, *, is_leading: bool = True
) -> AsyncIterator[KwokCloud]:
    """A cloud with a node class; the provider leads unless told otherwise."""
    clock = running_clock()
    memory, transport = await api_in_memory(clock)
    kube = Client(transport, clock)
    await kube.create(KWOKNodeClass, {"metadata": {"name": NODE_CLASS}, "spec": {}})
    sold = built_in() if types is None else types
    cloud = KwokCloud(clock, transport, memory, kube, sold, KwokProvider(kube, clock, sold))
    if is_leading:
        cloud.start()
        await asyncio.sleep(0)
    try:
        yield cloud
    finally:
        await cloud.stop()
