"""What demand amounts to: its digest, how many pods it may want at once, and what to point out."""

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from karpenter.api.meta import JsonObject
from karpenter.simulate.demand import csv_rows, sktrace
from karpenter.simulate.demand.generators import Demand
from karpenter.simulate.demand.objects import RUN_DURATION, WORK
from karpenter.simulate.demand.operations import Operation, digest
from karpenter.simulate.lengths import seconds


@dataclass(frozen=True, slots=True)
class Summary:
    """What demand amounts to."""

    sha256: str
    most_pods: int  # at once, at most; pods that wait longer than they run are not counted twice
    warnings: tuple[str, ...]


class _Counting:
    """How many pods are wanted at a moment, while operations pass by."""

    def __init__(self, highest: Counter[str]) -> None:
        self.most = 0
        self._wanted: Counter[tuple[str, str, str]] = Counter()
        self._ends: list[tuple[float, int]] = []  # a heap: when pods that end do so, and how many
        self._now = sum(highest.values())

    def take(self, operation: Operation) -> None:
        while self._ends and self._ends[0][0] <= operation.at:
            self._now -= heapq.heappop(self._ends)[1]
        place = (operation.kind, operation.namespace, operation.name)
        before = self._wanted[place]
        after, length = before, 0.0
        if operation.verb == "scale":
            after = operation.replicas
        elif operation.verb == "delete":
            after = 0
        elif operation.body is not None and operation.verb in ("create", "apply"):
            pods, length = _pods_of(operation.body)
            if length:
                heapq.heappush(self._ends, (operation.at + length, pods))
                self._now += pods
            else:
                after = pods
        self._wanted[place] = after
        self._now += after - before
        self.most = max(self.most, self._now)


def summary_of(demand: Demand) -> Summary:
    """Go through all operations once.

    Raises:
        DataError: a data file cannot be used.
    """
    # An autoscaler decides by itself, so what it may do at most counts
    autoscaled = Counter(
        {each.name: each.hpa.max - each.hpa.min for each in demand.scenario.workloads if each.hpa}
    )
    counting = _Counting(autoscaled)

    def counted() -> Iterator[Operation]:
        for operation in demand.operations():
            counting.take(operation)
            yield operation

    sha256 = digest(counted())
    return Summary(sha256, counting.most, tuple(_warnings(demand)))


def _pods_of(obj: JsonObject) -> tuple[int, float]:
    """How many pods an object wants, and for how long where that is said."""
    spec = obj.get("spec") or {}
    if obj["kind"] == "Pod":
        return 1, _length(obj["metadata"])
    if obj["kind"] == "Job":
        return spec.get("parallelism", 1), _length(spec["template"]["metadata"])
    if obj["kind"] in ("Deployment", "StatefulSet", "ReplicaSet"):
        return spec.get("replicas", 1), 0.0
    return 0, 0.0


def _length(metadata: JsonObject) -> float:
    notes = metadata.get("annotations") or {}
    text = notes.get(RUN_DURATION) or notes.get(WORK, "")
    if not text and (listed := notes.get(sktrace.DURATIONS)):
        return max(0.001, *map(float, listed.split(",")))
    return max(seconds(text), 0.001) if text else 0.0


def _warnings(demand: Demand) -> list[str]:
    found = []
    for workload in demand.scenario.workloads:
        if workload.csv is not None:
            rows = csv_rows.Rows(workload, workload.csv, demand.files[workload.csv.file])
            shared = csv_rows.shared_gpus(rows.entries())
            if shared:
                found.append(
                    f"{workload.csv.file}: {shared:,} rows share a GPU, which is not modelled; each"
                    " asks for a whole one"
                )
            if rows.skipped:
                first = rows.skipped[0]
                found.append(f"{len(rows.skipped):,} bad rows are skipped; the first: {first}")
        if workload.recording is not None:
            found += demand.replayed(workload.recording).warnings()
        if workload.sktrace is not None:
            trace = sktrace.read(workload.sktrace, demand.files[workload.sktrace.file])
            selectors = sorted(trace.node_selectors())
            if selectors and workload.sktrace.node_labels == "keep":
                listed = ", ".join(f"{key}={value}" for key, value in selectors)
                found.append(
                    f"{workload.sktrace.file}: pods ask for nodes with {listed}; nodeLabels: drop"
                    " lets them run anywhere"
                )
    return found
