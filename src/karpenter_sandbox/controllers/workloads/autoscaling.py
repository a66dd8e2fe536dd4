"""How many replicas an autoscaler recommends; pure.

A sandbox measures nothing: users set the metric by annotations. The recommendation follows
Kubernetes' algorithm, with its tolerance, stabilisation windows and scaling policies.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

from karpenter.api.meta import JsonObject
from karpenter.model.quantity import canonical, parse

# The value of each pod; for metrics of type Object and External, the value of the whole
METRIC_VALUE: Final = "sandbox.karpenter.sh/metric-value"
# The total over all pods; the value of each pod is its share
METRIC_TOTAL: Final = "sandbox.karpenter.sh/metric-total"

_TOLERANCE: Final = Fraction(1, 10)
_SOURCES: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_FORMS: Final = ("averageUtilization", "averageValue", "value")
_DEFAULT_UP: Final[JsonObject] = {
    "stabilizationWindowSeconds": 0,
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DEFAULT_DOWN: Final[JsonObject] = {
    "stabilizationWindowSeconds": 300,
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


class Reading(NamedTuple):
    """What one metric asks for."""

    replicas: int
    name: str
    status: JsonObject


class Decision(NamedTuple):
    """The replicas to have, and what held the recommendation back, if anything did."""

    replicas: int
    is_stabilised: bool = False
    limit: str = ""
    explanation: str = ""


@dataclass(slots=True)
class Memory:
    """The history of an autoscaler: recommendations and changes of size, each with its time."""

    recommendations: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def forget_before(self, moment: float) -> None:
        """Drop what no window reaches back to."""
        self.recommendations = [entry for entry in self.recommendations if entry[0] >= moment]
        self.changes = [entry for entry in self.changes if entry[0] >= moment]

    def recommended_since(self, moment: float) -> list[int]:
        """The recommendations after a moment."""
        return [count for time, count in self.recommendations if time > moment]

    def added_since(self, moment: float) -> int:
        """By how much the size has grown since a moment, in all steps upwards."""
        return sum(count for time, count in self.changes if time > moment and count > 0)

    def removed_since(self, moment: float) -> int:
        """By how much the size has shrunk since a moment, in all steps downwards."""
        return -sum(count for time, count in self.changes if time > moment and count < 0)


def read_metric(
    metric: JsonObject,
    annotations: Sequence[dict[str, str]],
    current: int,
    template: JsonObject | None = None,
) -> Reading | None:
    """What a metric asks for at its present value, or None when none is set.

    Args:
        metric: the metric as the autoscaler describes it, with its target.
        annotations: where values are set; the first that has one counts.
        current: the replicas there are.
        template: of the pods, for what a share of their requests amounts to.
    """
    kind = metric["type"]
    source = metric[_SOURCES[kind]]
    name = metric_name(metric)
    is_shared = kind in ("Object", "External")
    value = _set_value(annotations, name, 1 if is_shared else current)
    if value is None:
        return None
    form = next(form for form in _FORMS if form in source["target"])
    goal = Fraction(parse(source["target"][form]))
    if is_shared and form == "averageValue":
        goal *= current
    ratio = value / goal
    replicas = current if abs(ratio - 1) <= _TOLERANCE else math.ceil(current * ratio)
    shown: JsonObject = {form: canonical(_milli_text(value))}
    if form == "averageUtilization":
        amount = value / 100 * _requested(template or {}, name)
        shown = {form: round(value), "averageValue": canonical(_milli_text(amount))}
    status = {key: part for key, part in source.items() if key != "target"}
    status["current"] = shown
    return Reading(replicas, _title(kind, name, form), {"type": kind, _SOURCES[kind]: status})


def metric_name(metric: JsonObject) -> str:
    """The name of a metric, as annotations set it."""
    source = metric.get(_SOURCES.get(metric["type"], "")) or {}
    name: str = source.get("name") or (source.get("metric") or {}).get("name", "")
    return name


def decide(hpa: JsonObject, current: int, recommended: int, memory: Memory, now: float) -> Decision:
    """Turn a recommendation into the replicas to have now."""
    spec = hpa["spec"]
    behaviour = spec.get("behavior") or {}
    up = {**_DEFAULT_UP, **(behaviour.get("scaleUp") or {})}
    down = {**_DEFAULT_DOWN, **(behaviour.get("scaleDown") or {})}
    stable = _stabilised(current, recommended, memory, now, up, down)
    lowest, highest = spec.get("minReplicas", 1), spec["maxReplicas"]
    bounded = max(lowest, min(stable, highest))
    is_stabilised = stable != recommended
    if bounded > current and (limit := _upper_limit(current, up, memory, now)) < bounded:
        return Decision(max(current, limit), is_stabilised, "ScaleUpLimit", _too_fast("increasing"))
    if bounded < current and (limit := _lower_limit(current, down, memory, now)) > bounded:
        text = _too_fast("decreasing")
        return Decision(min(current, limit), is_stabilised, "ScaleDownLimit", text)
    if bounded < stable:
        text = "the desired replica count is more than the maximum replica count"
        return Decision(bounded, is_stabilised, "TooManyReplicas", text)
    if bounded > stable:
        text = "the desired replica count is less than the minimum replica count"
        return Decision(bounded, is_stabilised, "TooFewReplicas", text)
    return Decision(bounded, is_stabilised)


def _stabilised(
    current: int, recommended: int, memory: Memory, now: float, up: JsonObject, down: JsonObject
) -> int:
    """The smallest change among the recommendations of the stabilisation windows."""
    lowest = min([*memory.recommended_since(now - up["stabilizationWindowSeconds"]), recommended])
    highest = max(
        [*memory.recommended_since(now - down["stabilizationWindowSeconds"]), recommended]
    )
    return min(max(current, lowest), highest)


def _upper_limit(current: int, rules: JsonObject, memory: Memory, now: float) -> int:
    limits = []
    for policy in rules["policies"]:
        start = current - memory.added_since(now - policy["periodSeconds"])
        if policy["type"] == "Pods":
            limits.append(start + policy["value"])
        else:
            limits.append(math.ceil(Fraction(start * (100 + policy["value"]), 100)))
    return _chosen(limits, rules, current, is_upwards=True)


def _lower_limit(current: int, rules: JsonObject, memory: Memory, now: float) -> int:
    limits = []
    for policy in rules["policies"]:
        start = current + memory.removed_since(now - policy["periodSeconds"])
        if policy["type"] == "Pods":
            limits.append(start - policy["value"])
        else:
            limits.append(start * (100 - policy["value"]) // 100)
    return _chosen(limits, rules, current, is_upwards=False)


def _chosen(limits: list[int], rules: JsonObject, current: int, *, is_upwards: bool) -> int:
    policy = rules.get("selectPolicy", "Max")
    if policy == "Disabled":
        return current
    # "Max" means the largest change, whichever way it goes
    return max(limits) if (policy == "Max") == is_upwards else min(limits)


def _set_value(annotations: Sequence[dict[str, str]], name: str, sharers: int) -> Fraction | None:
    """The value that a user has set: for this metric, else for all of them."""
    for found in annotations:
        for key in (f"{METRIC_VALUE}.{name}", METRIC_VALUE):
            if (value := _number(found.get(key))) is not None:
                return value
        for key in (f"{METRIC_TOTAL}.{name}", METRIC_TOTAL):
            if (total := _number(found.get(key))) is not None:
                return total / max(sharers, 1)
    return None


def _requested(template: JsonObject, resource: str) -> Fraction:
    """The request of one pod for a resource."""
    containers = (template.get("spec") or {}).get("containers") or ()
    requests = ((c.get("resources") or {}).get("requests") or {} for c in containers)
    return sum((Fraction(parse(found.get(resource, 0))) for found in requests), Fraction(0))


def _number(text: str | None) -> Fraction | None:
    try:
        return Fraction(parse(text)) if text is not None else None
    except ValueError:
        return None


def _milli_text(value: Fraction) -> str:
    return f"{round(value * 1000)}m"


def _title(kind: str, name: str, form: str) -> str:
    """A metric as events name it."""
    if kind in ("Resource", "ContainerResource"):
        if form == "averageUtilization":
            return f"{name} resource utilization (percentage of request)"
        return f"{name} resource"
    return f"{kind.lower()} metric {name}"


def _too_fast(direction: str) -> str:
    return f"the desired replica count is {direction} faster than the maximum scale rate"
