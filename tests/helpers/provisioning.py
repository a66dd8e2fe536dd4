"""What tests of provisioning share: pools that are ready, pods that wait, a cloud with fixture F."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench, kwok_pool
from helpers.builders import FACTS_F, fixture_types
from helpers.manifests import condition, container, pod
from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Resource
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.controllers.provisioning.batching import Batcher
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.provisioner import Provisioner
from karpenter.settings import Settings

FACTS: ProviderFacts = replace(FACTS_F, node_classes=(("karpenter.kwok.sh", "KWOKNodeClass"),))


def ready_pool(name: str = "np", *requirements: JsonObject, **spec: Any) -> JsonObject:
    """A pool that may be used."""
    kinds = ("NodeClassReady", "Ready", "ValidationSucceeded")
    status = {"conditions": [condition(kind) for kind in kinds]}
    return {**kwok_pool(name, *requirements, **spec), "status": status}


def waiting_pod(
    name: str = "web", *, cpu: str = "1", reason: str = "Unschedulable", **spec: Any
) -> JsonObject:
    """A pod the scheduler has given up on."""
    return pod(
        name,
        containers=[container(cpu)],
        metadata={"labels": {"app": name}},
        status={
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}],
        },
        **spec,
    )


def launched(claim: NodeClaim, **capacity: str) -> JsonObject:
    """The status of a claim whose machine is on its way."""
    size = {"cpu": "4", "memory": "8Gi", "pods": "10", **capacity}
    return {
        "status": {
            "providerID": f"fake://{claim.metadata.uid}",
            "capacity": size,
            "allocatable": size,
        }
    }


class Triggers:
    """Stands where the batcher does, and keeps what triggered."""

    def __init__(self) -> None:
        self.uids: list[str] = []

    def trigger(self, uid: str = "") -> None:
        self.uids.append(uid)


class Provisioning:
    """A provisioner alone on a bare API server."""

    def __init__(self, at: Bench) -> None:
        self.at = at
        self.world = at.world
        self.planned = PlannedPods()
        settings = at.world.settings
        self.batcher = Batcher(
            at.clock, idle=settings.batch_idle_duration, longest=settings.batch_max_duration
        )
        self.provisioner = Provisioner(at.world, self.batcher, self.planned)

    async def provision(self) -> tuple[NodeClaim, ...]:
        """One pass, whatever has triggered."""
        claims = await self.provisioner.provision()
        await self.at.settle()
        return claims

    async def launch(self, claim: NodeClaim, **capacity: str) -> None:
        """Give a claim its machine."""
        await self.at.change(
            "karpenter.sh/v1",
            "NodeClaim",
            claim.metadata.name,
            launched(claim, **capacity),
            subresource="status",
        )

    @property
    def claims(self) -> list[NodeClaim]:
        return self.world.mirror(NodeClaim).list()

    def events(self, reason: str) -> list[tuple[str, str]]:
        """The recorded events: object and message."""
        return [
            (event.target.metadata.name, event.message)
            for event in self.at.events.heard
            if event.reason == reason and isinstance(event.target, Resource)
        ]

    def lines(self, message: str) -> list[dict[str, Any]]:
        """The log lines with a message."""
        return [line for line in self.at.lines if line["message"] == message]


@asynccontextmanager
async def provisioning(
    *objects: JsonObject,
    types: tuple[InstanceType, ...] | None = None,
    settings: Settings | None = None,
    cloud: FakeCloud | None = None,
    **kwargs: Any,
) -> AsyncIterator[Provisioning]:
    """A provisioner on a bare API server with these objects."""
    fake = cloud or FakeCloud(facts=FACTS, types=fixture_types() if types is None else types)
    async with bench(*objects, settings=settings, cloud=fake, **kwargs) as at:
        yield Provisioning(at)
