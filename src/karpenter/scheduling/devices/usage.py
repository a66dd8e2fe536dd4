"""What is allocated of the devices: whole devices, shares of their capacity, and shared counters.

A ``Usage`` may be layered on another one and then shows what both have allocated together, so a
trial allocation copies nothing and can be discarded.
"""

from typing import TypeAlias

from karpenter.scheduling.devices.inventory import PoolDevice, SharedCounter

Shares: TypeAlias = tuple[tuple[str, int], ...]  # (capacity, amount) a claim takes of a device


class Usage:
    """Devices that are taken, on top of what ``below`` has taken."""

    __slots__ = ("_below", "_drawn", "_holders", "_shares")

    def __init__(self, below: "Usage | None" = None) -> None:
        """Begin with nothing more than ``below``."""
        self._below = below
        self._holders: dict[PoolDevice, int] = {}  # how many claims have the device
        self._shares: dict[tuple[PoolDevice, str], int] = {}
        self._drawn: dict[SharedCounter, int] = {}

    def is_held(self, device: PoolDevice) -> bool:
        """Whether some claim has the device, or a share of it."""
        return device in self._holders or (self._below is not None and self._below.is_held(device))

    def taken(self, device: PoolDevice, name: str) -> int:
        """How much of a capacity is taken."""
        below = self._below.taken(device, name) if self._below is not None else 0
        return below + self._shares.get((device, name), 0)

    def drawn(self, counter: SharedCounter) -> int:
        """How much of a counter is consumed."""
        below = self._below.drawn(counter) if self._below is not None else 0
        return below + self._drawn.get(counter, 0)

    def has_room(self, device: PoolDevice, shares: Shares) -> bool:
        """Whether a claim could take the device, or these shares of it."""
        held = self.is_held(device)
        if held and not device.is_shared:
            return False
        for name, amount in shares:
            if self.taken(device, name) + amount > device.capacity[name].value:
                return False
        # counters are consumed once per device, by its first holder
        return held or all(
            self.drawn(counter) + amount <= counter.limit for counter, amount in device.draws
        )

    def take(self, device: PoolDevice, shares: Shares) -> None:
        """Give a device, or shares of it, to a claim."""
        if not self.is_held(device):
            for counter, amount in device.draws:
                self._drawn[counter] = self._drawn.get(counter, 0) + amount
        self._holders[device] = self._holders.get(device, 0) + 1
        for name, amount in shares:
            self._shares[device, name] = self._shares.get((device, name), 0) + amount

    def give_back(self, device: PoolDevice, shares: Shares) -> None:
        """Undo a ``take`` of this usage, not of the one below."""
        for name, amount in shares:
            self._shares[device, name] -= amount
        self._holders[device] -= 1
        if self._holders[device]:
            return
        del self._holders[device]
        if not self.is_held(device):
            for counter, amount in device.draws:
                self._drawn[counter] -= amount
