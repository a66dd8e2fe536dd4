"""Deployments roll from one template to the next without losing what must stay available."""

from typing import Any

from helpers.clusters import (
    ClusterHandle,
    in_virtual_time,
    pod_template,
    running_controllers,
    workload,
)
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.workloads.deployment import DeploymentController
from karpenter_sandbox.controllers.workloads.replicaset import ReplicaSetController

JsonObject = dict[str, Any]
CONTROLLERS = (DeploymentController, ReplicaSetController)


def new_template(version: str) -> JsonObject:
    """A patch that makes a template another one."""
    return {"spec": {"template": {"metadata": {"annotations": {"version": version}}}}}


async def deployment(cluster: ClusterHandle) -> Any:
    return await cluster.get("apps/v1", "Deployment", "web")


async def sizes(cluster: ClusterHandle) -> list[int]:
    """The sizes of the ReplicaSets, the oldest revision first."""
    sets = await cluster.objects("apps/v1", "ReplicaSet")
    key = "deployment.kubernetes.io/revision"
    sets.sort(key=lambda rs: int(rs["metadata"]["annotations"][key]))
    return [rs["spec"]["replicas"] for rs in sets]


def condition(obj: JsonObject, kind: str) -> tuple[str, str, str]:
    found = find_condition(obj, kind)
    assert found is not None
    return found["status"], found["reason"], found["message"]


@in_virtual_time
async def test_a_deployment_creates_one_set_named_after_its_template() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=3))
        await cluster.settle()

        (replica_set,) = await cluster.objects("apps/v1", "ReplicaSet")
        obj = await deployment(cluster)
        events = await cluster.events("web")

    name = replica_set["metadata"]["name"]
    code = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert f"web-{code}" == name
    assert {"app": "web", "pod-template-hash": code} == replica_set["spec"]["selector"][
        "matchLabels"
    ]
    assert [("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 3")] == events
    assert "1" == obj["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
    assert ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.') == condition(
        obj, "Progressing"
    )
    assert (
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    ) == condition(obj, "Available")


@in_virtual_time
async def test_a_deployment_whose_pods_run_is_complete() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=3))
        await cluster.live(2)

        obj = await deployment(cluster)
        (replica_set,) = await cluster.objects("apps/v1", "ReplicaSet")

    counts = {key: value for key, value in obj["status"].items() if key != "conditions"}
    assert {
        "observedGeneration": 1,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "terminatingReplicas": 0,
    } == counts
    assert (
        "True",
        "NewReplicaSetAvailable",
        f'ReplicaSet "{replica_set["metadata"]["name"]}" has successfully progressed.',
    ) == condition(obj, "Progressing")


async def begin_rollout(cluster: ClusterHandle, rules: dict[str, int]) -> None:
    """Ten pods, and a new template for them."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": rules}
    await cluster.create(workload("Deployment", "web", replicas=10, strategy=strategy))
    await cluster.live(2)
    await cluster.change("apps/v1", "Deployment", "web", new_template("2"))


@in_virtual_time
async def test_a_rollout_stays_within_its_bounds_and_ends_with_new_pods_only() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await begin_rollout(cluster, {"maxSurge": 2, "maxUnavailable": 1})
        totals, available = [], []
        for _ in range(12):
            await cluster.settle()
            pods = [p for p in await cluster.pods() if "deletionTimestamp" not in p["metadata"]]
            totals.append(len(pods))
            available.append(
                sum((find_condition(p, "Ready") or {}).get("status") == "True" for p in pods)
            )
            await cluster.run()
            await cluster.reap()
        await cluster.settle()

        pods = await cluster.pods()
        obj = await deployment(cluster)
        end = await sizes(cluster)

    assert max(totals) <= 12
    assert min(available) >= 9
    assert {"2"} == {pod["metadata"]["annotations"]["version"] for pod in pods}
    assert [0, 10] == end
    assert "2" == obj["metadata"]["annotations"]["deployment.kubernetes.io/revision"]


@in_virtual_time
async def test_going_back_takes_up_the_old_set_under_a_new_revision() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=1))
        await cluster.live(2)
        (first,) = await cluster.objects("apps/v1", "ReplicaSet")
        await cluster.change("apps/v1", "Deployment", "web", new_template("2"))
        await cluster.live(4)
        back = {"spec": {"template": {"metadata": {"annotations": None}}}}
        await cluster.change("apps/v1", "Deployment", "web", back)
        await cluster.live(4)

        again = await cluster.get("apps/v1", "ReplicaSet", first["metadata"]["name"])
        annotations = (await deployment(cluster))["metadata"]["annotations"]
        count = len(await cluster.objects("apps/v1", "ReplicaSet"))

    assert (1, 2) == (again["spec"]["replicas"], count)
    assert "3" == annotations["deployment.kubernetes.io/revision"]
    history = again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"]
    assert "1" == history


@in_virtual_time
async def test_scaling_does_not_start_a_rollout() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=2))
        await cluster.live(2)
        await cluster.scale("apps/v1", "Deployment", "web", 5)
        await cluster.live(2)
        grown = await sizes(cluster)
        await cluster.scale("apps/v1", "Deployment", "web", 1)
        await cluster.live(2)

        end = await sizes(cluster), len(await cluster.pods())
        messages = [message for _, message in await cluster.events("web")]

    assert ([5], ([1], 1)) == (grown, end)
    assert messages[-1].endswith("from 5 to 1")


@in_virtual_time
async def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        strategy = {"type": "Recreate"}
        await cluster.create(workload("Deployment", "web", replicas=2, strategy=strategy))
        await cluster.live(2)
        await cluster.change("apps/v1", "Deployment", "web", new_template("2"))
        await cluster.settle()
        waiting = await sizes(cluster)
        await cluster.reap()
        await cluster.settle()

        end = await sizes(cluster)

    assert ([0], [0, 2]) == (waiting, end)


@in_virtual_time
async def test_a_paused_deployment_scales_but_does_not_roll_out() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=2, paused=True))
        await cluster.settle()
        before = await sizes(cluster)
        await cluster.change("apps/v1", "Deployment", "web", {"spec": {"paused": False}})
        await cluster.live(2)
        await cluster.change("apps/v1", "Deployment", "web", {"spec": {"paused": True}})
        await cluster.change("apps/v1", "Deployment", "web", new_template("2"))
        await cluster.scale("apps/v1", "Deployment", "web", 3)
        await cluster.live(2)

        obj = await deployment(cluster)
        paused = await sizes(cluster)

    assert ([], [3]) == (before, paused)
    assert ("Unknown", "DeploymentPaused", "Deployment is paused") == condition(obj, "Progressing")


@in_virtual_time
async def test_a_rollout_without_progress_misses_its_deadline() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=1, progressDeadlineSeconds=60))
        await cluster.pass_time(55)
        before = condition(await deployment(cluster), "Progressing")
        await cluster.pass_time(10)

        after = condition(await deployment(cluster), "Progressing")

    assert "True" == before[0]
    assert ("False", "ProgressDeadlineExceeded") == after[:2]


@in_virtual_time
async def test_only_so_many_old_sets_are_kept_as_the_deployment_wants() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=1, revisionHistoryLimit=1))
        await cluster.live(2)
        for version in ("2", "3", "4"):
            await cluster.change("apps/v1", "Deployment", "web", new_template(version))
            await cluster.live(4)

        left = await sizes(cluster)

    assert [0, 1] == left


@in_virtual_time
async def test_a_change_of_size_during_a_rollout_is_shared_in_proportion() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await begin_rollout(cluster, {"maxSurge": 0, "maxUnavailable": 5})
        await cluster.settle()
        halfway = await sizes(cluster)
        await cluster.scale("apps/v1", "Deployment", "web", 20)
        await cluster.settle()

        shared = await sizes(cluster)

    assert ([5, 5], [10, 10]) == (halfway, shared)


@in_virtual_time
async def test_the_reason_why_pods_are_refused_reaches_the_deployment() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        template = pod_template({"app": "web"}, priorityClassName="absent")
        await cluster.create(workload("Deployment", "web", replicas=1, template=template))
        await cluster.settle()

        failure = condition(await deployment(cluster), "ReplicaFailure")

    assert ("True", "FailedCreate") == failure[:2]
    assert "no PriorityClass" in failure[2]


@in_virtual_time
async def test_a_set_that_matches_is_taken_over_instead_of_made() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        obj = workload("Deployment", "web", replicas=1)
        await cluster.create(obj)
        await cluster.live(2)
        await cluster.client.delete("apps/v1", "Deployment", "default", "web", propagation="Orphan")
        (orphan,) = await cluster.objects("apps/v1", "ReplicaSet")
        # The garbage collector does not run here, so the references are taken away by hand
        await cluster.client.patch(
            "merge", "apps/v1", "Deployment", "default", "web", {"metadata": {"finalizers": None}}
        )
        await cluster.change(
            "apps/v1",
            "ReplicaSet",
            orphan["metadata"]["name"],
            {"metadata": {"ownerReferences": None}},
        )
        created = await cluster.create(obj)
        await cluster.live(2)

        (adopted,) = await cluster.objects("apps/v1", "ReplicaSet")

    assert orphan["metadata"]["uid"] == adopted["metadata"]["uid"]
    assert created["metadata"]["uid"] == adopted["metadata"]["ownerReferences"][0]["uid"]
