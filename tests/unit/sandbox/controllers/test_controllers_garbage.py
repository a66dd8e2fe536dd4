"""The garbage collector removes what has lost its owner, in the way the deletion asked for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from helpers.clusters import ClusterHandle, in_virtual_time, names, running_controllers
from karpenter_sandbox.controllers.cluster.garbage_collector import GarbageCollector

JsonObject = dict[str, Any]


@asynccontextmanager
async def collecting(*objects: JsonObject) -> AsyncIterator[ClusterHandle]:
    """A cluster with a garbage collector, and objects that own each other by name."""
    async with running_controllers(GarbageCollector) as cluster:
        for obj in objects:
            await add(cluster, obj)
        await cluster.settle()
        yield cluster


async def add(cluster: ClusterHandle, obj: JsonObject) -> None:
    for reference in obj["metadata"].get("ownerReferences") or []:
        owner = await cluster.get("v1", "ConfigMap", reference["name"])
        reference["uid"] = owner["metadata"]["uid"]
    await cluster.create(obj)


def thing(
    name: str, *owners: str, blocks: bool = True, finalizers: list[str] | None = None
) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": "default"}
    if owners:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "blockOwnerDeletion": blocks}
            for owner in owners
        ]
    if finalizers:
        metadata["finalizers"] = finalizers
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def delete(cluster: ClusterHandle, name: str, propagation: str) -> None:
    await cluster.client.delete("v1", "ConfigMap", "default", name, propagation=propagation)
    await cluster.settle()


async def left(cluster: ClusterHandle) -> list[str]:
    return names(await cluster.objects("v1", "ConfigMap"))


@in_virtual_time
async def test_dependents_of_dependents_follow_in_the_background() -> None:
    async with collecting(
        thing("top"), thing("middle", "top"), thing("bottom", "middle"), thing("other")
    ) as cluster:
        await delete(cluster, "top", "Background")

        remaining = await left(cluster)

    assert ["other"] == remaining


@in_virtual_time
async def test_in_the_foreground_the_owner_goes_last() -> None:
    async with collecting(
        thing("top"), thing("held", "top", finalizers=["example.com/wait"]), thing("free", "top")
    ) as cluster:
        await delete(cluster, "top", "Foreground")
        waiting = await left(cluster)
        finalizers = (await cluster.get("v1", "ConfigMap", "top"))["metadata"]["finalizers"]
        await cluster.change("v1", "ConfigMap", "held", {"metadata": {"finalizers": None}})
        await cluster.settle()

        remaining = await left(cluster)

    assert (["held", "top"], ["foregroundDeletion"]) == (waiting, finalizers)
    assert [] == remaining


@in_virtual_time
async def test_in_the_foreground_a_dependent_that_does_not_block_is_not_waited_for() -> None:
    async with collecting(
        thing("top"), thing("held", "top", blocks=False, finalizers=["example.com/wait"])
    ) as cluster:
        await delete(cluster, "top", "Foreground")

        remaining = await left(cluster)

    assert ["held"] == remaining


@in_virtual_time
async def test_orphans_stay_and_forget_their_owner() -> None:
    async with collecting(thing("top"), thing("child", "top")) as cluster:
        await delete(cluster, "top", "Orphan")

        remaining = await left(cluster)
        child = await cluster.get("v1", "ConfigMap", "child")

    assert ["child"] == remaining
    assert "ownerReferences" not in child["metadata"]


@in_virtual_time
async def test_a_dependent_stays_while_one_of_its_owners_does() -> None:
    async with collecting(
        thing("first"), thing("second"), thing("child", "first", "second")
    ) as cluster:
        await delete(cluster, "first", "Background")
        # Only what has to be looked at is: the stale reference goes with the next look
        remaining = await left(cluster)
        references = (await cluster.get("v1", "ConfigMap", "child"))["metadata"]["ownerReferences"]
        await delete(cluster, "second", "Background")

        end = await left(cluster)

    assert (["child", "second"], ["second"]) == (remaining, [r["name"] for r in references])
    assert [] == end


@in_virtual_time
async def test_an_object_whose_owner_never_existed_goes() -> None:
    async with collecting() as cluster:
        obj = thing("child", "nobody")
        obj["metadata"]["ownerReferences"][0]["uid"] = "11111111-1111-1111-1111-111111111111"
        await cluster.create(obj)
        await cluster.settle()

        remaining = await left(cluster)

    assert [] == remaining


@in_virtual_time
async def test_an_owner_of_the_same_name_but_another_uid_does_not_count() -> None:
    async with collecting(thing("top"), thing("child", "top", finalizers=["x.com/y"])) as cluster:
        await cluster.client.delete("v1", "ConfigMap", "default", "top", propagation="Background")
        await cluster.create(thing("top"))
        await cluster.settle()

        child = await cluster.get("v1", "ConfigMap", "child")

    assert "deletionTimestamp" in child["metadata"]


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@in_virtual_time
async def test_a_circle_of_owners_does_not_hold_itself_up(propagation: str) -> None:
    async with collecting(thing("a"), thing("b", "a")) as cluster:
        b = await cluster.get("v1", "ConfigMap", "b")
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "b",
            "uid": b["metadata"]["uid"],
        }
        await cluster.change("v1", "ConfigMap", "a", {"metadata": {"ownerReferences": [reference]}})
        await delete(cluster, "a", propagation)

        remaining = await left(cluster)

    assert [] == remaining
