"""How long machines boot and pods start, run and end, as the scenario draws it."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from karpenter.api.meta import JsonObject
from karpenter.api.times import in_seconds, later
from karpenter.model import labels
from karpenter.model.quantity import units
from karpenter.simulate.amounts import Drawer, Samples
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand.objects import ON_EVICTION, WORK, WORKLOAD
from karpenter.simulate.demand.sktrace import DURATIONS, SERIES
from karpenter.simulate.lengths import seconds
from karpenter.simulate.scenario.models import Images, ImageTime, Machines, Scenario, Time
from karpenter_sandbox.backend import parse_timestamp

# Called with the node and the bytes of an image that it pulls
Pulled = Callable[[str, int], None]


class ImagePulls:
    """The images that nodes have; a node pulls one at a time."""

    def __init__(self, images: Images, pulled: Pulled) -> None:
        self._bandwidth = units(images.bandwidth)
        self._sizes = {pattern: units(size) for pattern, size in images.sizes.items()}
        self._pulled = pulled
        self._free: dict[str, datetime] = {}  # node -> when it can begin the next pull
        self._there: dict[tuple[str, str], datetime] = {}  # (node, image) -> when it is there

    def wait(self, node: str, pod: JsonObject, now: datetime) -> float:
        """Seconds until all images of a pod are on its node."""
        done = now
        for container in pod["spec"]["containers"]:
            image = str(container.get("image", ""))
            if (node, image) not in self._there:
                size = self._size(image)
                begins = max(now, self._free.get(node, now))
                seconds = size / self._bandwidth if self._bandwidth else 0.0
                self._there[node, image] = self._free[node] = later(begins, in_seconds(seconds))
                self._pulled(node, size)
            done = max(done, self._there[node, image])
        return (done - now).total_seconds()

    def has(self, node: str, pod: JsonObject, now: datetime) -> None:
        """Take note that a node has had all images of a pod for long."""
        for container in pod["spec"]["containers"]:
            self._there[node, str(container.get("image", ""))] = now

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._free.pop(node, None)
        for key in [key for key in self._there if key[0] == node]:
            del self._there[key]

    def _size(self, image: str) -> int:
        matching = (size for shape, size in self._sizes.items() if fnmatchcase(image, shape))
        return next(matching, 0)


class Resumed:
    """What evicted pods of Jobs have done, for those that replace them.

    A pod writes down how far it is when it is asked to end; one whose machine vanishes has done so
    until then. Of several pods that a Job lost, the first replacement carries on for the first.
    """

    def __init__(self) -> None:
        self._left: dict[str, deque[float]] = {}  # uid of a Job -> seconds done
        self._carried: dict[str, float] = {}  # uid of a pod -> seconds that others have done
        self._stopped: set[str] = set()  # uids of pods that have written it down
        self._lost: dict[str, datetime] = {}  # node -> when its machine vanished

    def rest(self, pod: JsonObject, work: float) -> float:
        """Seconds of work that are left to a pod."""
        uid = pod["metadata"]["uid"]
        if uid not in self._carried:
            waiting = self._left.get(_job_of(pod))
            self._carried[uid] = waiting.popleft() if waiting else 0.0
        return max(work - self._carried[uid], 0.001)

    def changed(self, pod: JsonObject, now: datetime, *, is_gone: bool) -> None:
        """A pod that resumes was written; it may have been asked to end."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        uid, phase = metadata["uid"], status.get("phase")
        is_ending = is_gone or phase == "Failed" or "deletionTimestamp" in metadata
        if is_ending and phase != "Succeeded" and uid not in self._stopped:
            self._stopped.add(uid)
            ended = min(now, self._lost.get(str(pod["spec"].get("nodeName", "")), now))
            begun = _running_since(status)
            done = max(0.0, (ended - begun).total_seconds()) if begun is not None else 0.0
            carried = self._carried.get(uid, 0.0)
            if done + carried:
                self._left.setdefault(_job_of(pod), deque()).append(done + carried)
        if is_gone:
            self._stopped.discard(uid)
            self._carried.pop(uid, None)

    def machine_gone(self, node: str, now: datetime) -> None:
        """The machine of a node is no more: nothing runs there from now on."""
        self._lost[node] = now


class DrawnDelays:
    """The delays of one run."""

    def __init__(
        self,
        scenario: Scenario,
        machines: Machines,
        chance: Chance,
        samples: Samples,
        pulled: Pulled,
    ) -> None:
        self._machines = machines
        self._workloads = {each.name: each for each in scenario.workloads}
        self._boots = Drawer(chance, "boot", samples)
        self._starts = Drawer(chance, "start", samples)
        self._runs = Drawer(chance, "run", samples)
        self._shutdowns = Drawer(chance, "shutdown", samples)
        self._images = ImagePulls(machines.images, pulled) if machines.images else None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._drawn: dict[tuple[str, str], float] = {}  # (stream, uid) -> seconds
        self._used: dict[str, set[str]] = {}  # node -> images of which a pod has started there
        self.is_furnishing = False  # what comes now has been there for long
        self._resumed = Resumed()

    def boot(self, node: JsonObject) -> float | None:
        """Machines of the cloud boot as the scenario says; other nodes are there."""
        held = node["metadata"].get("labels") or {}
        if labels.NODEPOOL not in held:
            return 0.0
        if self.is_furnishing:
            self._drawn.setdefault(("boot", node["metadata"]["uid"]), 0.0)
        parts = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
        offering = "/".join(held.get(key) or "-" for key in parts)
        return self._once(
            "boot",
            node,
            offering,
            lambda number: self._boots.of_machine(self._machines.boot, offering, number),
        )

    def start(self, pod: JsonObject, now: datetime) -> float | None:
        """Images first, then the start itself."""
        node = str(pod["spec"].get("nodeName", ""))
        if self.is_furnishing:
            if self._images is not None:
                self._images.has(node, pod, now)
            self._used.setdefault(node, set()).add(image_of(pod))
            return self._drawn.setdefault(("start", pod["metadata"]["uid"]), 0.0)
        pull = self._images.wait(node, pod, now) if self._images is not None else 0.0
        workload = self._workloads.get(_workload_of(pod))
        if workload is not None and workload.start:
            return pull + self._of_pod("start", self._starts, pod, workload.start)
        if not isinstance(self._machines.start, list):
            return pull + self._of_pod("start", self._starts, pod, self._machines.start)
        return pull + self._of_image(pod, node, self._machines.start)

    def _of_image(self, pod: JsonObject, node: str, times: Sequence[ImageTime]) -> float:
        """The time for a pod of an image, which is another one where the node has not had it yet."""
        image = image_of(pod)
        used = self._used.setdefault(node, set())
        found = next((each for each in times if fnmatchcase(image, each.image)), None)
        if found is None:
            return 0.0
        is_first = found.first is not None and image not in used
        used.add(image)
        time = found.first if is_first and found.first is not None else found.is_
        key = f"{image}/first" if is_first else image
        return self._once("start", pod, key, lambda number: self._starts.drawn(time, key, number))

    def run(self, pod: JsonObject) -> float | None:
        """Pods of CronJobs, of traces and those that resume; the others say it themselves."""
        annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
        if WORK in annotations:
            return self._resumed.rest(pod, seconds(annotations[WORK]))
        if DURATIONS in annotations:
            lengths = [float(each) for each in annotations[DURATIONS].split(",")]
            owner = annotations.get(SERIES) or _series_of(pod)
            return self._once(
                "run", pod, owner, lambda number: lengths[min(number, len(lengths) - 1)]
            )
        workload = self._workloads.get(_workload_of(pod))
        if workload is None or workload.cron is None:
            return None
        return self._of_pod("run", self._runs, pod, workload.cron.duration)

    def shutdown(self, pod: JsonObject) -> float | None:
        """How long a pod takes to end."""
        workload = self._workloads.get(_workload_of(pod))
        has_own = workload is not None and workload.shutdown is not None
        time = workload.shutdown if workload is not None and has_own else self._machines.shutdown
        return self._of_pod("shutdown", self._shutdowns, pod, time or "0")

    def pod_changed(self, pod: JsonObject, now: datetime, *, is_gone: bool) -> None:
        """A pod was written."""
        if ON_EVICTION in (pod["metadata"].get("annotations") or {}):
            self._resumed.changed(pod, now, is_gone=is_gone)

    def machine_gone(self, node: str, now: datetime) -> None:
        """A machine has vanished, with all that ran on it."""
        self._resumed.machine_gone(node, now)

    def forget(self, kind: str, obj: JsonObject) -> None:
        """Forget an object that is gone."""
        uid = obj["metadata"]["uid"]
        for stream in ("boot",) if kind == "nodes" else ("start", "run", "shutdown"):
            self._drawn.pop((stream, uid), None)
        if kind == "nodes":
            self._used.pop(obj["metadata"]["name"], None)
            if self._images is not None:
                self._images.forget(obj["metadata"]["name"])

    def _of_pod(self, stream: str, drawer: Drawer, pod: JsonObject, time: Time) -> float:
        key = _workload_of(pod)
        return self._once(stream, pod, key, lambda number: drawer.drawn(time, key, number))

    def _once(self, stream: str, obj: JsonObject, key: str, draw: Callable[[int], float]) -> float:
        """The same amount for an object whenever it is asked for, numbered by key."""
        named = (stream, obj["metadata"]["uid"])
        if named not in self._drawn:
            number = self._counts[stream, key]
            self._counts[stream, key] += 1
            self._drawn[named] = draw(number)
        return self._drawn[named]


def image_of(pod: JsonObject) -> str:
    """The image of the first container of a pod."""
    containers: Sequence[JsonObject] = (pod.get("spec") or {}).get("containers") or ({},)
    return str(containers[0].get("image", ""))


def _job_of(pod: JsonObject) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return str(owners[0]["uid"]) if owners else ""


def _running_since(status: JsonObject) -> datetime | None:
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        part = state.get("running") or state.get("terminated") or {}
        if "startedAt" in part:
            return parse_timestamp(part["startedAt"])
    return None


def _workload_of(pod: JsonObject) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(WORKLOAD, ""))


def _series_of(pod: JsonObject) -> str:
    """What pods of a trace have in common: their name without what is generated of it."""
    owners = pod["metadata"].get("ownerReferences") or ()
    name = str(owners[0]["name"]) if owners else str(pod["metadata"]["name"])
    return name.rsplit("-", 1)[0]
