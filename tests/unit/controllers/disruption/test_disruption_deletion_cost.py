"""Pods on nodes that are to go are the first that a shrinking ReplicaSet gives up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from helpers.autoscaler import gates, run_in_background
from helpers.clusters import in_virtual_time
from helpers.disruption import context_of
from helpers.disruption_objects import machine as settled
from helpers.disruption_objects import pod_on
from karpenter.api.pods import Pod
from karpenter.clock import run_virtual
from karpenter.controllers.controllers import disruption_controllers
from karpenter.controllers.disruption.deletion_cost import (
    DeletionCostQueue,
    DeletionCosts,
    chosen,
    ranks,
)
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.model import labels
from karpenter.settings import Settings
from karpenter.state.eviction_cost import POD_DELETION_COST
from karpenter.state.nodes import StateNode
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    Refusing,
    disrupting,
    machine,
    pool,
    running,
    true,
)

GATE = ["PodDeletionCostManagement"]
TAINT = {"key": labels.DISRUPTED, "effect": "NoSchedule"}


class Costs:
    def __init__(self, found: Disrupting) -> None:
        self.found = found
        self.queue = DeletionCostQueue(found.world)
        self.loop = DeletionCosts(found.world, found.queue, self.queue)

    async def rank(self) -> float:
        again = await self.loop.step()
        await self.found.pass_time(5)
        return again

    def cost(self, pod: str) -> str | None:
        known = self.found.world.mirror(Pod).get(pod, "default")
        assert known is not None
        return known.metadata.annotations.get(POD_DELETION_COST)

    def written(self, result: str = "updated") -> float:
        return self.found.metric("pod_deletion_cost_pod_annotation_writes_total", result=result)


@asynccontextmanager
async def costs(*objects: Any, **options: Any) -> AsyncIterator[Costs]:
    async with disrupting(*objects, on=GATE, **options) as found:
        made = Costs(found)
        task = run_in_background([made.queue])
        try:
            yield made
            if task.done():
                await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def in_order(*nodes: StateNode) -> list[tuple[str, int | None]]:
    return [(rank.machine.name, rank.value) for rank in chosen(ranks(context_of(*nodes)))]


class TestOrder:
    def test_what_saves_most_for_its_pods_goes_first(self) -> None:
        nodes = [
            settled("a-small", pod_on("a")),
            settled("b-large", pod_on("b"), instance_type="s8"),
            settled("c-small", pod_on("c")),
        ]

        assert [("b-large", -3), ("a-small", -2), ("c-small", -1)] == in_order(*nodes)

    def test_nodes_with_nothing_to_change_take_no_turn_and_others_come_last(self) -> None:
        said = pod_on("said", annotations={POD_DELETION_COST: "-2"})
        kept = pod_on("kept", annotations={labels.DO_NOT_DISRUPT: "true", POD_DELETION_COST: "7"})
        nodes = [settled("a", said), settled("b", pod_on("new")), settled("0-kept", kept)]

        assert [("b", -1), ("0-kept", None)] == in_order(*nodes)

    def test_what_the_cluster_itself_runs_does_not_keep_a_node(self) -> None:
        naked = pod_on("dns", namespace="kube-system", owners=())

        assert [("a", -1)] == in_order(settled("a", pod_on("web"), naked))


class TestRanking:
    @pytest.mark.case("V15-D46")
    @in_virtual_time
    async def test_what_goes_first_is_worth_least(self) -> None:
        objects = (
            machine("tainted", taints=[TAINT]),
            machine("drifted", conditions=[true("Drifted")]),
            machine("normal"),
            machine("stateful"),
            *(running(f"p-{name}", name) for name in ("tainted", "drifted", "normal")),
            running("p-old", "stateful", annotations={POD_DELETION_COST: "7"}),
            running("p-set", "stateful", owner="StatefulSet"),
        )
        async with costs(pool(), *objects) as found:
            again = await found.rank()

            assert 60.0 == again
            assert "-2147483648" == found.cost("p-tainted")
            assert "-2" == found.cost("p-drifted")
            assert "-1" == found.cost("p-normal")
            assert None is found.cost("p-old")
            assert None is found.cost("p-set")

    @pytest.mark.case("V15-D47")
    @in_virtual_time
    async def test_so_many_nodes_at_a_time_besides_those_that_go(self) -> None:
        going = [machine(f"g{n}", taints=[TAINT]) for n in range(5)]
        ranked = [machine(f"r{n:02}") for n in range(60)]
        pods = [running(f"g{n}", f"g{n}") for n in range(5)]
        pods += [running(f"r{n:02}", f"r{n:02}") for n in range(60)]
        async with costs(pool(), *going, *ranked, *pods) as found:
            await found.rank()

            assert 55 == found.written()

    @pytest.mark.parametrize(
        ("owner", "is_written"),
        [("ReplicaSet", True), ("StatefulSet", False), ("Job", False), ("", False)],
    )
    def test_only_pods_of_replica_sets_are_written_to(
        self, owner: str, *, is_written: bool
    ) -> None:
        async def scene() -> None:
            objects = (machine("n1", taints=[TAINT]), running("a", "n1", owner=owner))
            async with costs(pool(), *objects) as found:
                await found.rank()

                assert is_written is (found.cost("a") is not None)

        run_virtual(scene())

    @pytest.mark.parametrize(
        "objects",
        [
            pytest.param(
                (pool(disruption={"consolidateAfter": "Never"}), machine("n1")), id="Never"
            ),
            pytest.param((pool(budget="0"), machine("n1")), id="a closed budget"),
            pytest.param((pool(), machine("n1", kind="gone")), id="a type nobody sells"),
            pytest.param(
                (pool(), machine("n1", annotations={labels.DO_NOT_DISRUPT: "true"})),
                id="a protected node",
            ),
        ],
    )
    def test_nothing_is_said_about_a_machine_that_stays_because_of(self, objects: Any) -> None:
        async def scene() -> None:
            said = running("a", "n1", annotations={POD_DELETION_COST: "-5"})
            async with costs(*objects, said) as found:
                await found.rank()

                assert None is found.cost("a")

        run_virtual(scene())


class TestWriting:
    @in_virtual_time
    async def test_nothing_is_ranked_again_while_nothing_happens(self) -> None:
        async with costs(pool(), machine("n1"), running("a", "n1")) as found:
            await found.rank()
            calls = len(found.found.bench.cloud.calls_of("instance_types"))
            await found.rank()

            assert calls == len(found.found.bench.cloud.calls_of("instance_types"))
            assert 1 == found.written()

    @in_virtual_time
    async def test_a_conflict_drops_a_write(self) -> None:
        refused = Refusing("PATCH", "/pods/a", 1, 409)
        objects = (machine("n1"), running("a", "n1"))
        async with costs(pool(), *objects, wrap=refused.around) as found:
            await found.rank()

            assert None is found.cost("a")
            assert 1 == found.written("skipped_conflict")

    @in_virtual_time
    async def test_a_failure_is_tried_again(self) -> None:
        refused = Refusing("PATCH", "/pods/a", 2, 500)
        objects = (machine("n1"), running("a", "n1"))
        async with costs(pool(), *objects, wrap=refused.around) as found:
            await found.rank()

            assert "-1" == found.cost("a")
            assert (2, 1) == (found.written("error"), found.written())
            gauge = "pod_deletion_cost_nodes_with_pending_annotation_writes"
            assert 0 == found.found.metric(gauge, nodepool="np")

    @in_virtual_time
    async def test_nothing_is_ranked_while_a_claim_has_no_machine(self) -> None:
        fresh = machine("n2")[0]
        del fresh["status"]
        async with costs(pool(), machine("n1"), running("a", "n1"), fresh) as found:
            again = await found.rank()

            assert 1.0 == again
            assert None is found.cost("a")

    @pytest.mark.parametrize("is_on", [True, False], ids=["with the gate", "without"])
    def test_it_runs_only(self, *, is_on: bool) -> None:
        async def scene() -> None:
            settings = Settings(feature_gates=gates(PodDeletionCostManagement=is_on))
            async with disrupting(settings=settings) as found:
                world = found.world
                made = disruption_controllers(world, PlannedPods(), EvictionQueue(world))

                assert is_on is ("pod.deletioncost" in [each.name for each in made])

        run_virtual(scene())
