"""Why pods cannot be placed, in the words of kube-scheduler 1.35.

Users search for these messages and tools match them, so they are equal to the letter.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Failure(NamedTuple):
    """Why a pod cannot go to a node.

    A failure that is final stays one whichever pods leave the node; the others are what
    preemption may resolve.
    """

    reasons: tuple[str, ...]
    is_final: bool


UNSCHEDULABLE: Final = Failure(("node(s) were unschedulable",), True)
TAINT: Final = Failure(("node(s) had untolerated taint(s)",), True)
NODE_AFFINITY: Final = Failure(("node(s) didn't match Pod's node affinity/selector",), True)
NOT_PINNED: Final = Failure(("node(s) didn't satisfy plugin(s) [NodeAffinity]",), True)
PORTS: Final = Failure(("node(s) didn't have free ports for the requested pod ports",), False)
_IN_USE_REASON: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
    " already in-use by another pod"
)
IN_USE: Final = Failure((_IN_USE_REASON,), False)
VOLUME_COUNT: Final = Failure(("node(s) exceed max volume count",), False)
VOLUME_ZONE: Final = Failure(("node(s) had no available volume zone",), True)
SPREAD: Final = Failure(("node(s) didn't match pod topology spread constraints",), False)
SPREAD_LABEL: Final = Failure(
    ("node(s) didn't match pod topology spread constraints (missing required label)",), True
)
AFFINITY: Final = Failure(("node(s) didn't match pod affinity rules",), True)
ANTI_AFFINITY: Final = Failure(("node(s) didn't match pod anti-affinity rules",), False)
OTHERS_ANTI_AFFINITY: Final = Failure(
    ("node(s) didn't satisfy existing pods anti-affinity rules",), False
)

VOLUME_AFFINITY_REASON: Final = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_BINDING_REASON: Final = "node(s) didn't find available persistent volumes to bind"
TOO_MANY_PODS: Final = "Too many pods"

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NEVER_PREEMPTS: Final = "not eligible due to preemptionPolicy=Never."
VICTIM_LEAVING: Final = "not eligible due to a terminating pod on the nominated node."

NO_NODES: Final = "no nodes available to schedule pods"
GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
# The message of kube-scheduler's DynamicResources plugin for pods without device claims
_NO_CLAIMS: Final = "no new claims to deallocate"


def insufficient(resource: str) -> str:
    """There is too little of a resource left."""
    return f"Insufficient {resource}"


def unavailable(nodes: int, reasons: Mapping[str, int]) -> str:
    """The message that counts nodes by the reason why the pod does not fit."""
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available: {counted}." if counted else _nothing_said(nodes)


def refused(nodes: int, problem: str) -> str:
    """The message for a pod that was rejected before any node was checked.

    It ends as kube-scheduler's does, whose DynamicResources plugin has no state in that case.
    """
    return f"0/{nodes} nodes are available: {problem}. not found"


def with_preemption(sentence: str, outcome: str) -> str:
    """The message with the result of preemption."""
    return f"{sentence} {_NO_CLAIMS}, preemption: {outcome}"


def _nothing_said(nodes: int) -> str:
    return f"0/{nodes} nodes are available:"
