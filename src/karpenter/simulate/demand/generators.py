"""Generators: each turns a workload into operations in the order of their time."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter.simulate.amounts import Drawer, Samples
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand import csv_rows, recording, sktrace
from karpenter.simulate.demand.curves import Buckets, CurveAt, Days, Points
from karpenter.simulate.demand.objects import (
    API_VERSIONS,
    METRIC_TOTAL,
    ROLLOUT,
    autoscaler,
    budget,
    cron_job,
    job,
    scaled_object,
)
from karpenter.simulate.demand.operations import Operation, created, digest, in_order
from karpenter.simulate.demand.recorded_start import RecordedStart
from karpenter.simulate.demand.tables import buckets
from karpenter.simulate.lengths import per_second, seconds
from karpenter.simulate.scenario.models import Curve, Diurnal, Replay, Scenario, Workload

_METRIC_PERIOD: Final = 15.0
_RATE_PERIOD: Final = 60.0  # over which the rate of a curve is taken to be constant
_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Demand:
    """What users of a scenario ask for; the same for all its variants."""

    scenario: Scenario
    chance: Chance
    samples: Samples
    files: Mapping[str, bytes]  # data files, by the names that the scenario has for them
    until: float
    start: datetime

    def operations(self) -> Iterator[Operation]:
        """All operations of all workloads, in order."""
        return in_order([self.of(workload) for workload in self.scenario.workloads])

    def recorded_starts(self) -> list[RecordedStart]:
        """What recorded clusters had at the start of the scenario."""
        starts = [
            self.replayed(each.recording).start()
            for each in self.scenario.workloads
            if each.recording is not None
        ]
        return [each for each in starts if each.machines or each.places]

    def digest(self) -> str:
        """A SHA-256 of the operations."""
        return digest(self.operations())

    def of(self, workload: Workload) -> Iterator[Operation]:
        """The operations of one workload, up to the end of the scenario."""
        if workload.pdb is not None:
            yield created(0.0, budget(workload))
        for operation in self._generated(workload):
            if operation.at >= self.until:
                return
            yield operation

    def _generated(self, workload: Workload) -> Iterator[Operation]:
        if workload.steps is not None:
            levels = [(seconds(step.at), step.replicas) for step in workload.steps]
            return self._scaled(workload, levels)
        if workload.diurnal is not None:
            return self._scaled(workload, self._diurnal(workload.name, workload.diurnal))
        if workload.hpa is not None:
            return self._autoscaled(workload)
        if workload.jobs is not None:
            return self._jobs(workload)
        if workload.cron is not None:
            return self._cron(workload)
        if workload.rollout is not None:
            return self._rollout(workload)
        if workload.csv is not None:
            rows = csv_rows.Rows(workload, workload.csv, self.files[workload.csv.file])
            return rows.operations()
        if workload.recording is not None:
            return self.replayed(workload.recording).operations()
        assert workload.sktrace is not None
        return sktrace.read(workload.sktrace, self.files[workload.sktrace.file]).operations()

    def replayed(self, replay: Replay) -> recording.Replayed:
        """A recording as it is played from the start of the scenario."""
        segments = recording.segments_of(self.files, replay.file)
        return recording.Replayed(segments, self.start, is_live=replay.hpa == "live")

    def _scaled(
        self, workload: Workload, levels: "list[tuple[float, int]] | Iterator[tuple[float, int]]"
    ) -> Iterator[Operation]:
        """Replicas that follow levels; an object of its own begins with what it has at the start."""
        last: int | None = None
        for at, replicas in levels:
            if last is None and workload.target is None:
                first = replicas if at == 0 else 0
                yield created(0.0, scaled_object(workload, first))
                last = first
            if replicas != last:
                yield self._scale(workload, at, replicas)
                last = replicas

    def _scale(self, workload: Workload, at: float, replicas: int) -> Operation:
        kind, name = target_of(workload)
        version = API_VERSIONS[kind]
        return Operation(at, "scale", version, kind, workload.namespace, name, replicas=replicas)

    def _diurnal(self, name: str, diurnal: Diurnal) -> Iterator[tuple[float, int]]:
        curve = Days(diurnal, self.start, self.chance, name)
        period = max(seconds(diurnal.every), 1.0)
        for number in range(math.ceil(self.until / period)):
            yield number * period, round(curve.at(number * period))

    def _autoscaled(self, workload: Workload) -> Iterator[Operation]:
        hpa = workload.hpa
        assert hpa is not None
        if workload.target is None:
            yield created(0.0, scaled_object(workload, hpa.min))
        curve = self._curve(workload.name, hpa.metric, _METRIC_PERIOD)
        shown = f"{curve(0.0):.3f}"
        scaler = autoscaler(workload, target_of(workload))
        yield created(0.0, {**scaler, "metadata": {**scaler["metadata"], **_total(shown)}})
        for number in range(1, math.ceil(self.until / _METRIC_PERIOD)):
            at = number * _METRIC_PERIOD
            text = f"{curve(at):.3f}"
            if text != shown:
                shown = text
                body: JsonObject = {"metadata": _total(text)}
                kind, version = "HorizontalPodAutoscaler", scaler["apiVersion"]
                name = workload.name
                yield Operation(at, "merge", version, kind, workload.namespace, name, body)

    def _curve(self, name: str, curve: Curve, length: float) -> CurveAt:
        if curve.diurnal is not None:
            return Days(curve.diurnal, self.start, self.chance, name).at
        if curve.points is not None:
            points = sorted((seconds(each.at), each.value) for each in curve.points)
            return Points(points).at
        assert curve.csv is not None
        length = seconds(curve.csv.every) or length
        return Buckets(buckets(self.files[curve.csv.file], curve.csv, length), length).at

    def _jobs(self, workload: Workload) -> Iterator[Operation]:
        jobs = workload.jobs
        assert jobs is not None
        durations = Drawer(self.chance, "duration", self.samples)
        arrivals = [self._arrivals(workload), self._bursts(workload)]
        for stream, at, number in _merged(arrivals):
            key = workload.name if stream == 0 else f"{workload.name}/burst"
            name = f"{workload.name}-{'b' if stream else ''}{number}"
            length = durations.drawn(jobs.duration, key, number)
            yield created(at, job(workload, name, jobs.parallelism, length))

    def _arrivals(self, workload: Workload) -> Iterator[tuple[float, int]]:
        """Poisson arrivals; a rate that moves thins out arrivals at its highest."""
        rate = workload.jobs.rate if workload.jobs is not None else None
        if rate is None:
            return
        curve: Callable[[float], float] | None = None
        if isinstance(rate, str):
            highest = per_second(rate)
        else:
            curve = self._curve(workload.name, rate, _RATE_PERIOD)
            heights = (curve(n * _RATE_PERIOD) for n in range(math.ceil(self.until / _RATE_PERIOD)))
            highest = max(heights, default=0.0) / _HOUR
        at, number = 0.0, 0
        while highest > 0:
            at += self.chance.exponential("arrival", workload.name, number) / highest
            if at >= self.until:
                return
            if curve is None:
                yield at, number
            else:
                now = curve(at // _RATE_PERIOD * _RATE_PERIOD) / _HOUR
                if self.chance.uniform("thinning", workload.name, number) * highest < now:
                    yield at, number
            number += 1

    def _bursts(self, workload: Workload) -> Iterator[tuple[float, int]]:
        bursts = workload.jobs.bursts if workload.jobs is not None else None
        if bursts is None:
            return
        period, number = seconds(bursts.every), 0
        at, left = 0.0, bursts.times or math.inf
        while at < self.until and left > 0:
            for _ in range(bursts.jobs):
                yield at, number
                number += 1
            at, left = at + period, left - 1

    def _cron(self, workload: Workload) -> Iterator[Operation]:
        cron = workload.cron
        assert cron is not None
        yield created(0.0, cron_job(workload, cron.schedule, cron.pods))

    def _rollout(self, workload: Workload) -> Iterator[Operation]:
        rollout = workload.rollout
        assert rollout is not None
        period = seconds(rollout.every) if rollout.every is not None else math.inf
        at = seconds(rollout.at) if rollout.at is not None else period
        kind, _, name = rollout.target.partition("/")
        number = 1
        while at < self.until:
            yield Operation(
                at,
                "merge",
                API_VERSIONS[kind],
                kind,
                workload.namespace,
                name,
                changed_template(f"{workload.name}-{number}"),
            )
            at, number = at + period, number + 1


def target_of(workload: Workload) -> tuple[str, str]:
    """Kind and name of what a workload scales."""
    if workload.target is not None:
        kind, _, name = workload.target.partition("/")
        return kind, name
    return workload.kind, workload.name


def changed_template(version: str) -> JsonObject:
    """A patch that makes pods of another version."""
    metadata = {"annotations": {ROLLOUT: version}}
    return {"spec": {"template": {"metadata": metadata}}}


def _total(text: str) -> JsonObject:
    return {"annotations": {METRIC_TOTAL: text}}


def _merged(
    streams: list[Iterator[tuple[float, int]]],
) -> Iterator[tuple[int, float, int]]:
    """The arrivals of several streams in order, each with the number of its stream."""
    import heapq

    named = [((at, index, number) for at, number in stream) for index, stream in enumerate(streams)]
    for at, index, number in heapq.merge(*named):
        yield index, at, number
