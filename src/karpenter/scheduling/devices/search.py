"""The search for devices: one assignment for all claims of a pod, found by backtracking.

Requests are served in the order they are written, each from the first devices that match; where a
later request then finds nothing, earlier choices are reconsidered. Within a request devices are
only ever chosen in ascending order, and a branch is cut as soon as fewer devices are left than it
still needs. The search counts the devices it checks and gives up after ``MOST_STEPS``.

Notation
    spot    how far the place has been narrowed by the devices chosen so far: the shape of a planned
            claim, or nothing for a machine that exists
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from karpenter.scheduling.devices.inventory import Fact, PoolDevice
from karpenter.scheduling.devices.reach import NodeTerm
from karpenter.scheduling.devices.requests import (
    MOST_DEVICES_PER_CLAIM,
    CompiledClaim,
    RequestOption,
)
from karpenter.scheduling.devices.usage import Shares, Usage
from karpenter.scheduling.packing.claims import Shape

MOST_STEPS: Final = 50_000
MOST_DEVICES_PER_POD: Final = 128  # keeps the recursion shallow


class OutOfStepsError(Exception):
    """The search has used up ``MOST_STEPS``."""


class Place(Protocol):
    """Where devices are searched."""

    devices: Sequence[PoolDevice]  # in the order they are preferred
    problem: str  # why "all devices" cannot be determined; empty when they can

    def reached(
        self, spot: Shape | None, device: PoolDevice
    ) -> Iterable[tuple[Shape | None, NodeTerm | None]]:
        """The ways to narrow a spot so that the device can be reached, with the term used."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A device, or a share of one, that a claim gets."""

    claim_index: int  # position of the claim
    option: RequestOption
    device: PoolDevice
    shares: Shares
    term: NodeTerm | None  # of the device's selector, when it has one

    @property
    def is_taken(self) -> bool:
        """Whether others can no longer have it."""
        return not self.option.has_admin_access


@dataclass(frozen=True, slots=True)
class Found:
    """An assignment that serves everything."""

    picks: tuple[Pick, ...]
    spot: Shape | None


class Search:
    """One search; use it once."""

    def __init__(
        self,
        claims: Sequence[CompiledClaim],
        place: Place,
        usage: Usage,
        only: Sequence[frozenset[PoolDevice]] | None = None,
    ) -> None:
        """Prepare to serve ``claims`` at ``place``, besides what ``usage`` has allocated.

        Args:
            only: for each claim the devices of the cluster it may have; by default any.
        """
        self._claims = claims
        self._place = place
        self._usage = Usage(usage)
        self._only = only
        self._picks: list[Pick] = []
        self._agreed = [[_Agreement() for _ in claim.matches] for claim in claims]
        self._count = [0] * len(claims)  # devices chosen so far
        self._steps = 0
        self._end: Shape | None = None

    def run(self, spot: Shape | None) -> Found | None:
        """Find an assignment, beginning at ``spot``.

        Raises:
            OutOfStepsError: none was found in reasonable time.
            SelectorError: a selector fails on a device.
        """
        if not self._serve(0, 0, spot):
            return None
        return Found(tuple(self._picks), self._end)

    def _serve(self, claim_index: int, request: int, spot: Shape | None) -> bool:
        """Serve this request and all that come after it."""
        while claim_index < len(self._claims) and request == len(
            self._claims[claim_index].requests
        ):
            claim_index, request = claim_index + 1, 0
        if claim_index == len(self._claims):
            self._end = spot
            return True
        for option in self._claims[claim_index].requests[request].options:
            if option.count is None:
                if self._every(claim_index, request, option, spot):
                    return True
            elif self._some(claim_index, request, option, option.count, 0, spot):
                return True
        return False

    def _some(
        self,
        claim_index: int,
        request: int,
        option: RequestOption,
        left: int,
        start: int,
        spot: Shape | None,
    ) -> bool:
        if not left:
            return self._serve(claim_index, request + 1, spot)
        devices = self._place.devices
        can = []
        for position in range(start, len(devices)):
            shares = self._open(claim_index, option, devices[position])
            if shares is not None:
                can.append((position, shares))
        if len(can) < left and not any(devices[position].is_shared for position, _ in can):
            return False
        for position, shares in can:
            device = devices[position]
            following = position if device.is_shared else position + 1
            for narrowed, term in self._place.reached(spot, device):
                self._choose(Pick(claim_index, option, device, shares, term))
                if self._some(claim_index, request, option, left - 1, following, narrowed):
                    return True
                self._reconsider()
        return False

    def _every(
        self, claim_index: int, request: int, option: RequestOption, spot: Shape | None
    ) -> bool:
        if self._place.problem:
            return False
        before = len(self._picks)
        for device in self._place.devices:
            if not self._may_have(claim_index, device) or option.shares_of(device) is None:
                continue
            way = next(iter(self._place.reached(spot, device)), None)
            if way is None:
                continue  # not reachable together with the devices chosen so far
            shares = self._open(claim_index, option, device)
            if shares is None:
                return self._reconsider_down_to(before)
            spot = way[0]
            self._choose(Pick(claim_index, option, device, shares, way[1]))
        if len(self._picks) > before and self._serve(claim_index, request + 1, spot):
            return True
        return self._reconsider_down_to(before)

    def _open(self, claim_index: int, option: RequestOption, device: PoolDevice) -> Shares | None:
        """What the claim would take of the device; None when it cannot have it."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise OutOfStepsError
        if (
            self._count[claim_index] >= MOST_DEVICES_PER_CLAIM
            or len(self._picks) >= MOST_DEVICES_PER_POD
            or not self._may_have(claim_index, device)
        ):
            return None
        for match, agreement in zip(
            self._claims[claim_index].matches, self._agreed[claim_index], strict=True
        ):
            if match.concerns(option) and not agreement.allows(
                device.attributes.get(match.attribute)
            ):
                return None
        shares = option.shares_of(device)
        if shares is None or option.has_admin_access or self._usage.has_room(device, shares):
            return shares
        return None

    def _may_have(self, claim_index: int, device: PoolDevice) -> bool:
        return self._only is None or device.is_template or device in self._only[claim_index]

    def _choose(self, pick: Pick) -> None:
        self._picks.append(pick)
        self._count[pick.claim_index] += 1
        if pick.is_taken:
            self._usage.take(pick.device, pick.shares)
        for match, agreement in zip(
            self._claims[pick.claim_index].matches, self._agreed[pick.claim_index], strict=True
        ):
            if match.concerns(pick.option):
                agreement.enter(pick.device.attributes[match.attribute])

    def _reconsider(self) -> None:
        pick = self._picks.pop()
        self._count[pick.claim_index] -= 1
        if pick.is_taken:
            self._usage.give_back(pick.device, pick.shares)
        for match, agreement in zip(
            self._claims[pick.claim_index].matches, self._agreed[pick.claim_index], strict=True
        ):
            if match.concerns(pick.option):
                agreement.leave()

    def _reconsider_down_to(self, count: int) -> bool:
        while len(self._picks) > count:
            self._reconsider()
        return False


class _Agreement:
    """The value that the devices chosen so far agree on."""

    __slots__ = ("_devices", "_value")

    def __init__(self) -> None:
        self._value: Fact | None = None
        self._devices = 0

    def allows(self, value: Fact | None) -> bool:
        return value is not None and (not self._devices or value == self._value)

    def enter(self, value: Fact) -> None:
        self._value = value
        self._devices += 1

    def leave(self) -> None:
        self._devices -= 1
