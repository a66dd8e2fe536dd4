"""The price rules with masks give what the rules say word by word, offering by offering."""

import math
from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import FACTS_F, expression, node_pool, offering, reserved
from helpers.disruption import context_of
from helpers.disruption_objects import kind, machine
from karpenter.cloud.types import InstanceType
from karpenter.disruption.candidates import Candidate, Kind
from karpenter.disruption.methods.replacements import (
    Option,
    Refused,
    cheaper_than,
    option_of,
    replacement,
)
from karpenter.model import labels as keys
from karpenter.scheduling.compiled.offerings import OfferingIndex
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.claims import OpenClaim, Shapes

ZONES = ("z1", "z2", "z3")
WAYS = (keys.SPOT, keys.ON_DEMAND)
PRICES = (0.1, 0.2, 0.2, 0.3, 0.5, math.nan)


def catalogue(random: Random) -> tuple[InstanceType, ...]:
    """A few types in some places, at prices that often agree."""
    return tuple(
        kind(
            f"t{number}",
            random.choice((1, 2, 4)),
            ways=[
                offering(zone, way, random.choice(PRICES), available=random.random() < 0.8)
                for zone in ZONES
                for way in WAYS
                if random.random() < 0.6
            ],
            reservations=[
                reserved("r-1", random.randint(0, 1), random.choice(ZONES), random.choice(PRICES))
                for _ in range(random.random() < 0.3)
            ],
        )
        for number in range(random.randint(1, 6))
    )


def allowed_by_hand(
    types: Sequence[InstanceType], price: float, zones: Sequence[str], ways: Sequence[str]
) -> set[str]:
    """The types that cost less than ``price`` whatever is launched."""
    found = set()
    for each in types:
        possible = [
            way
            for way in each.offerings
            if way.is_launchable and way.zone in zones and way.capacity_type in ways
        ]
        for sort in (keys.RESERVED, keys.SPOT, keys.ON_DEMAND):
            prices = [way.price for way in possible if way.capacity_type == sort]
            if prices:
                if all(one < price for one in prices):
                    found.add(each.name)
                break
    return found


@given(st.integers(0, 2**32), st.sampled_from((0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.6)))
@settings(max_examples=400, deadline=None)
def test_only_types_that_are_surely_cheaper_are_kept(seed: int, price: float) -> None:
    random = Random(seed)
    types = catalogue(random)
    zones = random.sample(ZONES, random.randint(1, 3))
    ways = random.choice((WAYS, (*WAYS, keys.RESERVED), (keys.ON_DEMAND,)))

    found = cheaper_than(any_of(types, zones, ways), price)

    assert allowed_by_hand(types, price, zones, ways) == kept(found, types)


@given(st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_several_are_replaced_by_nothing_that_costs_as_much_as_what_could_stay(seed: int) -> None:
    random = Random(seed)
    types = catalogue(random)
    zones = random.sample(ZONES, random.randint(1, 3))
    candidates = some_candidates(random, types)
    price = sum(each.price for each in candidates)

    found = replacement(any_of(types, zones, WAYS), candidates, price, spot_to_spot=False)

    assert replacing_by_hand(types, candidates, price, zones) == kept(found, types)


def replacing_by_hand(
    types: Sequence[InstanceType],
    candidates: Sequence[Candidate],
    price: float,
    zones: Sequence[str],
) -> set[str]:
    """The types that may replace candidates, when spot may replace all but spot."""
    if all(each.capacity_type == keys.SPOT for each in candidates):
        return set()
    cheaper = allowed_by_hand(types, price, zones, WAYS)
    sold = {
        way.capacity_type
        for each in types
        for way in each.offerings
        if each.name in cheaper and way.is_launchable and way.zone in zones
    }
    could_stay = [
        each.known_price
        for each in candidates
        if each.instance_type is not None and each.instance_type.name in cheaper
    ]
    most = min((p for p in could_stay if p is not None), default=math.inf)
    paid = (keys.SPOT,) if sold >= {*WAYS} else WAYS
    return cheaper & allowed_by_hand(types, most, zones, paid)


def some_candidates(random: Random, types: Sequence[InstanceType]) -> list[Candidate]:
    machines = [
        machine(
            f"n{number}",
            instance_type=random.choice(types).name,
            capacity_type=random.choice(WAYS),
            zone=random.choice(ZONES),
            types=types,
        )
        for number in range(random.randint(2, 4))
    ]
    return list(context_of(*machines, types=types).candidates(Kind.GRACEFUL))


def any_of(types: tuple[InstanceType, ...], zones: Sequence[str], ways: Sequence[str]) -> Option:
    """A claim that may become any of these types."""
    pool = node_pool(
        requirements=[
            expression(keys.ZONE, "In", *zones),
            expression(keys.CAPACITY_TYPE, "In", *ways),
        ]
    )
    universe = OfferingIndex(types)
    shapes = Shapes(universe, FACTS_F.well_known_labels)
    template = Template(0, pool, universe, shapes, (), FACTS_F)
    return option_of(template, OpenClaim(0, 0, template.shape, template.base), FACTS_F)


def kept(found: Option | Refused, types: Sequence[InstanceType]) -> set[str]:
    return set() if isinstance(found, Refused) else {types[index].name for index in found.types}
