"""ReplicationControllers keep as many pods as asked for, selected by a plain map of labels."""

from typing import Any

from helpers.clusters import in_virtual_time, names, pod_template, running_controllers
from karpenter_sandbox.controllers.workloads.replicaset import ReplicationController

JsonObject = dict[str, Any]


def controller(replicas: int) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"app": "web"},
            "template": pod_template({"app": "web"}),
        },
    }


@in_virtual_time
async def test_a_controller_creates_and_deletes_pods_and_counts_them() -> None:
    async with running_controllers(ReplicationController) as cluster:
        await cluster.create(controller(3))
        await cluster.settle()
        pods = await cluster.pods()
        before = (await cluster.get("v1", "ReplicationController", "web"))["status"]
        await cluster.run()
        await cluster.scale("v1", "ReplicationController", "web", 1)
        await cluster.live(2)

        left = await cluster.pods()
        after = (await cluster.get("v1", "ReplicationController", "web"))["status"]

    reference = pods[0]["metadata"]["ownerReferences"][0]
    assert ("v1", "ReplicationController") == (reference["apiVersion"], reference["kind"])
    assert {"replicas": 3, "fullyLabeledReplicas": 3, "observedGeneration": 1} == before
    assert 1 == len(left)
    assert (1, 1, 1) == (after["replicas"], after["readyReplicas"], after["availableReplicas"])


@in_virtual_time
async def test_pods_with_its_labels_are_taken_over() -> None:
    async with running_controllers(ReplicationController) as cluster:
        stray = {"apiVersion": "v1", "kind": "Pod", **pod_template({"app": "web"})}
        stray["metadata"] |= {"name": "stray", "namespace": "default"}
        other = {"apiVersion": "v1", "kind": "Pod", **pod_template({"app": "api"})}
        other["metadata"] |= {"name": "other", "namespace": "default"}
        await cluster.create(stray, other, controller(1))
        await cluster.settle()

        found = names(await cluster.pods())
        adopted = await cluster.get("v1", "Pod", "stray")
        untouched = await cluster.get("v1", "Pod", "other")

    assert ["other", "stray"] == found
    assert "web" == adopted["metadata"]["ownerReferences"][0]["name"]
    assert "ownerReferences" not in untouched["metadata"]
