"""A sandbox's cluster with every controller on a simulated AWS, in virtual time."""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from helpers.autoscaler import Autoscaler, autoscaler
from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.calls import CompletedCall
from karpenter.cloud.aws.provider import AwsProvider
from karpenter.cloud.aws.simulated.account import CLUSTER, NODE_ROLE, SimulatedAccount
from karpenter.cloud.aws.simulated.simulated_aws import SimulatedAws, running_simulated_aws
from karpenter.cloud.provider import CloudProvider
from karpenter.cloud.registry import ProviderContext
from karpenter.kube.client import Client
from karpenter.kube.transport import Transport
from karpenter.settings import Settings
from karpenter_sandbox.server.transport import MemoryTransport

JsonObject = dict[str, Any]

FEW_TYPES = frozenset({"m5.large", "m5.xlarge", "m5.2xlarge", "c5.large", "c5.xlarge"})
EC2_CLASS = "karpenter.k8s.aws/v1"
# The services the provider may call; Auto Scaling is not one of them
SERVICES = frozenset({"ec2", "iam", "eks", "ssm", "pricing", "sqs", "arc-zonal-shift"})


@dataclass
class AwsSandbox:
    """A cluster and the account behind it."""

    run: Autoscaler
    world: SimulatedAws
    calls: list[CompletedCall] = field(default_factory=list)
    providers: list[AwsProvider] = field(default_factory=list)

    @property
    def account(self) -> SimulatedAccount:
        return self.world.account

    @property
    def provider(self) -> AwsProvider:
        """The provider of the process that runs now."""
        return self.providers[-1]

    @property
    def machines(self) -> list[str]:
        """The instances that have not been terminated."""
        return [entry["InstanceId"] for entry in self.account.running()]

    def count(self, operation: str) -> int:
        """How often an operation was called; dry runs and further pages do not count."""
        return sum(
            made.operation == operation
            and not made.parameters.get("DryRun")
            and not made.parameters.get("NextToken")
            for made in self.calls
        )

    def left_behind(self) -> dict[str, list[Any]]:
        """Everything left in the account that costs money or needs a cleanup."""
        ec2, iam = self.account.client("ec2"), self.account.client("iam")
        found = {
            "instances": self.machines,
            "volumes": ec2.describe_volumes()["Volumes"],
            "launch templates": ec2.describe_launch_templates()["LaunchTemplates"],
            "instance profiles": iam.list_instance_profiles()["InstanceProfiles"],
        }
        return {name: listed for name, listed in found.items() if listed}

    async def remove_class(self, name: str = "default") -> None:
        """Delete a node class and wait until it is gone."""
        await self.run.client.delete(EC2_CLASS, "EC2NodeClass", None, name)
        await self.run.until(lambda: not self.run.objects("karpenter.k8s.aws", "ec2nodeclasses"))

    async def change_class(self, **spec: Any) -> None:
        """Change the node class."""
        body = {"spec": spec}
        await self.run.client.patch("merge", EC2_CLASS, "EC2NodeClass", None, "default", body)


def ec2_pool(
    *requirements: JsonObject,
    name: str = "default",
    template: Mapping[str, Any] | None = None,
    **disruption: Any,
) -> JsonObject:
    """A NodePool of the node class of the sandbox."""
    reference = {"group": ec2_labels.DOMAIN, "kind": "EC2NodeClass", "name": "default"}
    spec = {
        "nodeClassRef": reference,
        "requirements": list(requirements),
        "expireAfter": "Never",
        **(template or {}),
    }
    budgets = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": spec}, "disruption": {**budgets, **disruption}},
    }


@asynccontextmanager
async def aws_sandbox(
    *objects: JsonObject,
    types: frozenset[str] = FEW_TYPES,
    region: str = "us-west-2",
    cluster: str = CLUSTER,
    node_role: str = NODE_ROLE,
    has_class: bool = True,
    starts: bool = True,
    environment: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    wrap: Callable[[Transport], Transport] = lambda transport: transport,
) -> AsyncIterator[AwsSandbox]:
    """A cluster with the controllers; ``objects`` are created before they start."""
    boxes: list[AwsSandbox] = []
    given = settings or Settings()

    def make_cloud(kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
        (box,) = boxes
        context = ProviderContext(kube, clock, given, {}, rng, decisions=box.run.decisions)
        provider = box.world.make_provider(context, observe=box.calls.append)
        box.providers.append(provider)
        return provider

    async with autoscaler(starts=False, make_cloud=make_cloud, settings=given, wrap=wrap) as run:
        run.cluster.backend.provider = "aws"
        kube = Client(MemoryTransport(run.cluster.api), run.clock)
        async with running_simulated_aws(
            run.clock, kube, cluster=cluster, region=region, node_role=node_role
        ) as world:
            world.account.gaps.types = types
            world.environment = {**world.environment, **(environment or {})}
            boxes.append(AwsSandbox(run, world))
            await run.apply(*(world.first_objects() if has_class else ()), *objects)
            if starts:
                run.start()
            try:
                yield boxes[0]
            finally:
                await run.stop()
