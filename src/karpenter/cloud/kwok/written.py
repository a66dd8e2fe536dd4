"""The catalogue of any cloud as an instance-types file, which ``catalogue.load`` reads back."""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from karpenter.api.node_classes import kwok_labels
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import PODS

_ALWAYS_THERE: Final = {PODS: "0"}  # a file that does not say how many means 110
# Properties of a machine, or made from them when the file is read
_TOLD_OTHERWISE: Final = frozenset(
    {
        labels.INSTANCE_TYPE,
        labels.ARCH,
        labels.OS,
        kwok_labels.INSTANCE_SIZE,
        kwok_labels.INSTANCE_FAMILY,
        kwok_labels.INSTANCE_CPU,
        kwok_labels.INSTANCE_MEMORY,
    }
)


def as_file(types: Iterable[InstanceType]) -> str:
    """The file with these types, a line for each; those without an offering are omitted."""
    lines = [json.dumps(_machine(each), separators=(",", ":")) for each in types if is_told(each)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def is_told(kind: InstanceType) -> bool:
    """Whether a file can hold a type: one of its offerings has a price and a place."""
    return bool(_told(kind))


def _told(kind: InstanceType) -> list[Offering]:
    """The offerings with a price and a place.

    Clouds also list what they do not sell in a zone: as unavailable, at no price, in a zone that the
    type does not have. In a file such an offering would add the zone to those of the type.
    """
    zones = kind.requirements[labels.ZONE]
    return [
        way
        for way in kind.offerings
        if (way.available or way.price > 0)
        and math.isfinite(way.price)
        and way.capacity_type
        and zones.has(way.zone)
    ]


def _machine(kind: InstanceType) -> dict[str, Any]:
    told = _told(kind)
    by_offering = {each.key for way in told for each in way.requirements}
    limits = kind.volume_attachment_limits
    return {
        "name": kind.name,
        "architecture": kind.requirements[labels.ARCH].any(),
        "operatingSystems": sorted(kind.requirements[labels.OS].values),
        "resources": _ALWAYS_THERE | kind.capacity.to_wire(),
        "overhead": _ALWAYS_THERE | kind.overhead.to_wire(),
        "requirements": list(_labels(kind.requirements, _TOLD_OTHERWISE | by_offering)),
        **({"volumeAttachmentLimits": dict(limits)} if limits else {}),
        "offerings": [_offering(way) for way in told],
    }


def _offering(way: Offering) -> dict[str, Any]:
    requirements = way.requirements
    if way.reservation_id and requirements.get(kwok_labels.RESERVATION_ID) is None:
        own = frozenset({way.reservation_id})
        requirements &= (Requirement(kwok_labels.RESERVATION_ID, False, own),)
    return {
        "price": way.price,
        **({"isEstimate": True} if way.is_estimate else {}),
        "available": way.available,
        **({"reservationCapacity": way.reservation_capacity} if way.reservation_id else {}),
        "requirements": list(_labels(requirements, _TOLD_OTHERWISE)),
    }


def _labels(requirements: Requirements, told: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The requirements that say something: a label that is nowhere needs no line."""
    for each in sorted(requirements, key=lambda one: one.key):
        if each.key in told or not (each.values or each.complement):
            continue
        for entry in each.to_wire():
            values = {"values": list(entry.values)} if entry.values else {}
            yield {"key": entry.key, "operator": str(entry.operator), **values}
