"""The price rules with masks give what the rules say word by word, offering by offering."""

import math
from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import FACTS_F, expression, node_pool, offering, reserved
from disrupting import kind
from karpenter.cloud.types import InstanceType
from karpenter.disruption.replacements import Refused, cheaper_than, option_of
from karpenter.model import labels as keys
from karpenter.scheduling.claims import OpenClaim, Shapes
from karpenter.scheduling.templates import Template
from karpenter.scheduling.universe import Universe

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
    pool = node_pool(
        requirements=[
            expression(keys.ZONE, "In", *zones),
            expression(keys.CAPACITY_TYPE, "In", *ways),
        ]
    )
    universe = Universe(types)
    shapes = Shapes(universe, FACTS_F.well_known_labels)
    template = Template(0, pool, universe, shapes, (), FACTS_F)
    claim = OpenClaim(0, 0, template.shape, template.base)

    found = cheaper_than(option_of(template, claim, FACTS_F), price)

    kept = set() if isinstance(found, Refused) else {types[index].name for index in found.types}
    assert allowed_by_hand(types, price, zones, ways) == kept
