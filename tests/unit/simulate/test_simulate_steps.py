"""Steps and fields of a scenario that change how a run goes: faults, judgements, thinking, resuming."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from helpers.simulated import (
    SPOT,
    JsonObject,
    operations_of,
    scenario,
    setup_of,
    simulated,
    small_pool,
    steps,
)
from karpenter.clock import VirtualLoop, running_clock
from karpenter.simulate.observing import make_observers
from karpenter.simulate.runs import not_modelled
from karpenter.simulate.scenario.models import FaultMix
from karpenter.simulate.seam import VariantRun
from karpenter.simulate.storm import storm_of
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.variants import named_variants, resolved
from karpenter.simulate.world import Hooks

ALL = {"throttled": "100%"}


def judged(timeline: list[JsonObject], **fields: Any) -> VariantRun:
    """A run with the observers of a report."""
    wanted = scenario(timeline=timeline, until="10m", **fields)
    return run_world(setup_of(wanted), Hooks(observers=make_observers()))


def test_faults_of_a_step_last_as_long_as_it_says() -> None:
    wanted = scenario(
        until="10m",
        timeline=[{"at": "1m", "faults": ALL, "for": "3m"}],
        workloads=[steps("web", ("2m", 4))],
    )
    watched, _ = simulated(wanted)

    (ready,) = {life.ready for life in watched.pods.values()}
    assert ready is not None
    assert 240 <= ready < 330
    assert "throttled 100%" in [mark.text for mark in watched.marks if mark.kind == "faults"]


def test_later_faults_take_the_place_of_earlier_ones() -> None:
    wanted = scenario(
        until="5m",
        timeline=[{"at": "0s", "faults": ALL}, {"at": "1m", "faults": {}}],
        workloads=[steps("web", ("2m", 1))],
    )
    watched, _ = simulated(wanted)

    (life,) = watched.pods.values()
    assert life.ready is not None
    assert life.ready < 130
    assert "none" in [mark.text for mark in watched.marks]


def test_a_step_judges_what_is_so_at_its_moment() -> None:
    bounds = [
        {"path": "atEnd.running", "equals": 4},
        {"path": "atEnd.pending", "equals": 0},
        {"path": "pods.created", "min": 5},
        {"path": "cost.lowerBound.dollarHours", "min": 0.0001},
    ]
    run = judged(
        [{"at": "2m", "expect": bounds}],
        workloads=[steps("web", ("0s", 4), ("5m", 9))],
    )

    held = [(each["path"], each["held"]) for each in run.expectations]
    assert held == [
        ("atEnd.running", True),
        ("atEnd.pending", True),
        ("pods.created", False),
        ("cost.lowerBound.dollarHours", True),
    ]
    sentence = run.expectations[2]["sentence"]
    assert sentence == "at 00:02:00: pods.created is 4, which is less than 5"


def test_judging_changes_nothing() -> None:
    load = [steps("web", ("0s", 4), ("5m", 1))]
    judge = [{"every": "1m", "expect": [{"path": "atEnd.nodes", "min": 0}]}]
    one, other = judged([], workloads=load), judged(judge, workloads=load)

    assert len(other.expectations) == 9
    assert [each.text for each in one.decisions] == [each.text for each in other.decisions]
    assert one.observed[0].pending == other.observed[0].pending  # type: ignore[attr-defined]


def test_a_variant_has_faults_of_its_own() -> None:
    wanted = scenario(
        faults="storm", compare=[{"name": "now"}, {"name": "calm", "faults": {"rest": "30m"}}]
    )
    now, calm = (
        replace(setup_of(wanted), variant=resolved(wanted, [small_pool()], each, {}))
        for each in named_variants(wanted)
    )
    first, second = storm_of(now), storm_of(calm)

    assert calm.variant.faults == FaultMix(rest="30m")
    assert first is not None
    assert second is not None
    assert (second.faults.any(), second.steps, second.rests_from) == (False, (), 1800.0)
    assert first != second
    quiet = scenario(compare=[{"name": "a"}, {"name": "b", "faults": "storm"}])
    assert storm_of(setup_of(quiet)) is None
    assert "offerings that are sold out" not in not_modelled(quiet)


def test_axes_of_a_matrix_may_differ_in_faults() -> None:
    wanted = scenario(
        matrix={
            "policy": [{"name": "a"}],
            "luck": [{"name": "good"}, {"name": "bad", "faults": {"lost": "1%"}}],
        }
    )
    faults = {each.name: each.faults for each in named_variants(wanted)}

    assert faults == {"a-good": None, "a-bad": FaultMix(lost="1%")}


def test_machines_come_later_when_controllers_think() -> None:
    def launched(thinking: str) -> float:
        plane = {"thinking": thinking}
        wanted = scenario(until="2m", controlPlane=plane, workloads=[steps("web", ("0s", 1))])
        watched, _ = simulated(wanted)
        return watched.events("launched")[0].at

    assert 7.0 <= launched("7s") - launched("0s") < 9.0
    thinks = scenario(controlPlane={"thinking": "1s"})
    assert not any("to think" in each for each in not_modelled(thinks))
    assert any("to think" in each for each in not_modelled(scenario()))


def test_work_of_a_thread_takes_virtual_time_and_may_be_given_up() -> None:
    async def work() -> list[float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.thinking = 5.0
        times = [float(await asyncio.to_thread(lambda: 1)), running_clock().monotonic()]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.to_thread(lambda: 1)
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return [*times, running_clock().monotonic()]

    loop = VirtualLoop()
    try:
        assert loop.run_until_complete(work()) == pytest.approx([1.0, 5.0, 11.0])
    finally:
        loop.close()


@pytest.mark.parametrize("on_eviction", ["restart", "resume"])
def test_a_job_that_is_evicted_starts_anew_or_carries_on(on_eviction: str) -> None:
    jobs = {"bursts": {"every": "1h", "jobs": 1}, "duration": "15m", "onEviction": on_eviction}
    wanted = scenario(
        workloads=[{"name": "mail", "pod": {"cpu": "1"}, "jobs": jobs}],
        timeline=[{"at": "5m", "interrupt": {"percent": 100}, "notice": "2m"}],
    )
    watched, _ = simulated(wanted, small_pool(SPOT))

    first, second = sorted(watched.pods.values(), key=lambda life: life.created)
    assert first.finished is None
    assert None not in (first.ready, first.gone, second.ready, second.finished)
    took = (second.finished or 0) - (second.ready or 0)
    done = (first.gone or 0) - (first.ready or 0)
    expected = 900 if on_eviction == "restart" else 900 - done
    assert done > 240
    assert took == pytest.approx(expected, abs=3)


def test_a_job_whose_machine_vanishes_carries_on_from_there() -> None:
    jobs = {"bursts": {"every": "1h", "jobs": 1}, "duration": "15m", "onEviction": "resume"}
    wanted = scenario(
        workloads=[{"name": "mail", "pod": {"cpu": "1"}, "jobs": jobs}],
        timeline=[{"at": "5m", "fail": {"fault": "disappears", "percent": 100}}],
    )
    watched, _ = simulated(wanted, small_pool())

    first, second = sorted(watched.pods.values(), key=lambda life: life.created)
    took = (second.finished or 0) - (second.ready or 0)
    assert took == pytest.approx(900 - (300 - (first.ready or 0)), abs=3)


def test_bursts_end_after_so_many() -> None:
    jobs = {"bursts": {"every": "10m", "jobs": 3, "times": 2}, "duration": "1m"}
    wanted = scenario(workloads=[{"name": "batch", "pod": {"cpu": "1"}, "jobs": jobs}])

    times = [each.at for each in operations_of(wanted, "create")]
    assert times == [0.0] * 3 + [600.0] * 3


def test_faults_of_a_step_are_only_those_of_requests() -> None:
    with pytest.raises(msgspec.ValidationError, match="rest"):
        scenario(timeline=[{"at": "1m", "faults": {"rest": "1m"}}])
