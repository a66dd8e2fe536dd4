"""Users are told, on the objects they look at, why a machine is not disrupted."""

from typing import Any

import pytest

from helpers.autoscaler import FakeCloud
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.manifests import at, condition
from helpers.provisioning import FACTS
from karpenter.clock import run_virtual
from karpenter.cloud.provider import CloudError
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import (
    disrupting,
    machine,
    pdb,
    pool,
    running,
    true,
)

BOTH = [("Node", "n1"), ("NodeClaim", "n1-claim")]
DND = labels.DO_NOT_DISRUPT
PROTECTED = {DND: "true"}


def _claimless() -> list[Any]:
    return [pool(), machine("n1")[1]]


def _nodeless() -> list[Any]:
    return [pool(), machine("n1")[0]]


def _with(**options: Any) -> list[Any]:
    return [pool(), machine("n1", **options)]


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        pytest.param(_claimless(), [], id="DIS-97 a node without a claim"),
        pytest.param(_nodeless(), BOTH[1:], id="DIS-98 a claim without a node"),
        pytest.param(
            _with(node_labels={labels.INITIALIZED: None}), BOTH, id="DIS-99 not initialized"
        ),
        pytest.param(_with(annotations=PROTECTED), BOTH, id="DIS-102 a node that is protected"),
        pytest.param(
            _with(node_labels={labels.NODEPOOL: None}), BOTH, id="DIS-104 a node of no pool"
        ),
        pytest.param([machine("n1")], BOTH, id="DIS-105 a node whose pool is gone"),
        pytest.param(
            [*_with(), running("a", "n1", annotations=PROTECTED)],
            BOTH,
            id="DIS-107 a pod that is protected",
        ),
        pytest.param(
            [*_with(), running("a", "n1", owner="DaemonSet", annotations=PROTECTED)],
            BOTH,
            id="DIS-110 a daemon that is protected",
        ),
        pytest.param(
            [*_with(), running("a", "n1", annotations={DND: "1h"})],
            BOTH,
            id="DIS-114 a protected pod that has not started",
        ),
        pytest.param(
            [*_with(), pdb(), running("a", "n1")],
            BOTH,
            id="DIS-115 a budget of pods that is closed",
        ),
        pytest.param(
            [*_with(), pdb("p1", allowed=5), pdb("p2", allowed=5), running("a", "n1")],
            BOTH,
            id="DIS-117 two budgets for one pod",
        ),
    ],
)
def test_a_machine_that_stays(objects: list[Any], told: list[tuple[str, str]]) -> None:
    async def scene() -> None:
        async with disrupting(*objects) as found:
            again = await found.run_pass()

            assert 10.0 == again
            assert [] == found.tainted()
            assert told == found.heard("DisruptionBlocked")

    run_virtual(scene())


class TestMore:
    @pytest.mark.case("DIS-101")
    @in_virtual_time
    async def test_a_nominated_node_stays_for_its_window(self) -> None:
        async with disrupting(pool(), machine("n1")) as found:
            found.world.state.nominate("n1", found.clock.now().replace(second=20))
            await found.run_pass()

            assert BOTH == found.heard("DisruptionBlocked")

            await found.pass_time(20)
            await found.run_pass()

            assert ["n1"] == found.tainted()

    @pytest.mark.case("DIS-103")
    @pytest.mark.parametrize("value", ["false", "30m"])
    def test_other_values_on_a_node_protect_nothing(self, value: str) -> None:
        async def scene() -> None:
            async with disrupting(pool(), machine("n1", annotations={DND: value})) as found:
                await found.run_pass()

                assert ["n1"] == found.tainted()

        run_virtual(scene())

    @pytest.mark.case("DIS-106")
    @in_virtual_time
    async def test_a_pool_whose_types_cannot_be_listed_keeps_its_nodes(self) -> None:
        cloud = FakeCloud(facts=FACTS, types=TYPES)
        cloud.failures["instance_types"] = [CloudError("busy")] * 10
        drifted = machine("n1", conditions=[true("Drifted")])
        async with disrupting(pool(), drifted, cloud=cloud) as found:
            await found.run_pass()
            await found.run_pass()

            assert [] == found.tainted()
            assert BOTH[0] in found.heard("DisruptionBlocked")
            (line,) = found.lines("listing instance types")
            assert "busy" == line["error"]

    @in_virtual_time
    async def test_types_that_cannot_be_listed_before_the_class_is_ready_are_no_error(self) -> None:
        cloud = FakeCloud(facts=FACTS, types=TYPES)
        cloud.failures["instance_types"] = [CloudError("no subnets found")] * 10
        unready = {"status": {"conditions": [condition("NodeClassReady", "False")]}}
        async with disrupting({**pool(), **unready}, machine("n1"), cloud=cloud) as found:
            await found.run_pass()

            assert [] == found.lines("listing instance types")

    @pytest.mark.case("DIS-108")
    @in_virtual_time
    async def test_drift_takes_a_node_whose_deadline_ends_all_protection(self) -> None:
        drifted = machine("n1", conditions=[true("Drifted")], period="1h")
        protected = running("a", "n1", annotations=PROTECTED)
        async with disrupting(pool(), drifted, protected) as found:
            await found.run_pass()
            await found.pass_time(1)

            assert ["n1"] == found.going()
            assert [] == found.replacements
            assert "Drifted" == found.reason("n1")

    @pytest.mark.case("DIS-113")
    @in_virtual_time
    async def test_a_protection_that_cannot_be_read_is_pointed_out_once(self) -> None:
        odd = running("a", "n1", annotations={DND: "banana"})
        async with disrupting(
            pool(disruption={"consolidateAfter": "Never"}), machine("n1")
        ) as found:
            await found.put(odd)
            await found.run_pass()
            await found.change("NodePool", "np", {"spec": {"weight": 2}})
            await found.run_pass()

            assert [("Pod", "a")] == found.heard("InvalidDoNotDisruptAnnotation")
            (event,) = [e for e in found.bench.events.heard if e.reason.startswith("Invalid")]
            assert "Warning" == event.type

    @pytest.mark.case("DIS-112")
    @in_virtual_time
    async def test_a_protection_for_some_time_is_told_of_with_its_end(self) -> None:
        held = running("a", "n1", annotations={DND: "2h"}, started=at(0))
        async with disrupting(pool(), machine("n1"), held) as found:
            await found.pass_time(7100)
            await found.run_pass()

            assert [("Pod", "a")] == found.heard("DoNotDisruptUntil")
            assert [] == found.tainted()

            await found.pass_time(100)
            await found.run_pass()

            assert [("Pod", "a")] == found.heard("DoNotDisruptGracePeriodElapsed")
            assert ["n1"] == found.tainted()

    @pytest.mark.case("DIS-120")
    @in_virtual_time
    async def test_a_node_in_a_command_is_not_spoken_of(self) -> None:
        async with disrupting(pool(), machine("n1"), running("a", "n1")) as found:
            await found.run_pass()
            await found.launch()
            found.bench.events.heard.clear()
            await found.put(machine("n2"))
            await found.run_pass()

            assert ("Node", "n1") not in found.heard("DisruptionBlocked")
            assert 2 == found.metric("voluntary_disruption_decisions_total")


class TestUnconsolidatable:
    @pytest.mark.parametrize(
        ("objects", "word"),
        [
            pytest.param(
                [pool(disruption={"consolidateAfter": "Never"}), machine("n1")],
                "has consolidation disabled",
                id="DIS-161 a pool that never consolidates",
            ),
            pytest.param(
                [pool(), machine("n1", node_labels={labels.ZONE: None})],
                labels.ZONE,
                id="DIS-185 a node without a zone",
            ),
            pytest.param(
                [pool(disruption={"consolidationPolicy": "WhenEmpty"}), machine("n1")],
                "but node is not empty",
                id="DIS-186 a pool that consolidates only empty nodes",
            ),
            pytest.param(
                [pool(), machine("n1", kind="s1")],
                "not below",
                id="DIS-178 nothing that fits is cheaper",
            ),
        ],
    )
    def test_why(self, objects: list[Any], word: str) -> None:
        async def scene() -> None:
            async with disrupting(*objects, running("a", "n1")) as found:
                await found.run_pass()

                assert BOTH == [e for e in BOTH if e in found.heard("Unconsolidatable")]
                assert word in found.messages("Unconsolidatable")[0]
                told = [e for e in found.bench.events.heard if e.reason == "Unconsolidatable"]
                assert {("Normal", 900.0)} == {(e.type, e.dedupe_seconds) for e in told}

        run_virtual(scene())

    @pytest.mark.case("DIS-162")
    @in_virtual_time
    async def test_a_node_that_has_not_come_to_rest_is_not_spoken_of(self) -> None:
        restless = machine("n1", without=["Consolidatable"])
        waiting = pool(disruption={"consolidateAfter": "1h"})
        async with disrupting(waiting, restless, running("a", "n1")) as found:
            await found.run_pass()

            assert [] == found.heard("Unconsolidatable")


class TestBalanced:
    @pytest.mark.case("DIS-216")
    @in_virtual_time
    async def test_an_approved_move_is_told_and_counted(self) -> None:
        balanced = pool(disruption={"consolidationPolicy": "Balanced"})
        async with disrupting(balanced, machine("n1", kind="s8"), running("a", "n1")) as found:
            await found.run_pass()

            assert BOTH == found.heard("ConsolidationApproved")
            facts = {"decision": "approved", "nodepool": "np", "policy": "balanced"}
            assert 1 == found.metric("consolidation_moves_total", **facts)

    @pytest.mark.case("DIS-214")
    @in_virtual_time
    async def test_a_rejected_move_is_counted_and_not_told(self) -> None:
        balanced = pool(disruption={"consolidationPolicy": "Balanced"})
        busy = [running(f"b{n}", "n1", cpu="10m") for n in range(30)]
        large = [running(f"l{n}", "n2", cpu="15") for n in range(2)]
        machines = (machine("n1", kind="s1"), machine("n2", kind="s32"))
        async with disrupting(balanced, *machines, *busy, *large) as found:
            await found.run_pass()

            assert [] == found.heard("ConsolidationApproved")
            assert [] == found.tainted()
            facts = {"decision": "rejected", "nodepool": "np"}
            assert 1 <= found.metric("consolidation_moves_total", **facts)
