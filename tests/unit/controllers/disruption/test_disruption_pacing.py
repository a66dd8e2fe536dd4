"""Budgets pace what the loop begins, and users see why a pool stands still."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from helpers.autoscaler import JsonObject
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import Budget, NodePool
from karpenter.clock import run_virtual
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    disrupting,
    machine,
    pool,
    running,
    true,
)


def empty(count: int, *, in_pool: str = "np") -> list[tuple[JsonObject, JsonObject]]:
    return [machine(f"{in_pool}-n{number}", in_pool=in_pool) for number in range(count)]


@pytest.mark.parametrize(
    ("budget", "gone"),
    [
        pytest.param("3", 3, id="DIS-121 a budget of three lets three of ten go"),
        pytest.param("30%", 3, id="DIS-122 a budget of 30% lets three of ten go"),
        pytest.param("100%", 10, id="DIS-122 a budget of 100% lets all go"),
        pytest.param("0", 0, id="DIS-122 a budget of nothing lets none go"),
    ],
)
def test_empty_nodes_within_a_budget(budget: str, gone: int) -> None:
    async def scene() -> None:
        async with disrupting(pool(budget=budget), *empty(10)) as found:
            await found.run_pass()
            await found.pass_time(1)

            assert gone == len(found.going())
            assert gone == len(found.tainted())
            commands = found.metric("voluntary_disruption_decisions_total")
            assert (1 if gone else 0) == commands
            assert 10 == found.metric("voluntary_disruption_eligible_nodes", reason="empty")

    run_virtual(scene())


class TestWhatCounts:
    @pytest.mark.case("DIS-121")
    @in_virtual_time
    async def test_the_rest_waits_until_the_first_are_gone(self) -> None:
        async with disrupting(pool(budget="3"), *empty(5)) as found:
            await found.run_pass()
            await found.pass_time(1)
            first = found.going()
            await found.run_pass()
            await found.pass_time(1)

            assert 3 == len(first)
            assert first == found.going()

            for name in first:
                await found.change("NodeClaim", f"{name}-claim", {"metadata": {"finalizers": []}})
                await found.bench.client.delete("v1", "Node", None, name)
            await found.pass_time(1)
            await found.run_pass()
            await found.pass_time(1)

            assert 2 == len(found.going())

    @pytest.mark.case("DIS-124")
    @in_virtual_time
    async def test_nodes_that_are_not_ready_use_up_a_budget(self) -> None:
        broken = [machine(f"b{n}", ready="False", without=["Consolidatable"]) for n in range(2)]
        async with disrupting(pool(budget="5"), *empty(8), *broken) as found:
            await found.run_pass()
            await found.pass_time(1)

            assert 3 == len(found.going())
            facts = {"nodepool": "np", "reason": "empty"}
            assert 2 == found.metric("nodepools_nodes_consuming_budgets", **facts)

    @pytest.mark.case("DIS-133")
    @in_virtual_time
    async def test_each_pool_has_its_own_budget_in_the_one_command(self) -> None:
        pools = (pool("a", budget="2"), pool("b", budget="2"))
        machines = (*empty(3, in_pool="a"), *empty(3, in_pool="b"))
        async with disrupting(*pools, *machines) as found:
            await found.run_pass()
            await found.pass_time(1)

            assert ["a", "a", "b", "b"] == [name[0] for name in found.going()]
            assert 1 == found.metric("voluntary_disruption_decisions_total")
            by_pool = "voluntary_disruption_decisions_by_nodepool_total"
            assert 1 == found.metric(by_pool, nodepool="a")
            assert 1 == found.metric(by_pool, nodepool="b")

    @pytest.mark.case("DIS-134")
    @in_virtual_time
    async def test_a_drift_that_runs_leaves_nothing_for_emptiness(self) -> None:
        drifted = machine("d", conditions=[true("Drifted")], without=["Consolidatable"])
        async with disrupting(pool(budget="1"), drifted, running("a", "d", cpu="3")) as found:
            await found.run_pass()
            await found.launch()
            await found.put(machine("n1"))
            await found.run_pass()
            await found.pass_time(1)

            assert ["d"] == found.tainted()
            assert [] == found.going()

    @pytest.mark.case("DIS-232")
    @pytest.mark.parametrize(
        "size",
        [
            pytest.param(lambda n: "3", id="like pods"),
            pytest.param(lambda n: f"{3500 - n}m", id="the largest move first"),
            pytest.param(lambda n: f"{2600 + 90 * n}m", id="the smallest move first"),
        ],
    )
    def test_so_many_drifted_nodes_are_replaced_at_a_time(self, size: Callable[[int], str]) -> None:
        async def scene() -> None:
            drifted = [machine(f"n{n}", conditions=[true("Drifted")]) for n in range(10)]
            pods = [running(f"p{n}", f"n{n}", cpu=size(n)) for n in range(10)]
            async with disrupting(pool(budget="30%"), *drifted, *pods) as found:
                again = []
                for _ in range(6):
                    again.append(await found.run_pass())
                    await found.launch()

                assert ["n0", "n1", "n2"] == found.tainted()
                assert 3 == len(found.replacements)
                assert [] == found.going()
                assert [0.0, 0.0, 0.0, 10.0, 10.0, 10.0] == again

                await found.bring_up(found.replacements[0])
                await found.pass_time(2)

                assert 1 == len(found.going())

        run_virtual(scene())

    @in_virtual_time
    async def test_drifted_nodes_wait_for_a_replacement_that_has_room_for_them_too(self) -> None:
        drifted = [machine(f"n{n}", conditions=[true("Drifted")]) for n in range(3)]
        pods = [running(f"p{n}", f"n{n}", cpu="1500m") for n in range(3)]
        daemons = [running(f"d{n}", f"n{n}", cpu="2", owner="DaemonSet") for n in range(3)]
        async with disrupting(pool(budget="100%"), *drifted, *pods, *daemons) as found:
            await found.run_pass()
            await found.launch()
            await found.run_pass()

            assert ["n0"] == found.tainted()
            (coming,) = found.replacements

            await found.bring_up(coming)
            await found.run_pass()

            assert ["n0", "n1"] == found.tainted()
            assert [coming.metadata.name] == [each.metadata.name for each in found.replacements]


class TestBudgetsThatAllowNothing:
    @pytest.mark.case("DIS-136")
    @in_virtual_time
    async def test_the_pool_is_told_with_the_reason(self) -> None:
        async with disrupting(pool(budget="0"), *empty(2)) as found:
            await found.run_pass()

            assert ("NodePool", "np") in found.heard("DisruptionBlocked")
            told = [e for e in found.bench.events.heard if e.reason == "DisruptionBlocked"]
            (about_pool, *_) = [e for e in told if "Empty" in e.message]
            assert "Normal" == about_pool.type
            assert 60.0 == about_pool.dedupe_seconds

    @pytest.mark.case("DIS-131")
    @in_virtual_time
    async def test_a_budget_that_cannot_be_read_allows_nothing_and_is_complained_about(
        self,
    ) -> None:
        async with disrupting(pool(), *empty(2)) as found:
            broken = Broken(found)
            await broken.write({"nodes": "100%", "schedule": "never", "duration": "1h"})
            await found.run_pass()
            await found.run_pass()

            assert [] == found.tainted()
            (line,) = found.lines("invalid budget")
            assert "np" == line["NodePool"]["name"]
            assert line["error"].startswith("spec.disruption.budgets[0]")

    @pytest.mark.case("DIS-211")
    @in_virtual_time
    async def test_nothing_is_remembered_of_a_pass_that_a_budget_stopped(self) -> None:
        async with disrupting(pool(budget="0"), *empty(1)) as found:
            await found.run_pass()
            calls = len(found.bench.cloud.calls_of("instance_types"))
            await found.run_pass()

            assert calls < len(found.bench.cloud.calls_of("instance_types"))


class TestBudgetsThatAllowSome:
    @in_virtual_time
    async def test_a_search_in_vain_is_not_repeated_while_budgets_stay_as_they_are(self) -> None:
        full = [(machine(f"n{n}"), running(f"p{n}", f"n{n}", cpu="3500m")) for n in range(5)]
        objects = [each for pair in full for each in pair]
        async with disrupting(pool(budget="50%"), *objects) as found:
            searches = []
            for status in ("True", "True", "False", "False", "True"):
                await found.change("Node", "n4", _ready(status), subresource="status")
                await found.bench.settle()
                await found.run_pass()
                searches.append(len(found.bench.cloud.calls_of("instance_types")))

            assert [] == found.tainted()
            assert 0 < searches[0] == searches[1] < searches[2] == searches[3] < searches[4]


def _ready(status: str) -> JsonObject:
    return {"status": {"conditions": [{"type": "Ready", "status": status}]}}


class TestGauges:
    @pytest.mark.case("DIS-128")
    @in_virtual_time
    async def test_every_reason_has_its_own_allowance(self) -> None:
        budgets = [
            {"nodes": "10"},
            {"nodes": "4", "reasons": ["Empty"]},
            {"nodes": "5", "reasons": ["Drifted"]},
        ]
        async with disrupting(pool(disruption={"budgets": budgets}), *empty(1)) as found:
            await found.run_pass()

            allowed = {
                reason: found.metric("nodepools_allowed_disruptions", nodepool="np", reason=reason)
                for reason in ("empty", "drifted", "underutilized", "unhealthy")
            }
            assert {"empty": 4, "drifted": 5, "underutilized": 10, "unhealthy": 10} == allowed

    @in_virtual_time
    async def test_a_pool_that_is_gone_has_no_gauges(self) -> None:
        async with disrupting(pool("old"), pool("np")) as found:
            await found.run_pass()
            assert 0 == found.metric("nodepools_allowed_disruptions", nodepool="old")
            await found.bench.client.delete("karpenter.sh/v1", "NodePool", None, "old")
            await found.bench.settle()
            await found.run_pass()

            registry = found.world.metrics.registry
            old = {"nodepool": "old", "reason": "empty"}
            assert None is registry.get_sample_value("karpenter_nodepools_allowed_disruptions", old)


class Broken:
    """Writes what admission would refuse, as an older API server has let it pass."""

    def __init__(self, found: Disrupting) -> None:
        self._found = found

    async def write(self, budget: JsonObject) -> None:
        mirror = self._found.world.mirror(NodePool)
        known = mirror.get("np")
        assert known is not None
        disruption = replace(known.spec.disruption, budgets=(Budget(**budget),))
        version = str(int(known.metadata.resource_version) + 1000)
        mirror.put(
            replace(
                known,
                metadata=replace(known.metadata, resource_version=version),
                spec=replace(known.spec, disruption=disruption),
            )
        )
