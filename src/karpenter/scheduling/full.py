"""Claims that have refused a pod, and so may be full for others too.

How much room a claim has left is looked at only when it refuses a pod for good: what fits nowhere
today fits nowhere tomorrow, and many claims never refuse anyone.
"""

from collections.abc import Iterable

from karpenter.scheduling.claims import OpenClaim
from karpenter.scheduling.classes import PodClass
from karpenter.scheduling.steps import Steps
from karpenter.scheduling.templates import Template


class FullClaims:
    """What is known about the room of claims that have refused a pod."""

    __slots__ = ("_classes", "_steps")

    def __init__(self, classes: Iterable[PodClass]) -> None:
        """Begin without refusals; ``classes`` are those of the pods that will come."""
        self._classes = classes
        self._steps: Steps | None = None

    def others(self, pod_class: PodClass) -> int:
        """The claims that are not known to be too full for a pod."""
        return -1 if self._steps is None else self._steps.perhaps(pod_class)

    def note(self, template: Template, claim: OpenClaim) -> None:
        """Look at the room of a claim that has refused a pod."""
        if self._steps is None:
            self._steps = Steps(self._classes, lambda name, amount: -1)
        for name in self._steps.resources:
            largest = template.levels(name).largest(claim.bits)
            self._steps.lower(claim.index, name, largest - claim.requests.get(name, 0))
