"""Claims that have refused a pod, and so may be full for others too.

How much room a claim has left is looked at only when it refuses a pod for good: what fits nowhere
today fits nowhere tomorrow, and many claims never refuse anyone.
"""

from collections.abc import Iterable

from karpenter.scheduling.claims import OpenClaim
from karpenter.scheduling.classes import PodClass
from karpenter.scheduling.steps import Steps, amounts_needed
from karpenter.scheduling.templates import Template


class FullClaims:
    """What is known about the room of claims that have refused a pod."""

    __slots__ = ("_classes", "_steps")

    def __init__(self, classes: Iterable[PodClass]) -> None:
        """Begin without refusals; ``classes`` are those of the pods that will come."""
        self._classes = classes
        self._steps: dict[str, Steps] = {}

    def others(self, pod_class: PodClass) -> int:
        """The claims that are not known to be too full for a pod."""
        claims = -1
        if self._steps:
            for name, amount in pod_class.needs:
                claims &= self._steps[name].at_least(amount)
        return claims

    def note(self, template: Template, claim: OpenClaim) -> None:
        """Look at the room of a claim that has refused a pod."""
        if not self._steps:
            needed = amounts_needed(self._classes)
            self._steps = {name: Steps(needed[name], lambda _: -1) for name in needed}
        for name, steps in self._steps.items():
            largest = template.levels(name).largest(claim.bits)
            steps.lower(claim.index, largest - claim.requests.get(name, 0))
