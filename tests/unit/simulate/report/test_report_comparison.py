"""Variants side by side, and what several seeds say about a difference."""

from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import pytest

from helpers.reports import report, variant
from karpenter.simulate.report.comparison import frontier, interval, paired
from karpenter.simulate.report.document import document_held
from karpenter.simulate.report.expectations import judged
from karpenter.simulate.report.schema import schema


@dataclass(frozen=True)
class Expected:
    path: str
    in_: str | None = None
    than: str | None = None
    min: float | None = None
    max: float | None = None
    equals: Any = None
    at_most: float | None = None
    at_least: float | None = None


def test_the_frontier_holds_who_is_beaten_by_nobody() -> None:
    variants = [
        variant("cheap", cost=5, evictions=9),
        variant("calm", cost=9, evictions=0),
        variant("worse", cost=9, evictions=9),
        variant("same as calm", cost=9, evictions=0),
    ]

    assert ["cheap", "calm", "same as calm"] == frontier(variants)


def test_differences_and_ratios_are_from_the_first() -> None:
    compared = report(variant("now", cost=10), variant("new", cost=8))["comparison"]

    (cost,) = [each for each in compared["metrics"] if each["path"] == "cost.dollarHours"]
    assert {"value": 8, "difference": -2, "ratio": 0.8} == cost["values"][1]


@pytest.mark.case("SIM-42")
def test_a_variant_does_not_differ_from_itself_over_ten_seeds() -> None:
    runs = [[variant("now", cost=seed), variant("again", cost=seed)] for seed in range(1, 11)]

    found = paired(runs)

    assert found
    assert {0} == {each["mean"] for each in found}
    assert {"no difference"} == {each["verdict"] for each in found}


def test_a_steady_difference_is_one_though_seeds_differ_more() -> None:
    saved = [2.0, 2.1, 1.9, 2.05, 1.95]

    found = interval(saved)

    assert "differs" == found["verdict"]
    # 2.776 is Student's t for four degrees of freedom, 0.0354 the standard error
    assert 2.0 - 2.776 * 0.035355 == pytest.approx(found["low"], abs=1e-4)


def test_one_seed_has_no_interval() -> None:
    assert "one seed" == interval([2.0])["verdict"]


@pytest.mark.case("SIM-37")
@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        (
            Expected("pods.pendingSeconds.p95", max=5),
            "pods.pendingSeconds.p95 is 9, which is more than 5",
        ),
        (
            Expected("cost.dollarHours", in_="new", than="now", at_most=1.05),
            "cost.dollarHours is 12, which is more than 1.05 times 10 of now",
        ),
        (Expected("disruption.evictions", equals=0), "disruption.evictions is 3, and not 0"),
        (
            Expected("cost.nonsense", max=1),
            "cost.nonsense has no value, as there was nothing to measure",
        ),
    ],
)
def test_an_expectation_that_fails_says_by_how_much(expected: Expected, sentence: str) -> None:
    found = report(variant("now", cost=10.0), variant("new", cost=12.0))

    judged(found, [expected])

    assert not document_held(found)
    assert sentence in [each["sentence"] for each in found["variants"][1]["expectations"]]


def test_an_expectation_that_holds_is_in_the_report_too() -> None:
    found = report(variant("now"))

    judged(found, [Expected("cost.dollarHours", min=1, max=10)])

    assert document_held(found)
    assert [True] == [each["held"] for each in found["variants"][0]["expectations"]]
    jsonschema_rs.validate(schema(), found)
