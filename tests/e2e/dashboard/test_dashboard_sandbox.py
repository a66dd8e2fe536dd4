"""The dashboard of a sandbox as a person opens it: the printed address in a browser."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.browser import chromium
from helpers.dashboard_tab import Opened
from helpers.kubectl import needs_kubectl, run_kubectl

pytestmark = pytest.mark.slow

_SECONDS = 60.0
# Keeps what every node is, each time that anything changes
_KEEP = """async ({ model }, signals) => {
  const { effect } = await import(signals);
  globalThis.seen = [];
  effect(() => {
    globalThis.seen.push(model.value.nodes.map((node) => node.state + (node.pods.length ? " with pods" : "")));
  });
}"""


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
