"""The interface between the solver and device allocation, and an implementation without devices."""

from typing import Final, Protocol

from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.claims import OpenClaim, Shape


class Grant(Protocol):
    """Devices found for a pod, still to be taken."""

    def commit(self) -> None:
        """Take them: the pod is placed there."""


class Devices(Protocol):
    """Finds devices for pods; asked only about pods that use devices."""

    def refusal(self, pod_class: PodClass) -> str | None:
        """Why such a pod cannot have its devices wherever it goes, or None."""

    def to_node(self, number: int, pod_class: PodClass) -> Grant | None:
        """Find devices for a pod on a machine that exists; a refusal is final."""

    def to_claim(
        self, template: Template, claim: OpenClaim, shape: Shape, bits: int, pod_class: PodClass
    ) -> tuple[Shape, int, Grant] | None:
        """Find devices for a pod on a claim that has been narrowed to ``shape`` and ``bits``.

        Returns:
            What the claim is narrowed to by them; a refusal is final.
        """

    def why_not(
        self, template: Template, shape: Shape, bits: int, pod_class: PodClass
    ) -> str | None:
        """Why a new claim of the pool cannot have the devices of a pod, or None."""


class _Ignoring:
    """Refuses every pod that uses devices."""

    def refusal(self, pod_class: PodClass) -> str | None:
        return (
            "the pod asks for devices, and this controller ignores dynamic resources;"
            " set IGNORE_DRA_REQUESTS=false to have them allocated"
        )

    def to_node(self, number: int, pod_class: PodClass) -> Grant | None:
        return None

    def to_claim(
        self, template: Template, claim: OpenClaim, shape: Shape, bits: int, pod_class: PodClass
    ) -> tuple[Shape, int, Grant] | None:
        return None

    def why_not(
        self, template: Template, shape: Shape, bits: int, pod_class: PodClass
    ) -> str | None:
        return self.refusal(pod_class)


IGNORING_DEVICES: Final[Devices] = _Ignoring()
