"""StatefulSets start and stop their pods in order, and give each its own volumes."""

from typing import Any

import pytest

from helpers.clusters import ClusterHandle, in_virtual_time, names, running_controllers, workload
from karpenter_sandbox.controllers.workloads.statefulset import StatefulSetController
from karpenter_sandbox.controllers.workloads.statefulset_claims import owners_of_claim

JsonObject = dict[str, Any]
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def stateful(replicas: int, **spec: Any) -> JsonObject:
    return workload("StatefulSet", "db", replicas=replicas, serviceName="db", **spec)


async def revisions(cluster: ClusterHandle) -> list[str]:
    pods = await cluster.pods()
    return [pod["metadata"]["labels"]["controller-revision-hash"] for pod in pods]


@in_virtual_time
async def test_a_pod_starts_only_when_the_one_before_it_is_ready() -> None:
    async with running_controllers(StatefulSetController) as cluster:
        await cluster.create(stateful(3))
        await cluster.settle()
        first = names(await cluster.pods())
        await cluster.run()
        await cluster.settle()
        second = names(await cluster.pods())
        await cluster.live(3)

        status = (await cluster.get("apps/v1", "StatefulSet", "db"))["status"]

    assert (["db-0"], ["db-0", "db-1"]) == (first, second)
    counts = ("replicas", "readyReplicas", "availableReplicas", "currentReplicas")
    assert [3, 3, 3, 3] == [status[name] for name in counts]
    assert status["currentRevision"] == status["updateRevision"]


@in_virtual_time
async def test_pods_know_their_name_their_number_and_their_service() -> None:
    async with running_controllers(StatefulSetController) as cluster:
        await cluster.create(stateful(1, ordinals={"start": 5}))
        await cluster.settle()

        (pod,) = await cluster.pods()
        events = await cluster.events("db")

    assert "db-5" == pod["metadata"]["name"]
    assert ("db-5", "db") == (pod["spec"]["hostname"], pod["spec"]["subdomain"])
    assert "5" == pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"]
    assert [("SuccessfulCreate", "Create Pod db-5 in StatefulSet db successful")] == events


@in_virtual_time
async def test_all_pods_start_at_once_when_the_set_wants_it() -> None:
    async with running_controllers(StatefulSetController) as cluster:
        await cluster.create(stateful(3, podManagementPolicy="Parallel"))
        await cluster.settle()

        pods = names(await cluster.pods())

    assert ["db-0", "db-1", "db-2"] == pods


@in_virtual_time
async def test_the_last_pod_goes_first_and_one_at_a_time() -> None:
    async with running_controllers(StatefulSetController) as cluster:
        await cluster.create(stateful(3))
        await cluster.live(4)
        await cluster.scale("apps/v1", "StatefulSet", "db", 1)
        await cluster.settle()
        leaving = [
            pod["metadata"]["name"]
            for pod in await cluster.pods()
            if "deletionTimestamp" in pod["metadata"]
        ]
        await cluster.live(3)

        left = names(await cluster.pods())

    assert (["db-2"], ["db-0"]) == (leaving, left)


@in_virtual_time
async def test_each_pod_has_a_claim_that_outlives_it() -> None:
    async with running_controllers(StatefulSetController) as cluster:
        await cluster.create(stateful(2, volumeClaimTemplates=[CLAIM]))
        await cluster.live(3)
        await cluster.scale("apps/v1", "StatefulSet", "db", 0)
        await cluster.live(3)

        claims = await cluster.objects("v1", "PersistentVolumeClaim")
        pods = await cluster.pods()
        events = [message for _, message in await cluster.events("db")]

    assert (["data-db-0", "data-db-1"], []) == (names(claims), pods)
    assert "Create Claim data-db-0 Pod db-0 in StatefulSet db success" in events


@in_virtual_time
async def test_a_new_template_replaces_pods_from_the_last_to_the_first() -> None:
    async with running_controllers(StatefulSetController) as cluster:
        await cluster.create(stateful(3))
        await cluster.live(4)
        before = await revisions(cluster)
        change = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
        await cluster.change("apps/v1", "StatefulSet", "db", change)
        await cluster.settle()
        leaving = [p for p in await cluster.pods() if "deletionTimestamp" in p["metadata"]]
        await cluster.live(10)

        after = await revisions(cluster)
        status = (await cluster.get("apps/v1", "StatefulSet", "db"))["status"]

    assert ["db-2"] == names(leaving)
    assert (1, 1) == (len(set(before)), len(set(after)))
    assert set(before) != set(after)
    assert after[0] == status["currentRevision"] == status["updateRevision"]


@in_virtual_time
async def test_pods_below_the_partition_keep_their_template() -> None:
    async with running_controllers(StatefulSetController) as cluster:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await cluster.create(stateful(3, updateStrategy=strategy))
        await cluster.live(4)
        change = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
        await cluster.change("apps/v1", "StatefulSet", "db", change)
        await cluster.live(6)
        await cluster.client.delete("v1", "Pod", "default", "db-0")
        await cluster.live(3)

        versions = [
            (pod["metadata"].get("annotations") or {}).get("v") for pod in await cluster.pods()
        ]

    assert [None, None, "2"] == versions


@in_virtual_time
async def test_a_pod_that_ended_is_made_anew() -> None:
    async with running_controllers(StatefulSetController) as cluster:
        await cluster.create(stateful(1))
        await cluster.live(2)
        (pod,) = await cluster.pods()
        await cluster.finish(pod, "Failed")
        await cluster.live(2)

        (again,) = await cluster.pods()

    assert "db-0" == again["metadata"]["name"]
    assert pod["metadata"]["uid"] != again["metadata"]["uid"]


@pytest.mark.parametrize(
    ("policy", "is_condemned", "owner"),
    [
        pytest.param({}, False, None, id="claims are kept by default"),
        pytest.param({"whenDeleted": "Delete"}, False, "set", id="they go with the set"),
        pytest.param({"whenDeleted": "Delete"}, True, "set", id="even those of surplus pods"),
        pytest.param({"whenScaled": "Delete"}, False, None, id="while the pod is wanted, nobody"),
        pytest.param({"whenScaled": "Delete"}, True, "pod", id="those of surplus pods go with it"),
        pytest.param(
            {"whenScaled": "Delete", "whenDeleted": "Delete"}, True, "pod", id="with the sooner one"
        ),
    ],
)
def test_who_takes_a_claim_along(
    policy: dict[str, str], is_condemned: bool, owner: str | None
) -> None:
    claim = {"metadata": {"name": "data-db-0"}}
    owning_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "uid": "set"},
        "spec": {"persistentVolumeClaimRetentionPolicy": policy},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "uid": "pod"}}

    references = owners_of_claim(claim, owning_set, pod, is_condemned=is_condemned)

    assert ([owner] if owner else []) == [reference["uid"] for reference in references]
