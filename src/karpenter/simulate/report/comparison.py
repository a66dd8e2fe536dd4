"""Variants side by side: differences, which of them no other beats, and intervals over several seeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.simulate.report.fields import METRICS, at

COST: Final = "cost.dollarHours"
EVICTIONS: Final = "disruption.evictions"
NO_DIFFERENCE: Final = "no difference"
# Student's t for an interval of 95 %, by degrees of freedom; beyond the table it falls towards 1.96
_T: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_T_BEYOND: Final = ((40, 2.042), (60, 2.021), (120, 2.000))


def comparison(variants: Sequence[Mapping[str, Any]]) -> JsonObject | None:
    """Compare variants with the first one; None where there is only one."""
    if len(variants) < 2:
        return None
    baseline = variants[0]
    metrics = []
    for metric in METRICS:
        first = metric.of(baseline)
        metrics.append(
            {
                "path": metric.path,
                "title": metric.title,
                "unit": metric.unit,
                "values": [_compared(metric.of(each), first) for each in variants],
            }
        )
    return {"baseline": baseline["name"], "metrics": metrics, "frontier": frontier(variants)}


def _compared(value: float | None, first: float | None) -> JsonObject:
    return {
        "value": value,
        "difference": None if value is None or first is None else value - first,
        "ratio": value / first if value is not None and first else None,
    }


def frontier(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """The variants that no other beats: none is as good in cost and evictions, and better in one."""
    points = [(float(at(each, COST)), float(at(each, EVICTIONS))) for each in variants]
    return [
        str(variant["name"])
        for variant, (cost, evictions) in zip(variants, points, strict=True)
        if not any(
            other[0] <= cost and other[1] <= evictions and other != (cost, evictions)
            for other in points
        )
    ]


def paired(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[JsonObject]:
    """Compare variants over several seeds: each seed's difference from its own baseline.

    Args:
        runs: the variants of each seed, in one order.
    """
    found = []
    for metric in METRICS:
        for number, variant in enumerate(runs[0][1:], start=1):
            pairs = [(metric.of(run[0]), metric.of(run[number])) for run in runs]
            known = [
                after - before
                for before, after in pairs
                if before is not None and after is not None
            ]
            if known:
                found.append({"path": metric.path, "variant": variant["name"], **interval(known)})
    return found


def interval(differences: Sequence[float]) -> JsonObject:
    """The mean of differences, and the interval that holds it with 95 % confidence."""
    count = len(differences)
    mean = math.fsum(differences) / count
    half: float | None = None
    if count > 1:
        variance = math.fsum((each - mean) ** 2 for each in differences) / (count - 1)
        half = _student(count - 1) * math.sqrt(variance / count)
    low, high = (None, None) if half is None else (mean - half, mean + half)
    is_nothing = low is not None and high is not None and low <= 0 <= high
    return {
        "seeds": count,
        "mean": mean,
        "low": low,
        "high": high,
        "verdict": NO_DIFFERENCE if is_nothing else "differs" if half is not None else "one seed",
    }


def _student(freedom: int) -> float:
    if freedom <= len(_T):
        return _T[freedom - 1]
    return next((value for most, value in _T_BEYOND if freedom < most), 1.98)
