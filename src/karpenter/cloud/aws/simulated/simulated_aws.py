"""A whole simulated AWS beside a sandbox: an account, its provider, and nodes for its instances."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from karpenter.api.node_classes import ec2_labels
from karpenter.api.nodes import Node
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.calls import AwsCalls, Observer
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.provider import AwsProvider, connected
from karpenter.cloud.aws.settings import read_settings
from karpenter.cloud.aws.simulated.account import (
    CLUSTER,
    ENDPOINT,
    NODE_ROLE,
    REGION,
    SimulatedAccount,
    simulated_account,
)
from karpenter.cloud.aws.simulated.nodes import BOOT_SECONDS, SimulatedNodes
from karpenter.cloud.registry import ProviderContext
from karpenter.kube.client import Kube

_STATE_CHANGE: Final = "EC2 Instance State-change Notification"
_SOURCES: Final = {
    "spot": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "reservation": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
    "scheduled-change": ("aws.health", "AWS Health Event"),
    "stopping": ("aws.ec2", _STATE_CHANGE),
    "terminating": ("aws.ec2", _STATE_CHANGE),
}
ANNOUNCEMENTS: Final = tuple(_SOURCES)
_CA_BUNDLE: Final = "c2ltdWxhdGVk"


class NoSuchInstanceError(Exception):
    """There is no instance behind a node; the text is one sentence."""


@dataclass(slots=True)
class SimulatedAws:
    """A simulated AWS and its operations."""

    account: SimulatedAccount
    kube: Kube
    clock: Clock
    boot_seconds: float = BOOT_SECONDS
    environment: Mapping[str, str] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def make_provider(
        self,
        context: ProviderContext,
        *,
        observe: Observer | None = None,
    ) -> AwsProvider:
        """The provider of this account, in place of the one for the real AWS.

        Instances become nodes from now on.
        """
        provider = connected(
            replace(context, clock=self.clock),
            read_settings({**context.environment, **self.environment}),
            lambda counted: AwsCalls(
                self.account.session, self.clock, context.rng, observe=observe or counted
            ),
            is_simulated=True,
        )
        nodes = SimulatedNodes(
            self.account, self.kube, self.clock, provider, boot_seconds=self.boot_seconds
        )
        self.stop()
        self._tasks.append(asyncio.get_running_loop().create_task(_run(nodes)))
        return provider

    async def interrupt(self, node: str, event: str = "spot") -> None:
        """Send an interruption notice for the instance of a node: one of ``ANNOUNCEMENTS``.

        Raises:
            NoSuchInstanceError: the node has no instance.
            NotFoundError: there is no such node.
        """
        found = await self.kube.get(Node, node)
        instance_id = instance_id_of(found.spec.provider_id)
        if not instance_id:
            raise NoSuchInstanceError(f"node {node} is not an EC2 instance")
        body = announcement(event, instance_id, self.clock, self.account.region)
        await asyncio.to_thread(self.account.send, body)

    def first_objects(self) -> Iterator[dict[str, Any]]:
        """A node class that works here, to begin with."""
        selector = [{"tags": {ec2_labels.DISCOVERY_TAG: self.account.discovery}}]
        yield {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "role": self.account.node_role,
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": selector,
                "securityGroupSelectorTerms": selector,
            },
        }

    def stop(self) -> None:
        """Stop creating and deleting nodes."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()


@asynccontextmanager
async def running_simulated_aws(
    clock: Clock,
    kube: Kube,
    *,
    cluster: str = CLUSTER,
    region: str = REGION,
    node_role: str = NODE_ROLE,
    discovery: str = "",
    kubernetes: str = "1.33",
    boot_seconds: float = BOOT_SECONDS,
) -> AsyncIterator[SimulatedAws]:
    """A simulated AWS for as long as the block runs.

    Raises:
        SimulationMissingError: moto is not installed.
    """
    with simulated_account(
        clock,
        cluster=cluster,
        region=region,
        node_role=node_role,
        discovery=discovery,
        kubernetes=kubernetes,
    ) as account:
        environment = {
            "CLUSTER_NAME": cluster,
            "CLUSTER_ENDPOINT": ENDPOINT,
            "CLUSTER_CA_BUNDLE": _CA_BUNDLE,
            "INTERRUPTION_QUEUE": cluster,
            "AWS_REGION": region,
        }
        world = SimulatedAws(account, kube, clock, boot_seconds, environment)
        try:
            yield world
        finally:
            world.stop()


def announcement(event: str, instance_id: str, clock: Clock, region: str = REGION) -> str:
    """What EventBridge sends about an instance: one of ``ANNOUNCEMENTS``."""
    source, title = _SOURCES[event]
    detail: dict[str, object] = {"instance-id": instance_id}
    if event == "spot":
        detail["instance-action"] = "terminate"
    elif event in ("stopping", "terminating"):
        detail["state"] = "stopping" if event == "stopping" else "shutting-down"
    elif event == "scheduled-change":
        detail = {
            "service": "EC2",
            "eventTypeCategory": "scheduledChange",
            "affectedEntities": [{"entityValue": instance_id}],
        }
    return json.dumps(
        {
            "version": "0",
            "id": instance_id,
            "detail-type": title,
            "source": source,
            "account": "123456789012",
            "time": clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": region,
            "resources": [],
            "detail": detail,
        }
    )


async def _run(nodes: SimulatedNodes) -> None:
    await nodes.adopt()
    await nodes.run()
