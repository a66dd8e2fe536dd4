"""What happens under ``karpenter sandbox --speed`` does not depend on the machine it runs on."""

import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pytest

from helpers.autoscaler import autoscaler, deployment, kwok_pool
from helpers.pace import Machine, run_paced
from karpenter.clock import run_virtual
from karpenter_sandbox.store.store import Event

Trace = list[tuple[datetime, str, str, str]]
Day = tuple[Trace, list[list[str]]]
TYPE = "node.kubernetes.io/instance-type"
_SHOWN = ("nodes", "nodeclaims", "pods")


async def a_day() -> Day:
    """A Deployment is scaled up, rolled over and scaled down.

    Returns:
        when which node, claim or pod came, changed or went, and the types of the nodes after each
        of these steps.
    """
    disruption = {"consolidateAfter": "15s", "budgets": [{"nodes": "100%"}]}
    trace: Trace = []
    kinds: list[list[str]] = []
    async with autoscaler(kwok_pool(disruption=disruption)) as run:

        def note(change: Event) -> None:
            key = change.stored.key
            if key.resource in _SHOWN:
                trace.append((run.clock.now(), change.type, key.resource, key.name))

        run.cluster.store.on_change(note)

        async def settled(replicas: int) -> None:
            await run.until(lambda: len(run.running) == replicas == len(run.pods))
            await run.pass_time(90)
            kinds.append(sorted(node["metadata"]["labels"][TYPE] for node in run.nodes))

        await run.apply(deployment("app", 3, cpu="1500m"))
        await settled(3)
        for replicas in (7, 12):  # the second wave comes while the first is being batched
            await run.scale("app", replicas)
            await run.pass_time(0.9)
        await settled(12)
        await roll(run.client)
        await settled(12)
        await run.scale("app", 4)
        await settled(4)
    return trace, kinds


async def roll(client: Any) -> None:
    template = {"metadata": {"annotations": {"version": "2"}}}
    body = {"spec": {"template": template}}
    await client.patch("merge", "apps/v1", "Deployment", "default", "app", body)


def erratic(seed: int, most: float) -> Callable[[], float]:
    rng = random.Random(seed)
    return lambda: rng.choice((0.0, 0.0001, 0.002, most))


@pytest.fixture(scope="module")
def on_a_fast_machine() -> Day:
    """The day on a machine on which work takes no time."""
    return run_paced(a_day())


def test_a_machine_that_others_use_as_well_gives_the_same_nodes_at_the_same_times(
    on_a_fast_machine: Day,
) -> None:
    trace, kinds = on_a_fast_machine
    slow = Machine(work=erratic(1, 0.3), late=erratic(2, 0.5))
    began = slow.seconds

    assert (trace, kinds) == run_paced(a_day(), slow)
    passed = (trace[-1][0] - trace[0][0]).total_seconds()
    assert slow.seconds - began > 2 * passed / 60  # the requested speed was not reached
    assert len({tuple(each) for each in kinds}) > 1


@pytest.mark.storm
@pytest.mark.parametrize(
    "slow",
    [
        pytest.param({"work": lambda: 0.05}, id="a turn takes 3 s of the cluster's time"),
        pytest.param({"late": lambda: 0.1}, id="the loop is woken 6 s too late"),
    ],
)
def test_slowness_of_any_kind_makes_no_difference(
    slow: Mapping[str, Any], on_a_fast_machine: Day
) -> None:
    assert on_a_fast_machine == run_paced(a_day(), Machine(**slow))


@pytest.mark.storm
@pytest.mark.parametrize("speed", [1, 1000])
def test_the_speed_makes_no_difference(speed: float, on_a_fast_machine: Day) -> None:
    assert on_a_fast_machine == run_paced(a_day(), speed=speed)


@pytest.mark.storm
def test_the_nodes_are_those_of_virtual_time(on_a_fast_machine: Day) -> None:
    _, kinds = run_virtual(a_day())

    assert on_a_fast_machine[1] == kinds
