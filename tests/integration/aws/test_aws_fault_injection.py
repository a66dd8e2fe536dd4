"""Faults injected into a simulated AWS, and how the controllers handle them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from helpers.autoscaler import deployment
from helpers.aws_sandbox import AwsSandbox, aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from karpenter.model import labels
from karpenter_sandbox.command.aws import fault_injection
from karpenter_sandbox.conditions import find_condition

pytestmark = pytest.mark.storm


class Day(AwsSandbox):
    """A sandbox whose ConfigMap a test writes."""

    async def tell(self, **data: str | None) -> None:
        body = {"data": {key.replace("_", "-"): text for key, text in data.items()}}
        where = ("v1", "ConfigMap", "karpenter", "aws-faults")
        await self.run.client.patch("merge", *where, body)

    def held(self, label: str) -> set[str]:
        return {node["metadata"]["labels"][label] for node in self.run.nodes}

    def launches(self) -> list[str]:
        """How claims say that they stand with their launch."""
        found = [find_condition(claim, "Launched") for claim in self.run.claims]
        return [condition["reason"] for condition in found if condition is not None]


@asynccontextmanager
async def a_day() -> AsyncIterator[Day]:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}}
    said: list[str] = []
    async with (
        aws_sandbox(namespace, ec2_pool()) as box,
        fault_injection(box.run.cluster, box.world, said.append),
    ):
        yield Day(box.run, box.world, box.calls, box.providers)


@in_virtual_time
async def test_pods_get_what_is_not_sold_out_and_spot_again_when_it_is_back() -> None:
    async with a_day() as box:
        await box.tell(sold_out="*/*/spot, */us-west-2a/*")
        await box.run.apply(deployment("app", 2, cpu="1"))
        await box.run.until(lambda: len(box.run.running) == 2)

        assert {"on-demand"} == box.held(labels.CAPACITY_TYPE)
        assert "us-west-2a" not in box.held(labels.ZONE)

        await box.tell(sold_out=None)
        # sold-out offerings are cached for three minutes
        await box.run.until(lambda: {"spot"} == box.held(labels.CAPACITY_TYPE), seconds=900)


@in_virtual_time
async def test_pods_leave_a_zone_that_is_lost_and_its_nodes_come_back_with_it() -> None:
    async with a_day() as box:
        run = box.run
        await run.apply(deployment("app", 2, cpu="1"))
        await run.until(lambda: len(run.running) == 2)
        (zone,) = box.held(labels.ZONE)
        # when no node responds, Kubernetes assumes a network fault and evicts no pod
        elsewhere = {labels.ZONE: next(each for each in box.account.subnets if each != zone)}
        await run.apply(deployment("other", 1, cpu="1", nodeSelector=elsewhere))
        await run.until(lambda: len(run.running) == 3)
        old = {
            node["metadata"]["name"]
            for node in run.nodes
            if node["metadata"]["labels"][labels.ZONE] == zone
        }

        def readiness(name: str) -> Any:
            node = next(each for each in run.nodes if each["metadata"]["name"] == name)
            ready = find_condition(node, "Ready")
            return ready and ready["status"]

        await box.tell(lost_zone=zone)
        await run.until(lambda: {"Unknown"} == {readiness(name) for name in old})
        # pods tolerate a silent node for five minutes
        await run.until(
            lambda: 3 == sum(pod["spec"]["nodeName"] not in old for pod in run.running), seconds=900
        )
        assert 3 == len(run.nodes)

        await box.tell(lost_zone=None)
        await run.until(lambda: all(readiness(name) == "True" for name in old), seconds=30)


@pytest.mark.parametrize(
    ("fault", "call", "launches"),
    [
        pytest.param("denied", "CreateFleet", ["Unauthorized"], id="denied, and claims say why"),
        pytest.param("denied", "RunInstances", ["Unauthorized"], id="instances of a fleet denied"),
        pytest.param("throttled", "CreateFleet", None, id="throttled, and asked again"),
    ],
)
@in_virtual_time
async def test_nothing_is_launched_until_the_account_answers(
    fault: str, call: str, launches: list[str] | None
) -> None:
    async with a_day() as box:
        run = box.run
        await run.pass_time(10)
        await box.tell(**{fault: call})
        await run.apply(deployment("app", 2, cpu="1"))
        await run.pass_time(120 if launches else 60)
        assert ([], []) == (box.machines, run.running)
        if launches is not None:
            assert launches == box.launches()

        await box.tell(**{fault: None})
        await run.until(lambda: len(run.running) == 2, seconds=1800)
