"""What a scenario expects is judged by figures of the report."""

from typing import Any

import pytest

from karpenter.simulate.report.expectations import outcomes
from karpenter.simulate.scenario.models import Expectation

VARIANT: dict[str, Any] = {
    "name": "scenario",
    "cost": {"byPool": {"a.b": 2.5}},
    "nodes": {"byReason": {"Empty": 2}},
    "pods": {"pendingSeconds": {"p95": None}},
}


@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        (Expectation(path="nodes.byReason.Drifted", max=0), "nodes.byReason.Drifted is 0"),
        (Expectation(path="nodes.byReason.Drifted", equals=0), "nodes.byReason.Drifted is 0"),
        (Expectation(path="cost.byPool.a.b", min=2), "cost.byPool.a.b is 2.5"),
    ],
)
def test_a_figure_by_name_is_nothing_where_the_report_has_no_such_name(
    expected: Expectation, sentence: str
) -> None:
    (found,) = outcomes(VARIANT, [expected])

    assert (True, sentence) == (found["held"], found["sentence"])


@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        (
            Expectation(path="pods.pendingSeconds.p95", max=90),
            "pods.pendingSeconds.p95 has no value, as there was nothing to measure",
        ),
        (
            Expectation(path="pods.pendingSeconds.p95", equals=90),
            "pods.pendingSeconds.p95 is nothing, and not 90",
        ),
    ],
)
def test_what_was_not_measured_does_not_hold_and_says_so(
    expected: Expectation, sentence: str
) -> None:
    (found,) = outcomes(VARIANT, [expected])

    assert (False, sentence) == (found["held"], found["sentence"])
