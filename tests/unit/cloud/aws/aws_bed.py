"""The AWS provider on a simulated account and an API of its own, in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from helpers.builders import node_pool
from helpers.manifests import claim_metadata, claim_to_launch, launched_metadata, launched_status
from karpenter.admission.schemas.crds import builtin_crds
from karpenter.api.karpenter import NodeClaim, NodeClassReference, NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.clock import Clock, running_clock
from karpenter.cloud.aws.ec2.calls import CompletedCall
from karpenter.cloud.aws.provider import AwsProvider
from karpenter.cloud.aws.simulated.account import SimulatedAccount
from karpenter.cloud.aws.simulated.faults import SoldOut
from karpenter.cloud.aws.simulated.simulated_aws import SimulatedAws, running_simulated_aws
from karpenter.cloud.aws.workers import workers
from karpenter.cloud.contract import Bed
from karpenter.cloud.provider import CloudProvider, InsufficientCapacityError
from karpenter.cloud.registry import ProviderContext
from karpenter.kube.client import Client
from karpenter.kube.errors import ConnectionLostError
from karpenter.model import labels
from karpenter.settings import Settings
from karpenter_sandbox.backend import Backend, Identity
from karpenter_sandbox.client import Client as MemoryClient
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.server.api import Api
from karpenter_sandbox.server.crds import CustomKinds
from karpenter_sandbox.server.transport import MemoryTransport
from karpenter_sandbox.store.store import Store

NODE_CLASS = "default"
POOL = "general"
CRDS = (
    "ec2nodeclasses.karpenter.k8s.aws",
    "nodeclaims.karpenter.sh",
    "nodepools.karpenter.sh",
)
FEW_TYPES = frozenset({"m5.large", "m5.xlarge", "c5.large"})


class TurnTaking(MemoryTransport):
    """Lets others have their turn, as they do while a network is waited for."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.broken: set[str] = set()  # methods that fail

    async def send(self, request: Any) -> Any:
        await asyncio.sleep(0)
        if request.method in self.broken:
            raise ConnectionLostError("the API server cannot be reached")
        return await super().send(request)


@dataclass(slots=True)
class AwsCloud:
    """A provider and what tests do with it."""

    clock: Clock
    memory: MemoryClient
    transport: TurnTaking
    kube: Client
    world: SimulatedAws
    settings: Settings
    environment: Mapping[str, str]
    calls: list[CompletedCall] = field(default_factory=list)
    provider: AwsProvider = field(init=False)
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def account(self) -> SimulatedAccount:
        return self.world.account

    def make(self) -> None:
        """Put a new provider in place, as a start of the process does."""
        context = ProviderContext(
            self.kube, self.clock, self.settings, self.environment, random.Random(1)
        )
        self.provider = self.world.make_provider(context, observe=self.calls.append)

    def lead(self) -> None:
        self._running.append(asyncio.ensure_future(self.provider.run()))

    async def lead_with(self, *names: str) -> None:
        """Let a new process do a few things only, so that long times pass quickly."""
        await self.crash()
        self.make()
        self.world.stop()
        await self.provider.start()
        wanted = {"view", "nodeclass", *names}
        for worker in workers(self.provider.parts):
            if worker.name in wanted:
                wanted.remove(worker.name)
                self._running.append(asyncio.ensure_future(worker.run()))
        assert not wanted

    async def crash(self) -> None:
        """End the provider as a crash would."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running.clear()

    async def check(self) -> None:
        """Fail if the provider has ended by itself."""
        for task in self._running:
            if task.done():
                await task

    def count(self, operation: str, since: int = 0) -> int:
        """How often something was really asked for: neither dry runs nor further pages count."""
        return sum(
            made.operation == operation
            and not made.parameters.get("DryRun")
            and not made.parameters.get("NextToken")
            for made in self.calls[since:]
        )

    def last(self, operation: str) -> Mapping[str, Any]:
        """The parameters of the last call of an operation."""
        return [made for made in self.calls if made.operation == operation][-1].parameters

    async def ready(self) -> EC2NodeClass:
        """Wait until the node class can be used."""
        for _ in range(600):
            node_class = await self.node_class()
            ready = next((c for c in node_class.status.conditions if c.type == "Ready"), None)
            if (
                ready is not None
                and ready.status == "True"
                and ready.observed_generation == node_class.metadata.generation
            ):
                return node_class
            await self.check()
            await self.clock.sleep(0.5)
        raise AssertionError(f"not ready: {node_class.status.conditions}")

    async def node_class(self, name: str = NODE_CLASS) -> EC2NodeClass:
        return await self.kube.get(EC2NodeClass, name)

    async def claim(
        self,
        name: str = "general-x7k2p",
        *,
        requirements: Sequence[Mapping[str, Any]] = (),
        requests: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        pool_labels: Mapping[str, str] | None = None,
        node_class: str = NODE_CLASS,
        **spec: Any,
    ) -> NodeClaim:
        """A claim that exists in the API; anything will do unless it says otherwise."""
        listed = list(requirements) or [{"key": labels.ARCH, "operator": "In", "values": ["amd64"]}]
        body = claim_to_launch(
            name,
            {"group": ec2_labels.DOMAIN, "kind": "EC2NodeClass", "name": node_class},
            listed,
            requests=requests,
            metadata=claim_metadata(
                POOL, {ec2_labels.NODE_CLASS: node_class, **(pool_labels or {})}, annotations
            )
            | {"finalizers": [labels.TERMINATION]},
            **spec,
        )
        return await self.kube.create(NodeClaim, body)

    async def launch(self, claim: NodeClaim) -> NodeClaim:
        """Launch a claim and write what the controllers write about it."""
        instance = await self.provider.create(claim)
        name = claim.metadata.name
        await self.kube.patch(NodeClaim, name, launched_metadata(instance))
        status = launched_status(instance, imageID=instance.image_id)
        launched = await self.kube.patch(NodeClaim, name, status, subresource="status")
        await self.clock.sleep(0.5)
        return launched

    async def change_class(self, **spec: Any) -> EC2NodeClass:
        """Change the spec of the node class and wait until it is ready again."""
        await self.kube.patch(EC2NodeClass, NODE_CLASS, {"spec": spec})
        return await self.ready()

    async def events(self) -> list[tuple[str, str]]:
        """Reason and object of all events."""
        items, _ = await self.memory.list("v1", "Event")
        return [(each["reason"], each["involvedObject"]["kind"]) for each in items]

    async def told(self, *reasons: str) -> list[tuple[str, str, str, str]]:
        """Object, type, reason and message of all events of these reasons."""
        items, _ = await self.memory.list("v1", "Event")
        return sorted(
            (each["involvedObject"]["kind"], each["type"], each["reason"], each["message"])
            for each in items
            if each["reason"] in reasons
        )

    def instance_ids(self) -> list[str]:
        return [entry["InstanceId"] for entry in self.account.running()]

    def template_names(self) -> list[str]:
        found = self.account.client("ec2").describe_launch_templates()["LaunchTemplates"]
        return [each["LaunchTemplateName"] for each in found]


async def served_kinds(clock: Clock) -> tuple[Backend, MemoryClient]:
    """An API server that serves the kinds of Karpenter and of AWS."""
    backend = Backend(Store(), Registry(), clock, Identity(7))
    CustomKinds(backend)
    memory = MemoryClient(backend)
    for name in CRDS:
        await memory.create(builtin_crds()[name])
    return backend, memory


@asynccontextmanager
async def aws_cloud(
    *,
    types: frozenset[str] = FEW_TYPES,
    settings: Settings | None = None,
    environment: Mapping[str, str] | None = None,
    is_leading: bool = True,
    spec: Mapping[str, Any] | None = None,
) -> AsyncIterator[AwsCloud]:
    """A cloud that sells a few types, with a node class that is ready."""
    clock = running_clock()
    backend, memory = await served_kinds(clock)
    await memory.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    transport = TurnTaking(Api(backend))
    kube = Client(transport, clock)
    async with running_simulated_aws(clock, kube, boot_seconds=1e9) as world:
        world.account.gaps.types = types
        cloud = AwsCloud(
            clock, memory, transport, kube, world, settings or Settings(), dict(environment or {})
        )
        for body in world.first_objects():
            body["spec"] |= spec or {}
            await kube.create(EC2NodeClass, body)
        await kube.create(NodePool, pool_body())
        cloud.make()
        if is_leading:
            cloud.lead()
            await cloud.ready()
        try:
            yield cloud
            await cloud.check()
        finally:
            await cloud.crash()


def reference(name: str = NODE_CLASS) -> NodeClassReference:
    return NodeClassReference(group=ec2_labels.DOMAIN, kind="EC2NodeClass", name=name)


def pool_body(name: str = POOL) -> dict[str, Any]:
    node_class = {"group": ec2_labels.DOMAIN, "kind": "EC2NodeClass", "name": NODE_CLASS}
    spec = {"nodeClassRef": node_class, "requirements": []}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": spec}}}


class AwsBed(Bed):
    """The provider as the contract of providers wants to see it."""

    def __init__(self, cloud: AwsCloud) -> None:
        self.cloud = cloud
        self.provider = cloud.provider

    async def claim(self, name: str) -> NodeClaim:
        return await self.cloud.claim(name)

    def pool(self) -> NodePool:
        return node_pool(POOL, node_class=reference())

    async def instances(self) -> Sequence[str]:
        return [
            f"aws:///{entry['Placement']['AvailabilityZone']}/{entry['InstanceId']}"
            for entry in self.cloud.account.running()
        ]

    async def restart(self) -> CloudProvider:
        await self.cloud.crash()
        self.cloud.make()
        self.cloud.lead()
        self.provider = self.cloud.provider
        return self.provider

    async def settle(self) -> None:
        await self.cloud.clock.sleep(1.0)

    async def sell_out(self) -> None:
        self.cloud.account.faults.sold_out.append(SoldOut())
        # spot goes first, and on-demand is found to be sold out with the next attempt
        for number in range(2):
            with suppress(InsufficientCapacityError):
                await self.provider.create(await self.cloud.claim(f"unlucky-{number}"))

    async def break_node_class(self) -> None:
        body = {"spec": {"subnetSelectorTerms": [{"tags": {"no": "such"}}]}}
        await self.cloud.kube.patch(EC2NodeClass, NODE_CLASS, body)
        await self.cloud.clock.sleep(5.0)
