"""The dashboard of a sandbox as a person opens it: the printed address in a browser."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.browser import chromium
from helpers.dashboard_tab import Opened
from helpers.kubectl import needs_kubectl, run_kubectl

pytestmark = pytest.mark.slow

_SECONDS = 60.0
_GONE_SECONDS = 300.0  # nodes wait until they may go, and drain
# Keeps what every node is, each time that anything changes
_KEEP = """async ({ model }, signals) => {
  const { effect } = await import(signals);
  globalThis.seen = [];
  effect(() => {
    globalThis.seen.push(model.value.nodes.map((node) => node.state + (node.pods.length ? " with pods" : "")));
  });
}"""
# Keeps what nodes say with every view, what they cost, and whether the map has a grey cell of one that is gone
_WATCH = """async ({ live, model, present }, [signals, store]) => {
  const { effect } = await import(signals);
  const { signsOf } = await import(store);
  globalThis.kept = { signs: new Set(), costs: [], nodes: [], grey: new Set() };
  effect(() => {
    const { nodes } = model.value;
    for (const node of nodes) for (const sign of signsOf(node, present.peek())) kept.signs.add(sign.glyph);
    kept.nodes.push(nodes.length);
    kept.costs.push(live.peek().totals.hourly);
  });
  const copy = new OffscreenCanvas(600, 300).getContext("2d", { willReadFrequently: true });
  const look = () => {
    const canvas = document.querySelector(".map-frame canvas");
    copy.clearRect(0, 0, 600, 300);
    if (canvas?.width) copy.drawImage(canvas, 0, 0, 600, 300);
    const pixels = copy.getImageData(0, 0, 600, 300).data;
    let grey = 0;
    for (let at = 3; at < pixels.length; at += 4) grey += pixels[at] > 130 && pixels[at] < 150 && pixels[at - 3] > 200;
    if (grey > 500) kept.grey.add(model.peek().nodes.length);
    globalThis.isGrey = grey > 500;
  };
  setInterval(look, 250);
}"""
_KEPT = "({ ...kept, signs: [...kept.signs], grey: [...kept.grey] })"


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox") / "kubeconfig"


@pytest.fixture(scope="module")
def address(kubeconfig: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "karpenter", "sandbox", "--example"]
    running = subprocess.Popen(
        [*command, "--kubeconfig", str(kubeconfig)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "BROWSER": "none"},
    )
    assert running.stdout is not None
    try:
        lines = []
        for line in running.stdout:
            lines.append(line)
            if found := re.search(r"http://\S+/#token=\S+", line):
                yield found[0]
                break
        else:
            pytest.fail("the sandbox printed no address: " + "".join(lines))
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=_SECONDS)
    assert running.returncode in (0, 130)


@pytest.fixture(scope="module")
def opened(address: str) -> Iterator[Opened]:
    with chromium() as browser:
        yield Opened(browser, address)


@pytest.mark.case("DASH-1")
def test_the_printed_address_opens_the_page_and_says_nothing_on_the_console(
    opened: Opened, address: str
) -> None:
    base = address.partition("/#")[0]

    assert [] == opened.heard
    assert [] == [each for each in opened.asked if not each.startswith(f"{base}/")]
    assert f"{base}/#/" == opened.tab.url


@needs_kubectl
@pytest.mark.case("DASH-2")
def test_pods_get_cells_then_nodes_then_blocks_without_a_reload(
    opened: Opened, kubeconfig: Path
) -> None:
    loads = sum(each.endswith("/api/v1/view") for each in opened.asked)
    opened.module("stream.js", _KEEP, opened.address_of("vendor/signals.js"))

    run_kubectl(["scale", "deployment/inflate", "--replicas=20"], kubeconfig).check_returncode()

    opened.tab.wait_for_selector(".totals:has-text('20 running')", timeout=_SECONDS * 1000)
    seen = {state for states in opened.tab.evaluate("seen") for state in states}
    assert {"Claimed", "Starting", "Ready with pods"} <= seen
    assert re.search(r"launched: .*\bin test-zone", opened.text(".decisions"))
    assert loads == sum(each.endswith("/api/v1/view") for each in opened.asked)
    assert [] == opened.heard


def comes(tab: Any, expression: str) -> None:
    """Wait for something; Playwright's own way makes code of text, which the page forbids."""
    deadline = time.monotonic() + _SECONDS
    while not tab.evaluate(expression):
        assert time.monotonic() < deadline, expression
        tab.wait_for_timeout(50)


def scaled(opened: Opened, kubeconfig: Path, replicas: int, shown: str) -> None:
    """Scale the Deployment, and wait until the page's totals say something."""
    command = ["scale", "deployment/inflate", f"--replicas={replicas}"]
    run_kubectl(command, kubeconfig).check_returncode()
    opened.tab.wait_for_selector(f".totals:has-text('{shown}')", timeout=_GONE_SECONDS * 1000)


@needs_kubectl
@pytest.mark.case("DASH-3")
def test_nodes_without_pods_show_a_clock_drain_turn_grey_and_are_gone(
    opened: Opened, kubeconfig: Path
) -> None:
    tab = opened.tab
    scaled(opened, kubeconfig, 0, "Nodes ready0 of 0")
    places = [opened.address_of(name) for name in ("vendor/signals.js", "store.js")]
    opened.module("stream.js", _WATCH, places)
    scaled(opened, kubeconfig, 5, "5 running")

    scaled(opened, kubeconfig, 0, "Nodes ready0 of 0")
    comes(tab, "kept.grey.has(0)")
    comes(tab, "!isGrey")

    kept = tab.evaluate(_KEPT)
    assert {"◷", "▼"} <= set(kept["signs"])
    assert max(kept["costs"]) > 0
    assert abs(kept["costs"][-1] - kept["costs"][0]) < 1e-9
    assert [] == opened.heard
