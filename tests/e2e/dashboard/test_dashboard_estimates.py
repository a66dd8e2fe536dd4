"""On AWS without credentials all prices are estimates, and every amount of the dashboard says so."""

import csv
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.browser import chromium

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PATIENCE = 120.0  # seconds, on a busy machine
NODE = "general-7k2xv"
# Each page, and what it shows once its answers are there
PAGES = {
    "#/": ".totals",
    "#/?view=table": "table",
    "#/pools": "table",
    "#/pools/general": "text=The cheapest of each size",
    "#/pools/gpu": "text=The cheapest of each size",
    f"#/nodes/{NODE}": "text=of its price",
    "#/pods/default/web-0": "text=the cheapest",
    "#/pods/default/training": "text=the cheapest",
    "#/cost": "text=By owner",
}
# An amount; nothing costs exactly nothing
AMOUNT = re.compile(r"(~?)\N{MINUS SIGN}?\$(?=[\d,.]*[1-9])[\d,.]+")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where ``karpenter dashboard`` serves manifests of EC2NodeClasses."""
    command = ["dashboard", "--port", "0", "--no-open", "--provider", "aws", "examples/aws-plan"]
    process = subprocess.Popen(
        [sys.executable, "-m", "karpenter", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="module")
def tab(address: str) -> Iterator[Any]:
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        found = context.new_page()
        found.set_default_timeout(PATIENCE * 1000)
        found.goto(address)
        yield found


def go(tab: Any, route: str, shown: str) -> None:
    tab.evaluate("route => { location.hash = route }", route)
    tab.wait_for_selector(f"main >> {shown}")


def amounts(text: str) -> list[tuple[str, bool]]:
    """The amounts of a text, and whether each is marked as an estimate."""
    return [(found[0], bool(found[1])) for found in AMOUNT.finditer(text)]


@pytest.mark.case("DASH-21")
@pytest.mark.parametrize("route", PAGES)
def test_every_amount_of_a_page_is_marked(tab: Any, route: str) -> None:
    go(tab, route, PAGES[route])

    found = amounts(tab.inner_text("main"))
    assert found
    assert [] == [amount for amount, is_marked in found if not is_marked]


@pytest.mark.case("DASH-21")
def test_what_a_change_would_cost_is_marked(tab: Any) -> None:
    go(tab, f"#/what-if?drain={NODE}", "button.primary")
    tab.click("main button.primary")
    tab.wait_for_selector("text=It would cost")

    found = amounts(tab.inner_text("main"))
    assert found
    assert [] == [amount for amount, is_marked in found if not is_marked]


@pytest.mark.case("DASH-21")
def test_every_amount_of_a_csv_is_marked(tab: Any) -> None:
    go(tab, "#/cost", "text=By owner")
    buttons = tab.get_by_role("button", name="CSV")
    seen = set()
    for number in range(buttons.count()):
        with tab.expect_download() as download:
            buttons.nth(number).click()
        text = Path(download.value.path()).read_text("utf-8")
        for row in csv.DictReader(io.StringIO(text)):
            seen.add(download.value.suggested_filename)
            amounts = [row[column] for column in ("hourly", "monthly") if column in row]
            assert amounts
            assert all(each.startswith("~") for each in amounts)
            assert "true" == row["isEstimate"]

    assert {"cost-by-pool.csv", "cost-by-owner.csv", "cost-over-time.csv"} <= seen


@pytest.mark.case("DASH-21")
def test_every_amount_of_the_answers_is_marked(tab: Any) -> None:
    paths = ("view", "costs", f"explain/node/{NODE}", "explain/nodepool/gpu")
    base = tab.evaluate("document.querySelector('script[type=module]').src")
    asked = "async ([url, path]) => (await import(url)).got(path)"
    # Savings take a plan, so the first answers may come without them
    go(tab, "#/cost", "text=blocked, up to")
    view, costs, node, pool = (
        tab.evaluate(asked, [base.replace("app.js", "api.js"), path]) for path in paths
    )

    assert all(view["nodes"]["isEstimate"])
    assert view["totals"]["isEstimate"]
    assert all(each["isEstimate"] for each in view["pools"] if each["hourly"])
    assert costs["isEstimate"]
    rows = [row for table in costs["tables"] for row in table["rows"]]
    assert rows
    assert all(each["isEstimate"] for each in rows if each["hourly"])
    assert costs["savings"]["isEstimate"]
    assert node["isEstimate"]
    assert all(each["cheapest"]["isEstimate"] for each in pool["prices"])
