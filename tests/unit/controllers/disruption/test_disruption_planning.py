"""A pass has its time, ends when nobody waits for it, and lets planning for pods go first."""

import asyncio
import threading
from datetime import timedelta

import pytest

from helpers.autoscaler import gates
from helpers.builders import NOW, condition
from helpers.clusters import in_virtual_time
from helpers.disruption import context_of, snapshot
from helpers.disruption_objects import machine, pod_on, pool
from karpenter.api.meta import Condition
from karpenter.clock import run_virtual
from karpenter.cloud.provider import RepairPolicy
from karpenter.cloud.repair import RepairPolicies
from karpenter.controllers.disruption.planner import (
    DisruptionPlanner,
    idle_methods,
    next_change,
    prepared,
)
from karpenter.disruption.commands import DRIFT, MULTI, REPAIR, SINGLE, STATIC_DRIFT
from karpenter.disruption.context import DisruptionSettings
from karpenter.model import labels
from karpenter.pass_settings import disruption_settings
from karpenter.settings import Settings
from unit.controllers.disruption.disruption_bench import disrupting

POLICY = RepairPolicy("BadNode", "False", timedelta(minutes=30))


def _planner() -> DisruptionPlanner:
    """A planner whose world has come to its end; enough to try its threads."""

    async def made() -> DisruptionPlanner:
        async with disrupting() as found:
            return DisruptionPlanner(found.world, found.loop.log)

    return run_virtual(made())


class TestTime:
    @pytest.mark.parametrize(
        ("method", "seconds"),
        [
            pytest.param(MULTI, 60, id="DIS-207 a multi-node search has a minute"),
            pytest.param(SINGLE, 180, id="DIS-208 a single-node search has three"),
        ],
    )
    def test_a_search_ends_in_time(self, method: str, seconds: float) -> None:
        async def scene() -> None:
            async with disrupting() as found:
                planner = DisruptionPlanner(found.world, found.loop.log)
                has_time = planner._timer(method, threading.Event())
                await found.pass_time(seconds - 1)
                before = has_time()
                await found.pass_time(2)

                assert (True, False) == (before, has_time())

        run_virtual(scene())

    @in_virtual_time
    async def test_other_methods_take_the_time_they_need(self) -> None:
        async with disrupting() as found:
            has_time = DisruptionPlanner(found.world, found.loop.log)._timer(
                DRIFT, threading.Event()
            )
            await found.pass_time(10_000)

            assert has_time()

    def test_a_pass_that_nobody_waits_for_ends(self) -> None:
        planner = _planner()
        begun = threading.Event()
        outcomes: list[bool] = []

        def search() -> None:
            has_time = planner._timer(SINGLE, planner._stop)
            begun.set()
            while has_time():
                pass
            outcomes.append(planner._stop.is_set())

        async def cancelled() -> None:
            task = asyncio.create_task(planner.aside(search))
            await asyncio.to_thread(begun.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        # The loop waits for its threads before it ends
        asyncio.run(cancelled())

        assert [True] == outcomes

    def test_a_pass_waits_no_longer_for_others_than_it_works(self) -> None:
        planner = _planner()
        planner._pending_pods._last = float("inf")  # pods begin to wait all the time
        turns: list[int] = []

        def search() -> None:
            has_time = planner._timer(DRIFT, planner._stop)
            turns.extend(turn for turn in range(100) if has_time())

        asyncio.run(planner.aside(search))

        assert 100 == len(turns)


class TestGlances:
    def test_nothing_to_repair_and_nothing_drifted(self) -> None:
        found = idle_methods(snapshot(machine("n1")), RepairPolicies([POLICY]))

        assert {REPAIR, DRIFT, STATIC_DRIFT} == found

    def test_a_drifted_machine_is_worth_a_look(self) -> None:
        drifted = machine("n1", claim_conditions=[condition("Drifted")])

        assert {REPAIR} == idle_methods(snapshot(drifted), None)

    def test_an_unhealthy_machine_is_worth_a_look(self) -> None:
        ill = machine("n1", node_conditions=[Condition(type="BadNode", status="False")])

        found = idle_methods(snapshot(ill), RepairPolicies([POLICY]))

        assert {DRIFT, STATIC_DRIFT} == found


class TestWhatChangesByItself:
    def test_nothing(self) -> None:
        assert None is prepared(context_of(machine("n1", pod_on("a")))).holds_until

    def test_pods_are_no_longer_expected(self) -> None:
        until = NOW + timedelta(seconds=20)

        assert until == prepared(context_of(machine("n1", nominated_until=until))).holds_until

    def test_what_is_over_does_not_count(self) -> None:
        past = NOW - timedelta(seconds=1)

        assert None is prepared(context_of(machine("n1", nominated_until=past))).holds_until

    def test_the_protection_of_a_pod_ends(self) -> None:
        protected = pod_on(
            "a", annotations={labels.DO_NOT_DISRUPT: "2h"}, started=NOW - timedelta(hours=1)
        )

        view = context_of(machine("n1", protected))

        assert NOW + timedelta(hours=1) == next_change(view, [protected])

    def test_pods_have_come_to_rest(self) -> None:
        moved = machine("n1", last_pod_event=NOW - timedelta(seconds=10))

        found = prepared(context_of(moved, pools=[pool(after="30s")])).holds_until

        assert NOW + timedelta(seconds=20) == found


class TestSettings:
    def test_gates_become_settings(self) -> None:
        on = gates(
            SpotToSpotConsolidation=True,
            NodeRepair=True,
            TerminateFirstDrift=True,
            TerminateFirstRepair=True,
            PodDeletionCostManagement=True,
        )

        found = disruption_settings(Settings(feature_gates=on))

        assert found.spot_to_spot
        assert found.repair
        assert not found.legacy_repair
        assert found.terminate_first_drift
        assert found.terminate_first_repair
        assert found.planning.deletion_cost_is_ours
        assert timedelta(seconds=20) == found.nomination

    def test_without_settings_a_machine_waits_for_its_pods_as_long_as_with_the_default_ones(
        self,
    ) -> None:
        assert disruption_settings(Settings()).nomination == DisruptionSettings().nomination
        assert timedelta(seconds=20) == DisruptionSettings().nomination

    def test_the_old_way_of_repair_takes_the_place_of_the_new_one(self) -> None:
        settings = Settings(feature_gates=gates(NodeRepair=True), legacy_node_repair=True)

        found = disruption_settings(settings)

        assert (False, True) == (found.repair, found.legacy_repair)
