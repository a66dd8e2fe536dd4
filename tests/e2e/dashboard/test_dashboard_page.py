"""The dashboard's page in a real browser, with the headers of the gate and answers that a test gives."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers import dashboard_answers, dashboard_sample
from helpers.browser import chromium
from helpers.dashboard_page import Page, served
from helpers.dashboard_tab import Opened
from karpenter.dashboard.contract import POD_STATES, View

pytestmark = pytest.mark.slow

AXE = Path(__file__).resolve().parents[3] / "build" / "browser" / "axe.min.js"
EVIL = "<img src=x onerror=alert(1)>"
NODE = "general-00007"
ROUTES = {
    "map": "#/",
    "table": "#/?view=table",
    "node": f"#/nodes/{NODE}",
    "pod": "#/pods/default/training",
    "pending": "#/pending",
    "pools": "#/pools",
    "pool": "#/pools/general",
    "cost": "#/cost",
    "decisions": "#/decisions",
    "what-if": f"#/what-if?drain={NODE}",
    "about": "#/about",
    "nothing": "#/no/such/page",
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    return dashboard_answers.answers(NODE)


@pytest.fixture(scope="module")
def browser(answers: dict[str, Any]) -> Iterator[Any]:
    # Answers are made first: commands have an event loop of their own, and so has playwright
    with chromium() as launched:
        yield launched


@pytest.fixture
def page(answers: dict[str, Any]) -> Iterator[Page]:
    with served(Page(dashboard_sample.sample(), copy.deepcopy(answers))) as running:
        yield running


@pytest.fixture
def opened(browser: Any, page: Page) -> Iterator[Opened]:
    found = Opened(browser, page.address)
    yield found
    found.context.close()


def test_every_page_is_shown_without_complaint(opened: Opened, page: Page) -> None:
    for route in ROUTES.values():
        opened.go(route)
        assert opened.text("main")

    assert [] == opened.heard
    assert [] == [each for each in opened.asked if not each.startswith((page.url, "blob:"))]
    assert "token" not in opened.tab.url


def test_pages_without_answers_say_so(browser: Any) -> None:
    with served(Page(dashboard_sample.sample())) as page:
        opened = Opened(browser, page.address)
        for route in ROUTES.values():
            opened.go(route)
            assert "NaN" not in opened.text("#app")
            assert "undefined" not in opened.text("#app")
        opened.go(ROUTES["node"])
        opened.sees("There is no explain/node")
        opened.context.close()

    # The browser itself notes each 404 on the console, and nothing else is there
    assert [] == [each for each in opened.heard if "404" not in each]


def test_a_wrong_token_leads_to_a_form_that_takes_the_right_one(browser: Any, page: Page) -> None:
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(f"{page.url}/#token=wrong")
    tab.wait_for_selector("#token")

    tab.fill("#token", page.address)
    tab.keyboard.press("Enter")

    tab.wait_for_selector(".status.live")
    assert "token" not in tab.url
    other = context.new_page()  # of the same browser: it is handed the token
    other.goto(page.url)
    other.wait_for_selector(".status.live")
    context.close()


def delta(view: View, **more: Any) -> dict[str, Any]:
    return {"seq": view.seq + 1, "at": "2026-11-18T10:00:01.000Z", **more}


def pod_row(view: View, number: int, **columns: Any) -> list[Any]:
    names = view.pods.__struct_fields__
    row = {name: getattr(view.pods, name)[0] for name in names}
    row |= {"id": number, "name": f"new-{number}", **columns}
    return [row[name] for name in names]


def test_changes_are_shown_as_they_come(opened: Opened, page: Page) -> None:
    view = page.view
    running = POD_STATES.index("Running")
    totals = msgspec.structs.replace(view.totals, pods=301)
    row = pod_row(view, 901, node=7, state=running)

    page.tell("delta", delta(view, pods={"set": [row], "del": []}, totals=totals))

    opened.tab.wait_for_selector(".totals:has-text('301')")
    opened.go(ROUTES["node"])
    opened.sees("new-901")
    assert 1 == sum(path == "/api/v1/view" for path, _ in page.asked)


@pytest.mark.case("DASH-7")
def test_a_missed_delta_makes_the_page_take_the_view_anew(opened: Opened, page: Page) -> None:
    view = page.view
    totals = msgspec.structs.replace(view.totals, pods=777)
    page.view = msgspec.structs.replace(view, seq=view.seq + 2, totals=totals)

    page.tell("delta", {**delta(view), "seq": view.seq + 2})

    opened.tab.wait_for_selector(".totals:has-text('777')")
    assert 2 == sum(path == "/api/v1/view" for path, _ in page.asked)
    assert [] == opened.heard


def test_a_lost_server_is_said_and_comes_back_without_a_reload(opened: Opened, page: Page) -> None:
    page.is_down = True
    page.drop()
    opened.tab.wait_for_selector(".banner [role=alert], .banner.warning:has-text('not reached')")
    assert "300" in opened.text(".totals"), "data stays"

    page.is_down = False
    opened.tab.click("text=try now")

    opened.tab.wait_for_selector(".status.live")


def test_a_question_that_cannot_be_answered_yet_is_asked_again(opened: Opened, page: Page) -> None:
    path = f"explain/node/{NODE}"
    told = page.answers[path]
    page.answers[path] = (503, {"error": "no machines are known yet", "problems": []})
    opened.go(ROUTES["node"])
    opened.sees("No machines are known yet")

    page.answers[path] = told

    opened.sees("It stays")


@pytest.mark.case("DASH-30")
def test_foreign_text_is_shown_and_never_runs(browser: Any, answers: dict[str, Any]) -> None:
    view = dashboard_sample.sample()
    view.dictionaries.owner[1] = f"Deployment/{EVIL}"
    view.dictionaries.namespace[1] = EVIL
    view.dictionaries.pool[1] = EVIL
    view.nodes.name[6] = EVIL
    view.pods.name[100] = EVIL
    view.notices[0].text = EVIL
    view.pools[0].name = EVIL
    answers = copy.deepcopy(answers)
    for record in answers["decisions"]["records"]:
        record["text"] = record["objects"][0] = EVIL
    with served(Page(view, answers)) as page:
        opened = Opened(browser, page.address)
        for route in (*ROUTES.values(), f"#/nodes/{EVIL.replace(' ', '%20')}", "#/?by=type"):
            opened.go(route)
        opened.go("#/decisions")
        opened.sees(EVIL)
        assert 0 == opened.tab.locator("img").count()
        opened.context.close()

    assert [] == [each for each in opened.heard if "404" not in each]


def test_what_was_seen_is_told_in_the_words_of_its_record(opened: Opened) -> None:
    for route in ("#/", "#/decisions"):
        opened.go(route)
        opened.tab.wait_for_selector(".decisions li")
        assert 1 == opened.text(".decisions").count("seen: ")


@pytest.mark.case("DASH-34")
def test_the_table_has_the_rows_of_the_map(opened: Opened) -> None:
    opened.tab.focus(".map-frame")
    opened.tab.keyboard.press("ArrowRight")
    spoken = opened.text("[role=gridcell]")
    first = opened.tab.get_attribute("[role=row]", "aria-rowindex")
    ids = opened.module(
        "stream.js",
        "async ({ model }) => { const layout = await import(new URL('layout.js', document.querySelector('script[type=module]').src));"
        " return layout.grouped(model.value.nodes, 'pool').flatMap((group) => group.nodes.map((node) => node.name)) }",
    )
    opened.tab.keyboard.press("t")
    opened.tab.wait_for_selector("tbody tr")

    names = opened.tab.locator("tbody tr td:first-child").all_inner_texts()
    words = opened.tab.eval_on_selector_all(
        "tbody tr", "rows => rows.map((row) => row.dataset.words)"
    )
    assert ids == names
    assert 40 == len(names)
    assert spoken == words[int(first or 0) - 1]


def test_the_map_is_searched_grouped_and_linked(opened: Opened) -> None:
    opened.tab.keyboard.press("/")
    opened.tab.keyboard.type("pool:spot is:draining")
    opened.sees("1 node")
    assert "q=pool" in opened.tab.url
    opened.tab.keyboard.press("Escape")
    opened.tab.keyboard.press("3")
    opened.tab.keyboard.press("c")
    assert "by=type" in opened.tab.url
    assert "color=owner" in opened.tab.url

    opened.tab.reload()
    opened.tab.wait_for_selector(".status.live")

    assert "pool:spot is:draining" == opened.tab.input_value("input[type=search]")


@pytest.mark.case("DASH-33")
def test_a_node_is_found_read_and_drained_with_keys_alone(opened: Opened, page: Page) -> None:
    keys = opened.tab.keyboard
    keys.press("/")
    keys.type(f"node:{NODE}")
    keys.press("Escape")
    opened.tab.keyboard.press("t")
    opened.tab.wait_for_selector("tbody tr")
    for _ in range(60):
        keys.press("Tab")
        focused = opened.tab.evaluate("document.activeElement.textContent")
        outline = opened.tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"{focused!r} has the focus and does not show it"
        if focused == NODE:
            break
    keys.press("Enter")
    opened.sees("PDB default/web allows 0 of 2 for pod default/web-0")
    for _ in range(60):
        keys.press("Tab")
        if "Drain it" in opened.tab.evaluate("document.activeElement.textContent"):
            break
    keys.press("Enter")
    opened.tab.wait_for_selector("#drain")
    assert NODE == opened.tab.input_value("#drain")
    opened.tab.focus("#drain")
    keys.press("Enter")
    opened.sees("What would change")

    assert [{"drain": [NODE]}] == page.posted
    opened.tab.go_back()
    opened.sees("Why it stays or goes")


def test_single_keys_can_be_switched_off(opened: Opened) -> None:
    opened.tab.keyboard.press("?")
    opened.tab.uncheck("dialog input[type=checkbox]")
    opened.tab.keyboard.press("Escape")
    opened.tab.keyboard.press("t")

    assert "view=table" not in opened.tab.url


@pytest.mark.case("DASH-11")
def test_a_pod_that_fits_nowhere_is_told_why(opened: Opened) -> None:
    opened.go(ROUTES["pod"])
    opened.sees("fits nowhere")

    lines = [
        " ".join(each.split()) for each in opened.tab.locator(".checks > li").all_inner_texts()
    ]
    assert any(
        each.startswith("✗") and "would fit if it tolerated dedicated=batch:NoSchedule" in each
        for each in lines
    )
    assert any(each.startswith("✓") and "taints: the pool has none" in each for each in lines)


@pytest.mark.case("DASH-12")
def test_a_node_that_is_held_is_told_by_whom_and_what_a_move_would_save(opened: Opened) -> None:
    opened.go(ROUTES["node"])
    opened.sees("First to change")

    told = opened.text()
    assert "It stays: PDB default/web allows 0 of 2 for pod default/web-0" in told
    assert "$0.0172/h" in told
    assert opened.tab.locator("main a[href='#/pods/default/web-0']").count()
    assert "karpenter explain node general-00007" in told


@pytest.mark.case("DASH-13")
@pytest.mark.case("DASH-14")
def test_a_pool_tells_its_prices_and_when_its_budgets_open(opened: Opened, page: Page) -> None:
    told = page.answers["explain/nodepool/general"]
    opened.go(ROUTES["pool"])
    opened.sees("The cheapest of each size")

    text = opened.text()
    out = sum(len(group["instanceTypes"]) for group in told["instanceTypes"]["excluded"])
    assert f"Instance types: {told['instanceTypes']['possible']} in, {out} out" in text
    table = opened.tab.locator("section:has-text('The cheapest of each size') tbody")
    types = table.locator("td:nth-child(3)").all_inner_texts()
    prices = table.locator("td:nth-child(6)").all_inner_texts()
    assert [each["cheapest"]["instanceType"] for each in told["prices"]] == types
    assert [f"${each['cheapest']['price']:.4f}/h" for each in told["prices"]] == prices
    assert f"of {len(types)} sizes" in opened.tab.get_attribute(".chart", "aria-label")
    assert "3 for Empty, 3 for Drifted, 3 for Underutilized" in text
    assert "opens Monday 09:00 UTC (in" in text


@pytest.mark.case("DASH-22")
def test_the_past_is_shown_as_it_was(opened: Opened, page: Page) -> None:
    then = dashboard_sample.sample()
    then.nodes.name[2] = "node-of-then"
    totals = msgspec.structs.replace(then.totals, pods=55, hourly=3.21)
    page.answers["view"] = msgspec.structs.replace(
        then, at="2026-11-18T09:00:00.000Z", is_live=False, totals=totals
    )
    opened.go("#/?at=2026-11-18T09:00:00.000Z")
    opened.tab.wait_for_selector(".totals:has-text('55')")
    opened.sees("This is the cluster as of 09:00:00 UTC")
    assert "$3.2100/h" in opened.text(".totals")
    opened.go("#/nodes/node-of-then?at=2026-11-18T09:00:00.000Z")
    opened.sees("Reasons of the past are those that were recorded")
    opened.go("#/what-if?at=2026-11-18T09:00:00.000Z")
    opened.sees("What-if is off in the past.")
    assert 0 == opened.tab.locator("form.form").count()

    opened.tab.keyboard.press("L")

    opened.tab.wait_for_selector("form.form")
    assert "at=" not in opened.tab.url


@pytest.mark.case("DASH-35")
def test_nothing_moves_for_those_who_ask_for_that(browser: Any, page: Page) -> None:
    opened = Opened(browser, page.address, reduced_motion="reduce")

    moving = opened.tab.evaluate(
        "[...document.querySelectorAll('*')].filter((each) => { const style = getComputedStyle(each);"
        " return style.animationName !== 'none' || parseFloat(style.transitionDuration) > 0 }).length"
    )
    assert 0 == moving
    states = opened.module(
        "stream.js",
        "async ({ model }) => { const { signsOf } = await import(new URL('store.js', document.querySelector('script[type=module]').src));"
        " return Object.fromEntries(model.value.nodes.map((node) => [node.state, signsOf(node, 0).filter((sign) => sign.key !== 'spot').map((sign) => sign.glyph).join('')])) }",
    )
    told = [
        states[each] for each in ("Claimed", "Starting", "Draining", "NotReady") if each in states
    ]
    assert len(told) == len(set(told)) >= 3, "each state has a glyph of its own"
    opened.context.close()


_AXE_RUN = (
    "async () => (await axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}))"
    ".violations.map((each) => `${each.id}: ${each.nodes[0].html} ${each.nodes[0].failureSummary}`)"
)


@pytest.mark.case("DASH-32")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1600), ("dark", 320)])
def test_every_page_can_be_used_by_everybody(
    browser: Any, page: Page, scheme: str, width: int
) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core was not fetched: make browser")
    opened = Opened(
        browser, page.address, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    opened.tab.context.add_init_script(path=str(AXE))
    opened.tab.reload()
    opened.tab.wait_for_selector(".status.live")
    found = {}
    for name, route in ROUTES.items():
        opened.go(route)
        opened.tab.wait_for_selector("main:not(:has-text('working out'))")
        found[name] = opened.tab.evaluate(_AXE_RUN)
        assert width >= opened.tab.evaluate("document.documentElement.scrollWidth"), name
    # What is old fades, and has to be read all the same
    opened.go(ROUTES["cost"])
    opened.tab.wait_for_selector("main:not(:has-text('working out'))")
    opened.tab.evaluate("document.querySelector('main').classList.add('stale')")
    found["cost that is old"] = opened.tab.evaluate(_AXE_RUN)
    opened.context.close()

    assert {} == {name: each for name, each in found.items() if each}
