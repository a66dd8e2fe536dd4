"""What happens to machines between a decision and its end, and what becomes of the command then."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from helpers.clusters import in_virtual_time
from karpenter.controllers.disruption.executor import AbandonedError, Executor
from karpenter.controllers.disruption.planner import DisruptionPlanner
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.disruption.commands import DRIFT, Command
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import (
    V1,
    Disrupting,
    Refusing,
    disrupting,
    machine,
    pool,
    running,
    true,
)

DRIFTED = machine("n1", conditions=[true("Drifted")])
Happening = Callable[[Disrupting], Awaitable[None]]


async def decided(found: Disrupting) -> Command:
    """What the loop would do about the drifted machine."""
    planner = DisruptionPlanner(found.world, found.loop.log)
    finding = await planner.find(await planner.begin_pass(frozenset()), DRIFT)
    (command,) = finding.commands
    return command


async def begin(found: Disrupting, command: Command) -> None:
    await Executor(found.world, found.queue, PlannedPods(), found.loop.log).begin(command)
    await found.bench.settle()


async def nothing(found: Disrupting) -> None:
    return


async def protected(found: Disrupting) -> None:
    annotations = {labels.DO_NOT_DISRUPT: "true"}
    await found.change("Node", "n1", {"metadata": {"annotations": annotations}})


async def a_pod_came(found: Disrupting) -> None:
    await found.put(running("late", "n1"))


async def a_daemon_came(found: Disrupting) -> None:
    await found.put(running("late", "n1", owner="DaemonSet"))


async def deleted(found: Disrupting) -> None:
    await found.bench.client.delete(V1, "NodeClaim", None, "n1-claim")
    await found.bench.settle()


async def made_anew(found: Disrupting) -> None:
    await found.vanish(found.claims["n1-claim"])
    await found.put(DRIFTED[0])


async def node_gone(found: Disrupting) -> None:
    await found.bench.client.delete("v1", "Node", None, "n1")
    await found.bench.settle()


async def expected(found: Disrupting) -> None:
    found.world.state.nominate("n1", found.clock.now() + timedelta(seconds=20))


async def pool_gone(found: Disrupting) -> None:
    await found.bench.client.delete(V1, "NodePool", None, "np")
    await found.bench.settle()


async def budget_spent(found: Disrupting) -> None:
    budgets = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
    await found.change("NodePool", "np", budgets)


async def taken(found: Disrupting) -> None:
    assert found.queue.reserve("another", ["n1"])


@pytest.mark.parametrize(
    ("happening", "problem"),
    [
        pytest.param(protected, "it has the annotation", id="DIS-102 it is protected now"),
        pytest.param(a_pod_came, "pods have come to it", id="a pod has come"),
        pytest.param(deleted, "on its way out", id="DIS-100 somebody else has deleted it"),
        pytest.param(made_anew, "another machine has its name", id="another has taken its name"),
        pytest.param(node_gone, "it is gone", id="its Node is gone"),
        pytest.param(expected, "pods are expected on it", id="DIS-101 pods are expected"),
        pytest.param(pool_gone, "nodepool np is gone", id="DIS-105 its pool is gone"),
        pytest.param(budget_spent, "do not allow it any more", id="the budget is spent"),
        pytest.param(taken, "part of another command", id="another command has it"),
    ],
)
def test_a_command_is_abandoned_for_what_happened_meanwhile(
    happening: Happening, problem: str
) -> None:
    @in_virtual_time
    async def scene() -> None:
        async with disrupting(pool(), DRIFTED) as found:
            command = await decided(found)
            await happening(found)
            going = found.going()

            with pytest.raises(AbandonedError, match=problem):
                await begin(found, command)

            assert [] == found.tainted()
            assert going == found.going()
            assert 0 == found.metric("voluntary_disruption_decisions_total")

    scene()


@pytest.mark.parametrize(
    "happening",
    [
        pytest.param(nothing, id="nothing happened"),
        pytest.param(a_daemon_came, id="a daemon has come, which comes to every machine"),
    ],
)
def test_a_command_is_carried_out_if_nothing_stands_in_its_way(happening: Happening) -> None:
    @in_virtual_time
    async def scene() -> None:
        async with disrupting(pool(), DRIFTED) as found:
            command = await decided(found)
            await happening(found)

            await begin(found, command)

            assert ["n1"] == found.going()

    scene()


@in_virtual_time
async def test_a_pod_that_has_gone_meanwhile_needs_no_place() -> None:
    async with disrupting(pool(), DRIFTED, machine("n2"), running("a", "n1")) as found:
        command = await decided(found)
        assert {"n2": ("default/a",)} == command.placements
        await found.bench.client.delete("v1", "Pod", "default", "a", grace_period=0)
        await found.bench.settle()

        await begin(found, command)

        assert ["n1"] == found.going()
        assert [] == found.heard("Nominated")


@in_virtual_time
async def test_a_pod_that_has_to_move_is_told_where_to() -> None:
    async with disrupting(pool(), DRIFTED, machine("n2"), running("a", "n1")) as found:
        await begin(found, await decided(found))

        (message,) = found.messages("Nominated")
        assert "n2" in message
        assert "n2-claim" in message


@in_virtual_time
async def test_a_command_none_of_whose_machines_can_be_marked_is_abandoned() -> None:
    refusing = Refusing("PATCH", "/nodes/n1", 1000, 500)
    async with disrupting(pool(), DRIFTED, wrap=refusing.around) as found:
        command = await decided(found)

        with pytest.raises(AbandonedError, match="marking n1"):
            await begin(found, command)

        assert [] == found.going()
        assert frozenset() == found.queue.in_progress


@in_virtual_time
async def test_machines_belong_to_one_command_at_a_time() -> None:
    async with disrupting() as found:
        queue = found.queue
        assert queue.reserve("1", ["a", "b"])

        assert not queue.reserve("2", ["b", "c"])
        assert frozenset("ab") == queue.in_progress

        queue.release("1", "a")
        assert frozenset("b") == queue.in_progress
        assert queue.reserve("2", ["a", "c"])
        queue.release("1")
        assert frozenset("ac") == queue.in_progress


@pytest.mark.case("DIS-142")
@in_virtual_time
async def test_a_replacement_that_is_told_to_go_sets_the_candidate_free() -> None:
    async with disrupting(pool(), machine("n1"), running("a", "n1")) as found:
        await found.run_pass()
        (replacement,) = found.replacements
        await found.bench.client.delete(V1, "NodeClaim", None, replacement.metadata.name)
        await found.pass_time(2)

        assert [] == found.tainted()
        assert frozenset() == found.queue.in_progress
        assert [replacement.metadata.name] == found.going()
