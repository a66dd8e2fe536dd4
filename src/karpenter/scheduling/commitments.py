"""What commitments pay for: Savings Plans and Reserved Instances as a ledger over machines.

The bill of some machines is their list price less what commitments cover. Coverage is handed out
greedily, in one fixed order: machines that run on-demand first, then new ones in plan order;
reserved instances before Savings Plans, and the commitment that fewer offerings match before the
wider one; among running machines those with the largest discount first; names decide last. So a
further machine never changes what earlier ones are given, and its marginal price is its list price
less what is left for it. Spot and reserved capacity take no coverage.

Notation
    amount    how much of a commitment the cluster may count on: committed dollars per hour,
              instances, or units of size
    draw      how much of it one machine takes that is covered wholly
    worth     the list price of what an amount can cover at most, in dollars per hour
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.model.requirements import Requirements
from karpenter.state.nodes import StateNode

_NOTHING: Final = 1e-9  # parts of machines and dollars smaller than that count as none
_UNITS: Final[Mapping[str, float]] = {
    "nano": 0.25,
    "micro": 0.5,
    "small": 1.0,
    "medium": 2.0,
    "large": 4.0,
    "xlarge": 8.0,
}
_XLARGE: Final = "xlarge"
_BARE_METAL: Final = "metal"
_UNITS_PER_CPU: Final = 2.0  # an xlarge has four cpus; the name of bare metal says no size
# Machines that Karpenter did not launch; other clouds' tools label them so
_SPOT_ELSEWHERE: Final = {"eks.amazonaws.com/capacityType": "SPOT"}


class Unit(StrEnum):
    """What the amount of a commitment is counted in."""

    DOLLARS = "hourly"
    INSTANCES = "instances"
    UNITS = "units"


@dataclass(frozen=True, slots=True)
class Terms:
    """A commitment as far as it can be counted on now."""

    name: str
    unit: Unit
    amount: float
    wanted: Requirements  # of the on-demand offerings it covers
    discount: float = 0.0  # of a Savings Plan, as a part of the list price
    rates: Mapping[str, float] = field(default_factory=dict)  # instance type -> committed rate

    @property
    def is_plan(self) -> bool:
        """Whether it is a Savings Plan."""
        return self.unit is Unit.DOLLARS

    def draw(self, instance_type: str, cpus: float, price: float) -> float:
        """What one machine takes that is covered wholly; 0 if it cannot be covered."""
        if self.unit is Unit.INSTANCES:
            return 1.0
        if self.unit is Unit.UNITS:
            return units_of(instance_type, cpus)
        if self.rates:
            return self.rates.get(instance_type, 0.0)
        return price * (1 - self.discount)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as the ledger sees it, running or planned."""

    name: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float  # list price, in dollars per hour


class Way(NamedTuple):
    """How a commitment covers an offering."""

    commitment: int  # its position in the order of the ledger
    draw: float


class Coverage(NamedTuple):
    """A part of a machine's price that a commitment pays."""

    commitment: str
    hourly: float  # dollars of the list price


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a commitment is used, in dollars per hour.

    They are committed dollars for a Savings Plan. For reserved instances they are list prices,
    those of what is unused at the lowest price it could have saved.
    """

    name: str
    used: float  # by running and planned machines
    left: float  # what running machines leave for new ones
    wasted: float  # what stays unused when the plan is carried out
    machines: int  # that it covers at least a part of


def units_of(instance_type: str, cpus: float) -> float:
    """The size of an instance type in the units of size-flexible reservations; 0 if unknown."""
    _, dot, size = instance_type.rpartition(".")
    if not dot:
        return 0.0
    bare, _, of_size = size.partition("-")
    if bare == _BARE_METAL:
        size = of_size.replace("xl", _XLARGE) if of_size else ""
        if not size:
            return _UNITS_PER_CPU * cpus
    if size in _UNITS:
        return _UNITS[size]
    times = size.removesuffix(_XLARGE)
    return _UNITS[_XLARGE] * int(times) if size != times and times.isdecimal() else 0.0


class Book:
    """Commitments matched with a catalogue: which of them cover which offerings."""

    def __init__(self, terms: Iterable[Terms], types: Iterable[InstanceType]) -> None:
        """Match commitments with every on-demand offering of these types."""
        given = sorted(terms, key=lambda each: each.name)
        kinds = list({kind.name: kind for kind in types}.values())
        matches = {each.name: list(_matches(each, kinds)) for each in given}
        self.terms: Final[Sequence[Terms]] = sorted(
            given, key=lambda each: (each.is_plan, len(matches[each.name]), each.name)
        )
        self.matched: Final = {name: len(found) for name, found in matches.items()}
        known = {kind.name for kind in kinds}
        self.unknown_types: Final = {  # commitment -> types of its rates that the catalogue lacks
            each.name: tuple(sorted(each.rates.keys() - known)) for each in given
        }
        self._cpus = {kind.name: kind.capacity.cpu / 1000 for kind in kinds}
        self._ways: dict[tuple[str, str], list[int]] = {}  # (type, zone) -> commitments
        # commitment -> the highest list price that one unit of its amount may cover, the lowest
        self.worth_of_unit: Final = [0.0] * len(self.terms)
        self.least_of_unit: Final = [0.0] * len(self.terms)
        for number, each in enumerate(self.terms):
            least = math.inf
            for name, zone, price in matches[each.name]:
                self._ways.setdefault((name, zone), []).append(number)
                draw = each.draw(name, self._cpus[name], price)
                if draw > 0 and price > 0:
                    self.worth_of_unit[number] = max(self.worth_of_unit[number], price / draw)
                    least = min(least, price / draw)
            self.least_of_unit[number] = least if math.isfinite(least) else 0.0

    def ways(self, instance_type: str, zone: str, price: float) -> list[Way]:
        """The commitments that cover an on-demand offering, in the order they are used."""
        if not (0 < price < math.inf):
            return []
        found = []
        for number in self._ways.get((instance_type, zone), ()):
            draw = self.terms[number].draw(instance_type, self._cpus[instance_type], price)
            if draw > 0:
                found.append(Way(number, draw))
        return found


def _matches(terms: Terms, types: Iterable[InstanceType]) -> Iterable[tuple[str, str, float]]:
    for kind in types:
        if not kind.requirements.is_compatible(terms.wanted, _any_label(terms)):
            continue
        for offering in kind.offerings:
            if offering.capacity_type != labels.ON_DEMAND or not math.isfinite(offering.price):
                continue
            held = kind.requirements & offering.requirements
            if held.is_compatible(terms.wanted):
                yield kind.name, offering.zone, offering.price


def _any_label(terms: Terms) -> frozenset[str]:
    """Labels that an offering, rather than its type, may define."""
    return frozenset(entry.key for entry in terms.wanted)


class Balance:
    """What is left of every commitment while machines take their coverage one after another."""

    __slots__ = ("_book", "covered", "left", "machines")

    def __init__(self, book: Book) -> None:
        """Begin with nothing taken."""
        self._book = book
        self.left = [terms.amount for terms in book.terms]
        self.machines = [0] * len(book.terms)
        self.covered = 0.0  # of all list prices, in dollars per hour

    def copy(self) -> "Balance":
        """A balance that may be used up without changing this one."""
        twin = object.__new__(Balance)
        twin._book, twin.covered = self._book, self.covered
        twin.left, twin.machines = self.left.copy(), self.machines.copy()
        return twin

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left of any commitment."""
        return not any(left > _NOTHING for left in self.left)

    @property
    def worth(self) -> float:
        """The most that can still be covered, at list prices."""
        return sum(
            left * most for left, most in zip(self.left, self._book.worth_of_unit, strict=True)
        )

    def price(self, instance_type: str, zone: str, price: float) -> float:
        """The marginal price of one more on-demand machine."""
        open_part = 1.0
        for number, draw in self._book.ways(instance_type, zone, price):
            open_part -= min(open_part, max(0.0, self.left[number]) / draw)
        return price * open_part if open_part > _NOTHING else 0.0

    def take(self, machine: Machine) -> tuple[Coverage, ...]:
        """Cover one more machine as far as possible."""
        if machine.capacity_type != labels.ON_DEMAND:
            return ()
        found = []
        open_part = 1.0
        for way in self._book.ways(machine.instance_type, machine.zone, machine.price):
            part = self._given(way, open_part)
            if part > _NOTHING:
                open_part -= part
                self.covered += part * machine.price
                name = self._book.terms[way.commitment].name
                found.append(Coverage(name, part * machine.price))
        return tuple(found)

    def take_running(
        self, by_commitment: Sequence[Sequence[tuple[int, float, float]]], going: Collection[int]
    ) -> None:
        """Cover running machines: for each commitment (machine, draw, price), in order."""
        open_parts: dict[int, float] = {}
        for number, takers in enumerate(by_commitment):
            for machine, draw, price in takers:
                if self.left[number] <= _NOTHING:
                    break
                if machine in going:
                    continue
                open_part = open_parts.get(machine, 1.0)
                if open_part > _NOTHING:
                    part = self._given(Way(number, draw), open_part)
                    open_parts[machine] = open_part - part
                    self.covered += part * price

    def _given(self, way: Way, open_part: float) -> float:
        """The part of a machine that a commitment covers."""
        number, draw = way
        part = min(open_part, max(0.0, self.left[number]) / draw)
        if part <= _NOTHING:
            return 0.0
        self.left[number] = max(0.0, self.left[number] - part * draw)
        self.machines[number] += 1
        return part


@dataclass(frozen=True)
class Ledger:
    """The commitments of a cluster, and the machines that run on it."""

    book: Book
    running: tuple[Machine, ...] = ()

    def balance(self, without: Collection[str] = ()) -> Balance:
        """What the running machines leave, but for those that go."""
        found = Balance(self.book)
        going = {self._numbers[name] for name in without if name in self._numbers}
        found.take_running(self._takers, going)
        return found

    def without(self, names: Collection[str]) -> "Ledger":
        """The same commitments when some machines do not run."""
        return Ledger(self.book, tuple(each for each in self.running if each.name not in names))

    def bill(self, without: Collection[str] = (), planned: Iterable[Machine] = ()) -> float:
        """What the machines cost per hour beyond the commitments, without some, with new ones."""
        balance = self.balance(without)
        total = sum(_known(each.price) for each in self.running if each.name not in without)
        for machine in planned:
            balance.take(machine)
            total += _known(machine.price)
        return total - balance.covered

    def uses(self, after: Balance) -> tuple[Use, ...]:
        """How much of each commitment is used when ``after`` is what a plan leaves."""
        before = self.balance()
        found = []
        for number, terms in enumerate(self.book.terms):
            rate = 1.0 if terms.is_plan else self.book.least_of_unit[number]
            left = after.left[number]
            found.append(
                Use(
                    terms.name,
                    used=(terms.amount - left) * rate,
                    left=before.left[number] * rate,
                    wasted=left * rate,
                    machines=after.machines[number],
                )
            )
        return tuple(sorted(found, key=lambda use: use.name))

    @property
    def worth(self) -> float:
        """The most that all commitments together can cover, at list prices."""
        return Balance(self.book).worth

    @cached_property
    def covered(self) -> float:
        """How much of the list prices of running machines is covered."""
        return self.balance().covered

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {each.name: number for number, each in enumerate(self.running)}

    @cached_property
    def _takers(self) -> list[list[tuple[int, float, float]]]:
        """The running machines of each commitment, those with the largest discount first."""
        found: list[list[tuple[float, str, int, float, float]]] = [[] for _ in self.book.terms]
        for machine, each in enumerate(self.running):
            if each.capacity_type != labels.ON_DEMAND:
                continue
            for number, draw in self.book.ways(each.instance_type, each.zone, each.price):
                paid = draw / each.price if self.book.terms[number].is_plan else 0.0
                found[number].append((paid, each.name, machine, draw, each.price))
        return [
            [(machine, draw, price) for _, _, machine, draw, price in sorted(takers)]
            for takers in found
        ]


def running_machines(
    nodes: Iterable[StateNode], types: Mapping[str, Mapping[str, InstanceType]]
) -> tuple[Machine, ...]:
    """The machines that stay, at list prices; those of unknown type or price cost nothing.

    A machine that Karpenter did not launch counts as on-demand unless its labels say otherwise:
    it takes coverage too.

    Args:
        nodes: every machine of the cluster.
        types: pool -> its instance types by name, at the prices of that pool.
    """
    anywhere: dict[str, InstanceType] = {}
    for _, own in sorted(types.items()):
        for name, kind in own.items():
            anywhere.setdefault(name, kind)
    found = []
    for node in sorted(nodes, key=lambda node: node.name):
        if node.is_deleting:
            continue
        held = node.labels
        name, zone = held.get(labels.INSTANCE_TYPE, ""), held.get(labels.ZONE, "")
        capacity_type = held.get(labels.CAPACITY_TYPE, "")
        if not capacity_type and not node.is_managed:
            is_spot = any(held.get(key) == value for key, value in _SPOT_ELSEWHERE.items())
            capacity_type = labels.SPOT if is_spot else labels.ON_DEMAND
        sold = types.get(node.node_pool, {}).get(name) or anywhere.get(name)
        price = _listed(sold, zone, capacity_type) if sold is not None else 0.0
        found.append(Machine(node.name, name, zone, capacity_type, price))
    return tuple(found)


def _listed(kind: InstanceType, zone: str, capacity_type: str) -> float:
    for offering in kind.offerings:
        if offering.zone == zone and offering.capacity_type == capacity_type:
            return _known(offering.price)
    return 0.0


def _known(price: float) -> float:
    """A price as it counts in sums; one that is not known counts as nothing."""
    return price if math.isfinite(price) else 0.0
