"""What users' guides promise about nodes that go, on a whole virtual cluster."""

from typing import Any

import pytest

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.simulate.invariants import made_nodes, problems
from karpenter_sandbox.status import ApiError

V1 = "karpenter.sh/v1"
ANY_NUMBER = [{"nodes": "100%"}]
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


def cpus(*sizes: str) -> JsonObject:
    return {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": list(sizes)}


def quick(**disruption: Any) -> JsonObject:
    return {"consolidateAfter": "0s", "budgets": ANY_NUMBER, **disruption}


def sizes(run: Autoscaler) -> list[str]:
    key = "karpenter.kwok.sh/instance-cpu"
    return sorted(node["metadata"]["labels"][key] for node in made_nodes(run))


async def started(run: Autoscaler, count: int) -> None:
    await run.until(lambda: len(run.running) == count, seconds=60)


@pytest.mark.row("S0-11")
@in_virtual_time
async def test_scaling_to_nothing_removes_nodes_and_instances() -> None:
    async with autoscaler(kwok_pool(disruption=quick()), deployment("web", 5)) as run:
        await started(run, 5)
        await run.scale("web", 0)
        await run.until(lambda: not run.nodes and not run.claims, seconds=90)

        assert run.cloud is not None
        assert [] == list(await run.cloud.list())


@pytest.mark.row("S0-27", "S2-29")
@in_virtual_time
async def test_an_empty_node_goes_after_thirty_seconds_and_not_before() -> None:
    waiting = quick(consolidateAfter="30s", consolidationPolicy="WhenEmpty")
    async with autoscaler(kwok_pool(disruption=waiting), deployment("web", 1)) as run:
        await started(run, 1)
        await run.pass_time(100)
        await run.scale("web", 0)
        await run.until(lambda: not run.pods, seconds=10)
        emptied = run.clock.monotonic()

        def is_going() -> bool:
            return any("deletionTimestamp" in claim["metadata"] for claim in run.claims)

        await run.until(lambda: is_going() or not run.claims, seconds=90)
        took = run.clock.monotonic() - emptied

        # consolidateAfter of 30 s, up to 10 s until the next pass, 15 s until validation
        assert 30 <= took <= 56


@pytest.mark.row("S1-32", "S2-05")
@in_virtual_time
async def test_a_half_used_node_is_replaced_by_a_cheaper_one() -> None:
    pools = kwok_pool("default", cpus("4", "8"), ON_DEMAND, disruption=quick())
    async with autoscaler(pools, deployment("web", 6)) as run:
        await started(run, 6)
        assert ["8"] == sizes(run)
        await run.scale("web", 2)
        await run.until(lambda: sizes(run) == ["4"], seconds=120)
        await run.pass_time(60)

        assert [] == problems(run)
        assert ["4"] == sizes(run)


@pytest.mark.row("S2-32", "S1-08")
@in_virtual_time
async def test_two_half_used_nodes_become_one() -> None:
    pools = kwok_pool("default", cpus("8"), ON_DEMAND, disruption=quick())
    async with autoscaler(pools, deployment("web", 14)) as run:
        await started(run, 14)
        assert ["8", "8"] == sizes(run)
        await run.scale("web", 6)
        await run.until(lambda: len(sizes(run)) == 1, seconds=120)
        await run.pass_time(60)

        assert [] == problems(run)
        assert 6 == len(run.running)


@pytest.mark.row("S2-08")
@in_virtual_time
async def test_nothing_moves_where_consolidation_is_off() -> None:
    never = {"consolidateAfter": "Never"}
    pools = kwok_pool("default", cpus("4"), ON_DEMAND, disruption=never)
    async with autoscaler(pools, deployment("web", 6)) as run:
        await started(run, 6)
        await run.scale("web", 1)
        await run.pass_time(1800)

        assert 2 == len(made_nodes(run))


@pytest.mark.row("S2-25")
@in_virtual_time
async def test_a_pool_that_is_edited_rolls_its_nodes_unless_a_budget_keeps_them() -> None:
    kept: JsonObject = {"nodes": "0", "reasons": ["Drifted"]}
    pools = kwok_pool("default", cpus("4"), disruption=quick(budgets=[kept]))
    async with autoscaler(pools, deployment("web", 3)) as run:
        await started(run, 3)
        (before,) = [node["metadata"]["uid"] for node in made_nodes(run)]
        patch: JsonObject = {"spec": {"template": {"metadata": {"labels": {"new": "yes"}}}}}
        await run.client.patch("merge", V1, "NodePool", None, "default", patch)
        await run.pass_time(120)

        def drifted() -> bool:
            held = run.claims[0]["status"]["conditions"]
            return any(c["type"] == "Drifted" and c["status"] == "True" for c in held)

        assert drifted()
        assert [before] == [node["metadata"]["uid"] for node in made_nodes(run)]
        assert ("NodePool", "DisruptionBlocked") in [event[:2] for event in run.events]

        opened: JsonObject = {"spec": {"disruption": {"budgets": ANY_NUMBER}}}
        await run.client.patch("merge", V1, "NodePool", None, "default", opened)
        await run.pass_time(120)

        (after,) = made_nodes(run)
        assert before != after["metadata"]["uid"]
        assert "yes" == after["metadata"]["labels"]["new"]
        assert [] == problems(run)


@pytest.mark.row("S2-103")
@in_virtual_time
async def test_a_protected_pod_keeps_its_node() -> None:
    job = deployment("job", 1)
    template = job["spec"]["template"]["metadata"]
    template["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    pools = kwok_pool("default", cpus("4", "8"), ON_DEMAND, disruption=quick())
    async with autoscaler(pools, job, deployment("web", 5)) as run:
        await started(run, 6)
        (before,) = [node["metadata"]["uid"] for node in made_nodes(run)]
        await run.scale("web", 0)
        await run.pass_time(300)
        patch: JsonObject = {"spec": {"template": {"metadata": {"labels": {"new": "yes"}}}}}
        await run.client.patch("merge", V1, "NodePool", None, "default", patch)
        await run.pass_time(300)

        assert [before] == [node["metadata"]["uid"] for node in made_nodes(run)]
        assert ("Node", "DisruptionBlocked") in [event[:2] for event in run.events]

        await run.scale("job", 0)
        await run.until(lambda: not made_nodes(run), seconds=300)


@pytest.mark.row("S2-103")
@in_virtual_time
async def test_a_protection_without_quotes_is_refused() -> None:
    job = deployment("job", 1)
    job["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": True}
    async with autoscaler(kwok_pool("default")) as run:
        with pytest.raises(ApiError, match="annotations"):
            await run.apply(job)

        assert [] == run.objects("apps", "deployments")


@in_virtual_time
async def test_a_pod_that_arrives_during_a_replacement_finds_its_place_there() -> None:
    pools = kwok_pool("default", cpus("4", "8"), ON_DEMAND, disruption=quick())
    async with autoscaler(pools, deployment("web", 6)) as run:
        await started(run, 6)
        await run.scale("web", 2)
        await run.until(lambda: len(run.claims) == 2, seconds=120)
        await run.apply(deployment("late", 1, cpu="500m"))
        await run.pass_time(120)

        assert ["4"] == sizes(run)
        assert [] == problems(run)
