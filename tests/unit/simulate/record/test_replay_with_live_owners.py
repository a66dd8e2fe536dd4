"""Autoscalers and CronJobs of a recording that act again in a replay."""

from pathlib import Path
from typing import Any

import pytest

from helpers.autoscaler import deployment, kwok_pool
from helpers.manifests import container
from helpers.recorded import recorded, told
from helpers.simulated import Watched
from helpers.watched_run import watched_run
from karpenter.clock import run_virtual, running_clock
from karpenter.simulate.record.loads import load_of
from karpenter.simulate.runs import setup_of
from karpenter.simulate.scenario.reader import Options, load
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks
from karpenter_sandbox.server.transport import MemoryTransport

Json = dict[str, Any]
TOTAL = "sandbox.karpenter.sh/metric-total"


def metric(kind: str, part: str, target: Json, current: Json) -> tuple[Json, Json]:
    """A metric as a specification and a status have it."""
    return {"type": kind, part: {"target": target}}, {"type": kind, part: {"current": current}}


def scaler(pods: int, *metrics: tuple[Json, Json]) -> Json:
    return {
        "spec": {"metrics": [each[0] for each in metrics]},
        "status": {"currentReplicas": pods, "currentMetrics": [each[1] for each in metrics]},
    }


CPU = metric("Resource", "resource", {"averageUtilization": 80}, {"averageUtilization": 63})
QUEUE = metric("External", "external", {"averageValue": "200m"}, {"averageValue": "1"})


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (scaler(10, CPU), 7.9),
        (scaler(10, CPU, QUEUE), 50.0),
        (scaler(4, metric("Object", "object", {"value": "3"}, {"value": "10"})), 13.0),
        (scaler(0, CPU), None),
        (scaler(3), None),
        (scaler(3, (CPU[0], {"type": ""})), None),
        (scaler(3, metric("Pods", "pods", {"averageValue": "0"}, {"averageValue": "1"})), None),
        (scaler(3, metric("Pods", "pods", {"averageValue": "x"}, {"averageValue": "1"})), None),
        (
            {"spec": {"metrics": 7}, "status": {"currentReplicas": "3", "currentMetrics": [[]]}},
            None,
        ),
        ({"spec": None, "status": []}, None),
    ],
)
def test_the_load_of_an_autoscaler_is_the_pods_that_would_carry_it(
    obj: Json, expected: float | None
) -> None:
    assert load_of(obj) == expected


def autoscaler(total: str) -> Json:
    target = {"type": "AverageValue", "averageValue": "100"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default", "annotations": {TOTAL: total}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": target}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


def nightly() -> Json:
    notes = {"sandbox.karpenter.sh/run-duration": "70s"}
    spec = {"containers": [container("100m", "10Mi")], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": notes}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}}},
    }


async def lived(folder: Path) -> None:
    async with watched_run(kwok_pool(), until=3600.0, observers=[Watched()]) as world:
        clock, client = running_clock(), world.run.client
        await client.create(deployment("web", 2, cpu="100m"))
        await client.create(autoscaler("200"))
        await client.create(nightly())
        await clock.sleep(60)
        async with recorded(MemoryTransport(world.run.cluster.api), folder):
            await clock.sleep(300)
            body = {"metadata": {"annotations": {TOTAL: "700"}}}
            where = ("autoscaling/v2", "HorizontalPodAutoscaler", "default", "web")
            await client.patch("merge", *where, body)
            await clock.sleep(600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a quarter of an hour."""
    path = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.fsync", lambda _: None)  # in which no virtual time passes
        run_virtual(lived(path), seed="1")
    return path


def replayed(folder: Path, change: Json) -> tuple[Watched, tuple[str, ...]]:
    """Run the scenario of a folder with another replay, and what it warns of."""
    text = (folder / "scenario.yaml").read_text()
    for before, after in change.items():
        assert before in text
        text = text.replace(before, after)
    loaded = load("scenario.yaml", text.encode(), folder, Options())
    watched = Watched()
    run = run_world(setup_of(loaded, 0), Hooks(observers=[watched]))
    assert (run.problems, run.warnings) == ((), ())
    return watched, loaded.warnings


LIVE = {"gz\n": "gz\n    hpa: live\n"}


def test_an_autoscaler_gets_the_load_that_was_recorded(folder: Path) -> None:
    assert [2.0, 7.0] == list(
        dict.fromkeys(
            change.after["status"]["load"]
            for change in told(folder).changes
            if change.key[0] == "HorizontalPodAutoscaler" and change.after
        )
    )
    watched, warnings = replayed(folder, LIVE)

    assert warnings == ()
    assert watched.replicas_at("web", 290) == 2
    assert watched.replicas_at("web", 345) == 7
    assert "horizontalpodautoscalers" in watched.created


def test_cron_jobs_make_their_jobs_again_which_run_as_long_as_they_did(folder: Path) -> None:
    made = len(replayed(folder, {})[0].created["jobs"])
    watched, _ = replayed(folder, LIVE)

    assert len(watched.created["cronjobs"]) == 1
    assert len(watched.created["jobs"]) == made >= 2
    lengths = [
        life.finished - life.ready
        for life in watched.pods.values()
        if life.name.startswith("nightly") and life.finished and life.ready
    ]
    assert lengths
    assert lengths == pytest.approx([70] * len(lengths), abs=1.5)
