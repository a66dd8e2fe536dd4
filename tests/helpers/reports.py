"""Reports that were never run: every field of a variant, with figures that tests choose."""

from collections.abc import Sequence
from typing import Any

from karpenter.api.meta import JsonObject
from karpenter.simulate.report.comparison import comparison

_SPREAD = {"p50": 3.0, "p95": 9.0, "p99": 9.0, "max": 9.0, "sum": 30.0, "count": 10}
_USE = {
    "share": 0.8,
    "shareWithoutDaemons": 0.7,
    "requestedHours": 8.0,
    "allocatableHours": 10.0,
}


def variant(
    name: str = "base",
    *,
    cost: float = 10.0,
    evictions: int = 3,
    points: int = 20,
    step: float = 60.0,
    **more: Any,
) -> JsonObject:
    """A variant of a report."""
    times = [step * number for number in range(points)]
    level = [1.0 + number % 7 for number in range(points)]
    three = {"cpu": level, "memory": level, "pods": level}
    known: JsonObject = {
        "name": name,
        "settings": {},
        "ended": points * step,
        "complete": True,
        "cost": {
            "dollarHours": cost,
            "nodeHours": 20.0,
            "byPool": {"default": cost},
            "byCapacityType": {"spot": cost},
            "byZone": {"a": cost},
            "byType": {"c-4x": cost},
            "fixed": {"nodeHours": 0.0},
            "lowerBound": {"dollarHours": 8.0, "gap": cost / 8.0 - 1},
        },
        "utilisation": {"cpu": _USE, "memory": _USE, "pods": _USE},
        "pods": {
            "created": 10,
            "pendingSeconds": _SPREAD,
            "bindingSeconds": _SPREAD,
            "unscheduled": [],
            "neverFit": 0,
        },
        "disruption": {
            "evictions": evictions,
            "byCause": {"Underutilized": evictions},
            "reEvictions": 0,
            "byWorkload": [],
        },
        "nodes": {
            "created": 4,
            "removed": 2,
            "most": 7,
            "byReason": {"Empty": 2},
            "lifetime": {"p50": 60.0, "p95": 60.0, "p99": 60.0, "max": 60.0, "count": 2},
            "shortLived": 2,
            "imageBytes": 0,
        },
        "atEnd": {
            "nodes": 2,
            "nodesByZone": {"a": 2},
            "dollarsHourly": 0.5,
            "pending": 0,
            "running": 7,
            "requested": {"cpu": 0.8, "memory": 0.7, "pods": 0.1},
            "lastNodeChange": 600.0,
        },
        "decisions": {
            "byKind": {},
            "byMethod": {},
            "byReason": {},
            "latencySeconds": _SPREAD,
            "givenUp": 0,
            "savings": {"commands": 0, "announcedHourly": 0.0, "realHourly": 0.0},
        },
        "invariants": [],
        "expectations": [],
        "problems": [],
        "series": {
            "step": step,
            "times": times,
            "dollarsHourly": level,
            "boundHourly": level,
            "nodes": level,
            "nodesByPool": {"default": level},
            "nodesByCapacityType": {"spot": level},
            "requested": three,
            "allocatable": three,
            "pending": level,
            "running": level,
            "evictions": [number % 2 for number in range(points)],
        },
        "lifelines": [
            {
                "name": "node-1",
                "pool": "default",
                "type": "c-4x",
                "zone": "a",
                "capacityType": "spot",
                "began": 0.0,
                "ended": 300.0,
                "reason": "Empty",
                "dollarHours": 0.5,
            }
        ],
        "marks": [{"at": 120.0, "kind": "mark", "text": "release"}],
        "timeline": [
            {
                "at": 300.0,
                "kind": "Disrupt",
                "outcome": "begun",
                "reason": "Empty",
                "method": "empty",
                "nodes": ["node-1"],
                "pods": 0,
                "savingsHourly": 0.1,
                "sentence": "node-1 goes: empty, no pod has to move",
            }
        ],
    }
    return known | more


def report(*variants: JsonObject, name: str = "a day", notes: Sequence[str] = ()) -> JsonObject:
    """A report of these variants."""
    known = variants or (variant(),)
    return {
        "scenario": {
            "name": name,
            "description": "a shop on a working day",
            "sha256": "0" * 64,
            "demandSha256": "1" * 64,
            "seed": 1,
            "start": "2030-01-07T00:00:00.000Z",
            "until": known[0]["ended"],
            "warmup": 0.0,
            "complete": True,
        },
        "version": "1.0.0",
        "variants": list(known),
        "comparison": comparison(known),
        "warnings": [],
        "notModelled": list(notes),
        "host": {
            "wallSeconds": 1.0,
            "processorSeconds": 1.0,
            "peakBytes": 1,
            "processorSecondsPerDecision": None,
        },
    }
