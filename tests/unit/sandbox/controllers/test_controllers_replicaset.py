"""ReplicaSets keep as many pods as asked for, and give up the ones that would be missed least."""

from datetime import timedelta
from typing import Any

import pytest

from helpers.clusters import in_virtual_time, names, pod_template, running_controllers, workload
from karpenter.clock import EPOCH
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.workloads.replicaset import ReplicaSetController
from karpenter_sandbox.controllers.workloads.victims import victims

JsonObject = dict[str, Any]
NOW = EPOCH + timedelta(hours=2)


@in_virtual_time
async def test_a_set_creates_its_pods_and_says_so() -> None:
    async with running_controllers(ReplicaSetController) as cluster:
        owner = await cluster.create(workload("ReplicaSet", "web", replicas=3))
        await cluster.settle()

        pods = await cluster.pods()
        events = await cluster.events("web")
        status = (await cluster.get("apps/v1", "ReplicaSet", "web"))["status"]

    assert [3, 3] == [len(pods), len(events)]
    assert all(pod["metadata"]["name"].startswith("web-") for pod in pods)
    reference = pods[0]["metadata"]["ownerReferences"][0]
    assert (owner["metadata"]["uid"], True) == (reference["uid"], reference["controller"])
    assert {("SuccessfulCreate", f"Created pod: {name}") for name in names(pods)} == set(events)
    assert {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "observedGeneration": 1,
        "terminatingReplicas": 0,
    } == status


@in_virtual_time
async def test_a_deleted_pod_and_a_finished_one_are_replaced() -> None:
    async with running_controllers(ReplicaSetController) as cluster:
        await cluster.create(workload("ReplicaSet", "web", replicas=2))
        await cluster.settle()
        first, second = await cluster.pods()
        await cluster.client.delete("v1", "Pod", "default", first["metadata"]["name"])
        await cluster.finish(second, "Failed")
        await cluster.settle()

        pods = await cluster.pods()
        active = [pod for pod in pods if pod["status"]["phase"] == "Pending"]

    assert [3, 2] == [len(pods), len(active)]


@in_virtual_time
async def test_pods_in_the_labels_of_the_set_are_taken_over_and_let_go() -> None:
    async with running_controllers(ReplicaSetController) as cluster:
        stray = {
            "apiVersion": "v1",
            "kind": "Pod",
            **pod_template({"app": "web"}),
        }
        stray["metadata"] |= {"name": "stray", "namespace": "default"}
        await cluster.create(stray, workload("ReplicaSet", "web", replicas=2))
        await cluster.settle()
        adopted = await cluster.get("v1", "Pod", "stray")
        before = names(await cluster.pods())
        await cluster.change("v1", "Pod", "stray", {"metadata": {"labels": {"app": "looked-at"}}})
        await cluster.settle()

        released = await cluster.get("v1", "Pod", "stray")
        after = names(await cluster.pods())

    assert "web" == adopted["metadata"]["ownerReferences"][0]["name"]
    assert "ownerReferences" not in released["metadata"]
    assert [2, 3] == [len(before), len(after)]


@in_virtual_time
async def test_pods_count_as_available_once_they_have_been_ready_for_long_enough() -> None:
    async with running_controllers(ReplicaSetController) as cluster:
        await cluster.create(workload("ReplicaSet", "web", replicas=2, minReadySeconds=30))
        await cluster.settle()
        await cluster.run()
        await cluster.pass_time(20)
        early = (await cluster.get("apps/v1", "ReplicaSet", "web"))["status"]
        await cluster.pass_time(12)
        late = (await cluster.get("apps/v1", "ReplicaSet", "web"))["status"]

    assert (2, None) == (early["readyReplicas"], early.get("availableReplicas"))
    assert (2, 2) == (late["readyReplicas"], late["availableReplicas"])


@in_virtual_time
async def test_a_set_whose_pods_are_refused_says_why_and_goes_on_when_they_are_not() -> None:
    async with running_controllers(ReplicaSetController) as cluster:
        template = pod_template({"app": "web"}, priorityClassName="absent")
        await cluster.create(workload("ReplicaSet", "web", replicas=1, template=template))
        await cluster.settle()
        failed = await cluster.get("apps/v1", "ReplicaSet", "web")
        reasons = {reason for reason, _ in await cluster.events("web")}
        await cluster.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "absent"},
                "value": 5,
            }
        )
        await cluster.pass_time(30)

        healed = await cluster.get("apps/v1", "ReplicaSet", "web")
        pods = await cluster.pods()

    failure = find_condition(failed, "ReplicaFailure")
    assert failure is not None
    assert ("True", "FailedCreate") == (failure["status"], failure["reason"])
    assert "no PriorityClass with name absent was found" in failure["message"]
    assert {"FailedCreate"} == reasons
    assert (1, None) == (len(pods), find_condition(healed, "ReplicaFailure"))


@in_virtual_time
async def test_a_set_on_its_way_out_creates_nothing() -> None:
    async with running_controllers(ReplicaSetController) as cluster:
        obj = workload("ReplicaSet", "web", replicas=2)
        obj["metadata"]["finalizers"] = ["example.com/wait"]
        await cluster.create(obj)
        await cluster.client.delete("apps/v1", "ReplicaSet", "default", "web")
        await cluster.settle()

        pods = await cluster.pods()

    assert [] == pods


@in_virtual_time
async def test_more_pods_than_one_pass_creates_all_come() -> None:
    async with running_controllers(ReplicaSetController) as cluster:
        await cluster.create(workload("ReplicaSet", "web", replicas=1100))
        await cluster.settle()

        count = len(await cluster.pods())

    assert 1100 == count


def running(name: str, **facts: Any) -> JsonObject:
    """A pod that is ready since an hour, unless said otherwise."""
    since = NOW - timedelta(seconds=facts.get("ready_for", 3600))
    created = NOW - timedelta(seconds=facts.get("age", 3600))
    status: JsonObject = {"phase": facts.get("phase", "Running")}
    if facts.get("ready", True):
        moment = timestamp(since)
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": moment}]
    status["containerStatuses"] = [{"name": "main", "restartCount": facts.get("restarts", 0)}]
    metadata: JsonObject = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": timestamp(created),
    }
    if "cost" in facts:
        cost = {"controller.kubernetes.io/pod-deletion-cost": str(facts["cost"])}
        metadata["annotations"] = cost
    return {"metadata": metadata, "spec": {"nodeName": facts.get("node", name)}, "status": status}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(
            [running("placed", phase="Pending", ready=False), running("b", node="", cost=9)],
            "b",
            id="a pod without a node goes before one with a node",
        ),
        pytest.param(
            [running("a", cost=-5), running("b", phase="Pending", ready=False, cost=9)],
            "b",
            id="a pending pod goes before a running one whatever it costs",
        ),
        pytest.param(
            [running("a", cost=-5), running("b", ready=False, cost=9)],
            "b",
            id="a pod that is not ready goes before a ready one",
        ),
        pytest.param(
            [running("a", cost=3), running("b", cost=-1), running("c", cost=0)],
            "b",
            id="the lowest deletion cost goes first",
        ),
        pytest.param(
            [running("a", cost="much"), running("b", cost=1)],
            "a",
            id="a cost nobody can read counts as zero",
        ),
        pytest.param(
            [running("a", node="one"), running("b", node="two"), running("c", node="two")],
            "b",
            id="a pod that shares its node goes before one that does not",
        ),
        pytest.param(
            [running("a", ready_for=7000), running("b", ready_for=60)],
            "b",
            id="a pod ready for a much shorter time goes first",
        ),
        pytest.param(
            [running("a", ready_for=3600), running("b", ready_for=3500)],
            "a",
            id="pods ready for about the same time are drawn by their uid",
        ),
        pytest.param(
            [running("a", restarts=1), running("b", restarts=4)],
            "b",
            id="a pod that restarted more often goes first",
        ),
        pytest.param(
            [running("a", ready=False, age=7000), running("b", ready=False, age=60)],
            "b",
            id="a younger pod goes first",
        ),
    ],
)
def test_the_pod_that_would_be_missed_least_goes_first(
    pods: list[JsonObject], expected: str
) -> None:
    chosen = victims(pods, pods, 1, NOW)

    assert [expected] == names(chosen)


def test_pods_of_sister_sets_count_when_pods_share_nodes() -> None:
    pods = [running("a", node="one"), running("b", node="two")]
    sisters = [running("c", node="two")]

    chosen = victims(pods, [*pods, *sisters], 1, NOW)

    assert ["b"] == names(chosen)
