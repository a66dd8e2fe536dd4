"""The eviction cost of a pod, from its deletion-cost annotation and its priority.

The cost is one for an ordinary pod. The annotation changes it by up to sixteen and the priority by
up to sixty-four, and the result is clamped to the range from minus ten to ten.
"""

from typing import Final

from karpenter.api.pods import Pod
from karpenter.model.labels import DISRUPTION_COST
from karpenter.model.requirement import parse_integer

POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

_LEAST, _MOST = -10.0, 10.0
_ANNOTATION_UNIT: Final = 2.0**27
_PRIORITY_UNIT: Final = 2.0**25
_SMALLEST, _LARGEST = -(2**31), 2**31 - 1


def eviction_cost(pod: Pod, *, deletion_cost_is_ours: bool = False) -> float:
    """The eviction cost of the pod.

    ``deletion_cost_is_ours`` means that Karpenter itself writes the deletion cost, which then
    does not express the owner's intent.
    """
    annotations = pod.metadata.annotations
    stated = annotations.get(DISRUPTION_COST)
    if stated is None and not deletion_cost_is_ours:
        stated = annotations.get(POD_DELETION_COST)
    moved = _integer(stated) / _ANNOTATION_UNIT + (pod.spec.priority or 0) / _PRIORITY_UNIT
    return max(_LEAST, min(_MOST, 1.0 + moved))


def _integer(text: str | None) -> int:
    number = parse_integer(text) if text is not None else None
    return number if number is not None and _SMALLEST <= number <= _LARGEST else 0
