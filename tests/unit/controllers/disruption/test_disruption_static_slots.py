"""The room that limits.nodes leaves a static pool is used once, and never lost to a refusal."""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import pytest

from helpers.autoscaler import FakeCloud
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.provisioning import FACTS
from karpenter.cloud.provider import RepairPolicy
from karpenter.controllers.disruption.executor import AbandonedError
from karpenter.disruption.commands import REPAIR, Command
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    Refusing,
    bad,
    disrupting,
    machine,
    pool,
)

POLICY = RepairPolicy("BadNode", "False", timedelta(minutes=30))
DUE = 1801.0


def static(replicas: int, limit: int, *, ill: int, **options: Any) -> Any:
    """So many nodes of a static pool, the first few of which are broken."""
    fixed = pool(replicas=replicas, limits={"nodes": str(limit)})
    del fixed["spec"]["disruption"]["consolidateAfter"]
    nodes = [
        machine(
            f"n{number}",
            without=["Consolidatable"],
            node_conditions=[bad()] if number < ill else [],
        )
        for number in range(replicas)
    ]
    cloud = FakeCloud(facts=FACTS, types=TYPES, repair_policies=(POLICY,))
    found: AbstractAsyncContextManager[Disrupting] = disrupting(
        fixed, *nodes, cloud=cloud, on=["NodeRepair", "StaticCapacity"], **options
    )
    return found


async def decided(found: Disrupting) -> Command:
    """What repair decides now."""
    planner = found.loop._planner
    look = await planner.begin_pass(found.queue.in_progress)
    (command,) = (await planner.find(look, REPAIR)).commands
    return command


@pytest.mark.case("V15-D41")
@in_virtual_time
async def test_a_repair_of_a_node_that_is_queued_already_costs_no_slot() -> None:
    async with static(5, 6, ill=1) as found:
        await found.pass_time(DUE)
        command = await decided(found)
        assert found.queue.reserve("another command", ["n0"])

        with pytest.raises(AbandonedError, match="part of another command"):
            await found.loop._executor.begin(command)
        assert [] == found.replacements
        assert [] == found.tainted()

        found.queue.release("another command")
        await found.run_pass()

        assert ["n0"] == found.tainted()
        assert 1 == len(found.replacements)


@pytest.mark.case("V15-D41")
@in_virtual_time
async def test_nor_does_one_of_a_node_that_cannot_be_marked() -> None:
    refused = Refusing("PATCH", "/nodes/n0", 100, 500)
    async with static(5, 6, ill=1, wrap=refused.around) as found:
        await found.pass_time(DUE)
        for _ in range(3):
            await found.run_pass()
        assert [] == found.replacements
        assert found.lines("abandoned command")

        refused.left = 0
        await found.run_pass()

        assert 1 == len(found.replacements)


@in_virtual_time
async def test_the_only_slot_is_given_once_and_again_when_its_node_is_gone() -> None:
    async with static(10, 11, ill=2) as found:
        await found.pass_time(DUE)
        await found.run_pass()
        await found.launch()
        await found.run_pass()

        assert ["n0"] == found.tainted()
        assert 1 == len(found.replacements)

        (replacement,) = found.replacements
        await found.bring_up(replacement)
        await found.pass_time(2)
        assert ["n0"] == found.going()
        await found.change("NodeClaim", "n0-claim", {"metadata": {"finalizers": []}})
        await found.bench.client.delete("v1", "Node", None, "n0")
        await found.pass_time(1)
        await found.run_pass()

        assert ["n1"] == found.tainted()
        assert 2 == len(found.replacements)
