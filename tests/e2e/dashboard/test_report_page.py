"""The page of a report in a real browser, from a file and without a network."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.browser import chromium
from helpers.reports import report, variant
from karpenter.simulate.report.html import page

pytestmark = pytest.mark.slow

OPEN = Callable[..., Any]
EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Iterator[OPEN]:
    """Opens a report; whatever the page says or asks for is noted on it."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})

    def show(document: Any, source: str = "") -> Any:
        file = tmp_path / "report.html"
        file.write_text(page(document, source), "utf-8")
        opened = context.new_page()
        opened.heard = []
        opened.asked = []
        opened.on("console", lambda message: opened.heard.append(message.text))
        opened.on("pageerror", lambda error: opened.heard.append(str(error)))
        opened.on("dialog", lambda dialog: opened.heard.append(dialog.message))
        opened.on("request", lambda request: opened.asked.append(request.url))
        opened.goto(file.as_uri())
        opened.wait_for_selector("html[data-ready=yes]", state="attached")
        return opened

    yield show
    context.close()


def cursors(opened: Any) -> list[float]:
    """Where the cursor of each plot is, as a part of the plot's width."""
    read = """() => [...document.querySelectorAll('.u-over')].map(over =>
        new DOMMatrix(getComputedStyle(over.querySelector('.u-cursor-x')).transform).m41
        / over.clientWidth)"""
    found: list[float] = opened.evaluate(read)
    return found


@pytest.mark.case("SIM-39")
def test_a_page_asks_for_nothing_and_nothing_goes_wrong(shown: OPEN) -> None:
    opened = shown(report(variant("now"), variant("balanced", cost=8.0), notes=["networks"]))

    assert [] == opened.heard
    assert [opened.url] == opened.asked
    assert 11 == opened.locator(".uplot").count()
    assert opened.locator(".plot").count() == opened.locator(".plot > details").count()


@pytest.mark.case("SIM-39")
def test_cursors_are_linked(shown: OPEN) -> None:
    opened = shown(report(variant("now"), variant("balanced")))
    plot = opened.locator(".u-over").nth(2)
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()

    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)

    places = cursors(opened)
    assert len(places) > 5
    assert all(place == pytest.approx(0.5, abs=0.03) for place in places)
    assert opened.inner_text("#now").startswith("00:")


@pytest.mark.case("SIM-39")
def test_every_plot_has_its_numbers(shown: OPEN) -> None:
    opened = shown(report(variant("now")))

    for number in range(opened.locator(".plot > details").count()):
        details = opened.locator(".plot > details").nth(number)
        details.locator("summary").click()
        details.locator("tbody tr").first.wait_for()


def test_decisions_can_be_searched_and_move_all_cursors(shown: OPEN) -> None:
    entry = variant()["timeline"][0]
    told = [entry, {**entry, "at": 600.0, "sentence": "node-2 goes: it has drifted"}]
    opened = shown(report(variant(timeline=told)))

    opened.fill("input[type=search]", "DRIFTED node-2")
    opened.locator("td button:visible").click()

    assert "00:10:00" == opened.inner_text("#now")
    assert all(place == pytest.approx(600 / 1140, abs=0.02) for place in cursors(opened))


def test_the_keyboard_moves_the_cursor(shown: OPEN) -> None:
    opened = shown(report(variant()))

    opened.locator("[role=group]").first.focus()
    for _ in range(3):
        opened.keyboard.press("ArrowRight")

    assert "00:03:00" == opened.inner_text("#now")


def test_another_variant_is_shown_on_request(shown: OPEN) -> None:
    opened = shown(report(variant("now"), variant("balanced")))

    opened.click("text=balanced >> nth=0")

    assert "Over time: balanced" in opened.inner_text("main")
    assert [] == opened.heard


@pytest.mark.case("SIM-40")
def test_foreign_text_is_shown_and_never_runs(shown: OPEN) -> None:
    life = {**variant()["lifelines"][0], "name": EVIL, "reason": EVIL}
    entry = {**variant()["timeline"][0], "sentence": EVIL, "reason": EVIL}
    waiting = {"pod": EVIL, "since": 0.0, "seconds": 1.0, "reason": EVIL}
    evil = variant(
        EVIL,
        lifelines=[life],
        timeline=[entry],
        problems=[EVIL],
        pods={**variant()["pods"], "unscheduled": [waiting]},
        series={**variant()["series"], "nodesByPool": {EVIL: variant()["series"]["nodes"]}},
    )

    opened = shown(report(evil, variant("other"), name=EVIL, notes=[EVIL]), EVIL)

    assert EVIL == opened.inner_text("h1")
    assert 0 == opened.locator("img").count()
    assert [] == opened.heard
    assert [opened.url] == opened.asked


@pytest.mark.case("SIM-41")
def test_four_variants_of_a_week_stand_side_by_side(shown: OPEN) -> None:
    found = report(
        *(variant(f"v{n}", cost=9.0 - n, evictions=n, points=60_480, step=10.0) for n in range(4))
    )

    opened = shown(found)

    assert 5 == opened.locator("thead").first.locator("th").count()
    beaten_by_nobody = ", ".join(found["comparison"]["frontier"])
    assert (
        f"No variant beats these in both cost and evictions: {beaten_by_nobody}."
        in opened.inner_text("main")
    )
    assert 4 == opened.locator("svg circle").count()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_part_of_the_page_is_wider_than_the_window(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(report(variant("now"), variant("x" * 80))), "utf-8")
    opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)

    opened.goto(file.as_uri())

    assert width >= opened.evaluate("document.documentElement.scrollWidth")
    opened.close()
