"""CronJobs: a job each time the schedule comes due."""

import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter.model.cron import Schedule, ScheduleError, parse_schedule
from karpenter_sandbox.backend import duration, parse_timestamp, timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import is_true
from karpenter_sandbox.controllers.jobs.progress import is_over
from karpenter_sandbox.controllers.owning import BY_CONTROLLER, OwningController, by_age
from karpenter_sandbox.controllers.pods import controller_reference, created, is_leaving
from karpenter_sandbox.matching import NOTHING, Selector
from karpenter_sandbox.runtime.events import NORMAL, WARNING, object_reference
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Runtime, ignoring_missing
from karpenter_sandbox.status import ApiError

_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_JOBS: Final = ("batch/v1", "jobs")
# A little after the minute, so that the schedule has surely come due
_MARGIN: Final = 0.1
_MOST_MISSED: Final = 100


class CronJobController(OwningController):
    name = "cronjob-controller"
    api_version = "batch/v1"
    resource = "cronjobs"
    kind = "CronJob"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._jobs = runtime.informer(*_JOBS)
        self.own(self._jobs)

    def selector_of(self, owner: JsonObject) -> Selector:
        """Select nothing: a CronJob adopts no jobs."""
        return NOTHING

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Create the job that is due, and delete finished jobs beyond the history limits."""
        cron_job = self.owners.get(*key)
        if cron_job is None or is_leaving(cron_job):
            return None
        jobs = by_age(self._jobs.by_index(BY_CONTROLLER, cron_job["metadata"]["uid"]))
        status = self._observed(cron_job, jobs)
        await self._tidy(cron_job, jobs)
        again: float | None = None
        if not cron_job["spec"].get("suspend"):
            again, status = await self._start_due(cron_job, jobs, status)
        await self.write_status(cron_job, status)
        return again

    def _observed(self, cron_job: JsonObject, jobs: list[JsonObject]) -> JsonObject:
        """The status as the jobs imply it: the active ones, and the time of the last success."""
        status = dict(cron_job.get("status") or {})
        known = {reference["uid"]: reference for reference in status.pop("active", [])}
        at_work = [job for job in jobs if not is_over(job)]
        for job in jobs:
            if is_over(job) and job["metadata"]["uid"] in known:
                name = job["metadata"]["name"]
                outcome = "Complete" if is_true(job, "Complete") else "Failed"
                text = f"Saw completed job: {name}, condition: {outcome}"
                self.recorder.emit(cron_job, NORMAL, "SawCompletedJob", text)
        ends = [(job.get("status") or {}).get("completionTime", "") for job in jobs]
        latest = max([*ends, status.get("lastSuccessfulTime", "")])
        if latest:
            status["lastSuccessfulTime"] = latest
        if at_work:
            status["active"] = [
                known.get(job["metadata"]["uid"]) or _reference(job) for job in at_work
            ]
        return status

    async def _start_due(
        self, cron_job: JsonObject, jobs: list[JsonObject], status: JsonObject
    ) -> tuple[float | None, JsonObject]:
        spec, now = cron_job["spec"], self.clock.now()
        try:
            schedule, zone = parse_schedule(spec["schedule"]), _zone(spec.get("timeZone"))
            due = _last_due(cron_job, schedule, now.astimezone(zone))
            following = schedule.next_after(now.astimezone(zone))
        except (ScheduleError, zoneinfo.ZoneInfoNotFoundError) as error:
            text = f'unparseable schedule: "{spec["schedule"]}" : {error}'
            self.recorder.emit(cron_job, WARNING, "UnparseableSchedule", text)
            return None, status
        wait = (following - now).total_seconds() + _MARGIN
        if due is None or not await self._may_start(cron_job, jobs, due):
            return wait, status
        job = await self._create(cron_job, due)
        status = {**status, "lastScheduleTime": timestamp(due)}
        if job is not None:
            kept = [] if spec.get("concurrencyPolicy") == "Replace" else status.get("active", [])
            status["active"] = [*kept, _reference(job)]
        return wait, status

    async def _may_start(self, cron_job: JsonObject, jobs: list[JsonObject], due: datetime) -> bool:
        spec = cron_job["spec"]
        patience = spec.get("startingDeadlineSeconds")
        if patience is not None and due + duration(patience) < self.clock.now():
            moment = due.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            text = f"Missed scheduled time to start a job: {moment}"
            self.recorder.emit(cron_job, WARNING, "MissSchedule", text)
            return False
        at_work = [job for job in jobs if not is_over(job)]
        policy = spec.get("concurrencyPolicy", "Allow")
        if at_work and policy == "Forbid":
            text = (
                "Not starting job because prior execution is running"
                " and concurrency policy is Forbid"
            )
            self.recorder.emit(cron_job, NORMAL, "JobAlreadyActive", text)
            return False
        if policy == "Replace":
            for job in at_work:
                await self._delete(cron_job, job)
        return True

    async def _create(self, cron_job: JsonObject, due: datetime) -> JsonObject | None:
        template = cron_job["spec"]["jobTemplate"]
        given = template.get("metadata") or {}
        name = f"{cron_job['metadata']['name']}-{int(due.timestamp()) // 60}"
        annotations = {**(given.get("annotations") or {}), _SCHEDULED: due.isoformat()}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": cron_job["metadata"]["namespace"],
                "labels": given.get("labels") or {},
                "annotations": annotations,
                "ownerReferences": [controller_reference(cron_job)],
            },
            "spec": template["spec"],
        }
        if self._jobs.get(cron_job["metadata"]["namespace"], name) is not None:
            return None
        try:
            made = await self.client.create(job)
        except ApiError as error:
            self.recorder.emit(cron_job, WARNING, "FailedCreate", f"Error creating job: {error}")
            raise
        self.recorder.emit(cron_job, NORMAL, "SuccessfulCreate", f"Created job {name}")
        return made

    async def _tidy(self, cron_job: JsonObject, jobs: list[JsonObject]) -> None:
        """Delete the oldest finished jobs beyond the history limits."""
        spec = cron_job["spec"]
        for outcome, field, default in (
            ("Complete", "successfulJobsHistoryLimit", 3),
            ("Failed", "failedJobsHistoryLimit", 1),
        ):
            over = [job for job in jobs if is_true(job, outcome) and not is_leaving(job)]
            for job in over[: max(0, len(over) - spec.get(field, default))]:
                await self._delete(cron_job, job)

    async def _delete(self, cron_job: JsonObject, job: JsonObject) -> None:
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        await ignoring_missing(
            self.client.delete(*_JOBS, namespace, name, propagation="Background")
        )
        self.recorder.emit(cron_job, NORMAL, "SuccessfulDelete", f"Deleted job {name}")


def _last_due(cron_job: JsonObject, schedule: Schedule, now: datetime) -> datetime | None:
    """The latest time that has come due and was not served yet."""
    last = (cron_job.get("status") or {}).get("lastScheduleTime")
    since = parse_timestamp(last) if last else created(cron_job)
    patience = cron_job["spec"].get("startingDeadlineSeconds")
    if patience is not None:
        since = max(since, now - duration(patience))
    # The number of missed runs is bounded: after a long stop, only recent ones are searched
    moment, due = since.astimezone(now.tzinfo), None
    for _ in range(_MOST_MISSED):
        moment = schedule.next_after(moment)
        if moment > now:
            return due
        due = moment
    return _before(schedule, now)


def _before(schedule: Schedule, now: datetime) -> datetime:
    """The latest time up to ``now``, searched backwards in growing steps."""
    step = timedelta(minutes=1)
    while True:
        moment = schedule.next_after(now - step)
        if moment <= now:
            while (following := schedule.next_after(moment)) <= now:
                moment = following
            return moment
        step *= 2


def _zone(name: str | None) -> tzinfo:
    return zoneinfo.ZoneInfo(name) if name else UTC


def _reference(job: JsonObject) -> JsonObject:
    return object_reference("batch/v1", "Job", job)
