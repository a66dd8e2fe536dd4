"""The scheduler: takes pods from the queue one by one, chooses a node, and binds them."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.conditions import find_condition, with_condition
from karpenter_sandbox.runtime.api_client import ApiClient
from karpenter_sandbox.runtime.events import NORMAL, WARNING, Recorder, object_reference
from karpenter_sandbox.runtime.runtime import Runtime
from karpenter_sandbox.scheduling import wording
from karpenter_sandbox.scheduling.cluster import Cluster
from karpenter_sandbox.scheduling.feed import Feed
from karpenter_sandbox.scheduling.placement import Placement, Rejected
from karpenter_sandbox.scheduling.preemption import Candidate
from karpenter_sandbox.scheduling.queue import PodQueue
from karpenter_sandbox.scheduling.rules import Classes
from karpenter_sandbox.scheduling.shapes import DEFAULT_SCHEDULER, PodInfo
from karpenter_sandbox.scheduling.views import BudgetMirror, StorageMirror, WorkloadMirror
from karpenter_sandbox.scheduling.volumes import SELECTED_NODE, Storage, is_bound
from karpenter_sandbox.status import ApiError

log = logging.getLogger(__name__)

_NOT_FOUND: Final = 404
# Pods placed before the scheduler yields to the event loop
_TURN: Final = 20
_VOLUME_SECONDS: Final = 600.0


class Scheduler:
    """Gives pods their nodes until it is stopped."""

    name: Final = "scheduler"

    def __init__(self, runtime: Runtime, client: ApiClient, *, seed: int = 0) -> None:
        random = Random(seed)  # noqa: S311 breaks ties between nodes, the same way for a seed
        self._client = client
        self._clock = runtime.clock
        self._runtime = runtime
        self._wakeup = asyncio.Event()
        self._may_place = asyncio.Event()
        self._may_place.set()
        self._storage_changed = asyncio.Event()
        self._recorder = Recorder(client, runtime.clock, DEFAULT_SCHEDULER)
        pods = runtime.informer("v1", "pods")
        self._mirror = StorageMirror(runtime, pods)
        self._mirror.claims.on_change(lambda old, new: self._storage_changed.set())
        self._storage = Storage(self._mirror)
        self._cluster = Cluster(self._storage.attached)
        self._queue = PodQueue()
        self._feed = Feed(runtime, pods, self._mirror, self._cluster, self._queue, self._wakeup.set)
        budgets = BudgetMirror(runtime)
        classes = Classes(self._cluster, self._storage, WorkloadMirror(runtime), random)
        self._placement = Placement(self._cluster, classes, budgets.read, random)
        self._spawn: Callable[[Coroutine[Any, Any, None]], object]

    def hold(self) -> None:
        """Place no pods until ``resume``."""
        self._may_place.clear()

    def resume(self) -> None:
        """Place pods again."""
        self._may_place.set()

    async def run(self) -> None:
        """Place pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._spawn = group.create_task
            group.create_task(self._recorder.run(), name="scheduler-events")
            group.create_task(self._loop(), name="scheduler-loop")

    async def _loop(self) -> None:
        turn = 0
        while True:
            await self._may_place.wait()
            self._feed.refresh()
            self._queue.flush(self._clock.monotonic())
            await self._mark_gated()
            pod = self._queue.pop(self._clock.monotonic())
            if pod is None:
                await self._wait()
                continue
            try:
                await self._try(pod)
            except Exception as error:  # noqa: BLE001 one bad pod must not stop the others
                self._queue.retry(pod, self._clock.monotonic())
                self._runtime.report(f"scheduler: {pod.name}", error)
            turn += 1
            if turn % _TURN == 0:
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        self._wakeup.clear()
        due = self._queue.next_due(self._clock.monotonic())
        if due is None:
            await self._wakeup.wait()
        else:
            await self._clock.wait(self._wakeup, seconds=due)

    async def _try(self, pod: PodInfo) -> None:
        decision = self._placement.decide(pod)
        if isinstance(decision, Rejected):
            await self._reject(pod, decision)
            return
        choice = {}
        if pod.claims:
            choice = self._storage.choice(pod, self._cluster.nodes[decision.node].facts)
        placed = self._feed.assume(pod, decision.node)
        if choice:
            # in a task of its own: provisioning takes long, and other pods need not wait for it
            self._spawn(self._bind_with_volumes(placed, choice))
        else:
            await self._bind(placed)

    async def _bind(self, pod: PodInfo) -> None:
        namespace, name = pod.key
        try:
            await self._client.bind(namespace, name, pod.node_name, uid=pod.uid)
        except ApiError as error:
            log.debug("pod %s not bound to %s: %s", pod.name, pod.node_name, error)
            self._take_back(pod)
            return
        message = f"Successfully assigned {pod.name} to {pod.node_name}"
        self._recorder.emit_series(pod.obj, NORMAL, "Scheduled", message, action="Binding")

    def _take_back(self, pod: PodInfo) -> None:
        """Let a pod that could not be bound be tried again after its back-off.

        An immediate retry would loop for ever where every write is refused.
        """
        self._feed.forget(pod)
        self._queue.retry(pod, self._clock.monotonic())

    async def _bind_with_volumes(self, pod: PodInfo, choice: dict[str, str]) -> None:
        try:
            await self._bind_volumes(pod, choice)
        except (ApiError, TimeoutError) as error:
            self._take_back(pod)
            reason = str(error) or "context deadline exceeded"
            message = f'running PreBind plugin "VolumeBinding": binding volumes: {reason}'
            await self._report(pod, message, "SchedulerError")
            return
        await self._bind(pod)

    async def _bind_volumes(self, pod: PodInfo, choice: dict[str, str]) -> None:
        namespace = pod.key[0]
        for claim, volume in choice.items():
            if volume:
                await self._reserve(volume, self._mirror.claim(namespace, claim))
            else:
                annotations = {SELECTED_NODE: pod.node_name}
                patch = {"metadata": {"annotations": annotations}}
                await self._client.patch(
                    "merge", "v1", "persistentvolumeclaims", namespace, claim, patch
                )
        await self._clock.wait_for(self._until_bound(pod), seconds=_VOLUME_SECONDS)

    async def _reserve(self, volume: str, claim: JsonObject | None) -> None:
        """Point a volume at a claim; the volume controller does the rest."""
        if claim is None:
            return
        patch = {"spec": {"claimRef": object_reference("v1", "PersistentVolumeClaim", claim)}}
        await self._client.patch("merge", "v1", "persistentvolumes", None, volume, patch)

    async def _until_bound(self, pod: PodInfo) -> None:
        while True:
            self._storage_changed.clear()
            claims = [self._mirror.claim(pod.key[0], name) for name in pod.claims]
            if all(claim is not None and is_bound(claim) for claim in claims):
                return
            await self._storage_changed.wait()

    async def _reject(self, pod: PodInfo, decision: Rejected) -> None:
        now = self._clock.monotonic()
        self._queue.put_back(pod, decision.awaits, now)
        nominated = ""
        if decision.candidate is not None:
            nominated = decision.candidate.node
        elif decision.keeps_nomination:
            nominated = pod.nominated
        if nominated:
            self._cluster.nominate(pod, nominated)
        await self._report(pod, decision.message, "Unschedulable", nominated)
        if decision.candidate is not None:
            await self._preempt(pod, decision.candidate)

    async def _report(self, pod: PodInfo, message: str, reason: str, nominated: str = "") -> None:
        obj = self._feed.current(pod)
        if obj is None:
            return
        self._recorder.emit_series(obj, WARNING, "FailedScheduling", message, action="Scheduling")
        await self._set_condition(obj, reason, message, nominated)

    async def _set_condition(
        self, obj: JsonObject, reason: str, message: str, nominated: str = ""
    ) -> None:
        metadata = obj["metadata"]
        condition: JsonObject = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
        }
        if metadata.get("generation"):
            condition["observedGeneration"] = metadata["generation"]
        changed = with_condition(obj, condition, timestamp(self._clock.now()))["status"]
        status: JsonObject = {"conditions": changed["conditions"]}
        before = obj.get("status") or {}
        was_nominated = before.get("nominatedNodeName") or ""
        if was_nominated != nominated:
            status["nominatedNodeName"] = nominated or None
        elif before.get("conditions") == changed["conditions"]:
            return
        with contextlib.suppress(ApiError):  # already deleted, as its watch event will show
            await self._client.patch_status(
                "v1", "pods", metadata["namespace"], metadata["name"], status
            )

    async def _preempt(self, pod: PodInfo, candidate: Candidate) -> None:
        if candidate.node not in self._cluster.nodes:
            return  # the node was deleted while the pod's status was written
        await self._drop_lesser_nominations(pod, candidate.node)
        for victim in candidate.victims:
            if victim.is_terminating:
                continue
            try:
                await self._evict(pod, victim)
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    self._queue.activate(pod.key)
                    raise
                continue
            message = f"Preempted by pod {pod.uid} on node {candidate.node}"
            self._recorder.emit_series(
                victim.obj, NORMAL, "Preempted", message, action="Preempting", related=pod.obj
            )

    async def _evict(self, pod: PodInfo, victim: PodInfo) -> None:
        namespace, name = victim.key
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{DEFAULT_SCHEDULER}: preempting to accommodate a higher priority pod",
            "lastProbeTime": None,
        }
        current = self._feed.current(victim) or victim.obj
        changed = with_condition(current, condition, timestamp(self._clock.now()))
        status = {"conditions": changed["status"]["conditions"]}
        await self._client.patch_status("v1", "pods", namespace, name, status)
        await self._client.delete("v1", "pods", namespace, name, uid=victim.uid)

    async def _drop_lesser_nominations(self, pod: PodInfo, node: str) -> None:
        """Remove the nominations to a node of pods with less priority; they are queued again."""
        waiting = self._cluster.nodes[node].nominated.values()
        lesser: Sequence[PodInfo] = [
            other for other in waiting if other.shape.priority < pod.shape.priority
        ]
        for other in lesser:
            self._cluster.drop_nomination(other.uid)
            with contextlib.suppress(ApiError):
                await self._client.patch_status(
                    "v1", "pods", *other.key, {"nominatedNodeName": None}
                )
            self._queue.activate(other.key)

    async def _mark_gated(self) -> None:
        """Set the condition of gated pods to SchedulingGated."""
        while self._feed.gated:
            key = next(iter(self._feed.gated))
            pod = self._feed.gated.pop(key)
            condition = find_condition(pod, "PodScheduled")
            if condition is None or condition.get("reason") != "SchedulingGated":
                await self._set_condition(pod, "SchedulingGated", wording.GATED)
