"""A process that dies while it disrupts nodes is replaced, and nothing is lost, doubled or stuck.

The story: a Deployment shrinks, so that what is left moves onto one node; then the pool's template
changes, and that node is replaced. It runs once undisturbed to count the writes, and then once
for each of them, with the process killed at that write and a new one started in its place.
"""

from collections.abc import Iterator

import pytest

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.crashes import CrashPoint, first_dies_at, replaced_at
from karpenter.clock import run_virtual
from karpenter.simulate.invariants import made_nodes, problems

pytestmark = pytest.mark.storm

LEFT = 2
FRESH = {"generation": "two"}
SMALL = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}
DISRUPTION = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


async def story(run: Autoscaler) -> None:
    """What happens to the cluster; the cluster itself never fails."""
    await run.pass_time(6)
    await run.scale("web", LEFT)
    await run.pass_time(60)
    template = {"spec": {"template": {"metadata": {"labels": FRESH}}}}
    await run.client.patch("merge", "karpenter.sh/v1", "NodePool", None, "default", template)
    await run.pass_time(40)


async def told(point: CrashPoint) -> tuple[list[str], int, int]:
    """Run the story with a crash; return what is wrong in the end, nodes and pods."""
    objects = (kwok_pool("default", SMALL, disruption=DISRUPTION), deployment("web", 6))
    async with autoscaler(*objects, wrap=first_dies_at(point)) as run:
        async with replaced_at(point, run):
            await story(run)
            # Leftover taints are removed, and a spare node is removed once it is empty
            await run.pass_time(150)
        return [*problems(run), *leftovers(run)], len(made_nodes(run)), len(run.running)


def leftovers(run: Autoscaler) -> Iterator[str]:
    """What a command that was not finished may leave behind, and what it should have done."""
    for node in made_nodes(run):
        name = node["metadata"]["name"]
        if any(
            taint["key"] == "karpenter.sh/disrupted" for taint in node["spec"].get("taints", ())
        ):
            yield f"node {name} is closed"
        if node["metadata"]["labels"].get("generation") != FRESH["generation"]:
            yield f"node {name} is of the old template"
    for claim in run.claims:
        if any(_says_disrupted(held) for held in claim["status"].get("conditions", ())):
            yield f"claim {claim['metadata']['name']} says that it is disrupted"


def _says_disrupted(condition: JsonObject) -> bool:
    return (condition["type"], condition["status"]) == ("DisruptionReason", "True")


@pytest.fixture(scope="module")
def writes() -> list[str]:
    point = CrashPoint(at=-1)
    wrong, nodes, pods = run_virtual(told(point))
    assert ([], 1, LEFT) == (wrong, nodes, pods)
    return point.writes


def test_the_story_has_writes_to_die_at(writes: list[str]) -> None:
    # Both commands: marks, a replacement, and the deletion of two claims
    assert 2 == sum(w.startswith("DELETE") and "/nodeclaims/" in w for w in writes)
    assert 3 == sum(w.startswith("POST") and w.endswith("/nodeclaims") for w in writes)
    assert len(writes) > 60


def crashed(writes: list[str], numbers: range, *, is_before: bool) -> dict[str, object]:
    """Every crash after which something is wrong."""
    wrong: dict[str, object] = {}
    for number in numbers:
        found, nodes, pods = run_virtual(told(CrashPoint(number, is_before)))
        if found or (nodes, pods) != (1, LEFT):
            wrong[f"write {number}, {writes[number]}"] = (found, nodes, pods)
    return wrong


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_crash_at_every_single_write_loses_nothing(writes: list[str], *, is_before: bool) -> None:
    assert {} == crashed(writes, range(len(writes)), is_before=is_before)
