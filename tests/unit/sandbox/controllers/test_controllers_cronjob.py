"""CronJobs start a job each time their schedule comes due, and clean up behind themselves."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from helpers.clusters import (
    ClusterHandle,
    in_virtual_time,
    names,
    pod_template,
    running_controllers,
)
from karpenter.model.cron import ScheduleError, parse_schedule
from karpenter_sandbox.controllers.jobs.cronjob import CronJobController
from karpenter_sandbox.controllers.jobs.job import JobController

JsonObject = dict[str, Any]
HOUR = 3600


def cron_job(schedule: str = "*/10 * * * *", **spec: Any) -> JsonObject:
    pods = pod_template({}, restartPolicy="Never")
    template = {"spec": {"template": pods, "backoffLimit": 0}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


async def jobs(cluster: ClusterHandle) -> list[JsonObject]:
    return await cluster.objects("batch/v1", "Job")


async def finish_all(cluster: ClusterHandle, phase: str = "Succeeded") -> None:
    for pod in await cluster.pods():
        if pod["status"]["phase"] == "Pending":
            await cluster.finish(pod, phase)
    await cluster.settle()


@in_virtual_time
async def test_a_job_is_made_whenever_the_schedule_comes_due() -> None:
    async with running_controllers(CronJobController) as cluster:
        await cluster.create(cron_job())
        await cluster.pass_time(9 * 60)
        before = await jobs(cluster)
        await cluster.pass_time(12 * 60)

        made = await jobs(cluster)
        status = (await cluster.get("batch/v1", "CronJob", "tick"))["status"]
        events = await cluster.events("tick")

    assert [] == before
    minutes = int(datetime(2030, 1, 1, tzinfo=UTC).timestamp()) // 60
    assert [f"tick-{minutes + 10}", f"tick-{minutes + 20}"] == names(made)
    assert "2030-01-01T00:20:00Z" == status["lastScheduleTime"]
    assert names(made) == [entry["name"] for entry in status["active"]]
    assert ("SuccessfulCreate", f"Created job tick-{minutes + 10}") == events[0]


@in_virtual_time
async def test_a_suspended_one_does_nothing() -> None:
    async with running_controllers(CronJobController) as cluster:
        await cluster.create(cron_job(suspend=True))
        await cluster.pass_time(HOUR)

        made = await jobs(cluster)

    assert [] == made


@pytest.mark.parametrize(
    ("policy", "left", "reason"),
    [
        pytest.param("Forbid", 1, "JobAlreadyActive", id="forbid waits for the one at work"),
        pytest.param("Replace", 1, "SuccessfulDelete", id="replace ends the one at work"),
        pytest.param("Allow", 3, "SuccessfulCreate", id="allow lets them work side by side"),
    ],
)
@in_virtual_time
async def test_what_happens_while_a_job_is_at_work(policy: str, left: int, reason: str) -> None:
    async with running_controllers(CronJobController) as cluster:
        await cluster.create(cron_job(concurrencyPolicy=policy))
        await cluster.pass_time(35 * 60)

        made = await jobs(cluster)
        reasons = {found for found, _ in await cluster.events("tick")}

    assert left == len(made)
    assert reason in reasons


@in_virtual_time
async def test_only_the_latest_finished_jobs_are_kept() -> None:
    async with running_controllers(CronJobController, JobController) as cluster:
        await cluster.create(cron_job(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1))
        await cluster.settle()
        for phase in ("Failed", "Succeeded", "Succeeded", "Succeeded"):
            await cluster.pass_time(10 * 60)
            await finish_all(cluster, phase)
        await cluster.settle()

        made = await jobs(cluster)
        status = (await cluster.get("batch/v1", "CronJob", "tick"))["status"]
        messages = [message for reason, message in await cluster.events("tick")]

    minutes = int(datetime(2030, 1, 1, tzinfo=UTC).timestamp()) // 60
    assert [f"tick-{minutes + n}" for n in (10, 30, 40)] == names(made)
    assert "active" not in status
    assert status["lastSuccessfulTime"].startswith("2030-01-01T00:40")
    assert f"Saw completed job: tick-{minutes + 10}, condition: Failed" in messages


@in_virtual_time
async def test_after_a_long_pause_only_the_last_missed_time_is_made_up_for() -> None:
    async with running_controllers(CronJobController) as cluster:
        await cluster.create(cron_job("* * * * *", suspend=True))
        await cluster.pass_time(5 * HOUR + 30)
        await cluster.change("batch/v1", "CronJob", "tick", {"spec": {"suspend": False}})
        await cluster.settle()

        made = await jobs(cluster)

    minutes = int(datetime(2030, 1, 1, 5, tzinfo=UTC).timestamp()) // 60
    assert [f"tick-{minutes}"] == names(made)


@pytest.mark.parametrize(
    ("schedule", "start", "expected"),
    [
        ("*/15 * * * *", "2030-01-01T00:07:30", "2030-01-01T00:15:00"),
        ("*/15 * * * *", "2030-01-01T00:15:00", "2030-01-01T00:30:00"),
        ("0 9-17 * * MON-FRI", "2030-01-04T17:00:00", "2030-01-07T09:00:00"),
        ("30 2 1,15 * *", "2030-01-01T03:00:00", "2030-01-15T02:30:00"),
        ("0 0 13 * 5", "2030-01-01T00:00:00", "2030-01-04T00:00:00"),
        ("0 0 29 2 *", "2030-01-01T00:00:00", "2032-02-29T00:00:00"),
        ("5/20 * * * *", "2030-01-01T00:30:00", "2030-01-01T00:45:00"),
        ("0 12 * JAN,jul 7", "2030-01-06T12:00:00", "2030-01-13T12:00:00"),
        ("@hourly", "2030-01-01T00:00:01", "2030-01-01T01:00:00"),
        ("@weekly", "2030-01-01T00:00:00", "2030-01-06T00:00:00"),
    ],
)
def test_when_a_schedule_comes_due(schedule: str, start: str, expected: str) -> None:
    moment = datetime.fromisoformat(start).replace(tzinfo=UTC)

    due = parse_schedule(schedule).next_after(moment)

    assert expected == due.replace(tzinfo=None).isoformat()


@pytest.mark.parametrize(
    "schedule",
    ["", "* * * *", "60 * * * *", "* 24 * * *", "a * * * *", "*/0 * * * *", "5-1 * * * *"],
)
def test_schedules_nobody_can_follow_are_refused(schedule: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(schedule)


def test_a_date_that_never_comes_is_noticed() -> None:
    schedule = parse_schedule("0 0 31 2 *")

    with pytest.raises(ScheduleError, match="never comes due"):
        schedule.next_after(datetime(2030, 1, 1, tzinfo=UTC))


def test_every_time_that_is_due_lies_after_the_one_before() -> None:
    schedule = parse_schedule("7,37 */5 * * 1-5")
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    moments = []
    for _ in range(50):
        moment = schedule.next_after(moment)
        moments.append(moment)

    gaps = [later - earlier for earlier, later in pairwise(moments)]

    assert min(gaps) >= timedelta(minutes=30)
