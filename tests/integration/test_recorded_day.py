"""Two hours of a sandbox with an autoscaler and Jobs, recorded and replayed.

Each pod fills a machine and only empty ones go: where several fit, which machine becomes empty is an
accident, and small clusters that consolidate differ by some per cent from one accident to the next.
"""

from pathlib import Path
from typing import Any

import pytest

from helpers.autoscaler import kwok_pool
from helpers.recorded import recorded
from helpers.simulated import Watched, demand_of, scenario
from helpers.watched_run import watched_run
from karpenter.clock import run_virtual, running_clock
from karpenter.simulate.demand.operations import Operation
from karpenter.simulate.runs import setup_of
from karpenter.simulate.scenario.reader import Options, load
from karpenter.simulate.seam import MachineEvent
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks
from karpenter_sandbox.server.transport import MemoryTransport

pytestmark = pytest.mark.slow

UNTIL = 7200.0
FOUR = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}
WHEN_EMPTY = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}
POINTS = [("0s", 200), ("20m", 600), ("50m", 300), ("80m", 800), ("100m", 100)]
LOAD = {
    "hpa": {
        "perPod": 100,
        "min": 1,
        "max": 8,
        "metric": {"points": [{"at": at, "value": value} for at, value in POINTS]},
    }
}
USERS = scenario(
    until="2h",
    workloads=[
        {"name": "web", "pod": {"cpu": "3500m", "memory": "1Gi"}, **LOAD},
        {
            "name": "mail",
            "pod": {"cpu": "3500m", "memory": "1Gi"},
            "jobs": {"rate": "20/h", "duration": {"uniform": ["1m", "9m"]}},
        },
    ],
)


async def lived(folder: Path, watched: Watched) -> None:
    """Let users do what they do on a sandbox, beside a recorder."""
    async with watched_run(
        kwok_pool("default", FOUR, disruption=WHEN_EMPTY), until=UNTIL, observers=[watched]
    ) as world:
        client, clock = world.run.client, running_clock()
        async with recorded(MemoryTransport(world.run.cluster.api), folder, rotate_seconds=1800.0):
            began = world.view.now()
            for each in demand_of(USERS).operations():
                left = began + each.at - world.view.now()
                if left > 0:
                    await clock.sleep(left)
                await done(client, each)
            await clock.sleep(began + UNTIL - world.view.now())


async def done(client: Any, operation: Operation) -> None:
    if operation.verb == "create":
        await client.create(operation.body, namespace=operation.namespace)
        return
    assert operation.verb == "merge"
    where = (operation.api_version, operation.kind, operation.namespace, operation.name)
    await client.patch("merge", *where, operation.body)


def replayed(folder: Path) -> Watched:
    """Run the scenario of a folder."""
    file = folder / "scenario.yaml"
    loaded = load(str(file), file.read_bytes(), folder, Options())
    assert loaded.warnings == ()
    watched = Watched()
    run = run_world(setup_of(loaded, 0), Hooks(observers=[watched]))
    assert (run.problems, run.warnings) == ((), ())
    return watched


def dollar_hours(watched: Watched, until: float) -> float:
    """What all machines cost."""
    total = 0.0
    running: dict[str, MachineEvent] = {}
    for event in watched.machines:
        if event.kind == "launched":
            running[event.name] = event
        elif event.kind == "gone":
            begun = running.pop(event.name)
            total += begun.price * (event.at - begun.at)
    total += sum(event.price * (until - event.at) for event in running.values())
    return total / 3600


@pytest.mark.case("SIM-43")
def test_two_hours_cost_the_same_when_they_are_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)  # 1,800 times, in which no virtual time passes
    before = Watched()
    run_virtual(lived(tmp_path, before), seed="1")

    after = replayed(tmp_path)

    minutes = range(60, int(UNTIL) - 60, 60)
    asked = [before.replicas_at("web", at) for at in minutes]
    assert len({*asked}) == len(POINTS)
    assert asked == [after.replicas_at("web", at) for at in minutes]
    nodes = [(before.nodes_at(at), after.nodes_at(at)) for at in minutes]
    assert [pair for pair in nodes if abs(pair[0] - pair[1]) > 1] == []
    assert dollar_hours(after, UNTIL) == pytest.approx(dollar_hours(before, UNTIL), rel=0.02)
    jobs = [len(each.created["jobs"]) for each in (before, after)]
    assert jobs[0] == jobs[1] > 20
