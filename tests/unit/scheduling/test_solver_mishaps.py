"""What once went wrong in the solver, found by judging plans for random clusters."""

from itertools import permutations
from typing import Final

import msgspec
import pytest

from helpers.builders import (
    APP_T,
    expression,
    instance_type,
    managed_node,
    min_values,
    node_pool,
    offering,
    pod,
    pods,
    reserved,
    spread,
    unmanaged_node,
)
from helpers.solver import question, solved
from karpenter.model import labels as keys
from karpenter.scheduling.problem import Options
from karpenter.scheduling.solve import solve

WITHOUT_RESERVATIONS: Final = Options(reserved_capacity=False)


def test_a_claim_does_not_list_fewer_capacity_types_than_its_minimum() -> None:
    sold_out = offering("z1", keys.SPOT, available=False)
    only_on_demand = instance_type("t", offerings=[sold_out, offering("z1", keys.ON_DEMAND)])
    wanted = min_values(2, keys.CAPACITY_TYPE)

    answer = solved([pod()], pools=[node_pool(requirements=[wanted])], types=[only_on_demand])

    held = answer.only.requirements[keys.CAPACITY_TYPE]
    assert 2 == held.min_values
    assert held.complement or len(held.values) >= 2
    assert [keys.ON_DEMAND] == answer.capacity_types


def test_best_effort_minimum_is_lowered_to_the_types_left_after_truncation() -> None:
    wanted = min_values(2, keys.INSTANCE_TYPE)

    answer = solved(
        [pod()],
        pools=[node_pool(requirements=[wanted])],
        types=[instance_type("a"), instance_type("b")],
        options=Options(best_effort_min_values=True, most_instance_types=1),
    )

    assert ("a",) == answer.only.instance_types
    assert 1 == answer.only.requirements[keys.INSTANCE_TYPE].min_values
    assert "true" == answer.only.annotations[keys.MIN_VALUES_RELAXED]


def test_a_used_up_reservation_is_no_offering_when_nobody_minds_reservations() -> None:
    used_up = instance_type("used-up", offerings=[], reservations=[reserved("r-1", 0)])
    dear = instance_type("dear", price=9.0)

    alone = solved([pod("p")], types=[used_up], options=WITHOUT_RESERVATIONS)
    beside = solved([pod("p")], types=[used_up, dear], options=WITHOUT_RESERVATIONS)

    assert ["p"] == list(alone.unplaced)
    assert ("dear",) == beside.only.instance_types


def test_a_type_held_by_a_used_up_reservation_alone_is_not_listed_for_its_small_offering() -> None:
    odd = instance_type(
        "odd",
        offerings=[offering("z1", keys.SPOT, 0.1, capacity={"cpu": "1"})],
        reservations=[reserved("r-1", 0)],
    )

    answer = solved([pod(cpu="3")], types=[odd, instance_type("std", price=0.5)])

    assert ("std",) == answer.only.instance_types


def test_a_booked_claim_does_not_list_a_type_whose_booked_machine_is_too_small() -> None:
    small = instance_type(
        "small",
        cpu="1",
        offerings=[offering("z1", keys.SPOT, 3.0, capacity={"cpu": "4"})],
        reservations=[reserved("r-1", 2)],
    )
    large = instance_type("large", cpu="8", offerings=[], reservations=[reserved("r-1", 2)])

    answer = solved([pod(cpu="3")], types=[small, large])

    assert ("large",) == answer.only.instance_types


def test_giving_up_an_alternative_does_not_hide_pods_from_a_hard_spread() -> None:
    spreading = pods(
        2,
        labels=APP_T,
        required=[[expression("cores", "Gte", "1")], [expression(keys.INSTANCE_TYPE, "In", "std")]],
        spread=[spread("team", min_domains=2)],
    )

    answer = solved(spreading, pools=[node_pool(labels={"team": "a"})])

    assert {"a": 1} == answer.pods_by("team")
    assert ["pod-1"] == list(answer.unplaced)


def test_the_order_of_the_catalogue_does_not_choose_among_equal_prices() -> None:
    types = [instance_type(name, cpu="4", price=1.0) for name in ("b", "a", "c")]

    launches = {
        tuple(solved([pod()], types=order).only.instance_types) for order in permutations(types)
    }

    assert {("a", "b", "c")} == launches


def test_of_two_types_at_one_price_the_larger_is_launched() -> None:
    types = [instance_type("a", slots=1), instance_type("b", slots=5)]

    answer = solved([pod()], types=types)

    assert ["b"] == answer.types


def test_pods_without_uid_do_not_go_by_the_order_of_the_input() -> None:
    given = [
        msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, uid=""))
        for each in pods(4, cpu="1", host_ports=[80])
    ]

    plans = [solve(question(order)).claims for order in permutations(given)]

    assert all(plans[0] == plan for plan in plans)


def test_machines_of_one_name_keep_the_pods_of_both() -> None:
    twins = [managed_node("twin", cpu="1"), unmanaged_node("twin", cpu="1")]

    answer = solved(pods(2, cpu="1"), nodes=twins)

    assert {"twin": ["pod-0", "pod-1"]} == answer.existing


@pytest.mark.parametrize("max_skew", [0, -1])
@pytest.mark.parametrize("key", [keys.HOSTNAME, keys.ZONE])
def test_a_spread_that_allows_no_skew_at_all_places_nobody(key: str, max_skew: int) -> None:
    answer = solved([pod("p", labels=APP_T, spread=[spread(key, max_skew)])])

    assert ["p"] == list(answer.unplaced)


def test_an_integer_beyond_64_bits_is_a_pod_that_fits_nowhere() -> None:
    answer = solved([pod("p", requests={"cpu": 10**30}), pod("q")])

    assert (["p"], ["q"]) == (list(answer.unplaced), answer.placed)


def test_a_pod_that_asks_for_less_than_nothing_makes_no_room_for_others() -> None:
    full = managed_node("full", cpu="0", memory="4Gi")
    odd = pod("odd", memory="1Gi", overhead={"cpu": "-5"})

    answer = solved([odd, pod("other", cpu="1", memory="512Mi")], nodes=[full])

    assert {"full": ["odd"]} == answer.existing
    assert ["other"] == [name.partition("/")[2] for name in answer.only.pods]
