"""A process that dies while a static pool grows and drifts is replaced, and nothing is made twice.

The story: a pool of three nodes gets another template and a fourth node in one update. It runs
once undisturbed to count the writes, and then once for each of them, with the process killed at
that write and a new one started in its place. A witness sees every claim that is made.
"""

from typing import Final

import pytest

from helpers.autoscaler import autoscaler, gates, kwok_pool
from helpers.crashes import CrashPoint, first_dies_at, replaced_at
from integration.storms.static_storm import POOL, TYPE, DesiredNumber, Witness
from karpenter.clock import run_virtual
from karpenter.settings import Settings
from karpenter.simulate.invariants import problems

LIMIT: Final = 5
ON: Final = Settings(feature_gates=gates(StaticCapacity=True))
BUDGETS: Final = {"budgets": [{"nodes": "100%"}]}
OTHER: Final = {
    "replicas": 4,
    "template": {"metadata": {"annotations": {"example.com/version": "2"}}},
}


async def told(point: CrashPoint) -> list[str]:
    """Run the story with a crash; return what is wrong in the end."""
    pool = kwok_pool(POOL, TYPE, replicas=3, limits={"nodes": str(LIMIT)}, disruption=BUDGETS)
    async with autoscaler(pool, settings=ON, wrap=first_dies_at(point)) as run:
        witness = Witness(run, DesiredNumber(4), DesiredNumber(LIMIT))
        async with replaced_at(point, run):
            await run.pass_time(30)
            await run.client.patch(
                "merge", "karpenter.sh/v1", "NodePool", None, POOL, {"spec": OTHER}
            )
            await run.pass_time(200)
        versions = [n["metadata"]["annotations"].get("example.com/version") for n in run.nodes]
        wrong = [*witness.judge(), *problems(run)]
        if versions != ["2"] * 4 or len(run.claims) != 4:
            wrong.append(f"{len(run.claims)} claims, and nodes of the templates {versions}")
        if witness.made != 7:  # three at first, one more, and one for each that drifted
            wrong.append(f"{witness.made} claims were made")
        return wrong


@pytest.fixture(scope="module")
def writes() -> list[str]:
    point = CrashPoint(at=-1)
    assert [] == run_virtual(told(point))
    return point.writes


def lost(writes: list[str], numbers: range, *, is_before: bool) -> dict[str, list[str]]:
    """What is wrong after a crash at each of these writes, where anything is."""
    told_of = {
        f"write {number}, {writes[number]}": run_virtual(told(CrashPoint(number, is_before)))
        for number in numbers
    }
    return {write: wrong for write, wrong in told_of.items() if wrong}


def test_the_story_has_writes_to_die_at(writes: list[str]) -> None:
    assert {"POST", "PATCH", "DELETE"} == {write.split()[0] for write in writes}
    assert len(writes) > 40


@pytest.mark.storm
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_crash_at_any_write_makes_nothing_twice(writes: list[str], *, is_before: bool) -> None:
    assert {} == lost(writes, range(len(writes)), is_before=is_before)
