"""Replays a recording: what owners asked for and what pods of no owner did, at their times.

Pods of workloads are not replayed, because their owners make them. Jobs and pods of no owner that
is recorded are: they run as long as they did, and come again when they are evicted. CronJobs and
autoscalers are not, because what they did is; or they act again, and what they did is not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.simulate.demand.objects import JOB_TTL, RUN_DURATION
from karpenter.simulate.demand.operations import Operation, Verb
from karpenter.simulate.demand.recorded_owners import (
    LIVE,
    LiveOwners,
    cron_job_of,
    live_autoscaler,
    live_cron_job,
)
from karpenter.simulate.demand.recorded_start import RecordedStart, recorded_start, unusable
from karpenter.simulate.demand.sktrace import DURATIONS, SERIES
from karpenter.simulate.demand.tables import DataError
from karpenter.simulate.lengths import shown
from karpenter.simulate.record.facts import finished, started
from karpenter.simulate.record.kinds import controller_of, is_of_deployment, is_owned
from karpenter.simulate.record.recorder import SCALED, replicas
from karpenter.simulate.record.segments import (
    Change,
    Gap,
    Key,
    Reading,
    RecordingError,
    beginning,
    read,
)

_POD: Final = "simulate.karpenter.sh/pod"  # label of the only pod of a ReplicaSet
_FOR_EVER: Final = 10 * 365 * 86_400.0
_SCHEDULER: Final = "default-scheduler"
_MOST_NAMED: Final = 10
# Kinds that are applied as they were recorded, in the order of what depends on what
_APPLIED: Final = (
    "Namespace",
    "PriorityClass",
    "LimitRange",
    "PodDisruptionBudget",
    "DaemonSet",
    "Deployment",
    "StatefulSet",
    "ReplicaSet",
)
_OF_EVERY_CLUSTER: Final = ("system-", "kube-")
# Labels that the API server gives the pods of each Job
_OF_JOBS: Final = tuple(
    f"{domain}{name}"
    for domain in ("", "batch.kubernetes.io/")
    for name in ("controller-uid", "job-name")
)
# What admission writes, what only its own cluster had, and what is not simulated
_DROPPED: Final = (
    "nodeName",
    "priority",
    "preemptionPolicy",
    "runtimeClassName",
    "schedulerName",
    "volumes",
)


def segments_of(files: Mapping[str, bytes], pattern: str) -> list[tuple[str, bytes]]:
    """The segments that a scenario names, oldest first."""
    return sorted(
        (name, data)
        for name, data in files.items()
        if name == pattern or fnmatchcase(name, pattern)
    )


class Replayed:
    """A recording as it is played from a moment on."""

    def __init__(
        self,
        segments: Sequence[tuple[str, bytes]],
        start: datetime,
        *,
        is_live: bool = False,
    ) -> None:
        """Prepare to play segments.

        Args:
            segments: names and contents, oldest first.
            start: what came before is there from the beginning.
            is_live: autoscalers and CronJobs act again.
        """
        self._segments = segments
        self._start = start.timestamp()
        self._is_live = is_live

    def operations(self) -> Iterator[Operation]:
        """What users asked for, in order.

        Raises:
            DataError: the recording cannot be used.
        """
        lives, live = _Lives(self._start), LiveOwners() if self._is_live else None
        for each in self._read():
            lives.take(each)
            if live is not None:
                live.take(each)
        play = _Play(self._start, lives, live, _There(self._segments, self._start))
        for each in self._read():
            yield from play.take(each)
        yield from play.begin()

    def start(self) -> RecordedStart:
        """What there was at the beginning.

        Raises:
            DataError: the recording cannot be used.
        """
        return recorded_start(self._there(), self._start)

    def _there(self) -> dict[Key, JsonObject]:
        """All objects that there were when the replay begins."""
        there, found = _There(self._segments, self._start), dict[Key, JsonObject]()
        for each in self._read():
            if isinstance(each, Gap):
                continue
            if not there.has(each):
                break
            _keep(found, each)
        return found

    def warnings(self) -> list[str]:
        """What a report has to repeat.

        Raises:
            DataError: the recording cannot be used.
        """
        there = self._there()
        reading, counts = Reading(), _Omitted(there, recorded_start(there, self._start))
        live = LiveOwners()
        for each in self._read(reading):
            counts.take(each)
            live.take(each)
        found = [self._of_gap(gap) for gap in reading.gaps[:_MOST_NAMED]]
        if len(reading.gaps) > _MOST_NAMED:
            found.append(f"the recording has {len(reading.gaps) - _MOST_NAMED} more gaps")
        if not reading.has_end:
            found.append(
                f"{reading.torn[-1]}: has no end, as its recorder was killed or still runs; it is"
                f" read up to {shown(reading.last - self._start)}"
            )
        if self._is_live and live.without_load:
            found.append(
                f"the recording does not tell what {_counted(len(live.without_load), 'autoscaler')}"
                " measured; what they did is replayed"
            )
        return found + counts.warnings()

    def _of_gap(self, gap: Gap) -> str:
        since, until = shown(gap.since - self._start), shown(gap.until - self._start)
        return (
            f"the recording has a gap from {since} to {until}: what happened meanwhile is missing,"
            " or comes late"
        )

    def _read(self, reading: Reading | None = None) -> Iterator[Change | Gap]:
        try:
            yield from read(self._segments, reading)
        except RecordingError as error:
            raise DataError(error.file, error.line, error.problem) from None


class _Lives:
    """How long pods ran, which is known only at their end."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._of_jobs: dict[str, list[tuple[float, float]]] = {}  # uid of a Job -> begin, length
        self._of_pods: dict[str, float] = {}  # uid of a pod -> length

    def take(self, change: Change | Gap) -> None:
        """Take a change; only the one by which a pod ends counts."""
        if isinstance(change, Gap) or change.key[0] != "Pod" or change.after is None:
            return
        pod, before = change.after, change.before
        ended, begun = finished(pod), started(pod)
        if ended is None or begun is None or (before is not None and finished(before) is not None):
            return
        length = ended - max(begun, self._start)
        if length < 0:
            return
        owner = controller_of(pod)
        if owner is not None and owner.get("kind") == "Job":
            self._of_jobs.setdefault(owner["uid"], []).append((begun, length))
        elif not is_owned(pod):
            self._of_pods[pod["metadata"]["uid"]] = length

    def of_job(self, uid: str) -> list[float]:
        """How long its pods ran, in the order of their starts; nothing if none ended."""
        return [length for _, length in sorted(self._of_jobs.get(uid, ()))]

    def of_pod(self, uid: str) -> float | None:
        """How long it ran, if it ended by itself."""
        return self._of_pods.get(uid)


class _There:
    """Tells which changes, in their order, made what is there from the start of a replay."""

    def __init__(self, segments: Sequence[tuple[str, bytes]], start: float) -> None:
        self._start = start
        self._left = 0  # objects of the head, which a start of whole seconds comes a little before
        if segments:
            try:
                head, objects = beginning(*segments[0])
            except RecordingError as error:
                raise DataError(error.file, error.line, error.problem) from None
            if head.at - start < 1.0:
                self._left = len(objects)

    def has(self, change: Change) -> bool:
        """Whether the next change is one of them."""
        self._left -= 1
        return self._left >= 0 or change.at <= self._start


class _Play:
    """Turns changes into operations."""

    def __init__(
        self, start: float, lives: _Lives, live: LiveOwners | None, first: "_There"
    ) -> None:
        self._start = start
        self._first = first
        self._lives = lives
        self._live = live
        self._there: dict[Key, JsonObject] | None = {}  # until the scenario starts
        self._made: dict[Key, JsonObject] = {}  # recorded object -> what was made of it
        self._overheads: dict[str, JsonObject] = {}  # runtime class -> overhead of pods
        self._at = 0.0

    def take(self, change: Change | Gap) -> Iterator[Operation]:
        """What is done for a change."""
        if isinstance(change, Gap):
            return
        if change.key[0] == "RuntimeClass" and change.after is not None:
            overhead = (change.after.get("overhead") or {}).get("podFixed")
            self._overheads[change.key[2]] = overhead or {}
        if self._there is not None:
            if self._first.has(change):
                _keep(self._there, change)
                return
            yield from self.begin()
        self._at = max(self._at, change.at - self._start)
        yield from self._changed(change.key, change.before, change.after)

    def begin(self) -> Iterator[Operation]:
        """Make what is there at the start, once."""
        there, self._there = self._there, None
        for key in sorted(there or (), key=_rank):
            yield from self._changed(key, None, (there or {})[key])

    def _changed(
        self, key: Key, before: JsonObject | None, after: JsonObject | None
    ) -> Iterator[Operation]:
        known = self._made.get(key)
        if after is None:
            if known is not None and before is not None and not _is_over(before):
                yield self._operation("delete", known)
            self._made.pop(key, None)
            return
        if self._live is not None and key[0] in LIVE:
            yield from self._act(self._live, key, after)
            return
        if key[0] in ("Job", "Pod"):
            if before is None and not _is_over(after) and (made := self._work(after)) is not None:
                self._made[key] = made
                yield self._operation("create", made)
            return
        if _is_applied(key, after) and not _is_foreign(after):
            yield from self._workload(key, known, self._applied(after))

    def _workload(
        self, key: Key, known: JsonObject | None, made: JsonObject
    ) -> Iterator[Operation]:
        """A workload, or what one needs, that is new or has changed."""
        if known == made:
            return
        self._made[key] = made
        if known is None or key[0] not in SCALED or not _but_for_replicas(known, made):
            yield self._operation("apply", made)
        elif self._live is None or key not in self._live.scaled:
            yield self._operation("scale", made, count=replicas(made))

    def _act(self, live: LiveOwners, key: Key, obj: JsonObject) -> Iterator[Operation]:
        """An autoscaler, or a CronJob, that acts again."""
        known = self._made.get(key)
        if key[0] == "CronJob":
            spec = (obj.get("spec") or {}).get("jobTemplate") or {}
            uids = live.jobs_of(key)
            lengths = [length for uid in uids for length in self._lives.of_job(uid)]
            made = live_cron_job(obj, self._job(obj, spec.get("spec") or {}, ()), lengths)
        elif key in live.autoscalers:
            made = live_autoscaler(obj, known)
        else:
            return
        self._made[key] = made
        if known is None or known["spec"] != made["spec"]:
            yield self._operation("apply", made)
        elif known != made:
            yield self._operation("merge", made)

    def _operation(self, verb: Verb, obj: JsonObject, count: int = 0) -> Operation:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace") or "default"
        body = obj if verb in ("create", "apply") else None
        if verb == "merge":
            body = {"metadata": {"annotations": metadata["annotations"]}}
        version, kind = obj["apiVersion"], obj["kind"]
        return Operation(self._at, verb, version, kind, namespace, metadata["name"], body, count)

    # --- Objects

    def _applied(self, obj: JsonObject) -> JsonObject:
        """A workload, or what one needs, as a person would have applied it."""
        found = {key: value for key, value in obj.items() if key != "status"}
        found["metadata"] = _metadata(obj)
        spec = dict(obj.get("spec") or {})
        if "template" in spec:
            spec["template"] = self._template(spec["template"])
        spec.pop("volumeClaimTemplates", None)
        if spec:
            found["spec"] = spec
        return found

    def _work(self, obj: JsonObject) -> JsonObject | None:
        """A Job, or a pod of no owner, which comes again when it is evicted; None if not replayed."""
        if _is_foreign(obj) or (self._live is not None and cron_job_of(obj)):
            return None
        uid = obj["metadata"].get("uid", "")
        if obj["kind"] == "Job":
            return self._job(obj, obj.get("spec") or {}, self._lives.of_job(uid))
        owner = (controller_of(obj) or {}).get("kind")
        if is_owned(obj) or owner == "Node":
            return None  # its owner makes it, or it belongs to its node, as those of kubelets
        spec = {"template": {"metadata": _metadata(obj), "spec": obj.get("spec") or {}}}
        length = self._lives.of_pod(uid)
        if length is not None:
            return self._job(obj, spec, [length])
        template = self._template(spec["template"])
        template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), _POD: uid}
        template["spec"]["restartPolicy"] = "Always"
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": _named(obj),
            "spec": {"replicas": 1, "selector": {"matchLabels": {_POD: uid}}, "template": template},
        }

    def _job(self, obj: JsonObject, spec: JsonObject, lengths: Sequence[float]) -> JsonObject:
        template = self._template(spec.get("template") or {})
        held = template["metadata"].get("labels") or {}
        template["metadata"]["labels"] = {
            key: value for key, value in held.items() if key not in _OF_JOBS
        }
        notes = {RUN_DURATION: f"{_FOR_EVER:.3f}s"}
        if len(lengths) == 1:
            notes = {RUN_DURATION: f"{lengths[0]:.3f}s"}
        elif lengths:
            place = f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['uid']}"
            notes = {DURATIONS: ",".join(f"{each:.3f}" for each in lengths), SERIES: place}
        template["metadata"]["annotations"] = {
            **template["metadata"].get("annotations", {}),
            **notes,
        }
        template["spec"]["restartPolicy"] = "Never"
        wanted = len(lengths) or spec.get("completions") or spec.get("parallelism") or 1
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": _named(obj),
            "spec": {
                "parallelism": min(spec.get("parallelism", 1), wanted),
                "completions": wanted,
                "backoffLimit": 100,  # pods that are evicted come again
                "ttlSecondsAfterFinished": JOB_TTL,
                "template": template,
            },
        }

    def _template(self, template: JsonObject) -> JsonObject:
        """Pods without what only their own cluster had."""
        spec = template.get("spec") or {}
        found = {key: value for key, value in spec.items() if key not in _DROPPED}
        overhead = self._overheads.get(spec.get("runtimeClassName", ""))
        if overhead and "overhead" not in found:
            found["overhead"] = overhead
        for group, letter in (("containers", "c"), ("initContainers", "i")):
            if group in found:
                found[group] = [
                    _container(each, f"{letter}{number}")
                    for number, each in enumerate(found[group])
                ]
        metadata = template.get("metadata") or {}
        return {"metadata": _kept(metadata, "labels", "annotations"), "spec": found}


class _Omitted:
    """Counts what a replay leaves out, for a warning of each kind."""

    def __init__(self, there: Mapping[Key, JsonObject], start: RecordedStart) -> None:
        self._nodes = unusable(there, start)
        self._volumes: set[Key] = set()
        self._foreign: set[Key] = set()
        self._changed_pools: set[str] = set()

    def take(self, change: Change | Gap) -> None:
        """Take a change."""
        if isinstance(change, Gap):
            return
        kind, _, name = change.key
        after = change.after
        if kind == "NodePool" and change.before is not None:
            if after is None or change.before.get("spec") != after.get("spec"):
                self._changed_pools.add(name)
        elif after is not None and _is_foreign(after):
            self._foreign.add(change.key)
        elif after is not None and _asks_for_volumes(after):
            self._volumes.add(change.key)

    def warnings(self) -> list[str]:
        """A sentence for each."""
        found = []
        if self._nodes:
            found.append(
                f"the replay begins without {_counted(len(self._nodes), 'node')} of pools that had no"
                " claim, was not ready yet, or was going"
            )
        if self._volumes:
            found.append(
                "volumes are not replayed; in the recording"
                f" {_counted(len(self._volumes), 'workload')} asked for some"
            )
        if self._foreign:
            found.append(
                "pods of a scheduler other than the cluster's are not replayed:"
                f" {_counted(len(self._foreign), 'workload')}"
            )
        if self._changed_pools:
            found.append(
                f"NodePool {', '.join(sorted(self._changed_pools)[:_MOST_NAMED])} changed during the"
                " recording; the scenario has it as it was first seen"
            )
        return found


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _rank(key: Key) -> tuple[int, Key]:
    return (_APPLIED.index(key[0]) if key[0] in _APPLIED else len(_APPLIED)), key


def _keep(objects: dict[Key, JsonObject], change: Change) -> None:
    if change.after is None:
        objects.pop(change.key, None)
    else:
        objects[change.key] = change.after


def _is_applied(key: Key, obj: JsonObject) -> bool:
    kind, _, name = key
    if kind not in _APPLIED or is_of_deployment(kind, obj):
        return False
    if kind in ("Namespace", "PriorityClass"):
        return not name.startswith(_OF_EVERY_CLUSTER)
    return True


def _is_over(obj: JsonObject) -> bool:
    """Whether a Job or a pod has ended by itself."""
    status = obj.get("status") or {}
    if obj["kind"] == "Pod":
        return status.get("phase") in ("Succeeded", "Failed")
    ends = ("Complete", "Failed")
    return obj["kind"] == "Job" and any(
        each.get("type") in ends and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )


def _but_for_replicas(before: JsonObject, after: JsonObject) -> bool:
    """Whether two objects differ in their replicas alone."""
    parts = [
        {**obj, "spec": {k: v for k, v in obj["spec"].items() if k != "replicas"}}
        for obj in (before, after)
    ]
    return parts[0] == parts[1]


def _asks_for_volumes(obj: JsonObject) -> bool:
    has_templates = "volumeClaimTemplates" in (obj.get("spec") or {})
    return has_templates or bool(_pods_of(obj).get("volumes"))


def _is_foreign(obj: JsonObject) -> bool:
    """Whether pods are placed by a scheduler other than that of the cluster."""
    return str(_pods_of(obj).get("schedulerName", _SCHEDULER)) != _SCHEDULER


def _pods_of(obj: JsonObject) -> JsonObject:
    """What pods of a workload, or a pod, ask for."""
    spec = obj.get("spec") or {}
    return spec if obj["kind"] == "Pod" else (spec.get("template") or {}).get("spec") or {}


def _metadata(obj: JsonObject) -> JsonObject:
    return _kept(obj["metadata"], "name", "namespace", "labels", "annotations")


def _named(obj: JsonObject) -> JsonObject:
    return _kept(obj["metadata"], "name", "namespace")


def _kept(part: JsonObject, *keys: str) -> JsonObject:
    return {key: part[key] for key in keys if key in part}


def _container(container: JsonObject, name: str) -> JsonObject:
    found: dict[str, Any] = {"name": name, "image": "unknown", **container}
    ports: Iterable[JsonObject] = found.pop("ports", ())
    if on_host := [each for each in ports if each.get("hostPort")]:
        found["ports"] = on_host
    return found
