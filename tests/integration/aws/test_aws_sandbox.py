"""The whole of it on a simulated AWS: pods become instances, instances nodes, and all go again."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment
from helpers.clusters import in_virtual_time
from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.simulated.faults import SoldOut
from karpenter.cloud.aws.simulated.simulated_aws import SimulatedAws, running_simulated_aws
from karpenter.cloud.provider import CloudProvider
from karpenter.cloud.registry import ProviderContext
from karpenter.kube.client import Client
from karpenter.model import labels
from karpenter.settings import Settings
from karpenter.telemetry import Metrics
from karpenter_sandbox.server.transport import MemoryTransport

pytestmark = pytest.mark.storm

TYPES = frozenset({"m5.large", "m5.xlarge", "m5.2xlarge", "c5.large", "c5.xlarge"})


@dataclass
class Sandbox:
    run: Autoscaler
    world: SimulatedAws
    metrics: Metrics

    @property
    def machines(self) -> int:
        return len(self.world.account.running())


def pool(**disruption: Any) -> dict[str, Any]:
    reference = {"group": ec2_labels.DOMAIN, "kind": "EC2NodeClass", "name": "default"}
    template = {"nodeClassRef": reference, "requirements": [], "expireAfter": "Never"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": template},
            "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **disruption},
        },
    }


@asynccontextmanager
async def sandbox() -> AsyncIterator[Sandbox]:
    """A sandbox's cluster with the controllers on a simulated AWS."""
    worlds: list[SimulatedAws] = []
    metrics = Metrics()
    made: list[Metrics] = []

    def make_cloud(kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
        made.append(metrics if not made else Metrics())  # each process has its own
        context = ProviderContext(kube, clock, Settings(), {}, rng, made[-1])
        return worlds[0].make_provider(context)

    async with autoscaler(pool(), starts=False, make_cloud=make_cloud) as run:
        kube = Client(MemoryTransport(run.cluster.api), run.clock)
        async with running_simulated_aws(run.clock, kube) as world:
            world.account.gaps.types = TYPES
            worlds.append(world)
            await run.apply(*world.first_objects())
            run.start()
            try:
                yield Sandbox(run, world, metrics)
            finally:
                await run.stop()


@pytest.mark.row("S3-13", "S2-06", "S2-80")
@in_virtual_time
async def test_a_walk_up_and_down_leaves_nothing_behind() -> None:
    async with sandbox() as box:
        run, account = box.run, box.world.account
        await run.apply(deployment("app", 0, cpu="1"))
        for replicas in (5, 20):
            await run.scale("app", replicas)
            await run.until(lambda wanted=replicas: len(run.running) == wanted)  # type: ignore[misc]
        assert 3 <= box.machines == len(run.nodes) == len(run.claims)
        names = {node["metadata"]["name"] for node in run.nodes}
        assert all(name.startswith("ip-10-0-") for name in names)
        assert {"spot"} == {n["metadata"]["labels"][labels.CAPACITY_TYPE] for n in run.nodes}

        await run.scale("app", 0)
        await run.until(lambda: not run.nodes and not run.claims)
        assert 0 == box.machines

        await run.client.delete("karpenter.sh/v1", "NodePool", None, "default")
        await run.client.delete("karpenter.k8s.aws/v1", "EC2NodeClass", None, "default")
        await run.until(lambda: not run.objects("karpenter.k8s.aws", "ec2nodeclasses"))
        ec2 = account.client("ec2")
        assert [] == ec2.describe_launch_templates()["LaunchTemplates"]
        assert [] == account.client("iam").list_instance_profiles()["InstanceProfiles"]
        volumes = ec2.describe_volumes()["Volumes"]
        assert [] == [each for each in volumes if each["State"] == "in-use"]


@pytest.mark.row("S2-30", "S2-86")
@in_virtual_time
async def test_a_node_that_is_interrupted_is_replaced() -> None:
    async with sandbox() as box:
        run = box.run
        await run.apply(deployment("app", 2, cpu="1"))
        await run.until(lambda: len(run.running) == 2)
        before = {node["metadata"]["name"] for node in run.nodes}

        await box.world.interrupt(sorted(before)[0])

        def is_replaced() -> bool:
            now = {node["metadata"]["name"] for node in run.nodes}
            return sorted(before)[0] not in now and len(run.running) == 2

        await run.until(is_replaced)
        assert box.machines == len(run.nodes)
        await run.pass_time(60.0)  # some metrics are computed once a minute
        text = b"".join(box.metrics.pieces()).decode()
        assert (
            'karpenter_nodeclaims_disrupted_total{capacity_type="spot",consolidation_policy="",'
            'nodepool="default",reason="spot_interrupted",termination_mode="graceful"} 1.0' in text
        )
        assert "karpenter_interruption_deleted_messages_total 1.0" in text
        assert (
            'karpenter_interruption_received_messages_total{message_type="spot_interrupted"} 1.0'
            in text
        )
        assert "karpenter_interruption_message_queue_duration_seconds_count 1.0" in text
        for batcher in ("create_fleet", "describe_instances", "terminate_instances"):
            assert f'_batcher_batch_size_count{{batcher="{batcher}"}}' in text
        assert 'instance_type_offering_price_estimate{capacity_type="spot",instance_type="' in text
        assert 'controller_runtime_reconcile_total{controller="nodeclass",result="success"}' in text
        assert 'aws_sdk_go_request_total{action="CreateFleet",code="200",service="ec2"}' in text


@pytest.mark.row("S2-11")
@in_virtual_time
async def test_pods_get_on_demand_machines_when_spot_is_sold_out() -> None:
    async with sandbox() as box:
        box.world.account.faults.sold_out.append(SoldOut(capacity_type="spot"))
        await box.run.apply(deployment("app", 2, cpu="1"))
        await box.run.until(lambda: len(box.run.running) == 2)

        held = {node["metadata"]["labels"][labels.CAPACITY_TYPE] for node in box.run.nodes}
        assert {"on-demand"} == held


@in_virtual_time
async def test_a_process_that_dies_while_it_launches_leaves_nothing_doubled() -> None:
    async with sandbox() as box:
        run = box.run
        await run.until(lambda: bool(run.manager and run.manager.context))
        await run.apply(deployment("app", 6, cpu="1"))
        for _ in range(4):
            await run.pass_time(1.3)
            await run.kill()
            run.start()
        await run.until(lambda: len(run.running) == 6, seconds=1800)
        await run.until(lambda: box.machines == len(run.claims) == len(run.nodes), seconds=900)

        await run.scale("app", 0)
        await run.until(lambda: not run.claims and not box.machines, seconds=900)
