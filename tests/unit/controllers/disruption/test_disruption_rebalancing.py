"""Rebalancing is carried out as a whole or not at all, within its limits, across restarts too."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

from helpers.autoscaler import FakeCloud, JsonObject
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import kind
from helpers.provisioning import FACTS
from karpenter.api.times import earlier
from karpenter.clock import running_clock
from karpenter.cloud.types import InstanceType
from karpenter.controllers.disruption.loop import VALIDATION_SECONDS
from karpenter.disruption.rebalance.history import Moves, stamp
from karpenter.model.labels import DO_NOT_DISRUPT, MOVED_BY_REBALANCE
from karpenter.settings import MinTypes, Percentage, Settings
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    disrupting,
    machine,
    pool,
    running,
)

# A machine of 32 cpu is dear here: 10 pods of 900m cost less on one of 8 and one of 2
PRICES: Final = {"s2": 0.10, "s4": 0.19, "s8": 0.36, "s32": 2.00}


def types(**prices: float) -> tuple[InstanceType, ...]:
    found = PRICES | prices
    return tuple(kind(name, int(name[1:]), price=price) for name, price in found.items())


def settings(mode: str = "On", *, moves: float = 100.0) -> Settings:
    return Settings(
        rebalance=mode,
        rebalance_moves=Percentage(moves),
        packing_min_types=MinTypes(1, 1),
        packing_node_cost=0.0,
    )


def pods(count: int, on: str) -> list[JsonObject]:
    return [running(f"{on}-{number}", on, cpu="900m") for number in range(count)]


WASTEFUL: Final = (pool(), machine("n1", kind="s32"), *pods(10, "n1"))


def rebalancing(*objects: Any, mode: str = "On", moves: float = 100.0, **options: Any) -> Any:
    options.setdefault("types", types())
    return disrupting(*objects, settings=settings(mode, moves=moves), **options)


def notes(found: Disrupting) -> list[str]:
    """What is noted about moves, on any claim."""
    held = [claim.metadata.annotations.get(MOVED_BY_REBALANCE) for claim in found.claims.values()]
    return sorted(filter(None, held))


@in_virtual_time
async def test_one_machine_becomes_two_when_both_are_up() -> None:
    async with rebalancing(*WASTEFUL) as found:
        await found.run_pass()
        first, second = found.replacements
        await found.bring_up(first)
        await found.pass_time(120)

        assert [] == found.going()
        assert [] == notes(found)

        await found.bring_up(second)
        await found.pass_time(2)

        assert ["n1"] == found.going()
        assert ("True", "Underutilized") == found.condition("n1", "DisruptionReason")
        # Each tells all pods of the command: either machine may end before the hour is over
        assert [10, 10] == [int(note.split()[1]) for note in notes(found)]
        facts = {
            "decision": "replace",
            "reason": "underutilized",
            "consolidation_type": "rebalance",
        }
        assert 1 == found.metric("voluntary_disruption_decisions_total", **facts)
        assert 10 == found.metric("rebalance_pods_moved_total")
        assert 1.54 == pytest.approx(found.metric("rebalance_savings_hourly"))
        (told,) = found.lines("disrupting node(s)")
        assert (1, 2) == (told["disrupted-node-count"], told["replacement-node-count"])


@in_virtual_time
async def test_a_replacement_that_is_up_early_is_kept_for_its_pods() -> None:
    async with rebalancing(*WASTEFUL) as found:
        await found.run_pass()
        first, _ = found.replacements
        await found.bring_up(first)
        await found.pass_time(300)

        kept = found.world.state.snapshot().node(first.metadata.name)

        assert kept is not None
        assert kept.is_nominated(found.clock.now())


@pytest.mark.case("OPT-43")
@pytest.mark.parametrize("is_up", [False, True], ids=["before it is up", "after it was up"])
@in_virtual_time
async def test_one_replacement_that_vanishes_rolls_everything_back(is_up: bool) -> None:
    async with rebalancing(*WASTEFUL) as found:
        await found.run_pass()
        first, second = found.replacements
        if is_up:
            await found.bring_up(first)
            await found.pass_time(3)
        await found.vanish(first)
        await found.pass_time(3)

        assert [] == found.tainted()
        assert ("", "") == found.condition("n1", "DisruptionReason")
        assert [] == found.going()
        assert [] == notes(found)
        assert frozenset() == found.queue.in_progress
        assert [second.metadata.name] == [c.metadata.name for c in found.replacements]


@pytest.mark.case("OPT-44")
@pytest.mark.parametrize(
    ("price", "goes"),
    [
        pytest.param(0.66, True, id="that leave four fifths"),
        pytest.param(0.83, False, id="that leave seven tenths"),
    ],
)
@in_virtual_time
async def test_prices_that_rise_during_validation(price: float, goes: bool) -> None:
    cloud = FakeCloud(facts=FACTS, types=types())
    async with rebalancing(*WASTEFUL, cloud=cloud) as found:
        async with asyncio.TaskGroup() as group:
            group.create_task(found.run_pass())
            await found.pass_time(VALIDATION_SECONDS / 2)
            cloud.types = types(s8=price)

        assert goes is (len(found.replacements) == 2)
        assert goes is not bool(found.heard("ConsolidationRejected"))
        assert (["n1"] if goes else []) == found.tainted()


@pytest.mark.case("OPT-40")
@in_virtual_time
async def test_what_was_moved_in_the_last_hour_counts_after_a_restart() -> None:
    old = stamp(Moves(earlier(running_clock().now(), timedelta(minutes=30)), 8))
    noted = machine("n2", kind="s8", claim_annotations={MOVED_BY_REBALANCE: old})
    kept = {DO_NOT_DISRUPT: "true"}  # so that no other method takes that machine
    others = [running(f"n2-{n}", "n2", cpu="900m", annotations=kept) for n in range(8)]
    async with rebalancing(*WASTEFUL, noted, *others, moves=60.0) as found:
        await found.run_pass()

        assert [] == found.replacements

        await found.pass_time(31 * 60)
        await found.run_pass()

        assert 2 == len(found.replacements)


@pytest.mark.case("OPT-41")
@pytest.mark.parametrize(("minutes", "goes"), [(59, False), (61, True)])
@in_virtual_time
async def test_what_a_rebalance_made_is_left_in_peace_for_a_while(minutes: int, goes: bool) -> None:
    note = stamp(Moves(earlier(running_clock().now(), timedelta(minutes=minutes)), 10))
    came = machine("n1", kind="s32", claim_annotations={MOVED_BY_REBALANCE: note})
    # so many pods may be moved that only the cooldown is in the way
    async with rebalancing(pool(), came, *pods(10, "n1"), moves=200.0) as found:
        await found.run_pass()

        assert goes is bool(found.replacements)
        assert goes is not bool(found.metric("rebalance_refusals_total", reason="Cooldown"))


@in_virtual_time
async def test_one_rebalance_at_a_time() -> None:
    async with rebalancing(*WASTEFUL) as found:
        states = [found.queue.rebalances.is_busy]
        await found.run_pass()
        states.append(found.queue.rebalances.is_busy)
        await found.bring_up()
        await found.pass_time(60)
        states.append(found.queue.rebalances.is_busy)  # the old machine is still being drained
        await found.change("NodeClaim", "n1-claim", {"metadata": {"finalizers": []}})
        await found.pass_time(1)
        states.append(found.queue.rebalances.is_busy)

        assert [False, True, True, False] == states


@in_virtual_time
async def test_a_preview_tells_and_does_nothing() -> None:
    async with rebalancing(*WASTEFUL, mode="Preview") as found:
        await found.run_pass()
        await found.run_pass()

        assert [] == found.replacements
        assert [] == found.tainted()
        assert 1.54 == pytest.approx(found.metric("rebalance_savings_hourly"))
        assert 10 == found.metric("rebalance_pods")
        assert [("NodePool", "np")] == found.heard("RebalancePreview")
        assert found.messages("RebalancePreview")[0].endswith(
            "n1 goes: underutilized, 10 pods to 2 new nodes (s8, s2), saves $1.5400/h"
        )
        assert 1 == len(found.lines("rebalance preview"))


@pytest.mark.parametrize(("mode", "bound"), [("Off", 0.0), ("Preview", 0.45)])
@in_virtual_time
async def test_the_lower_bound_of_the_cluster(mode: str, bound: float) -> None:
    async with rebalancing(*WASTEFUL, mode=mode) as found:
        await found.run_pass()

        assert bound == pytest.approx(found.metric("cluster_lower_bound_hourly"), abs=0.01)
