"""The pods of the store: how long they waited, where they ran, and which of them were evicted.

Pods of DaemonSets wait for their node by design, so they count in nothing but the use of nodes.

An eviction is a pod that ran and went, but neither by its owner nor by its own end nor by a step of the
scenario: the API server or a controller of the cluster marked it as the target of a disruption, or the
autoscaler deleted it.
"""

import hashlib
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter.simulate.demand.objects import ON_EVICTION
from karpenter.simulate.observe.levels import Grid, Levels
from karpenter.simulate.observe.machines import Place
from karpenter_sandbox.conditions import find_condition, is_true
from karpenter_sandbox.scheduling.requests import allocatable, pod_requests
from karpenter_sandbox.store.store import Event, Key, Store

RE_EVICTION_SECONDS: Final = 1800.0
BY_AUTOSCALER: Final = "DeletedByAutoscaler"  # instead of the reason of a DisruptionTarget
_ENDED: Final = ("Succeeded", "Failed")
_RESOURCES: Final = ("cpu", "memory", "pods")
_MARKED: Final = "DisruptionTarget"


@dataclass(slots=True)
class Eviction:
    """One pod that was evicted."""

    at: float
    pod: str
    workload: str
    node: str
    reason: str  # of the pod's DisruptionTarget
    lost: float  # seconds of work that have to be done again
    is_again: bool  # it replaced a pod evicted at most half an hour before


@dataclass(slots=True)
class Waiting:
    """A pod without a node at the end."""

    pod: str
    since: float


@dataclass(slots=True)
class Workload:
    """What happened to the pods of a workload."""

    wanted: int | None = None  # replicas; None where it has none, such as a Job
    ready: int = 0
    was_whole: bool = False  # all wanted pods were Ready once
    lowest: float | None = None  # share of wanted pods that were Ready, since then

    def judge(self) -> None:
        """Note the share of wanted pods that are Ready."""
        if not self.wanted:
            return
        share = min(1.0, self.ready / self.wanted)
        if share >= 1.0:
            self.was_whole = True
        if self.was_whole and (self.lowest is None or share < self.lowest):
            self.lowest = share


@dataclass(slots=True)
class _Pod:
    name: str
    created: float
    owner: str
    workload: str
    is_daemon: bool
    is_measured: bool
    is_job: bool
    replaces: float | None  # when the pod it replaces was evicted
    amounts: tuple[float, ...]
    kind: str = ""  # of pods that ask for the same, while it is served by a machine of the cloud
    node: str = ""
    is_ready: bool = False
    was_ready: bool = False
    ran: float | None = None  # since when
    is_over: bool = False  # finished, or asked to go


@dataclass(slots=True)
class _Node:
    amounts: tuple[float, ...] = (0.0, 0.0, 0.0)
    is_ready: bool = False


@dataclass(slots=True)
class Crowd:
    """Pods of one kind on machines of the cloud: how many there are, and the fewest of each interval."""

    example: JsonObject  # the first of them, as it was bound
    places: set[Place] = field(default_factory=set)  # offerings of the machines they were bound to
    count: int = 0
    fewest: dict[int, int] = field(default_factory=dict)  # interval -> pods; others: as before
    seen: int = 0  # the last interval that was noted


class Pods:
    """Follows pods, and the nodes and workloads they belong to."""

    def __init__(
        self, store: Store, grid: Grid, levels: Levels, place_of: Callable[[str], Place | None]
    ) -> None:
        """Follow the pods of a store; ``place_of`` knows the nodes that the cloud has made."""
        self._store = store
        self._place_of = place_of
        self._grid = grid
        self._levels = levels
        self._pods: dict[str, _Pod] = {}  # uid -> pod
        self._nodes: dict[str, _Node] = {}
        self._queues: dict[str, deque[float]] = {}  # uid of an owner -> evictions not replaced yet
        self._owners: dict[str, str] = {}  # uid of an owner -> workload
        self._just_ended: dict[str, _Pod] = {}  # pods that went at this instant for no known reason
        self._instant = 0.0
        self.pending: array[float] = array("d")
        self.binding: array[float] = array("d")
        self.created: dict[str, float] = {}  # namespace/name -> when
        self.evictions: list[Eviction] = []
        self.workloads: dict[str, Workload] = {}
        self.crowds: dict[str, Crowd] = {}

    def deleted_by_autoscaler(self, now: float, name: str) -> None:
        """The autoscaler has deleted a pod without an eviction, at this very instant."""
        pod = self._just_ended.pop(name, None) if now == self._instant else None
        if pod is not None:
            self._evicted(now, pod, BY_AUTOSCALER)

    def pod_changed(self, now: float, event: Event) -> None:
        """A pod was written."""
        obj = event.obj
        uid = obj["metadata"]["uid"]
        pod = self._pods.get(uid)
        if pod is None:
            if event.type == "DELETED":
                return
            pod = self._pods[uid] = self._new(now, obj)
        status = obj.get("status") or {}
        if not pod.node and (obj.get("spec") or {}).get("nodeName"):
            self._bind(now, pod, obj)
        if pod.ran is None and status.get("phase") == "Running":
            pod.ran = now
        self._ready(now, pod, is_ready=status.get("phase") == "Running" and is_true(obj, "Ready"))
        if not pod.is_over:
            self._end(now, pod, obj, is_gone=event.type == "DELETED")
        if event.type == "DELETED":
            self._forget(now, uid, pod)
        elif status.get("phase") in _ENDED:
            self._release(now, pod)

    def node_changed(self, now: float, event: Event) -> None:
        """A node was written."""
        obj = event.obj
        name = obj["metadata"]["name"]
        node = self._nodes.setdefault(name, _Node())
        is_ready = event.type != "DELETED" and is_true(obj, "Ready")
        room = allocatable(obj)
        amounts = (room.cpu / 1000, float(room.memory), float(room.pods)) if is_ready else _NOTHING
        if amounts != node.amounts:
            for resource, before, after in zip(_RESOURCES, node.amounts, amounts, strict=True):
                self._levels[f"allocatable/{resource}"].add(now, after - before)
            node.amounts = amounts
        if event.type == "DELETED":
            del self._nodes[name]

    def workload_changed(self, now: float, event: Event) -> None:
        """A Deployment or StatefulSet was written."""
        obj = event.obj
        metadata = obj["metadata"]
        name = f"{obj['kind']}/{metadata['namespace']}/{metadata['name']}"
        workload = self.workloads.setdefault(name, Workload())
        is_gone = event.type == "DELETED" or "deletionTimestamp" in metadata
        workload.wanted = None if is_gone else int(obj["spec"].get("replicas", 1))
        if now >= self._grid.first:
            workload.judge()

    def machine_gone(self, now: float, name: str) -> None:
        """A machine of the cloud is no more: what was bound to it is not served any more."""
        for pod in self._pods.values():
            if pod.node == name:
                self._uncrowd(now, pod)

    def waits(self, now: float) -> tuple[list[float], list[float]]:
        """Seconds until Ready, and until bound, of all pods; who still waits counts as well."""
        pending, binding = list(self.pending), list(self.binding)
        for pod in self._pods.values():
            if pod.is_measured and not pod.is_over:
                if not pod.was_ready:
                    pending.append(now - pod.created)
                if not pod.node:
                    binding.append(now - pod.created)
        return pending, binding

    def unscheduled(self) -> list[Waiting]:
        """Pods that wait for a node, the oldest first."""
        found = [
            Waiting(pod.name, pod.created)
            for pod in self._pods.values()
            if not pod.node and not pod.is_over and not pod.is_daemon
        ]
        return sorted(found, key=lambda each: (each.since, each.pod))

    def _new(self, now: float, obj: JsonObject) -> _Pod:
        metadata, spec = obj["metadata"], obj.get("spec") or {}
        owner = _owner(metadata)
        uid = owner.get("uid", "")
        requests = pod_requests(spec)
        is_daemon = owner.get("kind") == "DaemonSet"
        queue = self._queues.get(uid)
        replaces = queue.popleft() if queue else None
        name = f"{metadata['namespace']}/{metadata['name']}"
        pod = _Pod(
            name=name,
            created=now,
            owner=uid,
            workload=self._workload_of(metadata, owner),
            is_daemon=is_daemon,
            is_measured=not is_daemon and now >= self._grid.first,
            is_job=owner.get("kind") == "Job" and not _resumes(metadata),
            replaces=replaces,
            amounts=(requests.cpu / 1000, float(requests.memory), 1.0),
        )
        if not is_daemon:
            self.created[name] = now
            self._levels["pending"].add(now, 1)
        return pod

    def _bind(self, now: float, pod: _Pod, obj: JsonObject) -> None:
        pod.node = obj["spec"]["nodeName"]
        if pod.is_measured:
            self.binding.append(now - pod.created)
        self._request(now, pod, 1)
        place = self._place_of(pod.node)
        if place is None or pod.is_daemon:
            return
        # As it is bound: until then, its tolerations and where it may go can change
        pod.kind = _kind_of(obj["metadata"], obj["spec"])
        crowd = self.crowds.get(pod.kind)
        if crowd is None:
            crowd = self.crowds[pod.kind] = Crowd(obj, seen=self._interval(now))
            crowd.fewest[crowd.seen] = 0
        crowd.places.add(place)
        self._crowd(now, crowd, 1)

    def _request(self, now: float, pod: _Pod, sign: int) -> None:
        for resource, amount in zip(_RESOURCES, pod.amounts, strict=True):
            self._levels[f"requested/{resource}"].add(now, sign * amount)
            if pod.is_daemon:
                self._levels[f"daemons/{resource}"].add(now, sign * amount)

    def _ready(self, now: float, pod: _Pod, *, is_ready: bool) -> None:
        if is_ready == pod.is_ready or pod.is_daemon:
            return
        pod.is_ready = is_ready
        self._levels["running"].add(now, 1 if is_ready else -1)
        if is_ready and not pod.was_ready:
            pod.was_ready = True
            self._levels["pending"].add(now, -1)
            if pod.is_measured:
                self.pending.append(now - pod.created)
        self._count_ready(now, pod, 1 if is_ready else -1)

    def _count_ready(self, now: float, pod: _Pod, change: int) -> None:
        workload = self.workloads.get(pod.workload)
        if workload is not None:
            workload.ready += change
            if now >= self._grid.first:
                workload.judge()

    def _end(self, now: float, pod: _Pod, obj: JsonObject, *, is_gone: bool) -> None:
        """Note that a pod finishes or goes, once."""
        phase = (obj.get("status") or {}).get("phase")
        if phase not in _ENDED and not is_gone and "deletionTimestamp" not in obj["metadata"]:
            return
        pod.is_over = True
        if not pod.was_ready and not pod.is_daemon:
            self._levels["pending"].add(now, -1)
            if pod.is_measured:
                self.pending.append(now - pod.created)
        if pod.ran is None or pod.is_daemon or phase in _ENDED:
            return
        mark = find_condition(obj, _MARKED)
        if mark is not None and mark.get("status") == "True":
            self._evicted(now, pod, str(mark.get("reason", "")))
            return
        if now != self._instant:
            self._instant = now
            self._just_ended.clear()
        self._just_ended[pod.name] = pod

    def _evicted(self, now: float, pod: _Pod, reason: str) -> None:
        if pod.owner:
            self._queues.setdefault(pod.owner, deque()).append(now)
        if now < self._grid.first:
            return
        is_again = pod.replaces is not None and now - pod.replaces <= RE_EVICTION_SECONDS
        lost = now - pod.ran if pod.is_job and pod.ran is not None else 0.0
        self.evictions.append(
            Eviction(now, pod.name, pod.workload, pod.node, reason, lost, is_again)
        )

    def _release(self, now: float, pod: _Pod) -> None:
        """A pod takes nothing of its node any more."""
        if pod.node and pod.amounts != _NOTHING:
            self._request(now, pod, -1)
            pod.amounts = _NOTHING
        self._uncrowd(now, pod)

    def _uncrowd(self, now: float, pod: _Pod) -> None:
        crowd = self.crowds.get(pod.kind)
        if crowd is not None:
            self._crowd(now, crowd, -1)
        pod.kind = ""

    def _crowd(self, now: float, crowd: Crowd, change: int) -> None:
        """Change how many pods of a kind are bound, and note the fewest of the interval."""
        number = self._interval(now)
        if number > crowd.seen:
            crowd.fewest[crowd.seen + 1] = crowd.count  # as many until this interval
            crowd.fewest[number] = crowd.count
            crowd.seen = number
        crowd.count += change
        before = crowd.fewest.get(number, crowd.count)
        is_warming_up = now < self._grid.first  # which is not of the first interval
        crowd.fewest[number] = crowd.count if is_warming_up else min(before, crowd.count)

    def _interval(self, now: float) -> int:
        return self._grid.of(max(now, self._grid.first))

    def _forget(self, now: float, uid: str, pod: _Pod) -> None:
        self._ready(now, pod, is_ready=False)
        self._release(now, pod)
        del self._pods[uid]

    def _workload_of(self, metadata: JsonObject, owner: JsonObject) -> str:
        namespace = metadata["namespace"]
        if not owner:
            return f"Pod/{namespace}/{metadata['name']}"
        uid = owner["uid"]
        known = self._owners.get(uid)
        if known is None:
            known = self._owners[uid] = self._root(namespace, owner)
        return known

    def _root(self, namespace: str, owner: JsonObject) -> str:
        """The workload above an owner: a Deployment above its ReplicaSet, a CronJob above its Job."""
        kind, name = owner["kind"], owner["name"]
        place = {"ReplicaSet": ("apps", "replicasets"), "Job": ("batch", "jobs")}.get(kind)
        found = self._store.get(Key(*place, namespace, name)) if place else None
        above = _owner(found["metadata"]) if found is not None else {}
        if above:
            kind, name = above["kind"], above["name"]
        return f"{kind}/{namespace}/{name}"


_NOTHING: Final = (0.0, 0.0, 0.0)
# What decides which machines could serve a pod
_DECISIVE: Final = (
    "affinity",
    "nodeSelector",
    "overhead",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
)


def _owner(metadata: JsonObject) -> JsonObject:
    owners: list[Any] = metadata.get("ownerReferences") or []
    return next((each for each in owners if each.get("controller")), {})


def _resumes(metadata: JsonObject) -> bool:
    return (metadata.get("annotations") or {}).get(ON_EVICTION) == "resume"


def _kind_of(metadata: JsonObject, spec: JsonObject) -> str:
    """What pods of one kind have in common: what they ask of a node."""
    containers = [
        [each.get("resources"), each.get("restartPolicy"), each.get("ports")]
        for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    ]
    asked = [metadata["namespace"], containers, [spec.get(name) for name in _DECISIVE]]
    text = msgspec.json.encode(asked, order="deterministic")
    return hashlib.blake2b(text, digest_size=16).hexdigest()
