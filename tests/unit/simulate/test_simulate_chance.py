"""Draws are keyed: what one of them gives depends on its name and the seed alone."""

import math
from statistics import median

from helpers.simulated import share_of
from karpenter.simulate.amounts import Drawer, matches
from karpenter.simulate.chance import Chance
from karpenter.simulate.lengths import per_second, seconds, share, shown
from karpenter.simulate.scenario.models import (
    Column,
    Exponential,
    Lognormal,
    MatchedTime,
    Normal,
    Spread,
)

CHANCE = Chance(1)


def drawn(spread: Spread, count: int = 4000) -> list[float]:
    drawer = Drawer(CHANCE, "test", {("a.csv", "b"): [3.0, 5.0]})
    return [drawer.drawn(spread, "key", number) for number in range(count)]


def test_a_draw_depends_on_all_of_its_name() -> None:
    names = [("a", "b", 1), ("a", "b", 2), ("a", "c", 1), ("b", "b", 1), ("ab", "", 1)]
    values = [CHANCE.uniform(*name) for name in names]

    assert len(names) == len(set(values))
    assert values == [Chance(1).uniform(*name) for name in names]
    assert values != [Chance(2).uniform(*name) for name in names]
    # The same draw for ever: reports of the same version and seed are the same anywhere
    assert 0.437 == round(CHANCE.uniform("duration", "mail", 17), 4)


def test_uniform_draws_fill_their_interval() -> None:
    values = drawn(Spread(uniform=("10s", "20s")))

    assert 10 < min(values) < 10.1
    assert 19.9 < max(values) < 20
    assert abs(sum(values) / len(values) - 15) < 0.2


def test_a_lognormal_distribution_has_the_percentiles_it_is_given() -> None:
    values = drawn(Spread(lognormal=Lognormal(p50="45s", p95="90s")))

    assert abs(median(values) - 45) < 2
    assert abs(share_of(values, 90) - 0.95) < 0.01
    capped = drawn(Spread(lognormal=Lognormal(p50="45s", p95="90s", max="60s")))
    assert 60 == max(capped)


def test_a_normal_distribution_stays_within_its_bounds() -> None:
    values = drawn(Spread(normal=Normal(mean="10s", stddev="5s", min="5s", max="15s")))

    assert (5, 15) == (min(values), max(values))
    assert abs(median(values) - 10) < 0.5


def test_an_exponential_distribution_has_its_mean() -> None:
    values = drawn(Spread(exponential=Exponential(mean="1m")))

    assert abs(sum(values) / len(values) - 60) < 4
    assert abs(share_of(values, 60 * math.log(2)) - 0.5) < 0.03


def test_measured_amounts_are_drawn_from_a_list_or_a_column() -> None:
    assert {10.0, 60.0} == set(drawn(Spread(empirical=["10s", "1m"]), 50))
    assert {3.0, 5.0} == set(drawn(Spread(empirical=Column(csv="a.csv", column="b")), 50))


def test_the_first_entry_that_matches_a_machine_counts() -> None:
    drawer = Drawer(CHANCE, "boot", {})
    times = [MatchedTime(match="*-gpu-*/*/*", is_="4m"), MatchedTime(is_="45s")]

    assert 240 == drawer.of_machine(times, "c-gpu-8x/zone-a/spot")
    assert 45 == drawer.of_machine(times, "c-8x/zone-a/spot")
    assert 0 == drawer.of_machine(times[:1], "c-8x/zone-a/spot")
    assert not matches("c-*/*/spot", "m-8x/zone-a/spot")


def test_lengths_are_those_of_manifests_and_days() -> None:
    assert [90.0, 5400.0, 604_800.0, 0.25, 0.0, -30.0, 36 * 3600.0] == [
        seconds(text) for text in ("90s", "1h30m", "7d", "250ms", "0", "-30s", "1.5d")
    ]
    assert (0.05, 40 / 3600) == (share("5%"), per_second("40/h"))
    assert "25:00:01" == shown(90_001.0)
    assert "00:05:00" == shown(299.9999999)  # a sum of steps may fall short of it
