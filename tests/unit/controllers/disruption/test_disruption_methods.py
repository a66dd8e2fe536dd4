"""The loop asks its methods in order, remembers what found nothing, and begins what they decide."""

import asyncio

import pytest

from helpers.autoscaler import JsonObject
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.provisioning import waiting_pod
from karpenter.api.nodes import Node
from karpenter.clock import run_virtual
from karpenter.model import labels
from karpenter.model.conditions import to_wire
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    disrupting,
    machine,
    pool,
    running,
    true,
)

DRIFTED = [true("Drifted")]
# As small as can be, and in use: nothing to do
AT_REST = (pool(), machine("n1", kind="s1"), running("a", "n1"))


def searches(found: Disrupting) -> float:
    name = "voluntary_disruption_decision_evaluation_duration_seconds"
    return found.metric(name, consolidation_type="single")


class TestRemembering:
    @pytest.mark.case("DIS-210")
    @in_virtual_time
    async def test_nothing_is_searched_again_while_nothing_happens(self) -> None:
        async with disrupting(*AT_REST) as found:
            again = await found.run_pass()
            await found.pass_time(100)
            await found.run_pass()

            assert 10.0 == again
            assert 1 == searches(found)

    @pytest.mark.case("DIS-210")
    @in_virtual_time
    async def test_but_after_five_minutes_it_is(self) -> None:
        async with disrupting(*AT_REST) as found:
            await found.run_pass()
            await found.pass_time(301)
            await found.run_pass()

            assert 2 == searches(found)

    @pytest.mark.case("DIS-212")
    @in_virtual_time
    async def test_a_pool_that_is_edited_is_looked_at_anew(self) -> None:
        async with disrupting(*AT_REST) as found:
            await found.run_pass()
            await found.change("NodePool", "np", {"spec": {"limits": {"cpu": "100"}}})
            await found.run_pass()

            assert 2 == searches(found)

    @pytest.mark.parametrize("event", ["pod gone", "pod bound", "node joins", "comes to rest"])
    def test_what_happens_to_machines_counts(self, event: str) -> None:
        async def scene() -> None:
            restless = machine("n2", kind="s1", without=["Consolidatable"])
            async with disrupting(*AT_REST, restless, running("b", "n2")) as found:
                await found.run_pass()
                match event:
                    case "pod gone":
                        client = found.bench.client
                        await client.delete("v1", "Pod", "default", "b", grace_period=0)
                    case "pod bound":
                        await found.put(running("c", "n1", cpu="1m"))
                    case "node joins":
                        await found.put(machine("n3", kind="s1"), running("d", "n3"))
                    case _:
                        held = found.bench.claim("n2-claim").status.conditions
                        at_rest: JsonObject = true("Consolidatable")
                        body = {"status": {"conditions": [*to_wire(held), at_rest]}}
                        await found.change("NodeClaim", "n2-claim", body, subresource="status")
                await found.bench.settle()
                await found.run_pass()

                assert 2 == searches(found)

        run_virtual(scene())

    @in_virtual_time
    async def test_a_pod_counts_when_it_is_told_to_go_and_when_it_is_gone(self) -> None:
        async with disrupting(*AT_REST, running("b", "n1", cpu="1m")) as found:
            await found.run_pass()
            await found.bench.client.delete("v1", "Pod", "default", "b", grace_period=30)
            await found.bench.settle()
            await found.run_pass()
            await found.run_pass()
            first = searches(found)
            await found.bench.client.delete("v1", "Pod", "default", "b", grace_period=0)
            await found.bench.settle()
            await found.run_pass()

            assert (2, 3) == (first, searches(found))

    @in_virtual_time
    async def test_heartbeats_do_not_count(self) -> None:
        async with disrupting(*AT_REST) as found:
            await found.run_pass()
            body = {"metadata": {"annotations": {"heartbeat": "1"}}}
            await found.change("Node", "n1", body)
            await found.run_pass()

            assert 1 == searches(found)


class TestSyncing:
    @pytest.mark.case("DIS-282")
    @in_virtual_time
    async def test_nothing_is_decided_while_a_claim_has_no_machine(self) -> None:
        fresh = machine("n2")[0]
        del fresh["status"]
        async with disrupting(pool(), machine("n1"), fresh) as found:
            again = await found.run_pass()

            assert 1.0 == again
            assert [] == found.tainted()

    @pytest.mark.case("DIS-283")
    @in_virtual_time
    async def test_nothing_is_decided_before_all_nodes_have_been_seen(self) -> None:
        async with disrupting(pool(), machine("n1")) as found:
            found.world.mirror(Node).synced.clear()
            again = await found.run_pass()

            assert not found.world.is_synced
            assert (1.0, []) == (again, found.tainted())

            found.world.mirror(Node).synced.set()
            await found.run_pass()

            assert ["n1"] == found.tainted()

    @pytest.mark.case("DIS-284")
    @in_virtual_time
    async def test_taints_of_a_starting_machine_count_once_it_is_initialized(self) -> None:
        closed = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        starting = machine(
            "n1",
            taints=[closed],
            node_labels={labels.INITIALIZED: None},
            without=["Initialized", "Consolidatable"],
        )
        async with disrupting(pool(), starting) as found:
            before = found.world.state.snapshot().node("n1")
            body = {"metadata": {"labels": {labels.INITIALIZED: "true"}}}
            await found.change("Node", "n1", body)
            await found.bench.settle()
            after = found.world.state.snapshot().node("n1")

            assert before is not None
            assert after is not None
            assert () == before.taints
            assert ["node.kubernetes.io/not-ready"] == [taint.key for taint in after.taints]


class TestDrift:
    @pytest.mark.case("DIS-221")
    @in_virtual_time
    async def test_a_drifted_node_whose_pods_fit_elsewhere_is_deleted(self) -> None:
        machines = (machine("n1", conditions=DRIFTED), machine("n2", kind="s4"))
        pods = (running("a", "n1"), running("b", "n2"))
        never = pool(disruption={"consolidateAfter": "Never"})
        async with disrupting(never, *machines, *pods) as found:
            await found.run_pass()
            await found.pass_time(1)

            assert ["n1"] == found.going()
            assert [] == found.replacements
            assert 1 == found.metric("nodeclaims_disrupted_total", reason="drifted")
            assert 0 == found.metric("nodeclaims_disrupted_total", consolidation_policy="x")

    @pytest.mark.case("DIS-222")
    @in_virtual_time
    async def test_or_replaced_whatever_that_costs(self) -> None:
        drifted = machine("n1", kind="s4", conditions=DRIFTED)
        only = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["s32"]}
        dear = pool(template={"requirements": [only]})
        async with disrupting(dear, drifted, running("a", "n1")) as found:
            await found.run_pass()

            (replacement,) = found.replacements
            wanted = {e.key: e.values for e in replacement.spec.requirements}
            assert ("s32",) == wanted[labels.INSTANCE_TYPE]
            facts = {"decision": "replace", "reason": "drifted", "consolidation_type": ""}
            assert 1 == found.metric("voluntary_disruption_decisions_total", **facts)
            assert 1 == found.metric("nodeclaims_created_total", reason="drifted")

    @pytest.mark.case("DIS-223")
    @in_virtual_time
    async def test_one_node_by_three_smaller_ones(self) -> None:
        drifted = machine("n1", kind="s16", conditions=DRIFTED)
        pods = [running(f"p{n}", "n1", cpu="3") for n in range(3)]
        only = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["s4"]}
        async with disrupting(pool(template={"requirements": [only]}), drifted, *pods) as found:
            await found.run_pass()

            assert 3 == len(found.replacements)

            await found.bring_up()
            await found.pass_time(2)

            assert ["n1"] == found.going()

    @pytest.mark.case("DIS-225")
    @in_virtual_time
    async def test_the_one_that_drifted_first_one_at_a_pass(self) -> None:
        late, early = true("Drifted", since=50), true("Drifted", since=10)
        machines = (machine("n1", conditions=[late]), machine("n2", conditions=[early]))
        pods = (running("a", "n1", cpu="3"), running("b", "n2", cpu="3500m"))
        async with disrupting(pool(), *machines, *pods) as found:
            await found.pass_time(100)
            await found.run_pass()

            assert ["n2"] == found.tainted()

            await found.launch()
            again = await found.run_pass()

            assert 0.0 == again
            assert ["n1", "n2"] == found.tainted()

    @pytest.mark.case("DIS-226")
    @in_virtual_time
    async def test_one_that_cannot_move_is_told_and_the_next_comes(self) -> None:
        stuck = running("a", "n1", nodeSelector={"nowhere": "true"})
        machines = (machine("n1", conditions=[true("Drifted")]), machine("n2", conditions=DRIFTED))
        async with disrupting(pool(), *machines, stuck, running("b", "n2", cpu="3")) as found:
            await found.run_pass()

            assert ["n2"] == found.tainted()
            assert ("Node", "n1") in found.heard("DisruptionBlocked")

    @pytest.mark.case("DIS-228")
    @in_virtual_time
    async def test_a_pool_that_never_consolidates_drifts_all_the_same(self) -> None:
        never = pool(disruption={"consolidateAfter": "Never"})
        drifted = machine("n1", conditions=DRIFTED, without=["Consolidatable"])
        async with disrupting(never, drifted, running("a", "n1")) as found:
            await found.run_pass()

            assert ["n1"] == found.tainted()

    @pytest.mark.case("DIS-231")
    @in_virtual_time
    async def test_an_empty_node_goes_as_empty_before_it_goes_as_drifted(self) -> None:
        async with disrupting(pool(), machine("n1", conditions=DRIFTED)) as found:
            await found.run_pass()

            assert "Empty" == found.reason("n1")

    @in_virtual_time
    async def test_static_nodes_are_replaced_one_for_one_from_their_template(self) -> None:
        static = pool(replicas=2, disruption={})
        del static["spec"]["disruption"]["consolidateAfter"]
        machines = [machine(f"n{n}", conditions=DRIFTED, without=["Consolidatable"]) for n in "12"]
        async with disrupting(static, *machines, on=["StaticCapacity"]) as found:
            await found.run_pass()

            assert ["n1", "n2"] == found.tainted()
            assert 2 == len(found.replacements)
            assert {"np"} == {c.metadata.labels[labels.NODEPOOL] for c in found.replacements}

            await found.bring_up()
            await found.pass_time(2)

            assert ["n1", "n2"] == found.going()

    @pytest.mark.case("V15-D39")
    @in_virtual_time
    async def test_a_static_pool_at_its_limit_is_told_or_terminates_first(self) -> None:
        static = pool(replicas=1, limits={"nodes": "1"}, disruption={})
        drifted = machine("n1", conditions=DRIFTED, without=["Consolidatable"])
        async with disrupting(static, drifted, on=["StaticCapacity"]) as found:
            await found.run_pass()

            assert [] == found.tainted()
            assert ("Node", "n1") in found.heard("DisruptionBlocked")

        on = ["StaticCapacity", "TerminateFirstDrift"]
        async with disrupting(static, drifted, on=on) as found:
            await found.run_pass()
            await found.pass_time(1)

            assert ["n1"] == found.going()
            facts = {"nodepool": "np", "terminate_first_reason": "static-at-limit"}
            first = "voluntary_disruption_terminate_first_decisions_total"
            assert 1 == found.metric(first, **facts)
            assert 1 == found.metric(
                "voluntary_disruption_decisions_total", decision="terminate-first"
            )


class TestPodsThatWait:
    @pytest.mark.case("DIS-174")
    @in_virtual_time
    async def test_a_pod_that_never_finds_a_place_blocks_nothing(self) -> None:
        hopeless = waiting_pod("hopeless", cpu="1000")
        async with disrupting(pool(), machine("n1"), hopeless) as found:
            await found.run_pass()

            assert ["n1"] == found.tainted()

    @in_virtual_time
    async def test_a_pod_that_waits_is_promised_the_replacement(self) -> None:
        drifted = machine("n1", conditions=DRIFTED)
        pods = (running("a", "n1", cpu="3"), waiting_pod("w", cpu="3500m"))
        async with disrupting(pool(), drifted, *pods, types=TYPES) as found:
            await found.run_pass()

            assert ["n1"] == found.tainted()
            assert ("Pod", "a") in found.heard("Nominated")


class TestSettling:
    @in_virtual_time
    async def test_after_pods_were_moved_the_next_choice_waits_until_they_have_arrived(
        self,
    ) -> None:
        machines = [machine(f"n{n}") for n in range(3)]
        pods = [running(f"p{n}", f"n{n}", cpu=f"{100 * n + 1500}m") for n in range(3)]
        # One may go at a time, and each of the others would have room for its pod
        async with disrupting(pool(budget="1"), *machines, *pods) as found:
            first = await found.run_pass()
            searched = searches(found)
            await found.change("NodePool", "np", {"spec": {"disruption": {"budgets": []}}})
            at_once = await found.run_pass()
            searched_at_once = searches(found)
            await found.pass_time(at_once)
            await found.run_pass()

            assert 0.0 == first
            assert 4.9 < at_once <= 5.0
            assert searched == searched_at_once < searches(found)

    @pytest.mark.parametrize(
        ("late", "reason"),
        [
            pytest.param(machine("late"), "Empty", id="DIS-157 an empty node"),
            pytest.param(
                machine("late", conditions=DRIFTED, without=["Consolidatable"]),
                "Drifted",
                id="DIS-221 a drifted node",
            ),
        ],
    )
    def test_what_moves_no_pods_to_save_money_does_not_wait_for_others(
        self, late: tuple[JsonObject, JsonObject], reason: str
    ) -> None:
        async def scene() -> None:
            machines = [machine(f"n{n}") for n in range(3)]
            pods = [running(f"p{n}", f"n{n}", cpu=f"{100 * n + 1500}m") for n in range(3)]
            # Of those that save most for what they disrupt one may go at a time
            budgets = [{"nodes": "1", "reasons": ["Underutilized"]}]
            async with disrupting(pool(disruption={"budgets": budgets}), *machines, *pods) as found:
                await found.run_pass()
                first = found.tainted()
                await found.put(late)
                await found.bench.settle()
                again = await found.run_pass()

                assert 1 == len(first)
                assert 0.0 == again
                assert reason == found.reason("late")

        run_virtual(scene())

    @pytest.mark.case("DIS-156")
    @in_virtual_time
    async def test_what_no_longer_holds_makes_nobody_wait_for_pods_that_have_arrived(
        self,
    ) -> None:
        machines = [machine(f"n{n}") for n in range(3)]
        pods = [running(f"p{n}", f"n{n}", cpu=f"{100 * n + 1500}m") for n in range(3)]
        budgets = [{"nodes": "1", "reasons": ["Underutilized"]}]
        async with disrupting(pool(disruption={"budgets": budgets}), *machines, *pods) as found:
            await found.run_pass()
            searched = searches(found)
            await found.put(machine("late"))
            await found.bench.settle()
            task = asyncio.create_task(found.run_pass())
            await found.pass_time(10)
            await found.put(running("q", "late", cpu="3500m"))
            again = await task

            assert 10.0 == again
            assert searched < searches(found)
