"""What machines cost, from the cloud's answer until they are gone."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.observing import HOUR, MINUTE, Stage
from karpenter.simulate.observe.machines import cost_of


@pytest.mark.case("SIM-23")
def test_a_running_machine_pays_the_price_of_the_moment() -> None:
    stage = Stage()
    stage.machine("launched")
    stage.at(30 * MINUTE).price(0.20)
    stage.at(HOUR).machine("gone")

    seen = stage.at(2 * HOUR).finish()

    assert 0.15 == pytest.approx(cost_of(seen.lives)["dollarHours"])
    assert 1.0 == pytest.approx(cost_of(seen.lives)["nodeHours"])


@pytest.mark.case("SIM-24")
def test_a_machine_that_lived_for_a_moment_is_billed_for_a_minute() -> None:
    stage = Stage()
    stage.machine("launched", price=3.60)
    stage.at(20).machine("gone")

    seen = stage.at(HOUR).finish()

    assert 0.06 == pytest.approx(cost_of(seen.lives)["dollarHours"])


def test_a_price_of_other_offerings_changes_nothing() -> None:
    stage = Stage()
    stage.machine("launched")
    stage.at(30 * MINUTE).price(9.0, zone="b")
    stage.price(9.0, capacity_type="on-demand")

    seen = stage.at(HOUR).finish()

    assert 0.10 == pytest.approx(cost_of(seen.lives)["dollarHours"])


def test_the_warm_up_costs_nothing() -> None:
    stage = Stage(warmup=30 * MINUTE)
    stage.machine("launched", "old")
    stage.at(10 * MINUTE).machine("gone", "old")
    stage.machine("launched", "new")

    seen = stage.at(HOUR).finish()

    assert 0.05 == pytest.approx(cost_of(seen.lives)["dollarHours"])
    assert ["new"] == [life.name for life in seen.lives]


def test_what_is_paid_an_hour_is_nothing_once_nothing_runs() -> None:
    stage = Stage()
    for number, price in enumerate((0.1, 0.2, 0.3)):
        stage.machine("launched", f"n{number}", price=price)
    stage.at(MINUTE).price(0.7)
    for number in range(3):
        stage.at(HOUR).machine("gone", f"n{number}")

    seen = stage.at(2 * HOUR).finish()

    assert 0 == seen.values["dollarsHourly"]
    assert 0 == min(seen.means["dollarsHourly"])


def test_a_machine_that_is_announced_twice_is_one() -> None:
    stage = Stage()
    stage.machine("launched")
    stage.at(10).machine("launched")

    assert 1 == len(stage.at(HOUR).finish().lives)


machines = st.lists(
    st.tuples(
        st.floats(0, 6000),
        st.floats(0, 3000),
        st.floats(0, 5),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["spot", "on-demand"]),
    ),
    max_size=12,
)


@pytest.mark.case("SIM-31")
@given(machines)
def test_parts_of_the_cost_add_up_and_the_series_has_the_same_integral(
    drawn: list[tuple[float, float, float, str, str]],
) -> None:
    stage = Stage(until=2 * HOUR, grid=100)
    happening = []
    for number, (began, lived, price, zone, capacity) in enumerate(drawn):
        place = {"price": price, "zone": zone, "capacity_type": capacity, "pool": f"p-{zone}"}
        happening.append((began, 0, number, place))
        happening.append((began + max(60.0, lived), 1, number, place))
    for at, is_end, number, place in sorted(happening, key=lambda each: each[:3]):
        stage.at(min(at, 2 * HOUR)).machine("gone" if is_end else "launched", f"n{number}", **place)

    seen = stage.at(2 * HOUR).finish()

    cost = cost_of(seen.lives)
    total = cost["dollarHours"]
    assert isinstance(total, float)
    for parts in ("byPool", "byCapacityType", "byZone", "byType"):
        found = cost[parts]
        assert isinstance(found, dict)
        assert total == pytest.approx(math.fsum(found.values()), abs=1e-9)
    means = seen.means.get("dollarsHourly", [])
    assert total == pytest.approx(math.fsum(means) * 100 / HOUR, rel=0.01, abs=0.1)
