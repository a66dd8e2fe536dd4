"""The settings and points in time of a plan, as they are given on the command line."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from karpenter.console import output

if TYPE_CHECKING:
    from karpenter.api.karpenter import NodePool
    from karpenter.disruption.context import DisruptionSettings
    from karpenter.settings import Settings
    from karpenter.state.snapshot import Snapshot

# Far enough from the end of Python's times for the windows of budgets
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 2999
# feature gate -> the objects that have no effect while it is off
_GATED: Final = {
    "NodeOverlay": "NodeOverlays",
    "CapacityBuffer": "CapacityBuffers",
    "StaticCapacity": "NodePools with replicas",
    "Commitments": "Commitments",
}


def moment(text: str | None) -> datetime:
    """The moment to plan for, or the present."""
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        output.fail(f"--now: {text!r} is not a time with a zone such as 2026-08-01T12:00:00Z")
    if not _FIRST_YEAR <= found.year <= _LAST_YEAR:
        output.fail(f"--now: {text!r} is not within the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return found.astimezone(UTC)  # schedules of budgets are in UTC


def seconds(text: str | None) -> float | None:
    """How long planning may take; None for as long as it needs."""
    from karpenter.model import durations

    if text is None:
        return None
    length = durations.period(text)
    if length is None:
        output.fail(f"--time-budget: {text!r} is not a duration such as 10s or 1m30s")
    return length.total_seconds()


def percentages(text: str) -> tuple[float, ...]:
    """The shares of pods to move, in ascending order."""
    try:
        found = {float(part.strip().removesuffix("%")) for part in text.split(",")}
    except ValueError:
        found = set()
    if not found or not all(0 <= each <= 100 for each in found):
        output.fail(
            f"--rebalance: {text!r} is no list of percentages from 0 to 100 such as 5,25,100"
        )
    return tuple(sorted(found))


def stopwatch(limit: float | None) -> Callable[[], bool]:
    """Say from now on whether there is time left."""
    if limit is None:
        return lambda: True
    deadline = time.monotonic() + limit
    return lambda: time.monotonic() < deadline


def assigned(assignments: Sequence[str]) -> "tuple[Settings, bool]":
    """The settings from NAME=VALUE pairs, and whether they set feature gates."""
    from karpenter.settings import SettingError, Settings, with_assignments

    pairs = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not (name and equals):
            output.fail(f"--set: {assignment!r} is not of the form NAME=VALUE")
        pairs[name.upper().replace("-", "_")] = value
    try:
        return with_assignments(Settings(), pairs), "FEATURE_GATES" in pairs
    except SettingError as error:
        output.fail(f"--set: {error}")


def for_planners(settings: "Settings") -> "DisruptionSettings":
    """Settings as the planners take them; those of provisioning are a part of them."""
    from karpenter.pass_settings import disruption_settings
    from karpenter.scheduling.inputs.scheduler_config import SchedulerConfigError

    try:
        return disruption_settings(settings)
    except SchedulerConfigError as error:
        output.fail(f"--set: {error}")


def _is_held(pool: "NodePool") -> bool:
    from karpenter.model.conditions import FALSE, STATIC_CAPACITY, status_of

    is_static = pool.spec.replicas is not None
    return is_static and status_of(pool.status.conditions, STATIC_CAPACITY) == FALSE


def with_gates_for(
    snapshot: "Snapshot", settings: "Settings", *, gates_are_set: bool, is_said: bool = True
) -> "Settings":
    """Enable the gates of what a cluster uses, unless the user sets gates; note it either way.

    Args:
        snapshot: the cluster.
        settings: those of the user.
        gates_are_set: whether the user sets feature gates.
        is_said: whether to print it; False when it has been printed before.
    """
    from karpenter.settings import FeatureGates

    used = {
        "NodeOverlay": bool(snapshot.node_overlays),
        "CapacityBuffer": bool(snapshot.capacity_buffers),
        "Commitments": bool(snapshot.commitments),
        "StaticCapacity": any(p.spec.replicas is not None for p in snapshot.node_pools.values()),
    }
    gates = settings.feature_gates
    held = [name for name, pool in snapshot.node_pools.items() if _is_held(pool)]
    if held and not gates_are_set:
        # A condition of the pool states that the controller runs without this gate
        used["StaticCapacity"] = False
        named = ", ".join(sorted(held))
        _note(
            is_said,
            f"note: spec.replicas of NodePool {named} has no effect: the controller runs without"
            " the feature gate StaticCapacity; --set FEATURE_GATES=StaticCapacity=true plans with it",
        )
    wanted = [gate for gate, is_used in used.items() if is_used and not gates[gate]]
    if not wanted:
        return settings
    what = ", ".join(_GATED[gate] for gate in wanted)
    if gates_are_set:
        listed = ",".join(f"{gate}=true" for gate in wanted)
        _note(is_said, f"note: {what} are left out, as FEATURE_GATES does not say {listed}")
        return settings
    listed = ",".join(f"{gate}=false" for gate in wanted)
    _note(is_said, f"note: {what} are planned with; --set FEATURE_GATES={listed} leaves them out")
    opened = FeatureGates({**gates.gates, **dict.fromkeys(wanted, True)})
    return replace(settings, feature_gates=opened)


def _note(is_said: bool, text: str) -> None:
    if is_said:
        output.note(text)
