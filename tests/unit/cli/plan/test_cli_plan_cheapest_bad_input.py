"""``plan --packing cheapest`` with values, prices and a solver that are no good: one sentence each."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import instance_type, planned, pod, pool, put
from helpers.commands import run
from karpenter.scheduling.cheapest import configurations, solver_library

CHEAPEST = ("--packing", "cheapest", "--set", "PACKING_NODE_COST=0", "--set", "PACKING_MIN_TYPES=1")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def sixteen(**metadata: Any) -> str:
    """Pods that Karpenter's order puts on one large machine, and a pool of which more may be said."""
    general = pool()
    general["metadata"].update(metadata)
    return put("c.json", general, *(pod(f"web-{n}", cpu="900m") for n in range(16)))


def sold(*more: dict[str, Any]) -> tuple[str, str]:
    sizes = {"small": ("2", 0.1), "large": ("8", 0.36), "huge": ("32", 2.0)}
    types = [instance_type(name, cpu, price=price) for name, (cpu, price) in sizes.items()]
    Path("types.json").write_text(json.dumps([*types, *more]), "utf-8")
    return "--instance-types", "types.json"


def packing(*args: str) -> tuple[float, dict[str, Any]]:
    """What a plan costs, and how it was packed."""
    cost = planned(sixteen(), *sold(), *CHEAPEST, *args)["cost"]
    return cost["hourly"], cost["packing"]


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("PACKING=cheap", "PACKING"),
        ("PACKING_BUDGET=-1s", "PACKING_BUDGET"),
        ("PACKING_BUDGET=soon", "PACKING_BUDGET"),
        ("PACKING_NODE_COST=-1", "PACKING_NODE_COST"),
        ("PACKING_NODE_COST=nan", "PACKING_NODE_COST"),
        ("PACKING_NODE_COST=inf", "PACKING_NODE_COST"),
        ("PACKING_MIN_TYPES=0", "PACKING_MIN_TYPES"),
        ("PACKING_MIN_TYPES=5,many", "PACKING_MIN_TYPES"),
        ("PACKING_MIN_TYPES=1,2,3", "PACKING_MIN_TYPES"),
        ("PACKING_PRICE_SLACK=-5%", "PACKING_PRICE_SLACK"),
        ("PACKING_PRICE_SLACK=much", "PACKING_PRICE_SLACK"),
    ],
)
def test_a_setting_that_is_no_good_is_one_sentence(assignment: str, said: str) -> None:
    ran = run("plan", sixteen(), *sold(), "--set", assignment)

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert said in ran.err


def test_a_packing_that_there_is_not_is_one_sentence() -> None:
    ran = run("plan", sixteen(), *sold(), "--packing", "best")

    assert (2, "") == (ran.code, ran.out)
    assert "'best' is not one of 'karpenter', 'cheapest'" in ran.err


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("packing", "best", "'best' is neither karpenter nor cheapest"),
        ("min-types", "0", "min-types"),
        ("min-types", "1,x", "min-types"),
        ("node-cost", "nan", "node-cost"),
        ("node-cost", "-1", "node-cost"),
        ("node-cost", "", "node-cost"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_one_warning_and_the_setting_counts(
    key: str, value: str, said: str
) -> None:
    file = sixteen(annotations={f"cost.karpenter.sh/{key}": value})

    plan = planned(file, *sold(), *CHEAPEST)

    (event,) = [each for each in plan["events"] if each["reason"] == "InvalidCostAnnotation"]
    assert ("Warning", "NodePool/general") == (event["type"], event["object"])
    assert said in event["message"]
    assert "the setting counts instead" in event["message"]
    assert 0.72 == pytest.approx(plan["cost"]["hourly"])


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("packing", "best", "'best' is neither karpenter nor cheapest; the setting counts instead"),
        ("spot-percentage", "150", "cost.karpenter.sh/spot-percentage"),
        ("return-to-spot", "soon", "cost.karpenter.sh/return-to-spot"),
    ],
)
def test_an_annotation_that_cannot_be_read_stands_among_what_cannot_be_used(
    key: str, value: str, said: str
) -> None:
    file = sixteen(annotations={f"cost.karpenter.sh/{key}": value})

    ran = run("plan", file, *sold(), "--only", "provisioning")

    _, _, shown = ran.out.partition("What cannot be used")
    told = " ".join(shown.split())
    assert told.startswith("NodePool general ")
    assert said in told


@pytest.mark.parametrize("price", [float("nan"), float("inf"), -1, "cheap"])
def test_a_price_that_is_none_is_one_sentence(price: Any) -> None:
    ran = run("plan", sixteen(), *sold(instance_type("odd", "64", price=price)), *CHEAPEST)

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert "price" in ran.err
    assert "types.json" in ran.err


def test_a_price_of_zero_is_taken_for_what_it_is() -> None:
    plan = planned(sixteen(), *sold(instance_type("free", "8", price=0)), *CHEAPEST)

    assert 0 == plan["cost"]["hourly"]
    assert {"free"} == {claim["launch"]["instanceType"] for claim in plan["nodeClaims"]}
    assert plan["cost"]["gapPercent"] is None


@pytest.mark.parametrize("price", [{}, {"price": None}, {"price": 0}], ids=["none", "null", "0"])
def test_a_price_that_is_missing_counts_as_zero_and_is_pointed_out(price: dict[str, Any]) -> None:
    odd = instance_type("odd", "64")
    del odd["offerings"][0]["price"]
    odd["offerings"][0].update(price)

    ran = run("plan", sixteen(), *sold(odd), *CHEAPEST)
    plain = run("plan", sixteen(), *sold(odd))

    assert (0, 1) == (ran.code, len(ran.warnings))
    assert (
        "types.json: instance type odd costs nothing; a price that is missing counts as 0"
        in ran.err
    )
    assert "" == plain.err


def test_an_absent_solver_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    solver_library.library.cache_clear()
    try:
        hourly, how = packing()
        ran = run("plan", sixteen(), *sold(), *CHEAPEST)
    finally:
        solver_library.library.cache_clear()

    assert 0.72 == pytest.approx(hourly)
    assert "builtin" == how["solver"]
    assert (0, "") == (ran.code, ran.err)
    lines = [line for line in ran.out.splitlines() if "solver" in line]
    assert [
        "Packed without the solver: highspy is not installed; install the extra karpenter[optimize]"
    ] == lines


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("it broke"),
        AttributeError("module has no attribute Highs"),
        OSError("no such library"),
        ValueError("shapes differ"),
        MemoryError("too large"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_solver_that_crashes_is_one_line_and_plans_go_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def crash(highspy: object) -> None:
        raise error

    monkeypatch.setattr(configurations, "quiet", crash)

    hourly, how = packing()
    ran = run("plan", sixteen(), *sold(), *CHEAPEST)

    assert 0.72 == pytest.approx(hourly)
    assert "builtin" == how["solver"]
    assert (0, "") == (ran.code, ran.err)
    assert f"Packed without the solver: the solver failed: {type(error).__name__}" in ran.out


def test_a_solver_that_ends_without_a_result_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(highspy: object, highs: object) -> None:
        raise solver_library.SolverError("the solver ended with Infeasible")

    monkeypatch.setattr(configurations, "run", refuse)

    hourly, how = packing()

    assert 0.72 == pytest.approx(hourly)
    assert "builtin" == how["solver"]


@pytest.mark.parametrize("budget", ["0s", "1ms"])
def test_a_budget_in_which_nothing_is_found_leaves_the_other_packings(budget: str) -> None:
    hourly, how = packing("--set", f"PACKING_BUDGET={budget}")

    assert 0.72 == pytest.approx(hourly)
    assert not how["isCut"]  # the budget is counted, so every machine ends at the same point
