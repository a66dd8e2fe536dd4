"""Disruption budgets know how many pods may go, and evictions are held to it."""

from typing import Any

import pytest

from helpers.clusters import (
    ClusterHandle,
    in_virtual_time,
    pod_template,
    running_controllers,
    workload,
)
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.cluster.pdb import DisruptionController
from karpenter_sandbox.controllers.workloads.deployment import DeploymentController
from karpenter_sandbox.controllers.workloads.replicaset import ReplicaSetController
from karpenter_sandbox.status import ApiError

JsonObject = dict[str, Any]
CONTROLLERS = (DisruptionController, DeploymentController, ReplicaSetController)


def budget(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


async def state(cluster: ClusterHandle) -> Any:
    return await cluster.get("policy/v1", "PodDisruptionBudget", "web")


def counts(obj: JsonObject) -> tuple[int, int, int, int]:
    status = obj["status"]
    return (
        status["currentHealthy"],
        status["desiredHealthy"],
        status["expectedPods"],
        status["disruptionsAllowed"],
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"minAvailable": 2}, (4, 2, 4, 2), id="so many must stay"),
        pytest.param({"minAvailable": "60%"}, (4, 3, 4, 1), id="a share must stay, rounded up"),
        pytest.param({"maxUnavailable": 1}, (4, 3, 4, 1), id="so many may go"),
        pytest.param({"maxUnavailable": "30%"}, (4, 2, 4, 2), id="a share may go, rounded up"),
        pytest.param({"maxUnavailable": 0}, (4, 4, 4, 0), id="none may go"),
        pytest.param({"maxUnavailable": "100%"}, (4, 0, 4, 4), id="all may go"),
    ],
)
@in_virtual_time
async def test_what_a_budget_allows(spec: JsonObject, expected: tuple[int, int, int, int]) -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=4), budget(**spec))
        await cluster.live(2)

        obj = await state(cluster)

    assert expected == counts(obj)
    allowed = find_condition(obj, "DisruptionAllowed") or {}
    wanted = ("True", "SufficientPods") if expected[3] else ("False", "InsufficientPods")
    assert wanted == (allowed["status"], allowed["reason"])
    assert obj["metadata"]["generation"] == obj["status"]["observedGeneration"]


@in_virtual_time
async def test_evictions_stop_where_the_budget_ends_and_go_on_with_new_pods() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=3), budget(minAvailable=2))
        await cluster.live(2)
        first, second, _ = [pod["metadata"]["name"] for pod in await cluster.pods()]
        await cluster.client.evict("default", first)
        with pytest.raises(ApiError) as refused:
            await cluster.client.evict("default", second)
        await cluster.live(2)
        await cluster.client.evict("default", second)
        await cluster.live(2)

        obj = await state(cluster)

    assert 429 == refused.value.status
    assert (3, 2, 3, 1) == counts(obj)


@in_virtual_time
async def test_a_pod_that_was_evicted_and_stays_counts_again_after_two_minutes() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=2), budget(minAvailable=1))
        await cluster.live(2)
        name = (await cluster.pods())[0]["metadata"]["name"]
        budgeted = await state(cluster)
        spared = {**budgeted["status"], "disruptedPods": {name: "2030-01-01T00:00:02Z"}}
        await cluster.client.update_status({**budgeted, "status": spared})
        await cluster.settle()
        early = await state(cluster)
        await cluster.pass_time(130)

        late = await state(cluster)
        events = await cluster.events(name)

    assert (1, 1, 2, 0) == counts(early)
    assert (2, 1, 2, 1) == counts(late)
    assert "disruptedPods" not in late["status"]
    assert "NotDeleted" in {reason for reason, _ in events}


@in_virtual_time
async def test_pods_without_a_controller_are_counted_only_for_plain_numbers() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        bare: JsonObject = {"apiVersion": "v1", "kind": "Pod", **pod_template({"app": "web"})}
        bare["metadata"] |= {"name": "bare", "namespace": "default"}
        await cluster.create(bare, budget(minAvailable=0))
        await cluster.live(1)
        plain = counts(await state(cluster))
        await cluster.change(
            "policy/v1",
            "PodDisruptionBudget",
            "web",
            {"spec": {"minAvailable": None, "maxUnavailable": "50%"}},
        )
        await cluster.settle()

        share = counts(await state(cluster))
        reasons = {reason for reason, _ in await cluster.events("web")}

    assert (1, 0, 1, 1) == plain
    assert (1, 0, 0, 0) == share
    assert "UnmanagedPods" in reasons


@in_virtual_time
async def test_pods_whose_controller_has_no_size_make_the_budget_fail_safe() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        odd: JsonObject = {"apiVersion": "v1", "kind": "Pod", **pod_template({"app": "web"})}
        owner = {
            "apiVersion": "example.com/v1",
            "kind": "Gadget",
            "name": "g",
            "uid": "g",
            "controller": True,
        }
        odd["metadata"] |= {"name": "odd", "namespace": "default", "ownerReferences": [owner]}
        await cluster.create(odd, budget(maxUnavailable=1))
        await cluster.live(1)

        obj = await state(cluster)

    condition = find_condition(obj, "DisruptionAllowed") or {}
    assert ("False", "SyncFailed") == (condition["status"], condition["reason"])
    assert 'found no controllers for pod "odd"' == condition["message"]
    assert 0 == obj["status"]["disruptionsAllowed"]


@in_virtual_time
async def test_pods_come_and_go_with_their_labels() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(budget(minAvailable=0))
        await cluster.settle()
        empty = counts(await state(cluster))
        for name, app in (("a", "web"), ("b", "other")):
            pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", **pod_template({"app": app})}
            pod["metadata"] |= {"name": name, "namespace": "default"}
            await cluster.create(pod)
        await cluster.live(1)
        one = counts(await state(cluster))
        await cluster.change("v1", "Pod", "b", {"metadata": {"labels": {"app": "web"}}})
        await cluster.change("v1", "Pod", "a", {"metadata": {"labels": {"app": "gone"}}})
        await cluster.client.delete("v1", "Pod", "default", "b", grace_period=0)
        await cluster.settle()

        none = counts(await state(cluster))

    assert ((0, 0, 0, 0), (1, 0, 1, 1), (0, 0, 0, 0)) == (empty, one, none)
