"""Services lead to the pods they select, and say which of them are ready."""

from typing import Any

import pytest

from helpers.clusters import ClusterHandle, in_virtual_time, pod_template, running_controllers
from karpenter_sandbox.controllers.cluster.garbage_collector import GarbageCollector
from karpenter_sandbox.controllers.services.endpoint_addresses import slices, subsets
from karpenter_sandbox.controllers.services.endpoints import (
    EndpointsController,
    EndpointSliceController,
)

JsonObject = dict[str, Any]
BOTH = (EndpointsController, EndpointSliceController)


def service(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}], **spec},
    }


def new_pod(name: str, app: str = "web") -> JsonObject:
    pod = {"apiVersion": "v1", "kind": "Pod", **pod_template({"app": app})}
    pod["metadata"] |= {"name": name, "namespace": "default"}
    return pod


def node(name: str, zone: str) -> JsonObject:
    labels = {"topology.kubernetes.io/zone": zone}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


async def start(cluster: ClusterHandle, pod: JsonObject, ip: str, *, ready: bool = True) -> None:
    created = await cluster.create(pod)
    await cluster.run([created], ready=ready)
    await cluster.report(created, {"podIP": ip})


async def endpoint_slices(cluster: ClusterHandle) -> list[JsonObject]:
    return await cluster.objects("discovery.k8s.io/v1", "EndpointSlice")


@in_virtual_time
async def test_ready_pods_are_told_from_those_that_are_not() -> None:
    async with running_controllers(*BOTH) as cluster:
        await cluster.create(node("node-1", "a"), service())
        await start(cluster, new_pod("one"), "10.0.0.1")
        await start(cluster, new_pod("two"), "10.0.0.2", ready=False)
        await start(cluster, new_pod("other", app="api"), "10.0.0.3")
        await cluster.create(new_pod("without-address"))
        await cluster.settle()

        endpoints = await cluster.get("v1", "Endpoints", "web")
        (found,) = await endpoint_slices(cluster)

    (subset,) = endpoints["subsets"]
    assert [("10.0.0.1", "one")] == [(a["ip"], a["targetRef"]["name"]) for a in subset["addresses"]]
    assert ["10.0.0.2"] == [address["ip"] for address in subset["notReadyAddresses"]]
    assert [{"port": 8080, "protocol": "TCP"}] == subset["ports"]
    assert ("a", "endpoint-controller") == (
        endpoints["metadata"]["labels"]["team"],
        endpoints["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"],
    )
    shown = [
        (point["addresses"], point["conditions"]["ready"], point["nodeName"], point["zone"])
        for point in found["endpoints"]
    ]
    assert [(["10.0.0.1"], True, "node-1", "a"), (["10.0.0.2"], False, "node-1", "a")] == shown
    assert [{"name": "", "port": 8080, "protocol": "TCP"}] == found["ports"]
    assert "web" == found["metadata"]["labels"]["kubernetes.io/service-name"]
    assert "web" == found["metadata"]["ownerReferences"][0]["name"]


@in_virtual_time
async def test_a_service_without_pods_leads_nowhere() -> None:
    async with running_controllers(*BOTH) as cluster:
        await cluster.create(service())
        await cluster.settle()

        endpoints = await cluster.get("v1", "Endpoints", "web")
        (found,) = await endpoint_slices(cluster)

    assert "subsets" not in endpoints
    assert not found["endpoints"]


@in_virtual_time
async def test_endpoints_follow_pods_that_come_and_go() -> None:
    async with running_controllers(*BOTH) as cluster:
        await cluster.create(service())
        await start(cluster, new_pod("one"), "10.0.0.1")
        await start(cluster, new_pod("two"), "10.0.0.2")
        await cluster.settle()
        await cluster.client.delete("v1", "Pod", "default", "one")
        await cluster.settle()
        (going,) = await endpoint_slices(cluster)
        without = await cluster.get("v1", "Endpoints", "web")
        await cluster.reap()
        await cluster.settle()

        (gone,) = await endpoint_slices(cluster)

    states = [point["conditions"] for point in going["endpoints"]]
    assert {"ready": False, "serving": True, "terminating": True} == states[0]
    assert ["10.0.0.2"] == [address["ip"] for address in without["subsets"][0]["addresses"]]
    assert [["10.0.0.2"]] == [point["addresses"] for point in gone["endpoints"]]
    assert going["metadata"]["name"] == gone["metadata"]["name"]


@in_virtual_time
async def test_the_endpoints_of_a_deleted_service_go_with_it() -> None:
    async with running_controllers(*BOTH, GarbageCollector) as cluster:
        await cluster.create(service())
        await start(cluster, new_pod("one"), "10.0.0.1")
        await cluster.settle()
        await cluster.client.delete("v1", "Service", "default", "web")
        await cluster.pass_time(60)

        left = await cluster.objects("v1", "Endpoints"), await endpoint_slices(cluster)

    assert ([], []) == left


@in_virtual_time
async def test_endpoints_that_somebody_else_writes_are_left_alone() -> None:
    async with running_controllers(*BOTH) as cluster:
        await cluster.create(service(selector=None))
        own = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": "web", "namespace": "default"},
            "subsets": [{"addresses": [{"ip": "192.0.2.1"}]}],
        }
        await cluster.create(own)
        await cluster.settle()
        await cluster.client.delete("v1", "Service", "default", "web")
        await cluster.settle()

        endpoints = await cluster.get("v1", "Endpoints", "web")

    assert "192.0.2.1" == endpoints["subsets"][0]["addresses"][0]["ip"]


def pod(number: int, **spec: Any) -> JsonObject:
    return {
        "metadata": {"name": f"p{number}", "namespace": "default", "uid": str(number)},
        "spec": {"containers": [{"name": "main"}], **spec},
        "status": {
            "podIP": f"10.0.{number // 250}.{number % 250 + 1}",
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_a_slice_holds_a_hundred_endpoints_at_most() -> None:
    found = slices(service(), [pod(number) for number in range(230)], {})

    assert [100, 100, 30] == [len(part.endpoints) for part in found]


def test_endpoints_hold_a_thousand_addresses_at_most() -> None:
    (found,) = subsets(service(), [pod(number) for number in range(1200)])

    assert 1000 == len(found["addresses"])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [{"port": 8080, "protocol": "TCP"}], id="a number"),
        pytest.param(
            {"ports": [{"port": 80, "targetPort": "http", "name": "web"}]},
            [{"name": "web", "port": 3000, "protocol": "TCP"}],
            id="a name that the container gives",
        ),
        pytest.param(
            {"ports": [{"port": 80, "targetPort": "missing"}]}, None, id="a name that nobody gives"
        ),
        pytest.param({"ports": [{"port": 53}]}, [{"port": 53, "protocol": "TCP"}], id="the same"),
        pytest.param({"clusterIP": "None", "ports": []}, None, id="no port at all"),
    ],
)
def test_ports_are_those_of_the_pods(spec: JsonObject, expected: list[JsonObject] | None) -> None:
    named = [{"name": "http", "containerPort": 3000}]

    (found,) = subsets(service(**spec), [pod(1, containers=[{"name": "main", "ports": named}])])

    assert expected == found.get("ports")


def test_a_service_may_publish_pods_that_are_not_ready() -> None:
    unready = pod(1)
    unready["status"]["conditions"] = []

    (found,) = subsets(service(publishNotReadyAddresses=True), [unready])

    assert ["10.0.0.2"] == [address["ip"] for address in found["addresses"]]


def test_a_pod_is_found_by_name_beside_its_headless_service() -> None:
    named = pod(1, hostname="db-0", subdomain="web")

    (found,) = subsets(service(), [named])

    assert "db-0" == found["addresses"][0]["hostname"]
