"""Node repair as it used to be: by force, without budgets, unless too many nodes fail at once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from helpers.autoscaler import Bench, FakeCloud, bench, gates
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.provisioning import FACTS
from karpenter.clock import run_virtual
from karpenter.cloud.provider import REBOOT_NODE, RepairPolicy
from karpenter.controllers.controllers import disruption_controllers
from karpenter.controllers.disruption.legacy_health import LegacyHealth
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.model import labels
from karpenter.settings import Settings
from unit.controllers.disruption.disruption_bench import bad, later, machine, pool

THIRTY = RepairPolicy("BadNode", "False", timedelta(minutes=30))
SIXTY = RepairPolicy("WorseNode", "False", timedelta(minutes=60))
REBOOT = RepairPolicy("BadKernel", "True", timedelta(0), reason_regex=".", action=REBOOT_NODE)


class Health:
    def __init__(self, bench_: Bench) -> None:
        self.bench = bench_
        self.controller = LegacyHealth(bench_.world)

    async def reconcile(self, name: str = "n1") -> float | None:
        found: float | None = await self.bench.reconcile(self.controller, name)
        return found

    def going(self) -> bool:
        return self.bench.claim("n1-claim").metadata.deletion_timestamp is not None

    @property
    def deadline(self) -> str:
        annotations = self.bench.claim("n1-claim").metadata.annotations
        return annotations.get(labels.TERMINATION_TIMESTAMP, "")


@asynccontextmanager
async def health(
    *machines: Any, policies: Sequence[RepairPolicy] = (THIRTY, SIXTY)
) -> AsyncIterator[Health]:
    cloud = FakeCloud(facts=FACTS, types=TYPES, repair_policies=tuple(policies))
    async with bench(cloud=cloud) as at_work:
        await at_work.put(pool())
        for each in machines:
            await at_work.put(*each)
        yield Health(at_work)


def ill(*conditions: Any, **options: Any) -> Any:
    return machine("n1", node_conditions=list(conditions) or [bad()], **options)


def others(count: int, ill: int = 0, **options: Any) -> list[Any]:
    return [
        machine(f"o{n}", node_conditions=[bad()] if n < ill else [], **options)
        for n in range(count)
    ]


class TestRepairing:
    @pytest.mark.case("DIS-266")
    @in_virtual_time
    async def test_a_node_is_given_its_toleration(self) -> None:
        async with health(ill(), *others(9)) as found:
            await asyncio.sleep(1200)
            again = await found.reconcile()

            assert not found.going()
            assert again == pytest.approx(600, abs=1)

            await asyncio.sleep(601)
            await found.reconcile()

            assert found.going()
            metrics = found.bench.world.metrics
            facts = {
                "reason": "unhealthy",
                "nodepool": "np",
                "capacity_type": "on-demand",
                "consolidation_policy": "",
                "termination_mode": "graceful",
            }
            assert 1 == metrics.nodeclaims_disrupted_total.labels(**facts)._value.get()
            assert "deleting unhealthy node" in [line["message"] for line in found.bench.lines]

    @pytest.mark.case("DIS-267")
    @pytest.mark.parametrize(
        "condition",
        [
            pytest.param(bad("OtherNode"), id="another type"),
            pytest.param(bad("BadNode", "True"), id="another status"),
        ],
    )
    def test_a_condition_without_a_policy_is_nobodys_business(self, condition: Any) -> None:
        async def scene() -> None:
            async with health(ill(condition), *others(9)) as found:
                await asyncio.sleep(10_000)

                assert None is await found.reconcile()
                assert not found.going()

        run_virtual(scene())

    @pytest.mark.parametrize(
        ("machines", "is_blocked"),
        [
            pytest.param(others(9, ill=2), True, id="DIS-268 three of ten"),
            pytest.param(others(2), False, id="DIS-269 one of three"),
        ],
    )
    def test_too_many_at_once(self, machines: list[Any], *, is_blocked: bool) -> None:
        async def scene() -> None:
            async with health(ill(), *machines) as found:
                await asyncio.sleep(1801)
                again = await found.reconcile()

                assert is_blocked is not found.going()
                assert (300.0 if is_blocked else None) == again
                assert is_blocked is ("NodeRepairBlocked" in found.bench.events.reasons)

        run_virtual(scene())

    @pytest.mark.case("DIS-270")
    @in_virtual_time
    async def test_a_claim_of_no_pool_is_judged_by_the_whole_cluster(self) -> None:
        alone = ill(node_labels={labels.NODEPOOL: None})
        async with health(alone, *others(9, ill=2)) as found:
            await asyncio.sleep(1801)
            again = await found.reconcile()

            assert 300.0 == again
            assert not found.going()

    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            pytest.param("", later(1801), id="the deadline is now"),
            pytest.param(later(9000), later(1801), id="DIS-271 one in the future is overwritten"),
            pytest.param(later(100), later(100), id="DIS-272 one in the past is kept"),
            pytest.param("soon", later(1801), id="DIS-271 one that cannot be read is overwritten"),
        ],
    )
    def test_the_deadline(self, written: str, expected: str) -> None:
        async def scene() -> None:
            held = {labels.TERMINATION_TIMESTAMP: written} if written else {}
            async with health(ill(claim_annotations=held), *others(9)) as found:
                await asyncio.sleep(1801 - found.bench.clock.monotonic())
                await found.reconcile()

                assert found.going()
                assert expected == found.deadline

        run_virtual(scene())

    @pytest.mark.case("DIS-273")
    @in_virtual_time
    async def test_the_condition_that_is_due_first_counts(self) -> None:
        both = (bad("BadNode", since=0), bad("WorseNode", since=0))
        async with health(ill(*both), *others(9)) as found:
            await asyncio.sleep(60)
            again = await found.reconcile()

            assert again == pytest.approx(1740, abs=1)

    @pytest.mark.case("V15-D22")
    @in_virtual_time
    async def test_restarts_are_not_for_the_old_way(self) -> None:
        broken = ill(bad("BadKernel", "True"))
        async with health(broken, *others(9), policies=(THIRTY, REBOOT)) as found:
            await asyncio.sleep(3600)

            assert None is await found.reconcile()
            assert not found.going()


class TestWhoRuns:
    @pytest.mark.parametrize(
        ("is_on", "is_legacy", "policies", "runs"),
        [
            pytest.param(True, True, (THIRTY,), True, id="V15-D22 with gate, flag and policies"),
            pytest.param(True, False, (THIRTY,), False, id="not without the flag"),
            pytest.param(False, True, (THIRTY,), False, id="not without the gate"),
            pytest.param(True, True, (), False, id="not without policies"),
        ],
    )
    def test_the_old_controller(
        self, policies: tuple[RepairPolicy, ...], *, is_on: bool, is_legacy: bool, runs: bool
    ) -> None:
        async def scene() -> None:
            settings = Settings(feature_gates=gates(NodeRepair=is_on), legacy_node_repair=is_legacy)
            cloud = FakeCloud(facts=FACTS, types=TYPES, repair_policies=policies)
            async with bench(cloud=cloud, settings=settings) as at_work:
                world = at_work.world
                made = disruption_controllers(world, PlannedPods(), EvictionQueue(world))
                names = [each.name for each in made]

                assert runs is ("node.health" in names)
                assert "nodeclaim.reboot" in names

        run_virtual(scene())
