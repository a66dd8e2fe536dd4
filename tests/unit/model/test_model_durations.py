"""Lengths of time as text: one reading, one rounding, one way to write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.model import durations

MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "length", "period"),
    [
        pytest.param("1m30s", timedelta(seconds=90), timedelta(seconds=90), id="of-two-units"),
        pytest.param("0", timedelta(0), timedelta(0), id="nothing-is-a-period"),
        pytest.param("-1m", timedelta(minutes=-1), None, id="negative-is-no-period"),
        pytest.param("1999ns", MICROSECOND, MICROSECOND, id="cut-to-the-microsecond"),
        pytest.param("-1999ns", -MICROSECOND, None, id="cut-towards-nothing"),
        pytest.param("-1ns", timedelta(0), None, id="its-sign-is-judged-before"),
        pytest.param(durations.NEVER, None, None, id="never"),
        pytest.param("30d", None, None, id="days-are-no-unit"),
        pytest.param("", None, None, id="empty"),
        pytest.param(None, None, None, id="unset"),
    ],
)
def test_what_a_text_stands_for(
    text: str | None, length: timedelta | None, period: timedelta | None
) -> None:
    assert length == durations.parse(text)
    assert period == durations.period(text)
    assert (length is not None) == (text is not None and durations.is_duration(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1h", True), ("1ns", True), ("0s", False), ("-1ns", False), ("Never", False), (None, False)],
)
def test_the_shortest_length_is_positive_too(text: str | None, expected: bool) -> None:
    assert expected == durations.is_positive(text)


@given(
    st.timedeltas(
        min_value=timedelta(days=-365 * 290), max_value=timedelta(days=365 * 290)
    )  # what fits into the 64 bits of a duration
)
def test_a_length_that_is_written_is_read_back(length: timedelta) -> None:
    assert length == durations.parse(durations.text(length))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, (0, "s")),
        (0.9, (0, "s")),
        (119, (119, "s")),
        (120, (2, "m")),
        (7199, (119, "m")),
        (7200, (2, "h")),
        (2 * 86_400 - 1, (47, "h")),
        (1000 * 86_400, (1000, "d")),
    ],
)
def test_the_unit_that_says_most_is_there_twice(seconds: float, expected: tuple[int, str]) -> None:
    assert expected == durations.in_largest_unit(timedelta(seconds=seconds))
