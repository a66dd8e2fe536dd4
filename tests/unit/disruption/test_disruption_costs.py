"""What moving pods costs, and what machines do."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import msgspec
import pytest

from helpers.builders import NOW
from helpers.disruption import snapshot
from helpers.disruption_objects import LONG_AGO, TYPES, kind, machine, on_demand, pod_on, pods_on
from karpenter.disruption.candidates import Inspection
from karpenter.disruption.costs import lifetime_cost, price_of, reschedule_cost
from karpenter.state.eviction_cost import POD_DELETION_COST, eviction_cost

DISRUPTION_COST: Final = "karpenter.sh/disruption-cost"
BY_NAME: Final = {each.name: each for each in TYPES}


@pytest.mark.parametrize(
    ("annotations", "ours", "cost"),
    [
        pytest.param(
            {DISRUPTION_COST: "134217728", POD_DELETION_COST: "-134217728"},
            False,
            2.0,
            id="V15-D45 the new annotation goes first",
        ),
        pytest.param(
            {POD_DELETION_COST: "134217728"}, True, 1.0, id="V15-D45 what we wrote says nothing"
        ),
        pytest.param({DISRUPTION_COST: "1.5"}, False, 1.0, id="V15-D45 a fraction counts nothing"),
        pytest.param({POD_DELETION_COST: "134217728"}, False, 2.0, id="the old one otherwise"),
        pytest.param(
            {DISRUPTION_COST: "bad", POD_DELETION_COST: "134217728"},
            False,
            1.0,
            id="a bad one does not fall back",
        ),
    ],
)
def test_what_a_pod_costs(annotations: dict[str, str], ours: bool, cost: float) -> None:
    found = eviction_cost(pod_on("p", annotations=annotations), deletion_cost_is_ours=ours)

    assert cost == found


@pytest.mark.case("V15-D45")
def test_what_we_wrote_ourselves_makes_no_machine_dearer() -> None:
    found = machine("n1", pod_on("p", annotations={POD_DELETION_COST: "134217728"}))
    cluster = snapshot(found)

    costs = [
        (
            Inspection(cluster, {}, NOW, deletion_cost_is_ours=ours).described(found).cost,
            lifetime_cost(found, now=LONG_AGO, deletion_cost_is_ours=ours),
        )
        for ours in (False, True)
    ]

    assert [(3.0, 2.0), (2.0, 1.0)] == costs


def test_a_price_that_is_no_number_is_unknown() -> None:
    odd = kind("s4", 4, ways=[on_demand(float("nan"))])

    assert price_of(machine("n1"), {"s4": odd}) is None


def test_a_claim_that_nobody_knows_the_age_of_is_new() -> None:
    found = machine("n1", pod_on("p"), expire_after="1h")
    assert found.node_claim is not None
    metadata = msgspec.structs.replace(found.node_claim.metadata, creation_timestamp=None)
    ageless = replace(
        found, node_claim=msgspec.structs.replace(found.node_claim, metadata=metadata)
    )

    assert 1.0 == lifetime_cost(ageless, now=NOW, deletion_cost_is_ours=False)


def test_a_pod_that_is_glad_to_go_takes_nothing_off() -> None:
    glad = pod_on("a", annotations={POD_DELETION_COST: "-2147483647"})

    assert 2.0 == reschedule_cost([glad, pod_on("b")])


@pytest.mark.parametrize(
    ("options", "price"),
    [
        pytest.param({}, 0.4, id="by type, zone and capacity type"),
        pytest.param({"capacity_type": "spot"}, 0.12, id="on spot"),
        pytest.param({"zone": "z9"}, None, id="in no zone of its type"),
        pytest.param({"instance_type": "odd"}, None, id="of no known type"),
    ],
)
def test_what_a_machine_costs(options: dict[str, str], price: float | None) -> None:
    found = price_of(machine("n1", **options), BY_NAME)  # type: ignore[arg-type]

    assert price == (None if found is None else pytest.approx(found))


def test_the_end_of_its_life_makes_a_machine_cheap_to_move() -> None:
    half = machine(
        "n1", pod_on("a"), pod_on("b"), created=NOW - timedelta(hours=5), expire_after="10h"
    )

    assert 1.0 == lifetime_cost(half, now=NOW, deletion_cost_is_ours=False)


@pytest.mark.parametrize(
    ("expire_after", "age", "left"),
    [
        pytest.param("Never", 1000, 1.0, id="what never ends is always new"),
        pytest.param("0s", 1, 1.0, id="what has no length has no part of it"),
        pytest.param("10h", 0, 1.0, id="new"),
        pytest.param("10h", 4, 0.6, id="past its first third"),
        pytest.param("10h", 10, 0.0, id="at its end"),
        pytest.param("10h", 20, 0.0, id="past its end"),
        pytest.param("10h", -5, 1.0, id="from the future"),
    ],
)
def test_what_evicting_costs_shrinks_with_the_life_that_is_left(
    expire_after: str, age: float, left: float
) -> None:
    born = NOW - timedelta(hours=age)
    found = machine("n1", *pods_on(2, "p"), expire_after=expire_after, created=born)

    assert 2 * left == pytest.approx(lifetime_cost(found, now=NOW, deletion_cost_is_ours=False))
