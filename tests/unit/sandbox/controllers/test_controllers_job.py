"""Jobs run pods to their end, count each exactly once, and say how they ended."""

from typing import Any

import pytest

from helpers.clusters import (
    ClusterHandle,
    in_virtual_time,
    names,
    pod_template,
    running_controllers,
)
from karpenter_sandbox.conditions import find_condition, is_true
from karpenter_sandbox.controllers.jobs.failure_policy import meaning
from karpenter_sandbox.controllers.jobs.indexes import interval_text, matched_success
from karpenter_sandbox.controllers.jobs.job import JobController

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


async def current(cluster: ClusterHandle) -> Any:
    return await cluster.get("batch/v1", "Job", "work")


async def unfinished(cluster: ClusterHandle) -> list[JsonObject]:
    return [
        pod
        for pod in await cluster.pods()
        if pod["status"]["phase"] not in ("Succeeded", "Failed")
        and "deletionTimestamp" not in pod["metadata"]
    ]


@in_virtual_time
async def test_a_job_is_complete_when_enough_pods_have_succeeded() -> None:
    async with running_controllers(JobController) as cluster:
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
    async with running_controllers(JobController) as cluster:
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
    async with running_controllers(JobController) as cluster:
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
    async with running_controllers(JobController) as cluster:
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
    async with running_controllers(JobController) as cluster:
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
    async with running_controllers(JobController) as cluster:
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


def indexed(**spec: Any) -> JsonObject:
    count = spec.pop("completions", 3)
    return job(completions=count, parallelism=count, completionMode="Indexed", **spec)


def number_of(pod: JsonObject) -> int:
    return int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])


async def play(cluster: ClusterHandle, failing: set[int], seconds: int, **status: Any) -> list[int]:
    """Let pods end for a while, and return the numbers that were tried, in order."""
    tried = []
    for _ in range(2 * seconds):
        await cluster.settle()
        for pod in await unfinished(cluster):
            tried.append(number_of(pod))
            if number_of(pod) in failing:
                await cluster.finish(pod, "Failed", **status)
            else:
                await cluster.finish(pod)
    return tried


@in_virtual_time
async def test_a_number_that_fails_too_often_does_not_stop_the_others() -> None:
    async with running_controllers(JobController) as cluster:
        await cluster.create(indexed(backoffLimitPerIndex=1))
        tried = await play(cluster, {1}, 30)

        failed = await current(cluster)
        counts = {
            pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
            for pod in await cluster.pods()
            if number_of(pod) == 1
        }

    assert [0, 1, 2, 1] == tried
    assert {"0", "1"} == counts
    status = failed["status"]
    assert ("1", "0,2", 2) == (
        status["failedIndexes"],
        status["completedIndexes"],
        status["failed"],
    )
    condition = find_condition(failed, "Failed") or {}
    assert ("FailedIndexes", "Job has failed indexes") == (
        condition["reason"],
        condition["message"],
    )


@in_virtual_time
async def test_a_number_that_failed_waits_while_the_others_go_on() -> None:
    async with running_controllers(JobController) as cluster:
        await cluster.create(indexed(completions=2, backoffLimitPerIndex=3))
        await cluster.settle()
        first = {number_of(pod): pod for pod in await unfinished(cluster)}
        await cluster.finish(first[0], "Failed")
        await cluster.pass_time(8)
        waiting = [number_of(pod) for pod in await unfinished(cluster)]
        await cluster.pass_time(4)

        again = sorted(number_of(pod) for pod in await unfinished(cluster))

    assert [1] == waiting
    assert [0, 1] == again


@in_virtual_time
async def test_too_many_failed_numbers_end_the_job_at_once() -> None:
    async with running_controllers(JobController) as cluster:
        await cluster.create(indexed(completions=4, backoffLimitPerIndex=0, maxFailedIndexes=1))
        await cluster.settle()
        pods = {number_of(pod): pod for pod in await unfinished(cluster)}
        await cluster.finish(pods[0], "Failed")
        await cluster.settle()
        one = await current(cluster)
        await cluster.finish(pods[3], "Failed")
        await cluster.settle()
        await cluster.reap()
        await cluster.settle()

        two = await current(cluster)

    assert (False, "0") == (is_true(one, "FailureTarget"), one["status"]["failedIndexes"])
    condition = find_condition(two, "Failed") or {}
    assert (
        "MaxFailedIndexesExceeded",
        "Job has exceeded the specified maximal number of failed indexes",
    ) == (condition["reason"], condition["message"])


@in_virtual_time
async def test_a_rule_gives_a_number_up_at_its_first_failure() -> None:
    async with running_controllers(JobController) as cluster:
        rules = [exit_rule("FailIndex", "In", 7)]
        await cluster.create(indexed(backoffLimitPerIndex=5, podFailurePolicy={"rules": rules}))
        state = {"terminated": {"exitCode": 7}}
        tried = await play(cluster, {2}, 20, containerStatuses=[{"name": "main", "state": state}])

        status = (await current(cluster))["status"]

    assert [0, 1, 2] == tried
    assert ("2", "0,1") == (status["failedIndexes"], status["completedIndexes"])


@in_virtual_time
async def test_a_job_succeeds_as_soon_as_its_rules_say_so() -> None:
    async with running_controllers(JobController) as cluster:
        policy = {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}
        await cluster.create(indexed(successPolicy=policy))
        await cluster.settle()
        pods = {number_of(pod): pod for pod in await unfinished(cluster)}
        await cluster.finish(pods[2])
        await cluster.settle()
        before = await current(cluster)
        await cluster.finish(pods[1])
        await cluster.settle()
        await cluster.reap()
        await cluster.settle()

        after = await current(cluster)

    assert not is_true(before, "SuccessCriteriaMet")
    condition = find_condition(after, "Complete") or {}
    assert ("SuccessPolicy", "Matched rules at index 0", "1,2") == (
        condition["reason"],
        condition["message"],
        after["status"]["completedIndexes"],
    )


@pytest.mark.parametrize(
    ("rules", "succeeded", "expected"),
    [
        pytest.param([], {0, 1, 2}, "", id="without rules nothing matches"),
        pytest.param([{"succeededCount": 2}], {0}, "", id="too few are done"),
        pytest.param([{"succeededCount": 2}], {0, 4}, "Matched rules at index 0", id="any two"),
        pytest.param([{"succeededIndexes": "0,3-4"}], {0, 3}, "", id="one of those named is not"),
        pytest.param(
            [{"succeededIndexes": "9"}, {"succeededIndexes": "0,3-4"}],
            {0, 3, 4},
            "Matched rules at index 1",
            id="all of those named are done",
        ),
    ],
)
def test_which_rule_says_that_enough_is_done(
    rules: list[JsonObject], succeeded: set[int], expected: str
) -> None:
    found = matched_success(
        {"spec": {"completions": 10, "successPolicy": {"rules": rules}}}, frozenset(succeeded)
    )

    assert expected == found


@in_virtual_time
async def test_a_failure_that_the_rules_ignore_is_not_counted() -> None:
    async with running_controllers(JobController) as cluster:
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
    async with running_controllers(JobController) as cluster:
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
    async with running_controllers(JobController) as cluster:
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
