"""Taints and tolerations: which pods a node repels, and which taints are only temporary.

Every effect repels a pod that does not tolerate it, ``PreferNoSchedule`` included: a planner treats
the preference as a rule for as long as it can, and reports when it stops doing that.
"""

from collections.abc import Iterable
from typing import Final

from karpenter.api.nodes import Taint
from karpenter.api.pods import Toleration
from karpenter.model import labels
from karpenter.model.requirement import parse_integer

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)

UNREGISTERED: Final = Taint(key=labels.UNREGISTERED, effect=NO_EXECUTE)
DISRUPTED: Final = Taint(key=labels.DISRUPTED, effect=NO_SCHEDULE)
REBOOTING: Final = Taint(key=labels.REBOOTING, effect=NO_SCHEDULE)
# Kept from the scheduler for a while: the pods planned for the node are bound by the controller
AWAITS_PODS: Final = Taint(key=labels.AWAITS_PODS, effect=NO_SCHEDULE)

# Taints of a starting node, removed by Kubernetes, the cloud provider or Karpenter once it is ready
KNOWN_EPHEMERAL: Final = (
    Taint(key=labels.NODE_NOT_READY, effect=NO_SCHEDULE),
    Taint(key=labels.NODE_NOT_READY, effect=NO_EXECUTE),
    Taint(key=labels.NODE_UNREACHABLE, effect=NO_SCHEDULE),
    Taint(key=labels.CLOUD_UNINITIALIZED, value="true", effect=NO_SCHEDULE),
    UNREGISTERED,
)


def matches(left: Taint, right: Taint) -> bool:
    """Whether two taints are the same one: equal key and effect, whatever the value."""
    return left.key == right.key and left.effect == right.effect


def is_known_ephemeral(taint: Taint) -> bool:
    """Whether a starting node carries ``taint`` only until it is ready."""
    return taint.key.startswith(labels.READINESS_PREFIX) or any(
        matches(taint, known) for known in KNOWN_EPHEMERAL
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Gt" | "Lt":
            return _compares(toleration, taint)
        case _:
            return False


def first_untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    *,
    ignore_preferences: bool = False,
) -> Taint | None:
    """Return the first taint that the pod does not tolerate, or None.

    ``ignore_preferences`` skips ``PreferNoSchedule`` taints.
    """
    held = tuple(tolerations)
    for taint in taints:
        if ignore_preferences and taint.effect == PREFER_NO_SCHEDULE:
            continue
        if not any(tolerates(toleration, taint) for toleration in held):
            return taint
    return None


def format_taint(taint: Taint) -> str:
    """Write a taint as kubectl does: ``key=value:effect``."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _compares(toleration: Toleration, taint: Taint) -> bool:
    held, limit = _canonical_integer(taint.value), _canonical_integer(toleration.value)
    if held is None or limit is None:
        return False
    return held > limit if toleration.operator == "Gt" else held < limit


def _canonical_integer(text: str) -> int | None:
    # Kubernetes reads neither "+5" nor "05" as a number here, unlike in node affinity
    number = parse_integer(text)
    return number if str(number) == text else None
