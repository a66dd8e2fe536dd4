"""Every offering of a catalogue as one bit, so that narrowing a claim is a chain of ``&``.

Notation
    bit         one available offering (instance type x zone x capacity type x reservation)
    bits, mask  a set of offerings, held in one ``int``

Bits are ordered by price, and offerings that cannot be launched (used-up reservations) come after
all others, so the cheapest offering of a mask is its lowest set bit. At equal prices published ones
come before estimates, then size and names decide, never the order of the input. A requirement on a
label, and a demand for room, are each a mask that is computed once and cached. An index is built
once per catalogue and never changes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, compress
from operator import or_
from typing import Final, NamedTuple, TypeAlias

from karpenter.cloud.types import InstanceType, Offering, comparable_price
from karpenter.model import labels
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources

Overheads: TypeAlias = tuple[tuple[int, Resources], ...]  # (mask of offerings, what is taken)

_MASKS_REMEMBERED: Final = 512  # claims narrowed alike list the same types, pass after pass
_DIGITS_AS_FLAGS: Final = bytes.maketrans(b"01", b"\x00\x01")


class OfferingIndex:
    """An index over the available offerings of one catalogue."""

    __slots__ = (
        "_by_key",
        "_matching",
        "_rooms",
        "_sizes",
        "_types_in",
        "all_bits",
        "launchable",
        "offerings",
        "overlaid",
        "overlaid_capacity",
        "reservations",
        "reserved",
        "type_bits",
        "type_names",
        "type_of",
        "types",
    )

    def __init__(self, types: tuple[InstanceType, ...]) -> None:
        """Index ``types``; only their available offerings become bits."""
        self.types = types
        self.type_names = [instance_type.name for instance_type in types]
        ordered = sorted(
            [
                _rank(instance_type, offering, index, position)
                for index, instance_type in enumerate(types)
                for position, offering in enumerate(instance_type.offerings)
                if offering.available
            ]
        )
        self.type_of = [rank.type_index for rank in ordered]  # bit -> index of its type
        self.offerings = [types[rank.type_index].offerings[rank.position] for rank in ordered]
        self.all_bits = (1 << len(ordered)) - 1
        self.launchable = (1 << sum(not rank.is_used_up for rank in ordered)) - 1
        self.reserved = _mask_of(
            bit for bit, rank in enumerate(ordered) if rank.capacity_type == labels.RESERVED
        )
        self.overlaid = _mask_of(
            bit for bit, offering in enumerate(self.offerings) if offering.overlaid
        )
        bits_of_type: list[list[int]] = [[] for _ in self.types]
        for bit, index in enumerate(self.type_of):
            bits_of_type[index].append(bit)
        self.type_bits = [_mask_of(bits) for bits in bits_of_type]  # type index -> its bits
        self.reservations = tuple(  # (id, how many machines it has room for), healthy or not
            (offering.reservation_id, offering.reservation_capacity)
            for instance_type in self.types
            for offering in instance_type.offerings
            if offering.reservation_id and offering.is_reserved
        )
        self.overlaid_capacity = 0
        for bits, instance_type in zip(self.type_bits, self.types, strict=True):
            if instance_type.overlaid_capacity:
                self.overlaid_capacity |= bits
        self._by_key: dict[str, _LabelIndex] = {}
        self._matching: dict[Requirement, int] = {}
        self._types_in: dict[int, tuple[int, ...]] = {}
        self._rooms: dict[Overheads, Room] = {}
        self._sizes: dict[str, Levels] = {}

    def matching(self, requirement: Requirement) -> int:
        """Offerings that satisfy a requirement, or do not define its label."""
        found = self._matching.get(requirement)
        if found is None:
            found = self._matching[requirement] = self._label(requirement.key).matching(requirement)
        return found

    def allowed(self, requirements: Requirements) -> int:
        """Offerings that satisfy every one of ``requirements``."""
        bits = self.all_bits
        for requirement in requirements:
            bits &= self.matching(requirement)
        return bits

    def values(self, key: str, bits: int) -> list[str]:
        """The values of a label that the offerings in ``bits`` can have, sorted."""
        label = self._label(key)
        return sorted(value for value, having in label.by_value.items() if having & bits)

    def with_value(self, key: str, value: str) -> int:
        """Offerings whose label has, or can have, exactly this value."""
        return self._label(key).by_value.get(value, 0)

    def room(self, overheads: "Overheads") -> "Room":
        """What offerings leave for pods, after the overhead of each mask is subtracted."""
        room = self._rooms.get(overheads)
        if room is None:
            room = self._rooms[overheads] = Room(self, overheads)
        return room

    def sizes(self, name: str) -> "Levels":
        """Offerings by the capacity of their type for one resource, before overhead."""
        levels = self._sizes.get(name)
        if levels is None:
            pairs = ((t.capacity, bits) for t, bits in zip(self.types, self.type_bits, strict=True))
            levels = self._sizes[name] = levels_of(pairs, name)
        return levels

    def cheapest(self, bits: int) -> Offering | None:
        """The cheapest launchable offering in ``bits``, or None when there is none."""
        bits &= self.launchable
        return self.offerings[(bits & -bits).bit_length() - 1] if bits else None

    def cheapest_bit(self, bits: int) -> int:
        """The position of the cheapest offering in ``bits``, which must not be empty."""
        return (bits & -bits).bit_length() - 1

    def members(self, bits: int) -> Iterator[int]:
        """Yield the positions of the offerings in ``bits``, cheapest first."""
        return members(bits)

    def types_in(self, bits: int) -> tuple[int, ...]:
        """The indices of the types in ``bits``, by the price of their cheapest offering."""
        found = self._types_in.get(bits)
        if found is None:
            if len(self._types_in) >= _MASKS_REMEMBERED:
                self._types_in.clear()
            found = tuple(dict.fromkeys(compress(self.type_of, _flags(bits))))
            self._types_in[bits] = found
        return found

    def of_types(self, names: Iterable[str]) -> int:
        """All offerings of the types with these names."""
        wanted = set(names)
        found = 0
        for name, bits in zip(self.type_names, self.type_bits, strict=True):
            if name in wanted:
                found |= bits
        return found

    def _label(self, key: str) -> "_LabelIndex":
        label = self._by_key.get(key)
        if label is None:
            label = self._by_key[key] = _LabelIndex(self, key)
        return label


class _Rank(NamedTuple):
    """The sort key of an offering's bit, independent of the order of the catalogue."""

    is_used_up: bool
    price: float
    is_estimate: bool  # an estimated price wins no tie
    smallness: tuple[int, int, int]  # of two types at one price the larger comes first
    type_name: str
    zone: str
    capacity_type: str
    reservation_id: str
    type_index: int
    position: int  # among the offerings of its type


def _rank(instance_type: InstanceType, offering: Offering, index: int, position: int) -> _Rank:
    capacity_type, size = offering.capacity_type, instance_type.capacity
    return _Rank(
        is_used_up=capacity_type == labels.RESERVED and offering.reservation_capacity <= 0,
        price=comparable_price(offering.price),
        is_estimate=offering.is_estimate,
        smallness=(-size.cpu, -size.memory, -size.pods),
        type_name=instance_type.name,
        zone=offering.zone,
        capacity_type=capacity_type,
        reservation_id=offering.reservation_id,
        type_index=index,
        position=position,
    )


class _LabelIndex:
    """Which offerings carry which values of one label."""

    __slots__ = ("absent", "by_value", "others", "undefined")

    def __init__(self, universe: OfferingIndex, key: str) -> None:
        self.undefined = 0  # offerings that do not define the label
        self.absent = 0  # offerings with DoesNotExist
        self.others: dict[Requirement, int] = {}  # offerings that only exclude values
        self.by_value: dict[str, int] = {}
        for requirement, bits in _by_requirement(universe, key).items():
            if requirement is None:
                self.undefined |= bits
            elif requirement.complement:
                self.others[requirement] = bits
            elif not requirement.values:
                self.absent |= bits
            else:
                for value in requirement.values:
                    self.by_value[value] = self.by_value.get(value, 0) | bits

    def matching(self, wanted: Requirement) -> int:
        """Offerings whose own requirement on the label is compatible with ``wanted``."""
        bits = self.undefined
        if wanted.allows_absence:
            bits |= self.absent
        for held, having in self.others.items():
            if held.has_intersection(wanted) or (held.allows_absence and wanted.allows_absence):
                bits |= having
        if not wanted.complement:
            for value in wanted.values:
                bits |= self.by_value.get(value, 0)
            return bits
        for value, having in self.by_value.items():
            if wanted.has(value):
                bits |= having
        return bits


def _by_requirement(universe: OfferingIndex, key: str) -> dict[Requirement | None, int]:
    grouped: dict[Requirement | None, int] = {}
    for index, instance_type in enumerate(universe.types):
        bits = universe.type_bits[index]
        if not bits:
            continue
        held = instance_type.requirements.get(key)
        for bit in universe.members(bits):
            own = universe.offerings[bit].requirements.get(key) or held
            grouped[own] = grouped.get(own, 0) | (1 << bit)
    return grouped


class Levels:
    """For one resource: which bits have at least a given amount."""

    __slots__ = ("amounts", "masks")

    def __init__(self, bits_by_amount: Mapping[int, int]) -> None:
        """Index masks by the amount their bits have."""
        self.amounts = sorted(bits_by_amount)
        having = [bits_by_amount[amount] for amount in reversed(self.amounts)]
        # for each amount the bits that have it or more; none beyond the largest amount
        self.masks: list[int] = [*reversed(list(accumulate(having, or_))), 0]

    def at_least(self, amount: int) -> int:
        """Bits that have ``amount`` or more."""
        return self.masks[bisect_left(self.amounts, amount)]

    def largest(self, bits: int) -> int:
        """The most that any of these bits has; zero when there are none."""
        low, high = 0, len(self.amounts)  # the answer is the last level that still has a bit
        while low < high:
            middle = (low + high) // 2
            if self.masks[middle] & bits:
                low = middle + 1
            else:
                high = middle
        return self.amounts[low - 1] if low else 0


class Room:
    """What offerings leave for pods; computed once for all pools with the same overheads."""

    __slots__ = ("_left", "_levels", "possible")

    def __init__(self, universe: OfferingIndex, overheads: Overheads) -> None:
        """Subtract the overhead of each mask from the offerings in it."""
        left: dict[Resources, int] = {}
        for bits, overhead in overheads:
            for index in universe.types_in(bits):
                instance_type = universe.types[index]
                for bit in universe.members(universe.type_bits[index]):
                    rest = instance_type.allocatable_of(universe.offerings[bit]) - overhead
                    left[rest] = left.get(rest, 0) | (1 << bit)
        self._left = list(left.items())
        self._levels: dict[str, Levels] = {}
        self.possible = 0  # offerings that overheads alone do not overfill
        for rest, bits in self._left:
            if all(amount >= 0 for _, amount in rest.items()):
                self.possible |= bits

    def fitting(self, bits: int, held: Mapping[str, int], needs: Iterable[tuple[str, int]]) -> int:
        """Those of ``bits`` that leave enough for ``needs`` on top of what is ``held``."""
        known = self._levels
        for name, amount in needs:
            levels = known.get(name) or self.levels(name)
            bits &= levels.masks[bisect_left(levels.amounts, held.get(name, 0) + amount)]
        return bits

    def cheapest_ways(self, bits: int) -> Iterator[tuple[Resources, int]]:
        """What the offerings in ``bits`` leave, each with the cheapest of those that leave it."""
        for rest, having in self._left:
            if among := having & bits:
                yield rest, (among & -among).bit_length() - 1

    def left_on(self, bit: int) -> Resources:
        """What one offering leaves."""
        return next(rest for rest, having in self._left if having >> bit & 1)

    def levels(self, name: str) -> Levels:
        """Which offerings leave how much of a resource."""
        levels = self._levels.get(name)
        if levels is None:
            levels = self._levels[name] = levels_of(self._left, name)
        return levels


def levels_of(amounts: Iterable[tuple[Resources, int]], name: str) -> Levels:
    """Index (amounts, bits) pairs by one resource."""
    by_amount: dict[int, int] = {}
    for resources, bits in amounts:
        amount = resources[name]
        by_amount[amount] = by_amount.get(amount, 0) | bits
    return Levels(by_amount)


def members(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def partition(masks: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Cut masks into parts that do not overlap, each with the positions of the masks it is in."""
    parts: list[tuple[list[int], int]] = []
    for position, mask in enumerate(masks):
        cut = []
        rest = mask  # in none of the masks before it
        for users, bits in parts:
            cut += [(users, bits & ~mask), ([*users, position], bits & mask)]
            rest &= ~bits
        parts = [(users, bits) for users, bits in (*cut, ([position], rest)) if bits]
    yield from parts


def _mask_of(bits: Iterable[int]) -> int:
    mask = 0
    for bit in bits:
        mask |= 1 << bit
    return mask


def _flags(bits: int) -> bytes:
    """One byte for each bit, lowest first; faster to iterate than shifting the integer."""
    return f"{bits:b}".encode("ascii").translate(_DIGITS_AS_FLAGS)[::-1]
