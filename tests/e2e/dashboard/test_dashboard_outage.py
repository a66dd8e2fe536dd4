"""The page of a companion while the API server is away: it says so, keeps what it has, and catches up."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from control_plane.cluster import ControlPlane
from helpers.browser import chromium
from helpers.dashboard_tab import Opened
from helpers.real_cluster import RealCluster, real_cluster

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]
PATIENCE = 180.0  # seconds, on a busy machine
# The names of nodes in every view that the page has had, and how often a name is there twice
_KEEP = """async ({ live }, signals) => {
  const { effect } = await import(signals);
  globalThis.kept = { names: [], doubled: 0 };
  effect(() => {
    const { name, id } = live.value.nodes;
    kept.names = [...name].sort();
    kept.doubled += Number(new Set(name).size < name.length || new Set(id).size < id.length);
  });
}"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("outage")) as running:
        yield running


@pytest.fixture
def address(cluster: RealCluster, tmp_path: Path) -> Iterator[str]:
    """Where ``karpenter dashboard`` serves the cluster."""
    command = [sys.executable, "-m", "karpenter", "dashboard", "--port", "0"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(cluster.kubeconfig)],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(PATIENCE)
        assert "Traceback" not in (tmp_path / "said").read_text("utf-8")
    finally:
        process.kill()
        process.communicate()


def add_node(plane: ControlPlane, name: str) -> None:
    labels = {"topology.kubernetes.io/zone": "here"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    plane.send("POST", "/api/v1/nodes", node)


@pytest.mark.case("DASH-36")
def test_while_the_api_server_is_away_what_was_known_stays_with_its_age(
    cluster: RealCluster, address: str
) -> None:
    plane = cluster.plane
    add_node(plane, "before")
    with chromium() as browser:
        opened = Opened(browser, address)
        tab = opened.tab
        tab.set_default_timeout(PATIENCE * 1000)
        tab.wait_for_selector("[aria-label='Map of the nodes, 1 cell']")
        opened.module("stream.js", _KEEP, opened.address_of("vendor/signals.js"))
        loads = sum("/api/v1/view" in each for each in opened.asked)

        with plane.without_api_server():
            tab.wait_for_selector(".banner.warning:has-text('The API server cannot be reached')")
            tab.wait_for_selector(".status.lost:has-text(' ago')")
            banner, status = opened.text(".banner.warning"), opened.text(".status")
            assert ["before"] == tab.evaluate("kept.names")
        add_node(plane, "after")
        tab.wait_for_selector("[aria-label='Map of the nodes, 2 cells']")
        tab.wait_for_selector(".status.live")
        tab.wait_for_selector(".banner.warning", state="detached")

        assert "(since " in banner
        assert status.startswith("as of ")
        assert ["after", "before"] == tab.evaluate("kept.names")
        assert 0 == tab.evaluate("kept.doubled")
        assert loads == sum("/api/v1/view" in each for each in opened.asked)
        assert [] == opened.heard
