"""Namespaces are emptied before they go, and each one starts with an account of its own."""

from typing import Any

import pytest

from helpers.clusters import in_virtual_time, names, running_controllers
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.cluster.namespace import NamespaceController
from karpenter_sandbox.controllers.cluster.retention import EventExpiry
from karpenter_sandbox.controllers.cluster.service_accounts import ServiceAccountController
from karpenter_sandbox.status import ApiError

JsonObject = dict[str, Any]
PLACES = ("default", "team")


def config_map(name: str, namespace: str, *finalizers: str) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": namespace}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@in_virtual_time
async def test_a_namespace_takes_its_content_along_and_nothing_else() -> None:
    async with running_controllers(NamespaceController, namespaces=PLACES) as cluster:
        await cluster.create(config_map("a", "team"), config_map("b", "default"))
        await cluster.client.delete("v1", "Namespace", None, "team")
        await cluster.settle()

        namespaces = names(await cluster.objects("v1", "Namespace"))
        maps = names(await cluster.objects("v1", "ConfigMap"))

    assert (["default"], ["b"]) == (namespaces, maps)


@in_virtual_time
async def test_a_namespace_waits_for_what_is_held_back_and_says_by_whom() -> None:
    async with running_controllers(NamespaceController, namespaces=PLACES) as cluster:
        await cluster.create(config_map("a", "team", "example.com/wait"))
        await cluster.client.delete("v1", "Namespace", None, "team")
        await cluster.settle()
        waiting = await cluster.client.get("v1", "Namespace", None, "team")
        with pytest.raises(ApiError) as refused:
            await cluster.create(config_map("late", "team"))
        await cluster.change(
            "v1", "ConfigMap", "a", {"metadata": {"finalizers": None}}, namespace="team"
        )
        await cluster.settle()

        namespaces = names(await cluster.objects("v1", "Namespace"))

    assert "Terminating" == waiting["status"]["phase"]
    remaining = find_condition(waiting, "NamespaceContentRemaining") or {}
    held = find_condition(waiting, "NamespaceFinalizersRemaining") or {}
    assert (
        "Some resources are remaining: configmaps has 1 resource instances"
        == (remaining["message"])
    )
    assert held["message"].endswith("example.com/wait in 1 resource instances")
    assert 403 == refused.value.status
    assert ["default"] == namespaces


@in_virtual_time
async def test_each_namespace_has_an_account_and_gets_it_back() -> None:
    async with running_controllers(ServiceAccountController, namespaces=PLACES) as cluster:
        await cluster.settle()
        await cluster.client.delete("v1", "ServiceAccount", "team", "default")
        await cluster.settle()

        accounts = await cluster.objects("v1", "ServiceAccount")
        maps = await cluster.objects("v1", "ConfigMap")

    places = [account["metadata"]["namespace"] for account in accounts]
    assert (["default", "team"], ["default", "default"]) == (places, names(accounts))
    assert ["kube-root-ca.crt", "kube-root-ca.crt"] == names(maps)


def event(name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "x", "namespace": "default"},
        "reason": "Test",
        "message": "something happened",
        "type": "Normal",
    }


@in_virtual_time
async def test_events_are_kept_for_an_hour() -> None:
    async with running_controllers(EventExpiry) as cluster:
        for name in ("old", "new"):
            await cluster.create(event(name))
            await cluster.pass_time(40 * 60)

        kept = names(await cluster.objects("v1", "Event"))

    assert ["new"] == kept


@in_virtual_time
async def test_an_event_that_happens_again_is_kept_for_an_hour_from_then() -> None:
    async with running_controllers(EventExpiry) as cluster:
        await cluster.create(event("again"))
        await cluster.pass_time(40 * 60)
        again = timestamp(cluster.clock.now())
        patch = {"lastTimestamp": again}
        await cluster.client.patch("merge", "v1", "events", "default", "again", patch)
        await cluster.pass_time(50 * 60)
        kept = names(await cluster.objects("v1", "Event"))
        await cluster.pass_time(15 * 60)

        left = names(await cluster.objects("v1", "Event"))

    assert (["again"], []) == (kept, left)


@in_virtual_time
async def test_events_are_not_kept_parsed() -> None:
    async with running_controllers(EventExpiry) as cluster:
        await cluster.create(event("a"))
        store = cluster.client._backend.store
        (stored,) = store.entries("", "events")
        assert "a" == stored.obj["metadata"]["name"]
        await cluster.pass_time(60)

        assert stored._obj is None
