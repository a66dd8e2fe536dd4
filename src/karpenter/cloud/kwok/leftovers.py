"""What machines leave of the reservations in a catalogue."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels


def what_is_left(types: tuple[InstanceType, ...], used: Counter[str]) -> tuple[InstanceType, ...]:
    """The types with what is left of each reservation when so many machines use it."""
    return tuple(_less(kind, used) for kind in types)


def taken_by(holders: Iterable[Mapping[str, str]]) -> Counter[str]:
    """How many machines use each reservation, told from their labels."""
    held = (found.get(labels.KWOK_RESERVATION_ID, "") for found in holders)
    return Counter(filter(None, held))


def _less(kind: InstanceType, used: Counter[str]) -> InstanceType:
    if not any(used[each.reservation_id] for each in kind.offerings if each.is_reserved):
        return kind
    return kind.with_offerings(tuple(_offering_less(each, used) for each in kind.offerings))


def _offering_less(offering: Offering, used: Counter[str]) -> Offering:
    if not offering.is_reserved:
        return offering
    left = offering.reservation_capacity - used[offering.reservation_id]
    return replace(offering, reservation_capacity=max(0, left))
