"""The machines of the cloud: what each cost from the cloud's answer until it was gone.

Nodes that no cloud made count apart, with their hours only: they have no price.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from karpenter.simulate.observe.levels import HOUR, Grid, Levels

Place: TypeAlias = tuple[str, str, str]  # an offering: instance type, zone and capacity type

COST: Final = "dollarsHourly"
_PARTS: Final = {
    "byPool": "pool",
    "byCapacityType": "capacity_type",
    "byZone": "zone",
    "byType": "instance_type",
}


@dataclass(slots=True)
class Life:
    """One machine, from the cloud's answer until it was gone."""

    name: str
    claim: str
    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    began: float
    price: float
    ended: float | None = None
    cause: str = ""  # what the cloud says about its end
    noticed: float | None = None
    dollars: float = 0.0  # since the warm-up
    hours: float = 0.0
    paid_until: float = 0.0
    moves: list[tuple[float, float]] = field(default_factory=list)  # later prices, and since when

    @property
    def latest_price(self) -> float:
        """What it costs an hour since the price last moved."""
        return self.moves[-1][1] if self.moves else self.price

    def price_at(self, moment: float) -> float:
        """What it cost an hour at a moment."""
        known = [price for since, price in self.moves if since <= moment]
        return known[-1] if known else self.price


class Machines:
    """Follows the cloud."""

    def __init__(self, grid: Grid, levels: Levels, billing_minimum: float) -> None:
        self._grid = grid
        self._levels = levels
        self._minimum = billing_minimum
        self.lives: list[Life] = []
        self._running: dict[str, Life] = {}

    def launched(self, now: float, life: Life) -> None:
        """The cloud has answered; a machine it has announced before is the same one."""
        if life.name in self._running:
            return
        life.paid_until = now
        self.lives.append(life)
        self._running[life.name] = life
        self._count(now, life, 1)
        self._reprice(now)

    def running(self, name: str) -> Life | None:
        """A machine that runs."""
        return self._running.get(name)

    def place_of(self, name: str) -> Place | None:
        """The offering of a machine that runs."""
        life = self._running.get(name)
        return None if life is None else (life.instance_type, life.zone, life.capacity_type)

    def gone(self, now: float, name: str, cause: str) -> None:
        """A machine is no more; one that lived very short is paid for longer."""
        life = self._running.pop(name, None)
        if life is None:
            return
        self._pay(now, life)
        missing = self._minimum - (now - life.began)
        if missing > 0 and life.began >= self._grid.first:
            life.dollars += life.latest_price * missing / HOUR
        life.ended, life.cause = now, cause
        self._count(now, life, -1)
        self._reprice(now)

    def noticed(self, now: float, name: str) -> None:
        """The cloud has announced that it takes a machine back."""
        life = self._running.get(name)
        if life is not None and life.noticed is None:
            life.noticed = now

    def priced(
        self, now: float, instance_type: str, zone: str, capacity_type: str, price: float
    ) -> None:
        """A price has moved; running machines pay the new one."""
        place = (instance_type, zone, capacity_type)
        moved = [life for name, life in self._running.items() if self.place_of(name) == place]
        for life in moved:
            self._pay(now, life)
            life.moves.append((now, price))
        if moved:
            self._reprice(now)

    def settle(self, now: float) -> None:
        """Pay for everything until now."""
        for life in self._running.values():
            self._pay(now, life)

    def _reprice(self, now: float) -> None:
        """Add up what runs anew: a sum that is only changed is off by a little more each time."""
        prices = math.fsum(life.latest_price for life in self._running.values())
        self._levels[COST].set(now, prices)

    def _pay(self, now: float, life: Life) -> None:
        seconds = now - max(life.paid_until, self._grid.first)
        if seconds > 0:
            life.dollars += life.latest_price * seconds / HOUR
            life.hours += seconds / HOUR
        life.paid_until = now

    def _count(self, now: float, life: Life, change: int) -> None:
        self._levels["nodes"].add(now, change)
        self._levels[f"nodes/pool/{life.pool}"].add(now, change)
        self._levels[f"nodes/zone/{life.zone}"].add(now, change)
        self._levels[f"nodes/capacityType/{life.capacity_type}"].add(now, change)


def cost_of(lives: Iterable[Life]) -> dict[str, object]:
    """The cost of machines, as a whole and by what they were."""
    known = list(lives)
    found: dict[str, object] = {
        "dollarHours": math.fsum(life.dollars for life in known),
        "nodeHours": math.fsum(life.hours for life in known),
    }
    for name, field_name in _PARTS.items():
        parts: dict[str, list[float]] = {}
        for life in known:
            parts.setdefault(getattr(life, field_name), []).append(life.dollars)
        found[name] = {part: math.fsum(parts[part]) for part in sorted(parts)}
    return found
