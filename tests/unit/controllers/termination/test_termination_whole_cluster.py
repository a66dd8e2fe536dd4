"""Nodes that leave a whole cluster: their pods run elsewhere, and nothing of them is left."""

import asyncio

import pytest

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter_sandbox.kubelet.faults import SHUTDOWN_DELAY

FAILED_DRAINING = ("Node", "FailedDraining")


def names(objects: list[JsonObject]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def all_run(run: Autoscaler, count: int) -> bool:
    """Whether so many pods run and none is on its way in or out."""
    return count == len(run.running) == len(run.pods) and not any(
        "deletionTimestamp" in pod["metadata"] for pod in run.pods
    )


async def ours(run: Autoscaler, pods: int) -> str:
    """The name of the first node that was made, once everything runs."""
    await run.until(lambda: all_run(run, pods) and bool(run.claims))
    await run.pass_time(30)
    return next(name for name in names(run.nodes) if name in _nodes_of_claims(run))


def _nodes_of_claims(run: Autoscaler) -> set[str]:
    return {claim.get("status", {}).get("nodeName", "") for claim in run.claims}


def is_cordoned(run: Autoscaler, name: str) -> bool:
    found = [node for node in run.nodes if node["metadata"]["name"] == name]
    return bool(found) and found[0]["spec"].get("unschedulable", False)


def budget(app: str, available: int) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": app}}},
    }


@pytest.mark.parametrize("kind", ["Node", "NodeClaim"])
def test_what_is_deleted_is_cordoned_emptied_and_gone_with_its_machine(kind: str) -> None:
    @in_virtual_time
    async def run_it() -> None:
        async with autoscaler(kwok_pool(), deployment("web", 5)) as run:
            name = await ours(run, 5)
            (claim,) = names(run.claims)
            assert run.cloud is not None
            target = ("v1", "Node", None, name)
            if kind == "NodeClaim":
                target = ("karpenter.sh/v1", "NodeClaim", None, claim)

            await run.client.delete(*target)
            await run.until(lambda: is_cordoned(run, name))
            await run.until(lambda: name not in names(run.nodes))
            await run.until(lambda: all_run(run, 5))
            await run.until(lambda: claim not in names(run.claims), seconds=5)

            assert name not in {pod["spec"]["nodeName"] for pod in run.pods}
            left = [each.provider_id for each in await run.cloud.list()]
            assert 1 == len(left) == len(run.claims) == len(run.nodes)

    run_it()


@pytest.mark.row("S2-22")
@in_virtual_time
async def test_a_pool_takes_its_claims_and_nodes_with_it() -> None:
    async with autoscaler(kwok_pool(), deployment("web", 3), nodes=1) as run:
        await run.until(lambda: all_run(run, 3))
        await run.apply(deployment("more", 8, cpu="3"))
        await run.until(lambda: all_run(run, 11) and bool(run.claims))
        await run.scale("more", 0)

        await run.client.delete("karpenter.sh/v1", "NodePool", None, "default")
        await run.until(lambda: not run.claims and names(run.nodes) == ["node-1"])

        assert [] == run.objects("karpenter.sh", "nodepools")


@pytest.mark.row("S2-97")
@in_virtual_time
async def test_a_node_that_is_drained_and_deleted_by_hand_is_replaced() -> None:
    async with autoscaler(kwok_pool(), deployment("web", 4)) as run:
        old = await ours(run, 4)
        patch = {"spec": {"unschedulable": True}}
        await run.client.patch("merge", "v1", "Node", None, old, patch)
        for pod in run.pods:
            await run.client.evict("default", pod["metadata"]["name"])
        await run.until(lambda: all_run(run, 4))

        await run.client.delete("v1", "Node", None, old)
        await run.until(lambda: old not in names(run.nodes))

        assert all_run(run, 4)
        assert 1 == len(run.nodes)


@pytest.mark.row("S2-100")
@in_virtual_time
async def test_a_pod_has_its_75_seconds_before_its_machine_dies() -> None:
    slow = deployment("web", 1, terminationGracePeriodSeconds=75)
    slow["spec"]["template"]["metadata"]["annotations"] = {SHUTDOWN_DELAY: "70s"}
    async with autoscaler(kwok_pool(), slow) as run:
        name = await ours(run, 1)
        (old,) = names(run.pods)
        await run.client.delete("v1", "Node", None, name)
        await run.pass_time(69)
        assert old in names(run.pods)
        assert name in names(run.nodes)
        assert "InstanceTerminating" not in str(run.claims)

        await run.until(lambda: name not in names(run.nodes), seconds=15)

        assert old not in names(run.pods)


@pytest.mark.row("S2-101")
@in_virtual_time
async def test_two_pods_of_which_one_must_stay_are_never_evicted_together() -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }
            ]
        }
    }
    web = deployment("web", 2, affinity=apart)
    async with autoscaler(kwok_pool(), web, budget("web", 1)) as run:
        await run.until(lambda: all_run(run, 2) and len(run.claims) == 2)
        await run.pass_time(30)
        old = set(names(run.nodes))
        fewest = 2

        async def count() -> None:
            nonlocal fewest
            while True:
                alive = [p for p in run.running if "deletionTimestamp" not in p["metadata"]]
                fewest = min(fewest, len(alive))
                await run.pass_time(0.05)

        counting = asyncio.create_task(count())
        for name in old:
            await run.client.delete("v1", "Node", None, name)
        await run.until(lambda: not old & set(names(run.nodes)))
        await run.until(lambda: all_run(run, 2))
        counting.cancel()

        assert 1 == fewest


@in_virtual_time
async def test_pods_of_a_node_that_goes_move_to_the_one_that_has_room() -> None:
    async with autoscaler(kwok_pool(), deployment("web", 7), nodes=1) as run:
        await run.until(lambda: all_run(run, 7))
        await run.apply(deployment("more", 3, cpu="3"))
        await run.until(lambda: all_run(run, 10) and bool(run.claims))
        await run.pass_time(30)
        going = [name for name in names(run.nodes) if name in _nodes_of_claims(run)]
        await run.scale("more", 0)
        await run.scale("web", 8)
        await run.until(lambda: all_run(run, 8))

        for name in going:
            await run.client.delete("v1", "Node", None, name)
        await run.until(lambda: not set(going) & set(names(run.nodes)))
        await run.until(lambda: all_run(run, 8))

        assert not set(going) & {pod["spec"]["nodeName"] for pod in run.pods}


@in_virtual_time
async def test_a_node_whose_time_is_over_ends_as_one_that_was_deleted() -> None:
    pool = kwok_pool(template={"expireAfter": "1h"})
    async with autoscaler(pool, deployment("web", 2)) as run:
        old = await ours(run, 2)
        await run.until(lambda: is_cordoned(run, old), seconds=4000)
        await run.until(lambda: old not in names(run.nodes))
        await run.until(lambda: all_run(run, 2))
        await run.until(lambda: len(run.claims) == 1, seconds=2)

        assert names(run.nodes) == list(_nodes_of_claims(run))


@pytest.mark.case("DIS-78")
@in_virtual_time
async def test_users_read_on_the_node_which_pod_its_budget_holds() -> None:
    async with autoscaler(kwok_pool(), deployment("web", 1), budget("web", 1)) as run:
        name = await ours(run, 1)
        (held,) = names(run.pods)

        await run.client.delete("v1", "Node", None, name)
        await run.pass_time(10)

        told = [text for kind, reason, text in run.events if (kind, reason) == FAILED_DRAINING]
        assert ["Failed to drain node, 1 pods are waiting to be evicted"] == told[:1]
        assert [True] == [f"default/{held}" in text and "budget" in text for text in told[1:]]


@in_virtual_time
async def test_pods_of_one_name_in_two_namespaces_are_both_told_that_they_were_evicted() -> None:
    places = ("default", "other")
    twins = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web-0", "namespace": place},
            "spec": deployment("web", 1)["spec"]["template"]["spec"],
        }
        for place in places
    ]
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    async with autoscaler(kwok_pool(), space, *twins) as run:
        name = await ours(run, 2)

        await run.client.delete("v1", "Node", None, name)
        await run.until(lambda: name not in names(run.nodes))

        told = [
            event["involvedObject"]["namespace"]
            for event in run.objects("", "events")
            if event["reason"] == "Evicted"
        ]
        assert places == tuple(sorted(told))
