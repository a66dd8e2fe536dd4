"""The report on a terminal."""

import pytest

from helpers.reports import report, variant
from karpenter.api.meta import JsonObject
from karpenter.simulate.report.table import MOST_LINES, length, table


def test_a_table_has_a_column_for_each_variant() -> None:
    lines = table(report(variant("now", cost=10), variant("balanced", cost=8.5))).splitlines()

    assert ["now", "balanced"] == lines[2].split()
    assert ["cost", "$10.00", "$8.50"] == lines[3].split()


def test_a_table_is_never_longer_than_forty_lines() -> None:
    waiting = [
        {"pod": f"default/p-{n}", "since": 0.0, "seconds": 60.0, "reason": "no room"}
        for n in range(100)
    ]
    pods = {**variant()["pods"], "unscheduled": waiting}
    many = [
        variant(f"v{n}", pods=pods, invariants=[broken_promise(f"A{k}") for k in range(9)])
        for n in range(9)
    ]

    lines = table(report(*many)).splitlines()

    assert len(lines) <= MOST_LINES
    assert "-o json has them all" in lines[-1]


def broken_promise(name: str) -> JsonObject:
    broken = {"at": 61.0, "text": "default/web-1 evicted with no disruption allowed"}
    return {"id": name, "promise": "we break no PDB", "judged": 9, "broken": [broken]}


def test_what_broke_comes_before_what_held() -> None:
    held = {"path": "x", "value": 1, "held": True, "sentence": "x is 1"}

    lines = table(
        report(variant(invariants=[broken_promise("A1")], expectations=[held]))
    ).splitlines()

    assert [
        "✗ A1 at 1 min 1 s: default/web-1 evicted with no disruption allowed",
        "✓ x is 1",
    ] == lines[-2:]


def test_names_cannot_control_the_terminal() -> None:
    text = table(report(name="evil\x1b[2J"))

    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.25, "0.25 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (90000, "1 d 1 h")],
)
def test_lengths_are_in_their_two_largest_units(seconds: float, expected: str) -> None:
    assert expected == length(seconds)
