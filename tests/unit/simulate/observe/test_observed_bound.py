"""The lower bound beside random histories of a cloud, in which pods are bound wherever they fit."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.autoscaler import kwok_pool
from helpers.builders import instance_type, offering
from helpers.observing import HOUR, Stage
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.simulate.bound import bounds, dollar_hours
from karpenter.simulate.observe.machines import cost_of
from karpenter.simulate.observe.observations import Observations

GRID = 100 / 3  # its multiples are no exact numbers


def _type(name: str, cpu: int, price: float) -> InstanceType:
    ways = [
        offering(zone, capacity_type, price * factor)
        for zone, capacity_type, factor in (
            ("z1", "spot", 0.31),
            ("z1", "on-demand", 1.0),
            ("z2", "on-demand", 0.97),
        )
    ]
    return instance_type(name, cpu=str(cpu), memory=f"{cpu * 4}Gi", slots=9, offerings=ways)


TYPES = (_type("small", 2, 0.1), _type("large", 8, 0.37))
OFFERINGS = [(kind, each) for kind in TYPES for each in kind.offerings]
PODS: tuple[tuple[int, dict[str, str]], ...] = (
    (300, {}),
    (1800, {}),
    (600, {labels.ZONE: "z2"}),
    (1000, {labels.CAPACITY_TYPE: "on-demand"}),
)


@dataclass
class Cloud:
    """Machines with what is free on them, and the pods bound to them."""

    stage: Stage
    free: dict[str, int] = field(default_factory=dict)  # machine -> millicpu
    slots: dict[str, int] = field(default_factory=dict)
    sold: dict[str, tuple[InstanceType, Offering]] = field(default_factory=dict)
    prices: dict[int, float] = field(default_factory=dict)  # number of an offering -> price
    pods: dict[str, tuple[str, int]] = field(default_factory=dict)  # pod -> machine and millicpu
    made: int = 0

    def bind(self, number: int) -> None:
        """Bind a pod to the first machine that has room, or to a new one."""
        self.made += 1
        name = f"pod-{self.made}"
        cpu, selector = PODS[number % len(PODS)]
        able = (each for each in self.free if self._takes(each, cpu, selector))
        machine = next(able, None) or self._launch(number // len(PODS), cpu, selector)
        self.stage.pod(name, cpu=f"{cpu}m", selector=selector)
        self.stage.runs(name, machine)
        self.free[machine] -= cpu
        self.slots[machine] -= 1
        self.pods[name] = machine, cpu

    def end(self, number: int) -> None:
        """Delete a pod."""
        if self.pods:
            name = sorted(self.pods)[number % len(self.pods)]
            machine, cpu = self.pods.pop(name)
            self.stage.deleted(name)
            if machine in self.free:
                self.free[machine] += cpu
                self.slots[machine] += 1

    def gone(self, number: int) -> None:
        """A machine goes; its pods stay in the store until they are deleted."""
        if self.free:
            name = sorted(self.free)[number % len(self.free)]
            del self.free[name]
            self.stage.machine("gone", name)

    def price(self, number: int) -> None:
        """A price moves."""
        which = number % len(OFFERINGS)
        kind, way = OFFERINGS[which]
        self.prices[which] = way.price * (0.3 + number / 70)
        self.stage.price(
            self.prices[which],
            instance_type=kind.name,
            zone=way.zone,
            capacity_type=way.capacity_type,
        )

    def _takes(self, machine: str, cpu: int, selector: dict[str, str]) -> bool:
        kind, way = self.sold[machine]
        room = self.free[machine] >= cpu and self.slots[machine] > 0
        return room and _is_sold(kind, way, cpu, selector)

    def _launch(self, number: int, cpu: int, selector: dict[str, str]) -> str:
        able = [which for which, sold in enumerate(OFFERINGS) if _is_sold(*sold, cpu, selector)]
        which = able[number % len(able)]
        kind, way = OFFERINGS[which]
        name = f"machine-{self.made}"
        room = kind.allocatable_of(way)
        self.free[name], self.slots[name], self.sold[name] = room.cpu, room.pods, (kind, way)
        self.stage.machine(
            "launched",
            name,
            instance_type=kind.name,
            zone=way.zone,
            capacity_type=way.capacity_type,
            price=self.prices.get(which, way.price),
        )
        return name


def _is_sold(kind: InstanceType, way: Offering, cpu: int, selector: dict[str, str]) -> bool:
    held = {labels.ZONE: way.zone, labels.CAPACITY_TYPE: way.capacity_type}
    fits = kind.allocatable_of(way).cpu >= cpu
    return fits and all(held[key] == value for key, value in selector.items())


events = st.tuples(
    st.sampled_from(["bind", "bind", "bind", "end", "gone", "price"]),
    st.integers(0, 99),
    st.sampled_from([0.0, 0.0, 0.1, 10.0, GRID, 200.0]),  # seconds until then
)


@pytest.mark.case("SIM-32")
@settings(max_examples=200)
@given(st.lists(events, max_size=30), st.sampled_from([0.0, 95.0]))
def test_no_history_costs_less_than_its_bound(
    happened: list[tuple[str, int, float]], warmup: float
) -> None:
    stage = Stage(until=2 * HOUR, warmup=warmup, grid=GRID)
    stage.pool(kwok_pool())
    cloud = Cloud(stage)
    for what, number, wait in happened:
        stage.at(stage.now + wait)
        getattr(cloud, what)(number)
    seen = stage.at(stage.now + 150).finish()

    hourly = bounds(seen, TYPES)

    paid = seen.means.get("dollarsHourly", [0.0] * len(hourly))
    pairs = zip(hourly, paid, strict=True)
    assert [] == [(bound, mean) for bound, mean in pairs if bound > mean + 1e-9]
    assert dollar_hours(hourly, seen) <= _dollars(seen)


def _dollars(seen: Observations) -> float:
    total = cost_of(seen.lives)["dollarHours"]
    assert isinstance(total, float)
    return total


@pytest.mark.case("SIM-32")
def test_a_pod_that_fills_the_cheapest_type_costs_what_the_bound_says() -> None:
    stage = Stage(warmup=GRID, grid=GRID)
    stage.pool(kwok_pool())
    Cloud(stage).bind(1)  # of the small type 1.9 cpu are left for pods
    seen = stage.at(HOUR).finish()

    hourly = bounds(seen, TYPES)

    assert 0 < _dollars(seen) == pytest.approx(dollar_hours(hourly, seen), rel=1e-6)


def test_prices_that_fell_once_are_those_of_the_whole_bound() -> None:
    stage = Stage(warmup=GRID, grid=GRID)
    stage.pool(kwok_pool())
    Cloud(stage).bind(1)
    for factor in (0.5, 1.0):
        for kind, way in OFFERINGS:
            place = {"zone": way.zone, "capacity_type": way.capacity_type}
            stage.price(way.price * factor, instance_type=kind.name, **place)
        stage.at(stage.now + 60)
    seen = stage.at(HOUR).finish()

    assert 0.5 * 0.031 == pytest.approx(max(bounds(seen, TYPES)), rel=1e-6)


def test_a_pod_on_a_machine_that_no_pool_sells_to_it_says_nothing_about_cost() -> None:
    def bound(*requirements: dict[str, Any]) -> float:
        stage = Stage(grid=GRID)
        stage.pool(kwok_pool("default", *requirements))
        stage.machine("launched", instance_type="small", zone="z1", capacity_type="spot")
        stage.pod("web")
        stage.runs("web")
        return dollar_hours(bounds(seen := stage.at(HOUR).finish(), TYPES), seen)

    dear: dict[str, Any] = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["large"]}

    assert bound() > 0
    assert 0 == bound(dear)
