"""What the loop remembers of a search in vain never keeps a machine that may go by now."""

import asyncio

import pytest

from helpers.autoscaler import JsonObject
from helpers.clusters import in_virtual_time
from karpenter.clock import run_virtual
from karpenter.controllers.disruption.consolidation_state import Changes
from karpenter.disruption.budgets import UNLIMITED
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    disrupting,
    machine,
    pdb,
    pool,
    running,
)

PROTECTED = {labels.DO_NOT_DISRUPT: "true"}


def searches(found: Disrupting) -> float:
    name = "voluntary_disruption_decision_evaluation_duration_seconds"
    return found.metric(name, consolidation_type="single")


def overlay(price: str) -> JsonObject:
    wanted = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["s8"]}
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "bargain"},
        "spec": {"requirements": [wanted], "price": price},
    }


def buffer() -> JsonObject:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"},
        "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 1},
    }


class TestWhatIsNews:
    @in_virtual_time
    async def test_everything_that_may_let_a_machine_go_and_nothing_else(self) -> None:
        held = {"metadata": {"annotations": PROTECTED}}
        old_way = {"metadata": {"annotations": {labels.DO_NOT_EVICT: "true"}}}
        named = {"metadata": {"labels": {"team": "a"}}}
        steps: list[tuple[str, str, JsonObject, str]] = [
            ("Pod", "a", named, ""),
            ("Pod", "a", held, ""),
            ("Pod", "a", old_way, ""),
            ("Node", "n1", named, ""),
            ("Node", "n1", held, ""),
            ("NodeClaim", "n1-claim", named, ""),
            ("NodePool", "np", {"status": {"nodes": 7}}, "status"),
            ("NodePool", "np", {"spec": {"weight": 7}}, ""),
            ("PodDisruptionBudget", "pdb", {"status": {"expectedPods": 9}}, "status"),
            ("PodDisruptionBudget", "pdb", {"spec": {"maxUnavailable": 2}}, ""),
            ("PodDisruptionBudget", "pdb", {"status": {"disruptionsAllowed": 1}}, "status"),
        ]
        async with disrupting(pool(), machine("n1"), running("a", "n1"), pdb()) as found:
            changes = Changes(found.world)
            counts = []
            for kind, name, patch, subresource in steps:
                before = changes.count
                await found.change(kind, name, patch, subresource=subresource)
                counts.append(changes.count - before)
            changes.end()

        assert [0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1] == counts

    @in_virtual_time
    async def test_a_buffer(self) -> None:
        full = (pool(), machine("n1"), running("a", "n1", cpu="3500m"))
        async with disrupting(*full, on=["CapacityBuffer"]) as found:
            made = []
            for objects in ((), (), (buffer(),)):
                for each in objects:
                    await found.put(each)
                await found.bench.settle()
                await found.run_pass()
                made.append(searches(found))

            assert [1, 1, 2] == made

    @in_virtual_time
    async def test_an_overlay_that_makes_a_type_cheap(self) -> None:
        full = (pool(), machine("n1"), running("a", "n1", cpu="3500m"))
        async with disrupting(*full, on=["NodeOverlay"]) as found:
            await found.run_pass()
            before = found.tainted()
            await found.put(overlay("0.05"))
            await found.bench.settle()
            await found.run_pass()

            assert ([], ["n1"]) == (before, found.tainted())

    @pytest.mark.parametrize(
        "name", ["pdb", "second"], ids=["the only budget", "one of two that select the same pod"]
    )
    def test_a_disruption_budget_that_is_deleted(self, name: str) -> None:
        async def scene() -> None:
            budgets = [pdb(name)] if name == "pdb" else [pdb(allowed=1), pdb(name, allowed=1)]
            async with disrupting(pool(), machine("n1"), running("a", "n1"), *budgets) as found:
                await found.run_pass()
                before = found.tainted()
                await found.bench.client.delete("policy/v1", "PodDisruptionBudget", "default", name)
                await found.bench.settle()
                await found.run_pass()

                assert ([], ["n1"]) == (before, found.tainted())

        run_virtual(scene())

    @in_virtual_time
    async def test_a_pod_that_is_protected_no_longer(self) -> None:
        held = running("a", "n1", annotations=PROTECTED)
        async with disrupting(pool(), machine("n1"), held) as found:
            await found.run_pass()
            before = found.tainted()
            await found.change(
                "Pod", "a", {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: None}}}
            )
            await found.bench.settle()
            await found.run_pass()

            assert ([], ["n1"]) == (before, found.tainted())

    @pytest.mark.case("DIS-144")
    @in_virtual_time
    async def test_a_machine_whose_command_was_given_up(self) -> None:
        async with disrupting(pool(), machine("n1"), running("a", "n1")) as found:
            await found.run_pass()
            await found.launch()
            await found.pass_time(400)
            await found.run_pass()
            in_vain = searches(found)
            await found.run_pass()
            remembered = searches(found)
            await found.pass_time(210)
            given_up = found.tainted()
            await found.run_pass()

            assert in_vain == remembered
            assert [] == given_up
            assert remembered < searches(found)


class TestBudgets:
    @pytest.mark.case("DIS-129")
    @in_virtual_time
    async def test_a_window_that_was_open_for_a_moment_only(self) -> None:
        window = {"nodes": "0", "schedule": "1 * * * *", "duration": "1m"}
        objects = (
            pool("a"),
            machine("e", in_pool="a"),
            pool("b", disruption={"budgets": [window]}),
            machine("n1", in_pool="b"),
            running("p", "n1"),
        )
        async with disrupting(*objects) as found:
            await found.pass_time(50)
            task = asyncio.create_task(found.run_pass())
            await found.pass_time(5)
            await found.put(running("late", "e", annotations=PROTECTED))
            await task  # the window has opened meanwhile
            during = found.tainted()
            await found.pass_time(60)
            await found.run_pass()

            assert ([], ["n1"]) == (during, found.tainted())

    @pytest.mark.case("DIS-129")
    @in_virtual_time
    async def test_a_window_that_opens_is_shown_although_nothing_is_searched(self) -> None:
        window = {"nodes": "0", "schedule": "1 * * * *", "duration": "1m"}
        at_rest = (machine("n1", kind="s1"), running("a", "n1"))
        async with disrupting(pool(disruption={"budgets": [window]}), *at_rest) as found:
            facts = {"nodepool": "np", "reason": "empty"}
            shown = []
            for seconds in (50, 20, 60):
                await found.pass_time(seconds)
                await found.run_pass()
                shown.append(found.metric("nodepools_allowed_disruptions", **facts))

            assert [UNLIMITED, 0, UNLIMITED] == shown
            assert 1 == searches(found)
