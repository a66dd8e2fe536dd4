"""Traces of SimKube, version 2: objects applied and deleted at their times, and how long pods ran.

Written as MessagePack, in which a map may have pairs as keys, so only that form can be read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter.simulate.demand.operations import Operation
from karpenter.simulate.demand.tables import DataError
from karpenter.simulate.scenario.models import Trace

VERSION: Final = 2
DURATIONS: Final = "simulate.karpenter.sh/durations"  # template annotation: seconds, pod by pod
SERIES: Final = "simulate.karpenter.sh/series"  # template annotation: whose pods share durations
_JOB_KINDS: Final = ("Job", "CronJob")
_OF_CLUSTER: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


class _Event(msgspec.Struct):
    ts: float
    applied_objs: list[dict[str, Any]] = []
    deleted_objs: list[dict[str, Any]] = []


class _File(msgspec.Struct):
    version: int
    events: list[_Event]
    pod_lifecycles: dict[tuple[str, str], dict[int, list[dict[str, Any]]]] = {}


class _Head(msgspec.Struct):
    version: int


@dataclass(frozen=True, slots=True)
class ReadTrace:
    """A trace as it is played."""

    trace: Trace
    events: Sequence[_Event]
    durations: Mapping[tuple[str, str], Sequence[float]]  # (kind, namespace/name) -> seconds

    @property
    def first(self) -> float:
        """The time of its first event."""
        return min((event.ts for event in self.events), default=0.0)

    def operations(self) -> Iterator[Operation]:
        """Apply and delete, the first at the start."""
        for event in sorted(self.events, key=lambda event: event.ts):
            at = event.ts - self.first
            for obj in event.applied_objs:
                if obj["kind"] not in self.trace.drop:
                    yield self._operation("apply", at, self._cleaned(obj))
            for obj in event.deleted_objs:
                if obj["kind"] not in self.trace.drop:
                    yield self._operation("delete", at, obj)

    def node_selectors(self) -> set[tuple[str, str]]:
        """The labels of nodes that its pods ask for."""
        return {
            pair
            for event in self.events
            for obj in event.applied_objs
            for pair in (_pod_spec(obj).get("nodeSelector") or {}).items()
        }

    def _operation(self, verb: Any, at: float, obj: JsonObject) -> Operation:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace") or "default"
        body = obj if verb == "apply" else None
        kind, name = obj["kind"], metadata["name"]
        return Operation(at, verb, obj["apiVersion"], kind, namespace, name, body)

    def _cleaned(self, obj: JsonObject) -> JsonObject:
        """The object without what only its own cluster had, and with how long its pods ran."""
        metadata = {k: v for k, v in obj["metadata"].items() if k not in _OF_CLUSTER}
        cleaned = {**obj, "metadata": metadata}
        cleaned.pop("status", None)
        ran = self.durations.get((f"{obj['apiVersion']}.{obj['kind']}", _key(obj)))
        return _with_template(cleaned, lambda template: self._template(template, ran))

    def _template(self, template: JsonObject, ran: Sequence[float] | None) -> JsonObject:
        metadata = dict(template.get("metadata") or {})
        metadata.pop("creationTimestamp", None)
        if ran:
            listed = ",".join(f"{each:g}" for each in ran)
            metadata["annotations"] = {**(metadata.get("annotations") or {}), DURATIONS: listed}
        spec = _without_references(template.get("spec") or {})
        if self.trace.node_labels == "drop":
            spec.pop("nodeSelector", None)
        return {**template, "metadata": metadata, "spec": spec}


def read(trace: Trace, data: bytes) -> ReadTrace:
    """Read a trace.

    Raises:
        DataError: it is none, or one of another version.
    """
    try:
        version = msgspec.msgpack.decode(data, type=_Head).version
    except msgspec.DecodeError as error:
        raise DataError(trace.file, 1, f"this is no whole trace of SimKube: {error}") from None
    if version != VERSION:
        problem = f"the trace has version {version}, and only version {VERSION} can be read"
        raise DataError(trace.file, 1, problem)
    try:
        found = msgspec.msgpack.decode(data, type=_File, strict=False)
    except msgspec.DecodeError as error:
        raise DataError(trace.file, 1, f"this is no trace of SimKube: {error}") from None
    for event in found.events:
        for obj in (*event.applied_objs, *event.deleted_objs):
            if not _is_object(obj):
                problem = "an object of the trace has no apiVersion, kind or name"
                raise DataError(trace.file, 1, problem)
    return ReadTrace(trace, found.events, _durations(found))


def _durations(found: _File) -> dict[tuple[str, str], list[float]]:
    """How long the pods of each owner ran, in the order of their starts; none for those that ran on."""
    durations: dict[tuple[str, str], list[float]] = {}
    for owner, by_template in found.pod_lifecycles.items():
        lives = [life for lives in by_template.values() for life in lives]
        ended = sorted(tuple(life["Finished"]) for life in lives if "Finished" in life)
        if ended:
            durations[owner] = [float(end - begin) for begin, end in ended]
    return durations


def _is_object(obj: Mapping[str, Any]) -> bool:
    metadata = obj.get("metadata")
    texts = [obj.get("apiVersion"), obj.get("kind")]
    texts.append(metadata.get("name") if isinstance(metadata, Mapping) else None)
    return all(isinstance(text, str) and text for text in texts)


def _key(obj: JsonObject) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"


def _template_holder(obj: JsonObject) -> tuple[str, ...]:
    if obj["kind"] == "CronJob":
        return ("spec", "jobTemplate", "spec", "template")
    return ("spec", "template")


def _pod_spec(obj: JsonObject) -> JsonObject:
    found: Any = obj
    for step in (*_template_holder(obj), "spec"):
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _with_template(obj: JsonObject, change: Any) -> JsonObject:
    """A copy of an object with its template of pods changed, if it has one."""

    def changed(value: Any, path: tuple[str, ...]) -> Any:
        if not path:
            return change(value) if isinstance(value, dict) else value
        if not isinstance(value, dict) or path[0] not in value:
            return value
        return {**value, path[0]: changed(value[path[0]], path[1:])}

    found: JsonObject = changed(obj, _template_holder(obj))
    return found


def _without_references(spec: JsonObject) -> JsonObject:
    """A pod without what refers to Secrets, ConfigMaps and service accounts, which a trace lacks."""
    dropped = {
        volume["name"]
        for volume in spec.get("volumes") or ()
        if {"secret", "configMap", "projected"} & set(volume)
    }
    left = {
        key: value
        for key, value in spec.items()
        if key not in ("serviceAccount", "serviceAccountName", "imagePullSecrets", "volumes")
    }
    volumes = [each for each in spec.get("volumes") or () if each["name"] not in dropped]
    if volumes:
        left["volumes"] = volumes
    for group in ("initContainers", "containers"):
        if group in left:
            left[group] = [_plain(container, dropped) for container in left[group]]
    return left


def _plain(container: JsonObject, dropped: set[str]) -> JsonObject:
    left = {key: value for key, value in container.items() if key != "envFrom"}
    if "env" in left:
        left["env"] = [each for each in left["env"] if "valueFrom" not in each]
    if "volumeMounts" in left:
        left["volumeMounts"] = [m for m in left["volumeMounts"] if m["name"] not in dropped]
    return left
