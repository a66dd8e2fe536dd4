"""A judge beside a real cluster: quiet while promises hold, and exact about the one that is broken."""

from typing import Any

import pytest

from helpers.autoscaler import JsonObject, deployment, kwok_pool
from helpers.watched_run import WatchedRun, run_of, watched_run
from karpenter.clock import run_virtual
from karpenter.simulate.report.document import document, document_held

SMALL = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8"]}


def pdb(app: str, allowed: int | str) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": app}}},
    }


async def bypass(watched: WatchedRun, name: str) -> None:
    """Somebody evicts a pod without asking the budget that protects it."""
    client = watched.run.client
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    patch = {"status": {"conditions": [mark]}}
    await client.patch("strategic", "v1", "Pod", "default", name, patch, subresource="status")
    await client.delete("v1", "pods", "default", name)


def promises(found: JsonObject) -> dict[str, JsonObject]:
    return {each["id"]: each for each in found["variants"][0]["invariants"]}


def test_a_cluster_that_is_consolidated_breaks_no_promise() -> None:
    async def story() -> Any:
        disruption = {"consolidateAfter": "30s", "budgets": [{"nodes": "1"}]}
        pool = kwok_pool("default", SMALL, disruption=disruption, limits={"cpu": "200"})
        objects = (pool, deployment("web", 12), deployment("api", 8, cpu="900m"), pdb("web", 1))
        async with watched_run(*objects, until=3600.0) as watched:
            for replicas in (12, 4, 20, 3):
                await watched.run.scale("api", replicas)
                await watched.run.pass_time(900)
            return watched.finished()

    found = document(run_of(run_virtual(story(), seed="3")))

    judged = promises(found)
    assert {} == {name: each["broken"] for name, each in judged.items() if each["broken"]}
    assert document_held(found)
    assert judged["A1"]["judged"] > 0
    assert judged["A2"]["judged"] > 0
    assert judged["A6"]["judged"] > 0


@pytest.mark.case("SIM-36")
def test_an_eviction_past_a_pdb_breaks_the_first_promise_once() -> None:
    async def story() -> Any:
        objects = (kwok_pool("default", SMALL), deployment("web", 3), pdb("web", 0))
        async with watched_run(*objects, until=600.0) as watched:
            await watched.run.pass_time(120)
            await bypass(watched, sorted(p["metadata"]["name"] for p in watched.run.pods)[0])
            await watched.run.pass_time(480)
            return watched.finished()

    found = document(run_of(run_virtual(story(), seed="1")))

    (broken,) = promises(found)["A1"]["broken"]
    assert 120 == pytest.approx(broken["at"], abs=1)
    assert broken["text"].startswith("default/web-")
    assert broken["text"].endswith("past PodDisruptionBudget web: 2 healthy pods are left of 3")
    assert not document_held(found)
