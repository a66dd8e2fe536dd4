"""A pod or a Job for each row of a file, as its columns are mapped."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.model.quantity import QuantityError, canonical
from karpenter.simulate.demand.objects import GPU, RUN_DURATION, WORKLOAD, job_spec
from karpenter.simulate.demand.operations import Operation, created
from karpenter.simulate.demand.tables import DataError, Row, rows
from karpenter.simulate.scenario.models import Rows as Mapped
from karpenter.simulate.scenario.models import Workload

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_WHOLE_GPU: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One row as it is understood."""

    at: float  # as the file counts
    duration: float
    requests: Mapping[str, str]
    node_selector: Mapping[str, str]
    priority: str
    replicas: int
    is_shared: bool  # asks for a part of a GPU


class Rows:
    """The rows of one file."""

    def __init__(self, workload: Workload, mapped: Mapped, data: bytes) -> None:
        self._workload = workload
        self._mapped = mapped
        self._data = data
        self.skipped: list[DataError] = []  # bad rows that were left out

    def entries(self) -> list[Entry]:
        """The rows that are wanted, by time.

        Raises:
            DataError: the file or one of its rows cannot be read.
        """
        mapped, found = self._mapped, []
        self.skipped.clear()
        for row in rows(mapped.file, self._data, self._columns()):
            if any(row.text(drop.column) == drop.is_ for drop in mapped.drop):
                continue
            try:
                found.append(self._entry(row))
            except DataError as error:
                if mapped.on_bad_row == "fail":
                    raise
                self.skipped.append(error)
                continue
            if mapped.take is not None and len(found) >= mapped.take:
                break
        return sorted(found, key=lambda entry: entry.at)

    def operations(self) -> Iterator[Operation]:
        """Create each at its time; the first row comes at the start."""
        entries, mapped = self.entries(), self._mapped
        if not entries:
            return
        first = entries[0].at
        span = (entries[-1].at - first) / mapped.speed
        number = 0
        for again in range(mapped.repeat):
            for entry in entries:
                at = again * span + (entry.at - first) / mapped.speed
                for _ in range(entry.replicas):
                    yield created(at, self._object(entry, f"{self._workload.name}-{number}"))
                    number += 1

    def _columns(self) -> Sequence[str]:
        mapped = self._mapped
        of = mapped.duration
        named = [mapped.time.column, of.column, of.from_, of.to, mapped.share, mapped.priority]
        named += [mapped.replicas, *mapped.node_selector.values()]
        named += [each.column for each in mapped.requests.values()]
        named += [each.column for each in mapped.drop]
        return [column for column in named if column is not None]

    def _entry(self, row: Row) -> Entry:
        mapped = self._mapped
        requests = {
            name: _amount(row, each.column, each.unit) for name, each in mapped.requests.items()
        }
        requests = {name: text for name, text in requests.items() if text != "0"}
        is_shared = False
        if mapped.share is not None and GPU in requests:
            is_shared = row.number(mapped.share) < _WHOLE_GPU
        replicas = row.number(mapped.replicas) if mapped.replicas is not None else 1
        if replicas < 0 or replicas != int(replicas):
            problem = f"{mapped.replicas}: {replicas:g} is no number of replicas"
            raise DataError(row.file, row.line, problem)
        selected = {key: row.text(column) for key, column in mapped.node_selector.items()}
        return Entry(
            at=row.time(mapped.time),
            duration=self._duration(row),
            requests=requests,
            node_selector={key: value for key, value in selected.items() if value},
            priority=row.text(mapped.priority) if mapped.priority is not None else "",
            replicas=int(replicas),
            is_shared=is_shared,
        )

    def _duration(self, row: Row) -> float:
        of = self._mapped.duration
        if of.column is not None:
            length = row.number(of.column) * _UNITS[of.unit]
        else:
            length = (row.number(of.to or "") - row.number(of.from_ or "")) * _UNITS[of.unit]
        if length < 0 or not math.isfinite(length):
            raise DataError(row.file, row.line, f"the duration of {length:g} s is below zero")
        return length / self._mapped.speed

    def _object(self, entry: Entry, name: str) -> JsonObject:
        workload = self._workload
        template = _template(workload, entry)
        metadata = {"name": name, "namespace": workload.namespace}
        if self._mapped.as_ == "Job":
            spec = job_spec(template, 1)
            return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], **metadata},
            "spec": {**template["spec"], "restartPolicy": "Never"},
        }


def shared_gpus(entries: Sequence[Entry]) -> int:
    """How many rows ask for a part of a GPU, which is not modelled."""
    return sum(entry.is_shared for entry in entries)


def _template(workload: Workload, entry: Entry) -> JsonObject:
    resources: dict[str, Any] = {"requests": dict(entry.requests)}
    if GPU in entry.requests:
        resources["limits"] = {GPU: entry.requests[GPU]}
    image = workload.pod.image if workload.pod is not None else "example.com/app:1"
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": image, "resources": resources}]
    }
    if workload.pod is not None and workload.pod.tolerations:
        spec["tolerations"] = list(workload.pod.tolerations)
    if entry.node_selector:
        spec["nodeSelector"] = dict(entry.node_selector)
    if entry.priority:
        spec["priorityClassName"] = entry.priority
    annotations = {WORKLOAD: workload.name, RUN_DURATION: f"{entry.duration:.3f}s"}
    metadata = {"labels": {"app": workload.name}, "annotations": annotations}
    return {"metadata": metadata, "spec": spec}


def _amount(row: Row, column: str, unit: str) -> str:
    """An amount of a resource; an empty cell is none."""
    text = row.text(column)
    if not text:
        return "0"
    number = row.number(column)
    if number < 0:
        raise DataError(row.file, row.line, f"{column}: {text!r} is below zero")
    try:
        return canonical(f"{number:.6f}".rstrip("0").rstrip(".") + unit)
    except QuantityError:
        raise DataError(row.file, row.line, f"{column}: {text!r} is no amount") from None
