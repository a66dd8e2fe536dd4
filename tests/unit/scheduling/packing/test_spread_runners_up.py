"""A spread takes its best domain where anything can be launched there, and the next best else."""

from collections.abc import Iterable
from typing import Final

import pytest

from helpers.builders import (
    APP_T,
    expression,
    instance_type,
    node_pool,
    offering,
    pod,
    spread,
    unmanaged_node,
)
from helpers.solver import launch_of, solved
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys

# where a pod counts already: z2 is better than z1, and both are within a skew of two
COUNTED: Final = unmanaged_node(
    "full", zone="z1", cpu="0", pods=[pod("there", labels=APP_T, node_name="full")]
)
EMPTY_IN_Z2: Final = unmanaged_node("none", zone="z2", cpu="0")
OPEN_IN_Z1: Final = ("a4", "a8")


def sold(name: str, cpu: str, price: float, *zones: str) -> InstanceType:
    return instance_type(
        name, cpu=cpu, offerings=[offering(zone, keys.ON_DEMAND, price) for zone in zones]
    )


SMALL: Final = sold("a4", "4", 0.1, "z1")
LARGE: Final = sold("a8", "8", 0.5, "z1")
ELSEWHERE: Final = sold("b4", "4", 0.2, "z2")


def first(name: str = "first", types: Iterable[str] = OPEN_IN_Z1) -> Pod:
    """A pod that opens a claim whose zone is left open, of types that are sold in z1 alone."""
    return pod(name, cpu="3500m", required=[[expression(keys.INSTANCE_TYPE, "In", *types)]])


def spreading(name: str = "spreading", **options: int) -> Pod:
    return pod(name, cpu="3", labels=APP_T, spread=[spread(keys.ZONE, options.get("skew", 2))])


def test_an_open_claim_is_not_squeezed_into_the_second_best_zone() -> None:
    answer = solved(
        [first(), spreading()],
        types=[SMALL, LARGE, ELSEWHERE],
        nodes=[COUNTED, EMPTY_IN_Z2],
    )

    assert ["a4", "b4"] == answer.types
    assert ["z1", "z2"] == answer.zones
    assert 0.3 == pytest.approx(answer.plan.hourly_cost)


@pytest.mark.parametrize(
    ("types", "limits"),
    [
        pytest.param([SMALL, LARGE], {}, id="nothing is sold in the best one"),
        pytest.param([SMALL, LARGE, sold("b1", "1", 0.2, "z2")], {}, id="nothing large enough is"),
        pytest.param([SMALL, LARGE, ELSEWHERE], {"nodes": "1"}, id="no more nodes are allowed"),
    ],
)
def test_it_is_when_no_new_claim_can_take_the_best_one(
    types: list[InstanceType], limits: dict[str, str]
) -> None:
    answer = solved(
        [first(), spreading()],
        types=types,
        pools=[node_pool(limits=limits)],
        nodes=[COUNTED, EMPTY_IN_Z2],
    )

    assert ["first", "spreading"] == answer.placed
    assert ["a8"] == answer.types


def test_of_the_runners_up_the_better_goes_before_an_open_claim_too() -> None:
    """Nothing is sold in z2, the best; a new node in z3 comes before the open claim in z1."""
    held = [pod(f"there-{n}", labels=APP_T, node_name="fuller") for n in range(2)]
    counted = [
        unmanaged_node("fuller", zone="z1", cpu="0", pods=held),
        EMPTY_IN_Z2,
        unmanaged_node("one", zone="z3", cpu="0", pods=[pod("z", labels=APP_T, node_name="one")]),
    ]

    answer = solved(
        [first(), spreading(skew=3)],
        types=[SMALL, LARGE, sold("b4", "4", 0.2, "z3")],
        nodes=counted,
    )

    assert ["z1", "z3"] == answer.zones


def test_a_new_claim_takes_the_second_best_zone_last_of_all() -> None:
    answer = solved([spreading()], types=[SMALL], nodes=[COUNTED, EMPTY_IN_Z2])

    assert ["z1"] == answer.zones


def test_of_zones_that_are_equally_good_the_open_claim_takes_the_one_it_can() -> None:
    answer = solved([first(), spreading()], types=[SMALL, LARGE, ELSEWHERE])

    assert ["a8"] == answer.types


def test_a_claim_that_is_in_a_zone_already_takes_what_the_skew_allows() -> None:
    there = pod("first", cpu="3500m", node_selector={keys.ZONE: "z1"})

    answer = solved(
        [there, spreading()], types=[SMALL, LARGE, ELSEWHERE], nodes=[COUNTED, EMPTY_IN_Z2]
    )

    assert ["a8"] == answer.types


def test_a_lighter_pool_with_the_best_zone_comes_before_the_second_best_zone() -> None:
    answer = solved(
        [spreading()],
        pools=[node_pool("heavy", weight=10), node_pool("light")],
        types_of={"heavy": [SMALL], "light": [ELSEWHERE]},
        nodes=[COUNTED, EMPTY_IN_Z2],
    )

    assert (["light"], ["z2"]) == (answer.pools, answer.zones)


def test_two_labels_take_their_best_together_before_either_gives_way() -> None:
    """On-demand is as good as spot; z2 is better than z1, and sold on spot alone."""
    spot = instance_type("b4", cpu="4", offerings=[offering("z2", keys.SPOT, 0.3)])
    both = pod(
        "spreading",
        cpu="3",
        labels=APP_T,
        spread=[spread(keys.ZONE, 2), spread(keys.CAPACITY_TYPE, 5)],
    )

    answer = solved([first(), both], types=[SMALL, LARGE, spot], nodes=[COUNTED, EMPTY_IN_Z2])

    assert [("a4", "z1"), ("b4", "z2")] == sorted(
        (launch_of(claim).instance_type, launch_of(claim).zone) for claim in answer.claims
    )


def test_no_pod_is_left_behind_for_the_sake_of_a_better_zone() -> None:
    """Two nodes are allowed: the one for the better zone would be missing in the end."""
    alone = pod("last", cpu="2500m", node_selector={keys.INSTANCE_TYPE: "c3"})

    answer = solved(
        [first(), spreading(), alone],
        types=[SMALL, LARGE, ELSEWHERE, sold("c3", "3", 0.1, "z3")],
        pools=[node_pool(limits={"nodes": "2"})],
        nodes=[COUNTED, EMPTY_IN_Z2],
    )

    assert ["first", "last", "spreading"] == answer.placed
    assert ["a8", "c3"] == answer.types
