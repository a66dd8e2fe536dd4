"""A process that dies before or after any of its writes is replaced, and nothing is lost.

The story: a Deployment grows from nothing, one of its nodes is deleted by hand, and it shrinks. It
runs once undisturbed to count the writes, and then once for each of them, with the process killed
at that write and a new one started in its place.
"""

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.crashes import CrashPoint, first_dies_at, replaced_at
from karpenter.clock import run_virtual
from karpenter.simulate.invariants import made_nodes, problems

REPLICAS = 6


async def story(run: Autoscaler) -> None:
    """What happens to the cluster; the cluster itself never fails."""
    await run.pass_time(6)
    for node in made_nodes(run)[:1]:
        await run.client.delete("v1", "nodes", None, node["metadata"]["name"])
    await run.pass_time(20)


async def told(point: CrashPoint) -> tuple[list[str], int, int]:
    """Run the story with a crash; return what is wrong in the end, nodes and pods."""
    big = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}
    objects = (kwok_pool("default", big), deployment("web", REPLICAS))
    async with autoscaler(*objects, wrap=first_dies_at(point)) as run:
        async with replaced_at(point, run):
            await story(run)
            await run.pass_time(120)
        return problems(run), len(made_nodes(run)), len(run.running)


@pytest.fixture(scope="module")
def writes() -> list[str]:
    point = CrashPoint(at=-1)
    wrong, nodes, pods = run_virtual(told(point))
    assert ([], 2, REPLICAS) == (wrong, nodes, pods)
    return point.writes


def test_the_story_has_writes_to_die_at(writes: list[str]) -> None:
    methods = [write.split()[0] for write in writes]

    assert {"POST", "PATCH", "DELETE"} == set(methods)
    assert len(writes) > 30


@pytest.mark.storm
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_crash_at_any_write_loses_nothing(writes: list[str], *, is_before: bool) -> None:
    assert {} == lost(writes, range(len(writes)), is_before=is_before)


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_crash_at_some_writes_loses_nothing(writes: list[str], *, is_before: bool) -> None:
    assert {} == lost(writes, range(0, len(writes), 14), is_before=is_before)


def lost(
    writes: list[str], numbers: range, *, is_before: bool
) -> dict[str, tuple[list[str], int, int]]:
    """What is wrong after a crash at each of these writes, where anything is."""
    wrong = {}
    for number in numbers:
        write = writes[number]
        found, nodes, pods = run_virtual(told(CrashPoint(number, is_before)))
        if found or pods != REPLICAS or nodes > 3:
            wrong[f"write {number}, {write}"] = (found, nodes, pods)
    return wrong
