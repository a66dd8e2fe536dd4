"""Jobs run pods to their end, count each exactly once, and say how they ended."""

from typing import Any

import pytest

from clusters import World, in_virtual_time, names, pod_template, world
from karpenter.sandbox.conditions import find_condition, is_true
from karpenter.sandbox.controllers.job import JobController
from karpenter.sandbox.controllers.job_policy import meaning
from karpenter.sandbox.controllers.jobs import interval_text

JsonObject = dict[str, Any]
EXIT_7 = "Container main for pod default/p failed with exit code 7"


def job(**spec: Any) -> JsonObject:
    template = pod_template({}, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work", "namespace": "default"},
        "spec": {"template": template, **spec},
    }


async def current(cluster: World) -> Any:
    return await cluster.get("batch/v1", "Job", "work")


async def unfinished(cluster: World) -> list[JsonObject]:
    return [
        pod
        for pod in await cluster.pods()
        if pod["status"]["phase"] not in ("Succeeded", "Failed")
        and "deletionTimestamp" not in pod["metadata"]
    ]


@in_virtual_time
async def test_a_job_is_complete_when_enough_pods_have_succeeded() -> None:
    async with world(JobController) as cluster:
        await cluster.create(job(completions=3, parallelism=2))
        rounds = []
        for _ in range(2):
            await cluster.settle()
            pods = await unfinished(cluster)
            rounds.append(len(pods))
            for pod in pods:
                await cluster.finish(pod)
        await cluster.settle()

        done = await current(cluster)
        pods = await cluster.pods()
        events = [reason for reason, _ in await cluster.events("work")]

    assert [2, 1] == rounds
    status = done["status"]
    assert (3, None, None) == (status["succeeded"], status.get("active"), status.get("failed"))
    assert is_true(done, "SuccessCriteriaMet")
    assert "CompletionsReached" == (find_condition(done, "Complete") or {})["reason"]
    assert status["completionTime"] >= status["startTime"]
    assert all("finalizers" not in pod["metadata"] for pod in pods)
    assert [*["SuccessfulCreate"] * 3, "Completed"] == events


@in_virtual_time
async def test_pods_are_counted_once_although_they_are_deleted() -> None:
    async with world(JobController) as cluster:
        await cluster.create(job(completions=2, parallelism=1))
        await cluster.settle()
        (pod,) = await cluster.pods()
        await cluster.finish(pod)
        await cluster.client.delete("v1", "Pod", "default", pod["metadata"]["name"])
        await cluster.settle()

        status = (await current(cluster))["status"]
        left = names(await cluster.pods())

    assert (1, 1, {}) == (
        status["succeeded"],
        status["active"],
        status["uncountedTerminatedPods"],
    )
    assert pod["metadata"]["name"] not in left


@in_virtual_time
async def test_failures_are_retried_ever_more_slowly_until_the_limit() -> None:
    async with world(JobController) as cluster:
        await cluster.create(job(backoffLimit=2))
        moments = []
        for second in range(120):
            await cluster.settle()
            for pod in await unfinished(cluster):
                moments.append(second // 2)
                await cluster.finish(pod, "Failed")

        failed = await current(cluster)

    assert pytest.approx([0, 10, 30], abs=1.5) == moments
    condition = find_condition(failed, "Failed") or {}
    assert ("BackoffLimitExceeded", "Job has reached the specified backoff limit") == (
        condition["reason"],
        condition["message"],
    )
    assert is_true(failed, "FailureTarget")
    assert 3 == failed["status"]["failed"]


@in_virtual_time
async def test_a_job_past_its_deadline_fails_and_its_pods_go() -> None:
    async with world(JobController) as cluster:
        await cluster.create(job(activeDeadlineSeconds=60))
        await cluster.settle()
        await cluster.run()
        await cluster.pass_time(59)
        before = await current(cluster)
        await cluster.pass_time(2)
        during = await current(cluster)
        await cluster.reap()
        await cluster.settle()

        after = await current(cluster)
        pods = await cluster.pods()

    assert not is_true(before, "FailureTarget")
    assert (True, False) == (is_true(during, "FailureTarget"), is_true(during, "Failed"))
    assert "DeadlineExceeded" == (find_condition(after, "Failed") or {})["reason"]
    assert [] == pods


@in_virtual_time
async def test_a_suspended_job_stops_its_pods_and_starts_them_again() -> None:
    async with world(JobController) as cluster:
        await cluster.create(job(parallelism=2, completions=2))
        await cluster.settle()
        await cluster.run()
        await cluster.change("batch/v1", "Job", "work", {"spec": {"suspend": True}})
        await cluster.settle()
        await cluster.reap()
        await cluster.settle()
        asleep, pods = await current(cluster), await cluster.pods()
        await cluster.pass_time(60)
        await cluster.change("batch/v1", "Job", "work", {"spec": {"suspend": False}})
        await cluster.pass_time(30)

        awake = await current(cluster)
        again = await unfinished(cluster)

    assert (True, []) == (is_true(asleep, "Suspended"), pods)
    assert not is_true(awake, "Suspended")
    assert 2 == len(again)
    assert awake["status"]["startTime"] > asleep["status"]["startTime"]


@in_virtual_time
async def test_an_indexed_job_gives_each_pod_its_number() -> None:
    async with world(JobController) as cluster:
        await cluster.create(job(completions=4, parallelism=4, completionMode="Indexed"))
        await cluster.settle()
        pods = await cluster.pods()
        index = "batch.kubernetes.io/job-completion-index"
        numbers = sorted(pod["metadata"]["labels"][index] for pod in pods)
        for pod in pods:
            if pod["metadata"]["labels"][index] != "2":
                await cluster.finish(pod)
        await cluster.settle()
        part = (await current(cluster))["status"]
        for pod in await unfinished(cluster):
            await cluster.finish(pod)
        await cluster.settle()

        whole = (await current(cluster))["status"]

    assert ["0", "1", "2", "3"] == numbers
    assert all(pod["metadata"]["name"].startswith("work-") for pod in pods)
    environment = pods[0]["spec"]["containers"][0]["env"]
    assert "JOB_COMPLETION_INDEX" == environment[0]["name"]
    assert ("0,1,3", "0-3") == (part["completedIndexes"], whole["completedIndexes"])


@in_virtual_time
async def test_a_failure_that_the_rules_ignore_is_not_counted() -> None:
    async with world(JobController) as cluster:
        rules = [
            {
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            }
        ]
        await cluster.create(job(backoffLimit=0, podFailurePolicy={"rules": rules}))
        await cluster.settle()
        (pod,) = await cluster.pods()
        conditions = [{"type": "DisruptionTarget", "status": "True"}]
        await cluster.finish(pod, "Failed", conditions=conditions)
        await cluster.settle()

        status = (await current(cluster))["status"]

    assert (1, None) == (status["active"], status.get("failed"))


@in_virtual_time
async def test_a_finished_job_goes_when_its_time_is_up() -> None:
    async with world(JobController) as cluster:
        await cluster.create(job(ttlSecondsAfterFinished=100))
        await cluster.settle()
        (pod,) = await cluster.pods()
        await cluster.finish(pod)
        await cluster.pass_time(95)
        before = await cluster.objects("batch/v1", "Job")
        await cluster.pass_time(10)

        after = await cluster.objects("batch/v1", "Job")

    leaving = ["deletionTimestamp" in entry["metadata"] for entry in (*before, *after)]
    assert [False, True] == leaving


@in_virtual_time
async def test_the_pods_of_a_deleted_job_are_not_held_back() -> None:
    async with world(JobController) as cluster:
        await cluster.create(job())
        await cluster.settle()
        await cluster.client.delete("batch/v1", "Job", "default", "work", propagation="Background")
        await cluster.settle()

        (pod,) = await cluster.pods()

    assert "finalizers" not in pod["metadata"]


def ended(code: int, *conditions: str) -> JsonObject:
    state = {"terminated": {"exitCode": code}}
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "status": {
            "phase": "Failed",
            "containerStatuses": [{"name": "main", "state": state}],
            "conditions": [{"type": kind, "status": "True"} for kind in conditions],
        },
    }


def exit_rule(action: str, operator: str, *values: int, name: str | None = None) -> JsonObject:
    codes: JsonObject = {"operator": operator, "values": list(values)}
    if name is not None:
        codes["containerName"] = name
    return {"action": action, "onExitCodes": codes}


@pytest.mark.parametrize(
    ("rules", "pod", "expected"),
    [
        pytest.param([], ended(1), (True, ""), id="without rules every failure counts"),
        pytest.param(
            [exit_rule("Ignore", "In", 42)], ended(42), (False, ""), id="a code to ignore"
        ),
        pytest.param(
            [exit_rule("Ignore", "In", 42)], ended(1), (True, ""), id="another code counts"
        ),
        pytest.param(
            [exit_rule("Ignore", "NotIn", 42)], ended(1), (False, ""), id="any code but one"
        ),
        pytest.param(
            [exit_rule("Ignore", "In", 42, name="other")],
            ended(42),
            (True, ""),
            id="the code of another container",
        ),
        pytest.param(
            [exit_rule("FailJob", "In", 7)],
            ended(7),
            (True, f"{EXIT_7} matching FailJob rule at index 0"),
            id="a code that ends the job",
        ),
        pytest.param(
            [
                exit_rule("Count", "In", 7),
                {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]},
            ],
            ended(7, "DisruptionTarget"),
            (True, ""),
            id="the first rule that fits counts",
        ),
    ],
)
def test_what_a_failed_pod_means(
    rules: list[JsonObject], pod: JsonObject, expected: tuple[bool, str]
) -> None:
    found = meaning({"spec": {"podFailurePolicy": {"rules": rules}}}, pod)

    assert expected == tuple(found)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], ""),
        ([3], "3"),
        ([1, 2], "1,2"),
        ([1, 2, 3], "1-3"),
        ([0, 2, 3, 4, 7, 8], "0,2-4,7,8"),
    ],
)
def test_numbers_are_written_in_runs(numbers: list[int], expected: str) -> None:
    text = interval_text(numbers)

    assert expected == text
