"""Reserved capacity: booked once per claim, waited for rather than missed, paid for only if free."""

import pytest

from helpers.builders import (
    APP_T,
    RESERVATION_ID,
    expression,
    instance_type,
    managed_node,
    min_values,
    node_pool,
    offering,
    pod,
    pod_term,
    pods,
    reserved,
)
from helpers.solver import Setting, claim_value, launch_of, solved
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels as keys
from karpenter.scheduling.problem import Options

FALLBACK = Options(strict_reservations=False)
RESERVED_ONLY = [expression(keys.CAPACITY_TYPE, "In", keys.RESERVED)]


def small(*reservations: Offering, name: str = "small") -> InstanceType:
    return instance_type(name, cpu="2", memory="8Gi", reservations=reservations)


THREE_SIZES = (
    instance_type("large", cpu="6", memory="8Gi"),
    instance_type("medium", cpu="3", memory="8Gi", reservations=[reserved("r-m", 1, price=0.002)]),
    small(reserved("r-s", 1)),
)
SOLD_OUT = (small(reserved("r-s", 0)),)


def apart(count: int) -> list[Pod]:
    """Pods of which no two may share a machine."""
    return pods(count, "p", cpu="1", labels=APP_T, anti_affinity=[pod_term()])


@pytest.mark.case("SCH-133")
def test_each_pass_takes_what_is_reserved_before_anything_is_paid_for() -> None:
    waiting = pods(3, cpu="1.8")
    first = solved(waiting, types=THREE_SIZES)
    second = solved(
        [p for p in waiting if p.metadata.name in first.deferred],
        types=first.types_left(THREE_SIZES),
        nodes=first.settled(),
    )
    third = solved(
        [p for p in waiting if p.metadata.name in second.deferred],
        types=second.types_left(first.types_left(THREE_SIZES)),
        nodes=second.settled(),
    )

    assert ["r-m|r-s"] == [claim_value(claim, RESERVATION_ID) for claim in first.claims]
    assert ["r-m"] == [claim_value(claim, RESERVATION_ID) for claim in second.claims]
    assert [2, 1, 0] == [len(answer.deferred) for answer in (first, second, third)]
    assert [keys.RESERVED, keys.RESERVED] == first.capacity_types + second.capacity_types
    assert keys.RESERVED not in claim_value(third.only, keys.CAPACITY_TYPE)


@pytest.mark.case("SCH-133")
def test_a_claim_with_bookings_insists_on_them() -> None:
    answer = solved([pod(cpu="1.8")], types=THREE_SIZES)

    assert keys.RESERVED == claim_value(answer.only, keys.CAPACITY_TYPE)
    assert "r-m|r-s" == claim_value(answer.only, RESERVATION_ID)


@pytest.mark.case("SCH-134")
def test_a_pod_that_waits_for_a_reservation_counts_as_deferred_only() -> None:
    answer = solved(pods(3, cpu="1.8"), types=THREE_SIZES)

    assert 2 == len(answer.deferred)
    assert {} == answer.unplaced


def two_pools(left: InstanceType, right: InstanceType) -> Setting:
    pools = [
        node_pool(name, requirements=[expression(keys.INSTANCE_TYPE, "In", each.name)])
        for name, each in (("a", left), ("b", right))
    ]
    return Setting(pools=pools, types_of={"a": [left], "b": [right]})


@pytest.mark.parametrize(
    ("setting", "pools", "deferred"),
    [
        pytest.param(
            two_pools(small(reserved("r-s", 1)), small(reserved("r-s", 1))),
            ["a"],
            ["p-b"],
            id="SCH-135 pools that share a reservation serve one pod",
        ),
        pytest.param(
            two_pools(small(reserved("r-a", 1)), small(reserved("r-b", 1))),
            ["a", "b"],
            [],
            id="SCH-136 pools with a reservation each serve both",
        ),
        pytest.param(
            two_pools(small(reserved("r-s", 1)), small(reserved("r-s", 3))),
            ["a"],
            ["p-b"],
            id="the lowest count that is reported for a reservation holds",
        ),
    ],
)
def test_reservations_are_counted_over_all_pools(
    setting: Setting, pools: list[str], deferred: list[str]
) -> None:
    waiting = [
        pod(
            f"p-{name}",
            labels=APP_T,
            anti_affinity=[pod_term()],
            node_selector={keys.NODEPOOL: name},
        )
        for name in ("a", "b")
    ]

    answer = solved(waiting, **setting)

    assert pools == answer.pools
    assert deferred == answer.deferred


@pytest.mark.case("SCH-137")
def test_a_claim_books_every_reservation_that_still_has_room() -> None:
    answer = solved(apart(4), types=[small(reserved("r-1", 1), reserved("r-2", 2))])

    assert ["r-1|r-2", "r-2"] == [claim_value(claim, RESERVATION_ID) for claim in answer.claims]
    assert 2 == len(answer.deferred)
    assert {} == answer.unplaced


def heavy_and_light() -> list[NodePool]:
    return [node_pool("heavy", weight=100), node_pool("light", weight=1)]


@pytest.mark.case("SCH-138")
def test_a_used_up_reservation_is_waited_for_rather_than_another_pool_used() -> None:
    answer = solved(
        apart(2),
        pools=heavy_and_light(),
        types_of={"heavy": [small(reserved("r-h", 1))], "light": [small(reserved("r-l", 1))]},
    )

    assert ["heavy"] == answer.pools
    assert ["p-1"] == answer.deferred


@pytest.mark.case("SCH-139")
def test_a_used_up_reservation_is_waited_for_rather_than_a_preference_given_up() -> None:
    prefers_heavy = pods(
        2,
        "p",
        labels=APP_T,
        anti_affinity=[pod_term()],
        preferred=[(1, [expression(keys.NODEPOOL, "In", "heavy")])],
    )

    answer = solved(
        prefers_heavy,
        pools=[node_pool("heavy"), node_pool("light", weight=100)],
        types_of={"heavy": [small(reserved("r-h", 1))], "light": [small()]},
    )

    assert ["heavy"] == answer.pools
    assert ["p-1"] == answer.deferred


@pytest.mark.case("SCH-140")
def test_with_the_gate_off_a_reservation_is_an_offering_like_any_other() -> None:
    answer = solved(
        apart(3), types=[small(reserved("r-s", 1))], options=Options(reserved_capacity=False)
    )

    assert [1, 1, 1] == answer.loads
    assert {"on-demand|reserved|spot"} == {
        claim_value(claim, keys.CAPACITY_TYPE) for claim in answer.claims
    }
    assert {""} == {claim_value(claim, RESERVATION_ID) for claim in answer.claims}


def test_a_claim_gives_back_what_it_can_no_longer_use() -> None:
    types = (
        instance_type("medium", cpu="3", memory="8Gi", reservations=[reserved("r-m", 1)]),
        small(reserved("r-s", 1)),
    )

    answer = solved([pod("a", cpu="1.5"), pod("b", cpu="1.2"), pod("c", cpu="1.1")], types=types)

    assert ["r-m", "r-s"] == [claim_value(claim, RESERVATION_ID) for claim in answer.claims]
    assert ["default/a", "default/b"] == list(answer.claims[0].pods)
    assert [] == answer.deferred


def test_a_reservation_does_not_shorten_the_list_of_types() -> None:
    answer = solved([pod(cpu="1")], types=THREE_SIZES)

    assert {"large", "medium", "small"} == set(answer.only.instance_types)
    assert "large" == answer.only.instance_types[-1]
    assert keys.RESERVED == launch_of(answer.only).capacity_type


@pytest.mark.case("V15-S20")
def test_a_full_reservation_beside_others_is_passed_over() -> None:
    answer = solved([pod()], types=SOLD_OUT)

    assert "on-demand|spot" == claim_value(answer.only, keys.CAPACITY_TYPE)
    assert "" == claim_value(answer.only, RESERVATION_ID)
    assert [] == answer.deferred


@pytest.mark.case("V15-S21")
def test_a_pool_of_nothing_but_a_full_reservation_makes_the_pod_wait() -> None:
    answer = solved([pod("p")], pools=[node_pool(requirements=RESERVED_ONLY)], types=SOLD_OUT)

    assert ["p"] == answer.deferred
    assert () == answer.claims
    assert {} == answer.unplaced


@pytest.mark.case("V15-S22")
def test_in_fallback_mode_that_pool_refuses_the_pod() -> None:
    answer = solved(
        [pod("p")],
        pools=[node_pool(requirements=RESERVED_ONLY)],
        types=SOLD_OUT,
        options=FALLBACK,
    )

    assert ["p"] == list(answer.unplaced)
    assert [] == answer.deferred


@pytest.mark.case("V15-S23")
def test_in_fallback_mode_the_next_pool_is_used() -> None:
    pools = [node_pool("heavy", weight=100, requirements=RESERVED_ONLY), node_pool("light")]

    answer = solved([pod()], pools=pools, types=SOLD_OUT, options=FALLBACK)

    assert ["light"] == answer.pools


@pytest.mark.case("V15-S24")
def test_a_reservation_that_is_not_available_serves_nobody() -> None:
    away = offering(
        "z1", keys.RESERVED, 0.001, available=False, reservation_id="r-s", reservation_capacity=5
    )

    answer = solved([pod("p")], pools=[node_pool(requirements=RESERVED_ONLY)], types=[small(away)])

    assert ["p"] == list(answer.unplaced)
    assert [] == answer.deferred


@pytest.mark.parametrize(
    ("count", "freed", "booked", "deferred"),
    [
        pytest.param(
            1, {"r-s": 1}, ["r-s"], [], id="V15-S25 one slot about to be freed takes one pod"
        ),
        pytest.param(
            2, {"r-s": 1}, ["r-s"], ["p-1"], id="V15-S25 one slot about to be freed takes no second"
        ),
        pytest.param(
            1, {"r-x": 1}, [], ["p-0"], id="V15-S26 a slot of an unknown reservation is ignored"
        ),
    ],
)
def test_slots_that_disruption_will_free(
    count: int, freed: dict[str, int], booked: list[str], deferred: list[str]
) -> None:
    answer = solved(
        apart(count),
        pools=[node_pool(requirements=RESERVED_ONLY)],
        types=SOLD_OUT,
        options=Options(reservation_credits=freed),
    )

    assert booked == [claim_value(claim, RESERVATION_ID) for claim in answer.claims]
    assert deferred == answer.deferred


@pytest.mark.case("V15-S27")
def test_a_full_reservation_does_not_make_a_type_cheap() -> None:
    ladder = (
        instance_type(
            "x", offerings=[offering("z1", keys.ON_DEMAND, 2.0)], reservations=[reserved("r-x", 0)]
        ),
        instance_type("y", offerings=[offering("z1", keys.ON_DEMAND, 1.0)]),
    )

    answer = solved([pod()], types=ladder)
    pinned = solved([pod(node_selector={keys.INSTANCE_TYPE: "x"})], types=ladder)

    assert ("y", "x") == answer.only.instance_types
    assert 2.0 == launch_of(pinned.only).price


def test_machines_that_exist_are_used_before_a_reservation_is_waited_for() -> None:
    answer = solved(pods(2, "p", cpu="1.8"), types=SOLD_OUT, nodes=[managed_node("n", cpu="4")])

    assert {"n": ["p-0", "p-1"]} == answer.existing


def test_fallback_mode_pays_when_the_reservation_is_used_up_in_the_pass() -> None:
    answer = solved(apart(2), types=[small(reserved("r-s", 1))], options=FALLBACK)

    assert ["", "r-s"] == sorted(claim_value(claim, RESERVATION_ID) for claim in answer.claims)
    assert {} == answer.unplaced


def test_a_reservation_is_worth_more_than_a_choice_of_types_or_capacity_types() -> None:
    choosy = node_pool(
        requirements=[min_values(3, keys.INSTANCE_TYPE), min_values(2, keys.CAPACITY_TYPE)]
    )

    answer = solved([pod(cpu="1")], pools=[choosy], types=THREE_SIZES)

    assert 3 == len(answer.only.instance_types)
    assert keys.RESERVED == claim_value(answer.only, keys.CAPACITY_TYPE)
