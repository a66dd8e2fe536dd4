"""What consolidation decides is looked at again after a while, before anything is touched."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from helpers.autoscaler import JsonObject
from helpers.clusters import in_virtual_time
from karpenter.clock import run_virtual
from karpenter.controllers.context import Loop
from karpenter.controllers.disruption.planner import DisruptionPass
from karpenter.disruption.commands import Finding
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    disrupting,
    machine,
    pdb,
    pool,
    running,
    true,
)

Meanwhile = Callable[[Disrupting], Awaitable[None]]
PROTECTED = {labels.DO_NOT_DISRUPT: "true"}
SMALL = (pool(), machine("n1"), running("a", "n1"))


async def looked(found: Disrupting, meanwhile: Meanwhile) -> None:
    """One pass, with something happening ten seconds into the second look's wait."""
    task = asyncio.create_task(found.run_pass())
    await found.pass_time(10)
    assert [] == found.tainted()
    await meanwhile(found)
    await task
    await found.pass_time(1)


def failed(found: Disrupting, kind: str) -> float:
    return found.metric("voluntary_disruption_failed_validations_total", consolidation_type=kind)


class TestEmptiness:
    @pytest.mark.case("DIS-149")
    @in_virtual_time
    async def test_an_empty_node_stays_for_fifteen_seconds(self) -> None:
        async with disrupting(pool(), machine("n1")) as found:
            task = asyncio.create_task(found.run_pass())
            await found.pass_time(14.5)
            before = found.tainted()
            await found.pass_time(1)

            assert [] == before
            assert ["n1"] == found.going()
            await task

    @pytest.mark.case("DIS-150")
    @in_virtual_time
    async def test_a_node_that_gets_a_pod_meanwhile_stays_and_the_other_goes(self) -> None:
        async def arrive(found: Disrupting) -> None:
            await found.put(running("a", "n1"))

        async with disrupting(pool(), machine("n1"), machine("n2")) as found:
            await looked(found, arrive)

            assert ["n2"] == found.going()
            assert 1 == failed(found, "empty")

    @pytest.mark.case("DIS-151")
    @in_virtual_time
    async def test_a_node_that_pods_are_expected_on_meanwhile_stays(self) -> None:
        async def nominate(found: Disrupting) -> None:
            later = found.clock.now().replace(year=2031)
            found.world.state.nominate("n1", later)

        async with disrupting(pool(), machine("n1")) as found:
            await looked(found, nominate)

            assert [] == found.tainted()
            assert 1 == failed(found, "empty")

    @pytest.mark.case("DIS-155")
    @in_virtual_time
    async def test_a_budget_that_closes_meanwhile_keeps_empty_nodes(self) -> None:
        async def close(found: Disrupting) -> None:
            patch: JsonObject = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
            await found.change("NodePool", "np", patch)

        async with disrupting(pool(), machine("n1"), machine("n2")) as found:
            await looked(found, close)

            assert [] == found.tainted()
            assert 2 == failed(found, "empty")


async def _protected_pod(found: Disrupting) -> None:
    await found.put(running("b", "n1", annotations=PROTECTED))


async def _held_pod(found: Disrupting) -> None:
    await found.put(pdb(app="held"), running("b", "n1", app="held"))


async def _large_pod(found: Disrupting) -> None:
    await found.put(running("b", "n1", cpu="2"))


async def _closed_budget(found: Disrupting) -> None:
    patch: JsonObject = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
    await found.change("NodePool", "np", patch)


async def _deleted(found: Disrupting) -> None:
    await found.bench.client.delete("karpenter.sh/v1", "NodeClaim", None, "n1-claim")


class TestConsolidation:
    @pytest.mark.parametrize(
        ("meanwhile", "why", "lost"),
        [
            pytest.param(_protected_pod, "churn", 1, id="DIS-152 a protected pod has come"),
            pytest.param(_held_pod, "churn", 1, id="DIS-153 a pod with a closed budget has come"),
            pytest.param(_large_pod, "scheduling", 0, id="DIS-154 only larger types would do now"),
            pytest.param(
                _closed_budget, "budget", 1, id="DIS-155 the budget of the pool has closed"
            ),
            pytest.param(_deleted, "churn", 1, id="somebody else has deleted the machine"),
        ],
    )
    def test_a_replacement_is_abandoned_when(
        self, meanwhile: Meanwhile, why: str, lost: float
    ) -> None:
        async def scene() -> None:
            async with disrupting(*SMALL) as found:
                await looked(found, meanwhile)

                assert [] == found.replacements
                assert [] == found.tainted()
                assert lost == failed(found, "single")
                told = {("Node", "n1"), ("NodeClaim", "n1-claim")}
                assert told == set(found.heard("ConsolidationRejected"))
                assert all(
                    f", reason: {why} (" in each for each in found.messages("ConsolidationRejected")
                )
                assert all("$0.30" in each for each in found.messages("ConsolidationRejected"))

        run_virtual(scene())

    @pytest.mark.case("DIS-156")
    @in_virtual_time
    async def test_single_node_is_tried_when_multi_node_no_longer_holds(self) -> None:
        async def protect(found: Disrupting) -> None:
            patch = {"metadata": {"annotations": PROTECTED}}
            await found.change("Pod", "b", patch)

        # Together they fit on a small machine; alone, the first still does
        two = (machine("n1"), machine("n2"), running("a", "n1", cpu="900m"))
        async with disrupting(pool(), *two, running("b", "n2", cpu="900m")) as found:
            await looked(found, protect)

            assert 1 == failed(found, "multi")
            assert [] == found.heard("ConsolidationRejected")
            assert ["n1"] == found.tainted()
            facts = {"reason": "underutilized", "consolidation_type": "single"}
            assert 1 == found.metric("voluntary_disruption_decisions_total", **facts)

    @in_virtual_time
    async def test_others_go_on_while_a_decision_waits_to_be_checked(self) -> None:
        class Ticking(Loop):
            name = "ticking"
            ticks = 0

            async def step(self) -> float:
                type(self).ticks += 1
                return 1.0

        async with disrupting(*SMALL) as found:
            clockwork = asyncio.create_task(Ticking(found.world).run())
            await found.run_pass()
            clockwork.cancel()

            assert 15 <= Ticking.ticks

    @in_virtual_time
    async def test_users_are_told_what_could_be_saved(self) -> None:
        async with disrupting(*SMALL) as found:
            await found.run_pass()

            told = {("Node", "n1"), ("NodeClaim", "n1-claim")}
            assert told == set(found.heard("ConsolidationCandidate"))
            assert all("$0.30" in each for each in found.messages("ConsolidationCandidate"))


class TestLookingAgainAtTheLastMoment:
    @pytest.mark.parametrize("is_daemon", [False, True], ids=["a pod", "a daemon"])
    def test_a_pod_that_came_while_drift_was_thought_about_keeps_the_node(
        self, *, is_daemon: bool
    ) -> None:
        async def scene() -> None:
            drifted = machine("n1", conditions=[true("Drifted")])
            async with disrupting(pool(), drifted, running("a", "n1")) as found:
                planner = found.loop._planner
                find = planner.find

                async def slow(disruption_pass: DisruptionPass, method: str) -> Finding:
                    finding = await find(disruption_pass, method)
                    if finding.commands:
                        owner = "DaemonSet" if is_daemon else "ReplicaSet"
                        await found.put(running("late", "n1", owner=owner))
                    return finding

                planner.find = slow  # type: ignore[method-assign]
                await found.run_pass()

                assert ([] if not is_daemon else ["n1"]) == found.tainted()
                assert is_daemon is not bool(found.lines("abandoned command"))

        run_virtual(scene())
