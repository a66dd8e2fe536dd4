"""No packing of a few pods, tried one by one, costs less than the bound a plan names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.builders import (
    daemon_set,
    expression,
    instance_type,
    managed_node,
    node_pool,
    offering,
    pod,
    reserved,
    taint,
    toleration,
)
from helpers.solver import Answer, solved
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.model.resources import Resources
from karpenter.scheduling.problem import CostOptions, Options, PackingMode
from karpenter.state.nodes import StateNode

ZONES = ("z1", "z2")
GPU = "acme/gpu"
RESERVED = 0.001  # dollars per hour of a machine of a reservation
GUARDED = "guarded"  # the pool with a taint


@dataclass(frozen=True)
class Machine:
    """A machine and what it costs in each zone where it is sold."""

    cpu: int
    memory: int
    gpus: int
    slots: int
    prices: tuple[tuple[str, float], ...]
    reservations: tuple[tuple[str, int], ...] = ()  # zone, and how many machines are left there


@dataclass(frozen=True)
class Wish:
    """A pod: what it asks for, where it may be, and whether it may use the guarded pool."""

    cpu: int
    memory: int
    gpus: int
    zones: tuple[str, ...]  # alternatives of its node affinity; none means anywhere
    is_tolerant: bool
    preferred_zone: str  # which it can do without


@dataclass(frozen=True)
class Shop:
    """Two pools: one for everybody, in some zones only, and one for those who tolerate it."""

    machines: tuple[Machine, ...]
    open_zones: tuple[str, ...]
    daemon_cpu: int  # taken on every node


@dataclass(frozen=True)
class Old:
    """A machine that exists, with nothing on it."""

    cpu: int
    memory: int
    slots: int
    zone: str


prices = st.sampled_from((0.05, 0.1, 0.3, 0.7, 1.1, 4.0))
machines = st.builds(
    Machine,
    cpu=st.integers(1, 8),
    memory=st.integers(1, 16),
    gpus=st.sampled_from((0, 0, 1, 4)),
    slots=st.integers(1, 4),
    prices=st.lists(
        st.tuples(st.sampled_from(ZONES), prices), min_size=1, max_size=2, unique_by=lambda p: p[0]
    ).map(tuple),
)
shops = st.builds(
    Shop,
    machines=st.lists(machines, min_size=1, max_size=4).map(tuple),
    open_zones=st.sampled_from((ZONES, ("z1",))),
    daemon_cpu=st.integers(0, 1),
)
wishes = st.builds(
    Wish,
    cpu=st.integers(0, 4),
    memory=st.integers(0, 6),
    gpus=st.sampled_from((0, 0, 0, 1, 2)),
    zones=st.sampled_from(((), (), ("z1",), ("z2",), ("z2", "z1"))),
    is_tolerant=st.booleans(),
    preferred_zone=st.sampled_from(("", *ZONES)),
)


def _answer(
    shop: Shop, wanted: list[Wish], nodes: Sequence[StateNode] = (), options: Options | None = None
) -> Answer:
    return solved(
        [_pod(f"p{number}", wish) for number, wish in enumerate(wanted)],
        types=[_type(f"t{number}", machine) for number, machine in enumerate(shop.machines)],
        pools=[
            node_pool(requirements=[expression(keys.ZONE, "In", *shop.open_zones)], weight=1),
            node_pool(GUARDED, taints=[taint("k:NoSchedule")]),
        ],
        daemon_sets=[daemon_set(cpu="1", tolerations=[toleration()])] * shop.daemon_cpu,
        nodes=nodes,
        options=options or Options(),
    )


@given(shops, st.lists(wishes, min_size=1, max_size=5))
@settings(max_examples=400, deadline=None)
def test_no_packing_costs_less_than_the_bound(shop: Shop, wanted: list[Wish]) -> None:
    answer = _answer(shop, wanted)

    placed = [wanted[int(name.removeprefix("p"))] for name in answer.placed]
    assert answer.plan.lower_bound <= cheapest(shop, placed) * (1 + 1e-9)


olds = st.builds(
    Old,
    cpu=st.integers(1, 6),
    memory=st.integers(1, 8),
    slots=st.integers(1, 4),
    zone=st.sampled_from(ZONES),
)


@given(
    shops,
    st.lists(wishes, min_size=1, max_size=5),
    st.lists(olds, max_size=2),
    st.sampled_from(PackingMode),
)
@example(
    Shop((Machine(2, 2, 0, 1, (("z1", 4.0),)),), ("z1",), 0),
    [Wish(1, 1, 0, ("z2", "z1"), is_tolerant=False, preferred_zone="z1")],
    [Old(6, 7, 2, "z2")],
    PackingMode.CHEAPEST,
)  # a wish that keeps a pod off a machine it could use
@settings(max_examples=150, deadline=None)
def test_room_that_exists_makes_no_bound_too_high(
    shop: Shop, wanted: list[Wish], old: list[Old], packing: PackingMode
) -> None:
    """The sharper bound of packing by price too, with zones that pin pods and pools that repel them."""
    cost = CostOptions(packing=packing, node_cost=0.0, min_types=1, min_spot_types=1)
    nodes = [_node(f"old{number}", each) for number, each in enumerate(old)]
    answer = _answer(shop, wanted, nodes, Options(cost=cost))

    placed = [wanted[int(name.removeprefix("p"))] for name in answer.placed]
    best = min(
        cheapest(shop, [wish for wish, place in zip(placed, places, strict=True) if place is None])
        for places in product((None, *old), repeat=len(placed))
        if all(
            _holds(each, [w for w, p in zip(placed, places, strict=True) if p is each], shop)
            for each in old
        )
    )
    assert answer.plan.lower_bound <= best * (1 + 1e-9)


booked = st.lists(
    st.tuples(st.sampled_from(ZONES), st.integers(0, 2)), max_size=2, unique_by=lambda each: each[0]
).map(tuple)


@given(
    shops,
    st.lists(booked, min_size=4, max_size=4),
    st.lists(wishes, min_size=1, max_size=5),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_reservations_make_no_bound_too_high(
    shop: Shop, held: list[tuple[tuple[str, int], ...]], wanted: list[Wish], strict: bool
) -> None:
    """The bound of packing by price knows how many machines a reservation has left."""
    machines = zip(shop.machines, held, strict=False)
    shop = replace(shop, machines=tuple(replace(m, reservations=own) for m, own in machines))
    cost = CostOptions(PackingMode.CHEAPEST, node_cost=0.0, min_types=1, min_spot_types=1)
    answer = _answer(shop, wanted, options=Options(cost=cost, strict_reservations=strict))

    placed = [wanted[int(name.removeprefix("p"))] for name in answer.placed]
    assert answer.plan.lower_bound <= _cheapest_with_reservations(shop, placed) * (1 + 1e-9)


def _holds(old: Old, together: Sequence[Wish], shop: Shop) -> bool:
    return not together or (
        sum(wish.cpu for wish in together) + shop.daemon_cpu <= old.cpu
        and sum(wish.memory for wish in together) <= old.memory
        and not any(wish.gpus for wish in together)
        and len(together) + shop.daemon_cpu <= old.slots
        and all(not wish.zones or old.zone in wish.zones for wish in together)
    )


def _node(name: str, old: Old) -> StateNode:
    return managed_node(
        name,
        cpu=str(old.cpu),
        memory=f"{old.memory}Gi",
        slots=old.slots,
        zone=old.zone,
    )


def cheapest(shop: Shop, wanted: Sequence[Wish]) -> float:
    """The price of the best of all packings."""
    if not wanted:
        return 0.0
    return min(sum(_price(shop, part) for part in parts) for parts in _partitions(wanted))


def _partitions(wanted: Sequence[Wish]) -> Iterator[list[list[Wish]]]:
    if not wanted:
        yield []
        return
    first, rest = wanted[0], wanted[1:]
    for parts in _partitions(rest):
        yield [[first], *parts]
        for number, part in enumerate(parts):
            yield [*parts[:number], [first, *part], *parts[number + 1 :]]


def _price(shop: Shop, together: Sequence[Wish]) -> float:
    return min(
        (
            price
            for machine in shop.machines
            for zone, price in machine.prices
            if _fits(shop, machine, zone, together)
        ),
        default=float("inf"),
    )


def _fits(shop: Shop, machine: Machine, zone: str, together: Sequence[Wish]) -> bool:
    return (
        sum(wish.cpu for wish in together) + shop.daemon_cpu <= machine.cpu
        and sum(wish.memory for wish in together) <= machine.memory
        and sum(wish.gpus for wish in together) <= machine.gpus
        and len(together) + shop.daemon_cpu <= machine.slots
        and all(not wish.zones or zone in wish.zones for wish in together)
        and (zone in shop.open_zones or all(wish.is_tolerant for wish in together))
    )


def _cheapest_with_reservations(shop: Shop, wanted: Sequence[Wish]) -> float:
    """The price of the best of all packings, with each reservation as often as it has machines."""
    left = {
        (machine, zone): count for machine in shop.machines for zone, count in machine.reservations
    }

    def least(parts: Sequence[list[Wish]]) -> float:
        if not parts:
            return 0.0
        first, rest = parts[0], parts[1:]
        best = _price(shop, first) + least(rest)
        for (machine, zone), count in left.items():
            if count and _fits(shop, machine, zone, first):
                left[machine, zone] -= 1
                best = min(best, RESERVED + least(rest))
                left[machine, zone] += 1
        return best

    return min(least(parts) for parts in _partitions(wanted))


def _pod(name: str, wish: Wish) -> Pod:
    amounts: dict[str, int | str] = {"cpu": wish.cpu, GPU: wish.gpus}
    if wish.memory:
        amounts["memory"] = f"{wish.memory}Gi"
    return pod(
        name,
        requests={resource: amount for resource, amount in amounts.items() if amount},
        required=[[expression(keys.ZONE, "In", zone)] for zone in wish.zones],
        preferred=[(1, [expression(keys.ZONE, "In", wish.preferred_zone)])]
        if wish.preferred_zone
        else [],
        tolerations=[toleration("k")] if wish.is_tolerant else [],
    )


def _type(name: str, machine: Machine) -> InstanceType:
    return instance_type(
        name,
        cpu=str(machine.cpu),
        memory=f"{machine.memory}Gi",
        slots=machine.slots,
        resources={GPU: str(machine.gpus)} if machine.gpus else {},
        offerings=[offering(zone, keys.ON_DEMAND, price) for zone, price in machine.prices],
        reservations=[
            reserved(f"{name}-{zone}", count, zone, RESERVED)
            for zone, count in machine.reservations
        ],
        reserved_system=Resources(),
    )
