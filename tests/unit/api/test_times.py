"""Sums of times and lengths from outside exist, whatever is added, and nobody adds them otherwise."""

import ast
import functools
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import karpenter
from karpenter.api.times import (
    FIRST,
    LAST,
    earlier,
    in_nanoseconds,
    in_seconds,
    in_utc,
    later,
    within_bounds,
)
from karpenter.model.conditions import moment_of, timestamp

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(timezones=ZONES) | st.sampled_from([FIRST, LAST])
LENGTHS = st.timedeltas() | st.sampled_from([timedelta.min, timedelta.max])


@given(MOMENTS, LENGTHS)
def test_a_sum_is_exact_or_the_nearest_time_there_is(moment: datetime, length: timedelta) -> None:
    for sum_, way in ((later(moment, length), 1), (earlier(moment, length), -1)):
        # in exact arithmetic, which knows no last time
        exact = (moment - FIRST) // timedelta(microseconds=1) + way * (
            length // timedelta(microseconds=1)
        )
        if sum_ not in (FIRST, LAST):
            assert exact == (sum_ - FIRST) // timedelta(microseconds=1)
        elif sum_ == FIRST:
            assert exact <= timedelta(days=1) // timedelta(microseconds=1)
        else:
            assert exact >= (LAST - FIRST - timedelta(days=1)) // timedelta(microseconds=1)


@given(st.integers())
def test_a_length_is_exact_or_the_longest_there_is(amount: int) -> None:
    length = in_seconds(amount)
    if length not in (timedelta.min, timedelta.max):
        assert amount == length // timedelta(seconds=1)
    assert (amount > 0) == (length > timedelta(0))
    assert abs(in_nanoseconds(amount * 10**9) - length) <= abs(length) * 1e-12


@pytest.mark.parametrize(
    ("nanoseconds", "microseconds"),
    [(0, 0), (1, 0), (999, 0), (1000, 1), (1999, 1), (-1, 0), (-1999, -1)],
)
def test_nanoseconds_are_cut_to_whole_microseconds(nanoseconds: int, microseconds: int) -> None:
    assert timedelta(microseconds=microseconds) == in_nanoseconds(nanoseconds)


@given(st.integers(-(2**63), 2**63 - 1))
def test_nanoseconds_lose_less_than_a_microsecond_towards_nothing(nanoseconds: int) -> None:
    found = in_nanoseconds(nanoseconds) // timedelta(microseconds=1) * 1000

    assert abs(found) <= abs(nanoseconds) < abs(found) + 1000
    assert nanoseconds * found >= 0


@pytest.mark.parametrize("amount", [10**400, 2**63 - 1, 1_000_000_000_000])
def test_more_seconds_than_there_are_times_saturate(amount: int) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)

    assert LAST == later(now, in_seconds(amount)) == earlier(now, in_seconds(-amount))
    assert FIRST == earlier(now, in_seconds(amount)) == later(now, in_seconds(-amount))
    assert timedelta.max == in_nanoseconds(amount * 10**20)


@given(MOMENTS)
def test_a_time_is_written_with_four_digits_of_year_and_in_utc(moment: datetime) -> None:
    text = timestamp(moment)

    assert text is not None
    assert 20 == len(text)
    read = moment_of(text)
    assert read is not None
    assert read == in_utc(moment).replace(microsecond=0)
    assert abs(read - moment) < timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000-01-01T00:00:00Z", FIRST),
        ("-0001-12-31T23:00:00Z", FIRST),
        ("10000-01-01T00:59:59Z", LAST),
        ("292277026596-12-04T15:30:07Z", LAST),
        ("0000-12-31T23:59:59.999999Z", FIRST),
        ("2030-01-01T00:00:00Z", datetime(2030, 1, 1, tzinfo=UTC)),
    ],
)
def test_years_beyond_those_of_python_are_the_first_or_the_last(
    text: str, expected: datetime
) -> None:
    assert expected == moment_of(text)


@pytest.mark.parametrize("text", ["", "soon", "0000-01-01", "9" * 100 + "-01-01T00:00:00Z"])
def test_what_is_no_time_stays_what_it_is(text: str) -> None:
    assert text == within_bounds(text)
    assert moment_of(text) is None


@functools.cache
def sources() -> tuple[tuple[Path, tuple[ast.AST, ...]], ...]:
    """What the product's modules that speak of lengths consist of.

    The sandbox plays the server, and keeps its times by itself.
    """
    root = Path(karpenter.__file__).parent
    read = ((path.relative_to(root), path.read_text()) for path in sorted(root.rglob("*.py")))
    return tuple(
        (place, tuple(ast.walk(ast.parse(text))))
        for place, text in read
        if place.parts[0] != "sandbox"
        and place.as_posix() not in ("api/times.py", "clock.py")
        and re.search(r"datetime|timedelta|clock\.now", text)
    )


def is_length(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in (
        "timedelta",
        "in_seconds",
        "in_nanoseconds",
        "durations.parse",
        "durations.period",
    )


def named_lengths() -> set[str]:
    """The names of everything that is known to be a length of time."""
    names = set()
    for _, nodes in sources():
        for node in nodes:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                    if is_length(value):
                        names.add(name)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
                    if "timedelta" in ast.unparse(kind):
                        names.add(name)
                case ast.arg(arg=name, annotation=kind) if kind is not None:
                    if ast.unparse(kind).startswith("timedelta"):
                        names.add(name)
    return names


def test_no_sum_of_a_time_and_a_length_goes_around_the_helpers() -> None:
    lengths = named_lengths()

    def is_any_length(node: ast.expr) -> bool:
        name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        return is_length(node) or name in lengths

    bare = [
        f"{place}:{node.lineno}: {ast.unparse(node)}"
        for place, nodes in sources()
        for node in nodes
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add | ast.Sub)
        and (
            is_any_length(node.right) or (isinstance(node.op, ast.Add) and is_any_length(node.left))
        )
    ]

    assert [] == bare


def test_no_length_is_made_of_a_number_that_could_be_too_large() -> None:
    made = [
        f"{place}:{node.lineno}: {ast.unparse(node)}"
        for place, nodes in sources()
        for node in nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "timedelta"
        and not all(is_fixed(each) for each in [*node.args, *(k.value for k in node.keywords)])
    ]

    assert [] == made


def is_fixed(node: ast.expr) -> bool:
    """Whether an expression consists of numbers that stand in the source."""
    return all(isinstance(each, ast.Constant | ast.BinOp | ast.operator) for each in ast.walk(node))
