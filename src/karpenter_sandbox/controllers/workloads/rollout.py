"""How large each ReplicaSet of a Deployment should be next; pure.

A rollout goes in steps. Each step is a list of new sizes; the next one is decided when the pods
have followed. ``new`` is the set that matches the Deployment's template, ``old`` are the others.
"""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

from karpenter.api.meta import JsonObject
from karpenter_sandbox.controllers.owning import by_age

Step: TypeAlias = list[tuple[JsonObject, int]]  # ReplicaSets and the size each should have

DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"


def size(replica_set: JsonObject) -> int:
    """How many pods a set, or a Deployment, is asked to have."""
    count: int = replica_set["spec"].get("replicas", 1)
    return count


def available(replica_set: JsonObject) -> int:
    """How many pods of a set are available."""
    count: int = (replica_set.get("status") or {}).get("availableReplicas", 0)
    return count


def is_rolling(deployment: JsonObject) -> bool:
    """Whether old pods are replaced step by step."""
    strategy = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def max_surge(deployment: JsonObject) -> int:
    """How many pods there may be beyond those asked for."""
    return _bounds(deployment)[0]


def max_unavailable(deployment: JsonObject) -> int:
    """How many of the pods asked for may be missing."""
    return min(_bounds(deployment)[1], size(deployment))


def first_size(deployment: JsonObject, old: Sequence[JsonObject], current: int = 0) -> int:
    """The size the new set may have now, given the old ones and its ``current`` size."""
    if not is_rolling(deployment):
        return size(deployment)
    room = size(deployment) + max_surge(deployment) - current - sum(size(rs) for rs in old)
    if room <= 0:
        return current
    return current + min(room, size(deployment) - current)


def rolling_step(deployment: JsonObject, new: JsonObject, old: Sequence[JsonObject]) -> Step:
    """Let the new set grow as far as it may, else let the old ones shrink."""
    wanted = size(deployment)
    target = wanted if size(new) >= wanted else first_size(deployment, old, size(new))
    if target != size(new):
        return [(new, target)]
    return _shrinking(deployment, new, by_age(rs for rs in old if size(rs)))


def recreate_step(old: Sequence[JsonObject]) -> Step:
    """Let all old sets go to zero."""
    return [(rs, 0) for rs in old if size(rs)]


def scaling_step(deployment: JsonObject, new: JsonObject | None, old: Sequence[JsonObject]) -> Step:
    """Follow a change of the Deployment's size, in proportion when it is rolling out."""
    wanted = size(deployment)
    everything = [*by_age(old), *([new] if new is not None else [])]
    if not everything:
        return []
    active = [rs for rs in everything if size(rs)]
    if len(active) < 2:
        newest = new if new is not None else everything[-1]
        return [(active[0] if active else newest, wanted)]
    if new is not None and _is_saturated(deployment, new):
        return recreate_step(old)
    return _in_proportion(deployment, active) if is_rolling(deployment) else []


def _shrinking(deployment: JsonObject, new: JsonObject, old: Sequence[JsonObject]) -> Step:
    least = size(deployment) - max_unavailable(deployment)
    total = size(new) + sum(size(rs) for rs in old)
    allowed = total - least - (size(new) - available(new))
    if allowed <= 0:
        return []
    sizes = {rs["metadata"]["name"]: size(rs) for rs in old}
    # Unhealthy pods first: they would only block the rollout
    for rs in old:
        unhealthy = max(0, min(size(rs) - available(rs), allowed))
        sizes[rs["metadata"]["name"]] -= unhealthy
        allowed -= unhealthy
    spare = available(new) + sum(available(rs) for rs in old) - least
    for rs in old:
        healthy = max(0, min(sizes[rs["metadata"]["name"]], spare))
        sizes[rs["metadata"]["name"]] -= healthy
        spare -= healthy
    return [(rs, sizes[rs["metadata"]["name"]]) for rs in old]


def _in_proportion(deployment: JsonObject, active: Sequence[JsonObject]) -> Step:
    wanted = size(deployment)
    ceiling = wanted + max_surge(deployment) if wanted else 0
    missing = ceiling - sum(size(rs) for rs in active)
    # The largest first; among equals the newer ones grow and the older ones shrink
    ordered = by_age(active)
    if missing > 0:
        ordered.reverse()
    ordered.sort(key=size, reverse=True)
    step: Step = []
    left = missing
    for rs in ordered:
        share = _share(deployment, rs, ceiling) if missing else 0
        share = min(share, left) if missing > 0 else max(share, left)
        step.append((rs, size(rs) + share))
        left -= share
    largest, planned = step[0]
    step[0] = (largest, max(0, planned + left))
    return step


def _share(deployment: JsonObject, replica_set: JsonObject, ceiling: int) -> int:
    """By how much a set should change for its part of the whole to stay the same."""
    current = size(replica_set)
    if not size(deployment):
        return -current
    before = _number(replica_set, MAXIMUM) or (deployment.get("status") or {}).get("replicas", 0)
    if not before:
        return 0
    # Half is rounded up, unlike Python does it
    return math.floor(current * ceiling / before + 0.5) - current


def _is_saturated(deployment: JsonObject, replica_set: JsonObject) -> bool:
    wanted = size(deployment)
    return (
        size(replica_set) == wanted
        and _number(replica_set, DESIRED) == wanted
        and available(replica_set) == wanted
    )


def is_resized(deployment: JsonObject, replica_sets: Sequence[JsonObject]) -> bool:
    """Whether the Deployment's size changed since it was last recorded on its sets."""
    desired = (_number(rs, DESIRED) for rs in replica_sets if size(rs))
    return any(number is not None and number != size(deployment) for number in desired)


def scaled_value(value: int | str, total: int, *, round_up: bool) -> int:
    """A number as it is, or a percentage of ``total``."""
    if isinstance(value, int):
        return value
    percent = int(value.rstrip("%"))
    exact = total * percent / 100
    return math.ceil(exact) if round_up else math.floor(exact)


def _bounds(deployment: JsonObject) -> tuple[int, int]:
    """The most pods above, and the most below, the number asked for."""
    if not is_rolling(deployment):
        return 0, 0
    rules = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    wanted = size(deployment)
    surge = scaled_value(rules.get("maxSurge", "25%"), wanted, round_up=True)
    missing = scaled_value(rules.get("maxUnavailable", "25%"), wanted, round_up=False)
    # With surge and unavailable both at zero, a rollout could never make progress
    return (surge, missing) if surge or missing else (0, 1)


def _number(replica_set: JsonObject, annotation: str) -> int | None:
    text = (replica_set["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isascii() and text.isdigit() else None
