"""The price of interruptions, and the history it is made from."""

from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.builders import NOW, offering, pods, priced_type
from helpers.solver import Answer, solved
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.report.provisioning import launch_document
from karpenter.scheduling.problem import CostOptions, Options, PackingMode
from karpenter.scheduling.spot.history import LONGEST, SpotHistory
from karpenter.scheduling.spot.risk import Place, Seen, SpotRisk

A, B = Place("a", "z1"), Place("b", "z1")
SEEN: Final = {A: Seen(5, 100), B: Seen(0, 100)}


def sold(name: str, spot: float, on_demand: float | None = None) -> InstanceType:
    ways = [offering("z1", keys.SPOT, spot)]
    if on_demand is not None:
        ways.append(offering("z1", keys.ON_DEMAND, on_demand))
    return priced_type(name, 4, ways=ways)


def planned(risk: SpotRisk | None, *types: InstanceType) -> Answer:
    cost = CostOptions(
        packing=PackingMode.CHEAPEST,
        node_cost=0.0,
        min_types=1,
        min_spot_types=1,
        price_slack=0.0,
        risk=risk,
    )
    return solved(pods(2, cpu="2", memory="1Gi"), types=types, options=Options(cost=cost))


@pytest.mark.case("OPT-58")
def test_what_is_interrupted_often_is_dearer() -> None:
    types = sold("a", 0.10), sold("b", 0.11)

    assert ["a"] == planned(None, *types).types
    assert ["a"] == planned(SpotRisk(1.0), *types).types  # unknown risks change no order
    answer = planned(SpotRisk(1.0, SEEN), *types)

    assert ["b"] == answer.types
    assert 0.11 == answer.plan.hourly_cost  # the risk is no part of the bill
    assert 0.1107 == pytest.approx(answer.plan.expected_cost, abs=5e-5)
    assert 0.1173 == pytest.approx(0.10 + SpotRisk(1.0, SEEN).hourly(*A), abs=5e-5)


def test_the_plan_tells_the_risk_of_spot_alone() -> None:
    (claim,) = planned(SpotRisk(1.0, SEEN), sold("b", 0.11)).claims
    assert claim.launch is not None
    assert 0.2 / 300 == launch_document(claim.launch)["riskHourly"]

    (plain,) = planned(None, sold("b", 0.11)).claims
    assert plain.launch is not None
    assert "riskHourly" not in launch_document(plain.launch)


def test_on_demand_is_bought_where_the_risk_of_spot_costs_more() -> None:
    (claim,) = planned(SpotRisk(10.0, SEEN), sold("a", 0.10, 0.12)).claims

    assert claim.launch is not None
    assert keys.ON_DEMAND == claim.launch.capacity_type
    # a provider would launch spot first if it were allowed
    assert not claim.requirements[keys.CAPACITY_TYPE].has(keys.SPOT)
    (cheap,) = planned(SpotRisk(0.1, SEEN), sold("a", 0.10, 0.12)).claims
    assert cheap.launch is not None
    assert keys.SPOT == cheap.launch.capacity_type


def test_nothing_seen_is_one_interruption_in_a_thousand_hours() -> None:
    assert 0.001 == Seen().rate
    assert 0.002 == SpotRisk(2.0).hourly("any", "where")


def test_history_adds_up_days_and_forgets_after_two_weeks() -> None:
    history = SpotHistory()
    for days in (20, 13, 1):
        history.add(A, NOW - timedelta(days=days), interruptions=1, hours=10)
    history.add(B, NOW - timedelta(days=20), hours=1)

    history.forget(NOW)

    assert {A: Seen(2, 20)} == history.seen()


def test_what_is_too_long_to_keep_loses_the_rows_that_were_used_least() -> None:
    history = SpotHistory()
    for number in range(4000):
        for day in range(3):
            place = Place(f"type-{number}.xlarge", "us-east-1a")
            history.add(place, NOW - timedelta(days=day), hours=number)
    history.add(Place("rare", "z1"), NOW, interruptions=1)

    text = history.text()

    assert LONGEST - 200 < len(text.encode()) <= LONGEST
    kept = SpotHistory.of_text(text).rows
    assert Place("rare", "z1") in kept
    assert Place("type-3999.xlarge", "us-east-1a") in kept
    assert Place("type-1.xlarge", "us-east-1a") not in kept


@pytest.mark.parametrize(
    "line", ["", "a", "a z1", "a z1 x", "a z1 1:2", "a z1 1:-1:2", "a z1 1:nan:2", "a z1 1:1:1e99"]
)
def test_rows_that_cannot_be_read_are_left_out(line: str) -> None:
    assert {B: {1: Seen(0, 2)}} == SpotHistory.of_text(f"{line}\nb z1 1:0:2").rows


@given(
    st.dictionaries(
        st.builds(Place, st.from_regex(r"[a-z0-9.-]{1,12}", fullmatch=True), st.just("z1")),
        st.dictionaries(
            st.integers(1, 9999),
            st.builds(Seen, st.integers(0, 99), st.integers(0, 9999)),
            min_size=1,
        ),
    )
)
def test_what_is_kept_is_read_again(rows: dict[Place, dict[int, Seen]]) -> None:
    assert rows == SpotHistory.of_text(SpotHistory(rows).text()).rows
