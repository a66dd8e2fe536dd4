"""``karpenter plan --rebalance`` says what moving pods would save, and changes nothing."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from helpers.commands import run
from karpenter.report.provisioning import plan_schema

EXAMPLE = str(Path(__file__).resolve().parents[4] / "examples" / "rebalance")
SCHEMA = jsonschema_rs.Draft202012Validator(json.loads(plan_schema()))
USUAL = [EXAMPLE, "--now", "2026-08-01T12:00:00Z", "--set", "PACKING_MIN_TYPES=2"]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")


def data(*args: str) -> dict[str, Any]:
    ran = run("plan", *USUAL, "-o", "json", *args)
    assert 0 == ran.code, ran.err
    document: dict[str, Any] = json.loads(ran.out)
    SCHEMA.validate(document)
    return document


def test_the_example_saves_a_fifth() -> None:
    found = data("--rebalance")["rebalance"]

    assert [0, 5, 10, 25, 50, 100] == [row["percent"] for row in found["frontier"]]
    assert [0, 0, 0, 3, 6, 9] == [row["movedPods"] for row in found["frontier"]]
    last = found["frontier"][-1]
    assert ["general-a", "general-b", "general-c"] == sorted(last["candidates"])
    assert 6 == len(last["replacements"])
    assert 0.3258 == pytest.approx(last["savingsHourly"], abs=1e-4)
    assert last["hourly"] == pytest.approx(found["nowHourly"] - last["savingsHourly"])
    assert last["savingsPerPodMonthly"] == pytest.approx(last["savingsHourly"] * 730 / 9)
    assert found["lowerBoundHourly"] <= found["cluster"]["cheapestHourly"] <= last["hourly"]
    assert (14, 5) == (found["reschedulablePods"], found["heldPods"])


def test_the_plan_itself_stays_as_it_is() -> None:
    plain, beside = data(), data("--rebalance")

    assert "rebalance" not in plain
    assert plain == {key: part for key, part in beside.items() if key != "rebalance"}
    assert [] == plain["disruption"]["commands"]


def test_what_is_announced_is_what_the_method_does() -> None:
    switched_on = ["--set", "REBALANCE=On", "--set", "REBALANCE_MOVES=100%"]

    found = data("--rebalance=100", *switched_on)

    (row,) = found["rebalance"]["frontier"]
    (command,) = found["disruption"]["commands"]
    assert "" == row["refused"]
    assert ("rebalance", row["candidates"], row["replacements"]) == (
        command["method"],
        command["candidates"],
        command["replacements"],
    )


def test_only_an_equals_sign_gives_it_a_value() -> None:
    shown = run("plan", "--rebalance", *USUAL, "--only", "rebalance")
    some = run("plan", "--rebalance=50%,25,50", *USUAL, "--only", "rebalance")

    assert (0, 0) == (shown.code, some.code)
    assert "What moving pods would save: now $1.7374 per hour" in shown.out
    rows = [line.split() for line in some.out.splitlines() if line.strip()[:1].isdigit()]
    assert ["25%", "50%"] == [row[0] for row in rows if row[0].endswith("%")]


def test_the_table_names_what_is_refused() -> None:
    ran = run("plan", *USUAL, "--only", "rebalance")

    assert 0 == ran.code
    row = next(line for line in ran.out.splitlines() if line.strip().startswith("100%"))
    assert ["100%", "9", "3", "6", "1.4117", "18.7%", "$26.42", "MoveBudget"] == row.split()
    assert "MoveBudget at 25%: it would move 3 pods, and 1 of 1 may be moved" in ran.out
    assert "No node to create" not in ran.out


@pytest.mark.parametrize("text", ["abc", "", "101", "-1", "nan", "5,,10", "5;10"])
def test_percentages_that_cannot_be_read_are_refused_in_one_sentence(text: str) -> None:
    ran = run("plan", *USUAL, f"--rebalance={text}")

    assert (2, "") == (ran.code, ran.out)
    assert [
        f"error: --rebalance: {text!r} is no list of percentages from 0 to 100 such as 5,25,100"
    ] == ran.errors


def test_a_node_tells_its_excess_and_which_pods_are_cheap_to_move() -> None:
    ran = run("explain", "node", "general-b", *USUAL, "-o", "json")

    assert 0 == ran.code, ran.err
    excess = json.loads(ran.out)["excess"]
    assert excess["excess"] == pytest.approx(excess["price"] - excess["shares"])
    assert excess["shares"] == pytest.approx(sum(pod["share"] for pod in excess["pods"]))
    assert ["default/index-b-0", "default/index-b-1", "default/index-b-2"] == [
        pod["pod"] for pod in excess["pods"]
    ]
    shown = run("explain", "node", "general-b", *USUAL)
    assert "costs $0.1086/h ($79.27/month) more than its pods are worth" in shown.out
