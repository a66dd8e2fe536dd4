"""What is said about a pass is said when it changes, and never at the expense of others."""

import asyncio
from typing import Any

import pytest

from helpers.autoscaler import JsonObject
from helpers.builders import pod, pod_term, spread
from helpers.clusters import in_virtual_time
from helpers.manifests import condition
from helpers.provisioning import provisioning, ready_pool, waiting_pod
from karpenter.controllers.provisioning.reporting import has_hindering_preferences, listed, paced
from karpenter.model import labels
from karpenter.settings import Settings

ANYWAY: JsonObject = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": labels.ZONE,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}
HINT = "pod(s) prefer to be apart, which can prevent consolidation"


@in_virtual_time
async def test_the_same_pods_are_not_told_of_again() -> None:
    async with provisioning(ready_pool(), waiting_pod(cpu="512")) as run:
        for _ in range(3):
            await run.provision()
        await run.at.put(waiting_pod("another", cpu="512"))
        await run.provision()

        found = [line["Pods"] for line in run.lines("found provisionable pod(s)")]
        assert ["default/web", "default/another, default/web"] == found


@in_virtual_time
async def test_a_pool_that_is_not_ready_is_told_of_once() -> None:
    unready = ready_pool("late")
    unready["status"] = {"conditions": [condition("Ready", "False", "NotYet")]}
    async with provisioning(ready_pool(), unready, waiting_pod(cpu="512")) as run:
        for _ in range(2):
            await run.provision()

        (line,) = run.lines("ignoring nodepool, not ready")
        assert {"name": "late"} == line["NodePool"]


@pytest.mark.storm
@in_virtual_time
async def test_wishes_that_hinder_consolidation_are_pointed_out_once_a_day() -> None:
    async with provisioning(ready_pool(), waiting_pod(cpu="512", **ANYWAY)) as run:
        for pause in (10, 86_400, 10):
            await run.provision()
            await run.at.clock.sleep(pause)

        assert ["default/web", "default/web"] == [line["Pods"] for line in run.lines(HINT)]


@in_virtual_time
async def test_pods_that_are_gone_are_forgotten() -> None:
    async with provisioning(ready_pool(), waiting_pod(cpu="512", **ANYWAY)) as run:
        await run.provision()
        reporter = run.provisioner._reporter
        before = [name for name, _ in reporter._reported_preferences.values()]
        await run.at.client.delete("v1", "Pod", "default", "web", grace_period=0)
        await run.at.put(waiting_pod("another", cpu="512", **ANYWAY))
        await run.provision()

        after = [name for name, _ in reporter._reported_preferences.values()]
        assert (["default/web"], ["default/another"]) == (before, after)


@in_virtual_time
async def test_wishes_that_are_ignored_are_not_pointed_out() -> None:
    settings = Settings(preference_policy="Ignore")
    async with provisioning(ready_pool(), waiting_pod(**ANYWAY), settings=settings) as run:
        await run.provision()

        assert [] == run.lines(HINT)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, False, id="no wishes"),
        pytest.param({"spread": [spread(soft=True)]}, True, id="a soft spread"),
        pytest.param({"spread": [spread()]}, False, id="a hard spread"),
        pytest.param({"preferred_anti_affinity": [(1, pod_term())]}, True, id="a soft repulsion"),
        pytest.param({"anti_affinity": [pod_term()]}, False, id="a hard repulsion"),
    ],
)
def test_wishes(options: dict[str, Any], expected: bool) -> None:
    assert expected is has_hindering_preferences(pod("web", **options))


@in_virtual_time
async def test_a_zone_nobody_waits_for_any_more_is_no_longer_counted() -> None:
    name = "karpenter_scheduler_pending_pods_by_effective_zone_count"
    async with provisioning(ready_pool(), waiting_pod(nodeSelector={labels.ZONE: "z1"})) as run:
        sample = run.world.metrics.registry.get_sample_value
        await run.provision()
        before = sample(name, {"controller": "provisioner", "zone": "z1"})
        await run.at.client.delete("v1", "Pod", "default", "web", grace_period=0)
        await run.at.settle()

        await run.provision()

        after = sample(name, {"controller": "provisioner", "zone": "z1"})
        assert (1.0, None) == (before, after)


@in_virtual_time
async def test_the_gauges_of_a_simulation_end_with_it() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        await run.provision()

        text = run.world.metrics.exposition().decode()
        assert "karpenter_scheduler_queue_depth{" not in text
        assert "karpenter_scheduler_unfinished_work_seconds{" not in text


@in_virtual_time
async def test_a_long_list_lets_others_have_their_turn() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    items = [item async for item in paced(range(1000))]
    task.cancel()

    assert list(range(1000)) == items
    assert 5 <= turns


def test_long_lists_are_cut() -> None:
    names = [f"pod-{number}" for number in range(7)]

    assert "pod-0, pod-1, pod-2, pod-3, pod-4 and 2 other(s)" == listed(names)
    assert "pod-0" == listed(names[:1])
