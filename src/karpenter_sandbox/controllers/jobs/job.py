"""Jobs: pods that run to their end, as many times as asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import duration, parse_timestamp, timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.jobs.failure_policy import replaces_only_finished
from karpenter_sandbox.controllers.jobs.indexes import (
    failures_so_far,
    free_indexes,
    index_of,
    is_indexed,
    limit_per_index,
    with_index,
)
from karpenter_sandbox.controllers.jobs.progress import (
    TRACKING,
    JobPods,
    ending,
    is_over,
    is_tracked,
    seconds_to_deadline,
    take_stock,
    wanted_active,
)
from karpenter_sandbox.controllers.jobs.status import pause, reported
from karpenter_sandbox.controllers.owning import (
    BURST,
    BY_CONTROLLER,
    OwningController,
    is_terminating_namespace,
)
from karpenter_sandbox.controllers.pods import from_template, is_leaving
from karpenter_sandbox.controllers.workloads.victims import victims
from karpenter_sandbox.runtime.events import NORMAL, WARNING
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Runtime, controller_of, ignoring_missing
from karpenter_sandbox.status import ApiError

_TO_COUNT: Final = "job that has still to count them"
# In place of a completion index: all pods of the job together
ALL: Final = -1
_FIRST_BACKOFF: Final = 10.0
_LAST_BACKOFF: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Failures:
    """Consecutive failures, and when the controller saw the last one."""

    count: int
    last: float


class JobController(OwningController):
    name = "job-controller"
    api_version = "batch/v1"
    resource = "jobs"
    kind = "Job"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._pods = runtime.informer("v1", "pods")
        self._pods.add_index(_TO_COUNT, _job_to_count)
        # uid of the job -> completion index, or ALL without backoffLimitPerIndex -> failures
        self._failures: dict[str, dict[int, _Failures]] = {}
        self.own(self._pods)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Count finished pods, create missing ones, and set the final condition."""
        job = self.owners.get(*key)
        await self._release_strangers(key, job)
        if job is None:
            return None
        pods = await self.owned(job, self._pods)
        if is_over(job):
            await self._let_go(pods)
            return await self._expire(job)
        stock = take_stock(job, pods)
        self._note_failures(job, stock)
        end = ending(job, pods, stock, self.clock.now())
        again: float | None = None
        if end is not None:
            await self._delete(job, stock.active)
        elif not is_leaving(job):
            again = await self._manage(job, pods, stock)
        pods = self._pods.by_index(BY_CONTROLLER, job["metadata"]["uid"])
        status = reported(job, pods, stock, end, timestamp(self.clock.now()))
        if end is None and (event := pause(job)) is not None:
            self.recorder.emit(job, NORMAL, *event)
        job = await self.write_status(job, status)
        if is_over(job) and end is not None:
            event = ("Completed", "Job completed") if end.is_success else (end.reason, end.message)
            self.recorder.emit(job, NORMAL if end.is_success else WARNING, *event)
        await self._let_go(stock.ended)
        deadline = seconds_to_deadline(job, self.clock.now()) if end is None else None
        return min((wait for wait in (again, deadline) if wait is not None), default=None)

    async def _manage(
        self, job: JsonObject, pods: list[JsonObject], stock: JobPods
    ) -> float | None:
        """Start or stop pods; return when to try again after failures."""
        if job["spec"].get("suspend"):
            await self._delete(job, stock.active)
            return None
        missing = wanted_active(job, stock) - len(stock.active)
        if missing < 0:
            await self._delete(job, victims(stock.active, stock.active, -missing, self.clock.now()))
            return None
        if replaces_only_finished(job):
            missing -= sum(is_leaving(pod) for pod in pods)
        pauses = self._pauses(job)
        if missing <= 0:
            return None
        if ALL in pauses:
            return pauses[ALL]
        await self._create(job, self._new_pods(job, pods, stock, pauses, min(missing, BURST)))
        return 0.0 if missing > BURST else min(pauses.values(), default=None)

    def _new_pods(
        self,
        job: JsonObject,
        pods: list[JsonObject],
        stock: JobPods,
        pauses: dict[int, float],
        count: int,
    ) -> list[JsonObject]:
        template, name = job["spec"]["template"], job["metadata"]["name"]
        if not is_indexed(job):
            return [from_template(template, job) for _ in range(count)]
        new = []
        for index in free_indexes(job, pods, stock.over, pauses)[:count]:
            failures = failures_so_far(job, pods, index)
            pod = from_template(with_index(template, job, index, failures), job)
            pod["metadata"]["generateName"] = f"{name}-{index}-"
            new.append(pod)
        return new

    async def _create(self, job: JsonObject, new: list[JsonObject]) -> None:
        for pod in new:
            metadata = pod["metadata"]
            metadata["finalizers"] = [*metadata.get("finalizers", ()), TRACKING]
            try:
                await self.create_pod(job, pod)
            except ApiError as error:
                if is_terminating_namespace(error):
                    return
                raise

    async def _delete(self, job: JsonObject, pods: Sequence[JsonObject]) -> None:
        for pod in pods:
            await self.delete_pod(job, pod)

    async def _expire(self, job: JsonObject) -> float | None:
        """Delete a job whose ``ttlSecondsAfterFinished`` has passed."""
        self._failures.pop(job["metadata"]["uid"], None)
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None or is_leaving(job):
            return None
        over = find_condition(job, "Complete") or find_condition(job, "Failed") or {}
        due = parse_timestamp(over["lastTransitionTime"]) + duration(seconds)
        left = (due - self.clock.now()).total_seconds()
        if left > 0:
            return left
        metadata = job["metadata"]
        await self.client.delete(
            self.api_version,
            self.resource,
            metadata["namespace"],
            metadata["name"],
            uid=metadata["uid"],
            propagation="Foreground",
        )
        return None

    def _note_failures(self, job: JsonObject, stock: JobPods) -> None:
        if not (stock.successes or stock.failures):
            return
        known = self._failures.setdefault(job["metadata"]["uid"], {})
        if stock.successes:
            known.pop(ALL, None)
        is_apart = limit_per_index(job) is not None
        for pod in stock.failures:
            index = index_of(pod) if is_apart else ALL
            count = known[index].count if index in known else 0
            known[index] = _Failures(count + 1, self.clock.monotonic())

    def _pauses(self, job: JsonObject) -> dict[int, float]:
        """Remaining back-off in seconds, by completion index or for ``ALL``."""
        pauses = {}
        for index, failures in self._failures.get(job["metadata"]["uid"], {}).items():
            whole = min(_FIRST_BACKOFF * 2.0 ** min(failures.count - 1, 10), _LAST_BACKOFF)
            left = failures.last + whole - self.clock.monotonic()
            if left > 0:
                pauses[index] = left
        return pauses

    async def _release_strangers(self, key: ObjectKey, job: JsonObject | None) -> None:
        """Remove the finalizer of pods whose job no longer exists to count them."""
        uid = job["metadata"]["uid"] if job is not None else None
        left = self._pods.by_index(_TO_COUNT, key)
        await self._let_go([pod for pod in left if (controller_of(pod) or {}).get("uid") != uid])

    async def _let_go(self, pods: Sequence[JsonObject]) -> None:
        for pod in pods:
            current = self._pods.get(pod["metadata"]["namespace"], pod["metadata"]["name"])
            if current is None or not is_tracked(current):
                continue
            metadata = current["metadata"]
            others = [name for name in metadata["finalizers"] if name != TRACKING]
            changed = {**current, "metadata": {**metadata, "finalizers": others}}
            await ignoring_missing(self.client.update(changed))


def _job_to_count(pod: JsonObject) -> tuple[ObjectKey, ...]:
    owner = controller_of(pod)
    if owner is None or owner["kind"] != "Job" or not is_tracked(pod):
        return ()
    return ((pod["metadata"]["namespace"], owner["name"]),)
