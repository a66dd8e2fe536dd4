"""Amounts of a device's capacity: read exactly, and rounded as the device's policy says.

Amounts are integers in billionths, the finest grain a quantity has.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from karpenter.api.devices import CapacityRequestPolicy, CapacityRequestRange, DeviceCapacity
from karpenter.api.meta import Quantity
from karpenter.model.quantity import QuantityError, parse

_BILLION: Final = 10**9


def amount(quantity: Quantity) -> int:
    """Read a quantity that cannot be negative.

    Raises:
        QuantityError: it is not a quantity, or less than nothing.
    """
    exact = Fraction(parse(quantity)) * _BILLION
    if exact < 0:
        raise QuantityError(f"{quantity!r} is negative; an amount of a device cannot be")
    return int(exact)


@dataclass(frozen=True, slots=True)
class Range:
    """Amounts from ``low`` to ``high`` in steps; a step of zero means any amount between."""

    low: int
    high: int | None
    step: int

    def round_up(self, wanted: int) -> int | None:
        """The least allowed amount that is enough, or None when there is none."""
        granted = max(wanted, self.low)
        if self.step:
            granted = self.low + -(-(granted - self.low) // self.step) * self.step
        return granted if self.high is None or granted <= self.high else None


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much of something a device has, and what a share of it may be."""

    value: int
    default: int | None = None  # what a claim gets that does not say
    allowed: tuple[int, ...] = ()  # the only amounts a share may have, ascending
    range: Range | None = None

    def granted(self, wanted: int | None) -> int | None:
        """What a request is rounded to, or None when the device cannot grant it."""
        if wanted is None:
            return self.value if self.default is None else self.default
        if self.allowed:
            return next((value for value in self.allowed if value >= wanted), None)
        return wanted if self.range is None else self.range.round_up(wanted)


def capacity_of(stated: DeviceCapacity) -> Capacity:
    """Read a capacity of a device.

    Raises:
        QuantityError: one of its quantities cannot be read.
    """
    policy = stated.request_policy or CapacityRequestPolicy()
    return Capacity(
        value=amount(stated.value),
        default=None if policy.default is None else amount(policy.default),
        allowed=tuple(sorted(amount(value) for value in policy.valid_values)),
        range=None if policy.valid_range is None else _range(policy.valid_range),
    )


def _range(stated: CapacityRequestRange) -> Range:
    return Range(
        low=0 if stated.min is None else amount(stated.min),
        high=None if stated.max is None else amount(stated.max),
        step=0 if stated.step is None else amount(stated.step),
    )
