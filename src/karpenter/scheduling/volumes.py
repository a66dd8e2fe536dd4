"""What a pod's volumes demand of its node: where they can be reached, and how many fit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from karpenter.model.requirements import Requirements

_NONE: Final[Mapping[str, frozenset[str]]] = {}


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volumes of a pod, resolved."""

    alternatives: tuple[Requirements, ...] = ()  # any one will do; none means anywhere
    attached: Mapping[str, frozenset[str]] = field(default_factory=lambda: _NONE)
    # CSI driver -> persistent volume claims it attaches ("namespace/name")


NO_VOLUMES: Final = PodVolumes()
