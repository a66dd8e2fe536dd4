"""What an autoscaler measures, as a number of pods that would carry it at its targets.

That number is all that is recorded of metrics: neither their names nor their values. It has two digits,
so that it is written when the load changes and not each time that it is measured.
"""

from collections.abc import Iterator
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.model.quantity import QuantityError, parse

# The field of each type of metric, in specification and status
_PARTS: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}


def load_of(obj: JsonObject) -> float | None:
    """The load of an autoscaler, if its status tells it."""
    spec, status = _dict(obj.get("spec")), _dict(obj.get("status"))
    pods = status.get("currentReplicas")
    if not isinstance(pods, int) or isinstance(pods, bool) or pods <= 0:
        return None
    wanted, measured = _list(spec.get("metrics")), _list(status.get("currentMetrics"))
    found = [
        pods * ratio
        for asked, seen in zip(wanted, measured, strict=False)
        for ratio in _ratios(_dict(asked), _dict(seen))
    ]
    return float(f"{max(found):.2g}") if found else None


def _ratios(asked: JsonObject, seen: JsonObject) -> Iterator[float]:
    """What was measured, as a share of what the target allows."""
    part = _PARTS.get(str(asked.get("type")))
    if part is None or seen.get("type") != asked.get("type"):
        return
    target = _dict(_dict(asked.get(part)).get("target"))
    current = _dict(_dict(seen.get(part)).get("current"))
    for name in ("averageUtilization", "averageValue", "value"):
        most, now = _number(target.get(name)), _number(current.get(name))
        if most and now is not None:
            yield now / most
            return


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        return float(parse(str(value)))
    except QuantityError:
        return None


def _dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
