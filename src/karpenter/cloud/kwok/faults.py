"""Fault injection for the simulated cloud: sold-out offerings, slow and failing launches.

An offering is named ``type/zone/capacity-type``, each part a pattern such as ``c-*`` or ``*``. It
is sold out when a program says so, or, for machines of a KWOKNodeClass, when its annotation
``karpenter.kwok.sh/sold-out`` lists it; in the second case, as with a real cloud, the shortage is
discovered by a failed launch and cached for three minutes. Plans that never launch read this
annotation and the one in which the leading controller publishes its own settings
(``karpenter.cloud.kwok.notice``).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from karpenter.api.times import later
from karpenter.cloud.types import InstanceType, Offering

if TYPE_CHECKING:  # plans of files use the patterns only, and need no clock
    from karpenter.clock import Clock

SOLD_OUT: Final = "karpenter.kwok.sh/sold-out"
SOLD_OUT_EVERYWHERE: Final = "karpenter.kwok.sh/sold-out-everywhere"  # the controller's to write
KWOK_SOLD_OUT: Final = "KWOK_SOLD_OUT"
REMEMBERED: Final = timedelta(minutes=3)

EVERYBODY: Final = ""  # in place of a node class's name: all of them

_PARTS: Final = 3
_MOST_SHOWN: Final = 16


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

    def covers(self, other: "OfferingPattern") -> bool:
        """Whether all that another pattern means is meant."""
        return (
            fnmatchcase(other.instance_type, self.instance_type)
            and fnmatchcase(other.zone, self.zone)
            and fnmatchcase(other.capacity_type, self.capacity_type)
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


def declared(annotations: Mapping[str, str], node_class: str) -> tuple[OfferingPattern, ...]:
    """What the annotations of a KWOKNodeClass say is sold out.

    Raises:
        PatternError: they cannot be read.
    """
    return _annotated(annotations, SOLD_OUT, node_class)


def declared_sold_out(
    annotations: Mapping[str, str], node_class: str
) -> tuple[OfferingPattern, ...]:
    """The offerings that a KWOKNodeClass's annotations declare sold out.

    Includes what the leading controller published there. That controller uses its own settings
    instead, because an annotation of an earlier leader may be stale.

    Raises:
        PatternError: they cannot be read.
    """
    own = declared(annotations, node_class)
    return *own, *_annotated(annotations, SOLD_OUT_EVERYWHERE, node_class)


def in_text(patterns: Iterable[OfferingPattern]) -> str:
    """Write patterns as ``parse_patterns`` reads them."""
    return ",".join(f"{each.instance_type}/{each.zone}/{each.capacity_type}" for each in patterns)


def declared_everywhere(environment: Mapping[str, str]) -> tuple[OfferingPattern, ...]:
    """The offerings that the environment declares sold out everywhere.

    Raises:
        PatternError: that cannot be read.
    """
    try:
        return parse_patterns(environment.get(KWOK_SOLD_OUT, ""))
    except PatternError as error:
        raise PatternError(f"{KWOK_SOLD_OUT}: {error}") from None


def without(
    types: tuple[InstanceType, ...], patterns: Iterable[OfferingPattern]
) -> tuple[InstanceType, ...]:
    """The types with the offerings that are meant marked as not available."""
    meant = tuple(patterns)
    return tuple(_without(kind, meant) for kind in types) if meant else types


class Faults:
    """The faults in force; none by default."""

    def __init__(self, clock: "Clock") -> None:
        self.launch_seconds = 0.0  # how long a launch takes before its answer comes
        self._clock = clock
        # (node class, offerings) -> until when, if not ever
        self._sold_out: dict[tuple[str, OfferingPattern], datetime | None] = {}
        self._errors: deque[Callable[[], Exception]] = deque()
        self._shown: dict[frozenset[OfferingPattern], tuple[InstanceType, ...]] = {}

    def sell_out(
        self,
        *patterns: OfferingPattern,
        lasts: timedelta | None = None,
        node_class: str = EVERYBODY,
    ) -> None:
        """Make offerings unavailable, for all node classes or for one.

        That is for a time or, if none is said, until they are restocked.
        """
        for pattern in patterns:
            key = (node_class, pattern)
            is_for_good = key in self._sold_out and self._sold_out[key] is None
            if lasts is None or is_for_good:
                self._sold_out[key] = None
            else:
                self._sold_out[key] = later(self._clock.now(), lasts)

    def restock(self, *patterns: OfferingPattern) -> None:
        """Make offerings available again that were sold out under these patterns; by default all."""
        covering = patterns or (OfferingPattern(),)
        for key in [key for key in self._sold_out if any(p.covers(key[1]) for p in covering)]:
            del self._sold_out[key]

    def fail_launches(self, error: Callable[[], Exception], times: int = 1) -> None:
        """Let the next launches fail with an error that ``error`` makes."""
        self._errors.extend([error] * times)

    async def strike(self) -> None:
        """Apply the injected delay and failure to one launch."""
        if self.launch_seconds > 0:
            await self._clock.sleep(self.launch_seconds)
        if self._errors:
            make = self._errors.popleft()
            raise make()

    def show(
        self, types: tuple[InstanceType, ...], node_class: str = EVERYBODY
    ) -> tuple[InstanceType, ...]:
        """The types as they can be had now with a node class.

        They are the same object for as long as nothing changes.
        """
        active = self._active(node_class)
        if not active:
            return types
        if active not in self._shown:
            if len(self._shown) >= _MOST_SHOWN:
                self._shown.clear()
            self._shown[active] = without(types, active)
        return self._shown[active]

    def _active(self, node_class: str) -> frozenset[OfferingPattern]:
        now = self._clock.now()
        ended = [key for key, until in self._sold_out.items() if until is not None and until <= now]
        for key in ended:
            del self._sold_out[key]
        concerned = (EVERYBODY, node_class)
        return frozenset(pattern for name, pattern in self._sold_out if name in concerned)


def _annotated(
    annotations: Mapping[str, str], key: str, node_class: str
) -> tuple[OfferingPattern, ...]:
    try:
        return parse_patterns(annotations.get(key, ""))
    except PatternError as error:
        raise PatternError(f"annotation {key} of KWOKNodeClass {node_class}: {error}") from None


def _without(kind: InstanceType, meant: tuple[OfferingPattern, ...]) -> InstanceType:
    offerings = tuple(
        replace(offering, available=False)
        if any(pattern.matches(kind, offering) for pattern in meant)
        else offering
        for offering in kind.offerings
    )
    return kind if offerings == kind.offerings else kind.with_offerings(offerings)
