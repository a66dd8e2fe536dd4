"""What goes wrong in the simulated cloud: offerings sold out, launches that are slow or fail.

An offering is named ``type/zone/capacity-type``, each part a pattern such as ``c-*`` or ``*``. It
is sold out when a program says so, or when the annotation ``karpenter.kwok.sh/sold-out`` of a
KWOKNodeClass lists it; in the second case, as with a real cloud, nobody knows before a launch has
failed, and it is remembered for three minutes.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from karpenter.api.times import later
from karpenter.clock import Clock
from karpenter.cloud.types import InstanceType, Offering

SOLD_OUT: Final = "karpenter.kwok.sh/sold-out"
REMEMBERED: Final = timedelta(minutes=3)

_PARTS: Final = 3


class PatternError(ValueError):
    """A text that names no offerings; the text of the error is one sentence."""


@dataclass(frozen=True, slots=True)
class OfferingPattern:
    """Some offerings, by shell patterns."""

    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"

    def matches(self, kind: InstanceType, offering: Offering) -> bool:
        """Whether an offering of a type is meant."""
        return (
            fnmatchcase(kind.name, self.instance_type)
            and fnmatchcase(offering.zone, self.zone)
            and fnmatchcase(offering.capacity_type, self.capacity_type)
        )


def parse_patterns(text: str) -> tuple[OfferingPattern, ...]:
    """Read ``type/zone/capacity-type`` patterns with commas between them.

    Raises:
        PatternError: one of them has too few or too many parts.
    """
    found = []
    for word in filter(None, (word.strip() for word in text.split(","))):
        parts = word.split("/")
        if len(parts) != _PARTS or not all(parts):
            raise PatternError(
                f"{word!r} names no offerings; write type/zone/capacity-type, such as"
                " c-2x-amd64-linux/*/spot"
            )
        found.append(OfferingPattern(*parts))
    return tuple(found)


class Faults:
    """Everything that is wrong now; empty unless somebody says otherwise."""

    def __init__(self, clock: Clock) -> None:
        self.launch_seconds = 0.0  # how long a launch takes before its answer comes
        self._clock = clock
        self._sold_out: dict[OfferingPattern, datetime | None] = {}  # -> until when, if not ever
        self._errors: deque[Callable[[], Exception]] = deque()
        self._shown: tuple[frozenset[OfferingPattern], tuple[InstanceType, ...]] | None = None

    def sell_out(self, *patterns: OfferingPattern, lasts: timedelta | None = None) -> None:
        """Let nobody have some offerings, for a time or, if it is not said, until restocked."""
        for pattern in patterns:
            is_for_good = pattern in self._sold_out and self._sold_out[pattern] is None
            if lasts is None or is_for_good:
                self._sold_out[pattern] = None
            else:
                self._sold_out[pattern] = later(self._clock.now(), lasts)

    def restock(self) -> None:
        """Let everybody have everything again."""
        self._sold_out.clear()

    def fail_launches(self, error: Callable[[], Exception], times: int = 1) -> None:
        """Let the next launches fail with an error that ``error`` makes."""
        self._errors.extend([error] * times)

    async def strike(self) -> None:
        """Do to one launch what is to go wrong with it."""
        if self.launch_seconds > 0:
            await self._clock.sleep(self.launch_seconds)
        if self._errors:
            make = self._errors.popleft()
            raise make()

    def show(self, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        """The types as they can be had now; the same object for as long as nothing changes."""
        active = self._active()
        if not active:
            return types
        if self._shown is None or self._shown[0] != active:
            self._shown = (active, tuple(_without(kind, active) for kind in types))
        return self._shown[1]

    def _active(self) -> frozenset[OfferingPattern]:
        now = self._clock.now()
        ended = [p for p, until in self._sold_out.items() if until is not None and until <= now]
        for pattern in ended:
            del self._sold_out[pattern]
        return frozenset(self._sold_out)


def _without(kind: InstanceType, patterns: Iterable[OfferingPattern]) -> InstanceType:
    """The type with the offerings that are meant marked as not available."""
    meant = tuple(patterns)
    offerings = tuple(
        replace(offering, available=False)
        if any(pattern.matches(kind, offering) for pattern in meant)
        else offering
        for offering in kind.offerings
    )
    return kind if offerings == kind.offerings else kind.with_offerings(offerings)
