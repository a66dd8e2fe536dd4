"""``karpenter dashboard`` as people use it: of manifests, and beside a cluster; stopped with Ctrl-C."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PATIENCE = 120
_OWN = ("asOf", "took", "isPartial")


class Running:
    """A dashboard that was started as a command."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        self.said = [process.stdout.readline() for _ in range(2)]
        self.address, _, self._token = self.said[0].split()[-1].partition("#token=")

    def asked(self, path: str) -> Any:
        request = urllib.request.Request(
            f"{self.address}api/v1/{path}", headers={"Karpenter-Token": self._token}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def stop(self) -> tuple[int, str]:
        """Press Ctrl-C; return the exit code and what was said on stderr."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


@contextmanager
def dashboard(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Running]:
    command = [sys.executable, "-m", "karpenter", "dashboard", "--port", "0", *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    try:
        yield Running(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_manifests_are_a_cluster_that_stands_still() -> None:
    with dashboard("examples/plan") as page:
        view, plan, about = (page.asked(path) for path in ("view", "plan", "about"))
        ended = page.stop()

    assert (0, "") == ended
    assert ("files", False) == (view["source"], view["isLive"])
    assert about["canPlan"]
    assert about["history"]["since"] is None
    assert page.said[0].startswith("Watch the cluster in a browser: http://127.0.0.1:")
    assert {"provisioning", "disruption", *_OWN} <= set(plan)


@pytest.mark.case("DASH-28")
def test_it_starts_beyond_this_machine_and_warns_of_plain_http(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-that-somebody-chose-with-care")
    arguments = ("--host", "0.0.0.0", "--token-file", str(token), "--allow-host", "nodes.example")
    with dashboard("examples/plan", *arguments) as page:
        code, said = page.stop()

    assert 0 == code
    assert "served over plain HTTP" in said
    assert page.said[0].strip().endswith("#token=a-token-that-somebody-chose-with-care")


def test_it_stands_beside_a_cluster_that_somebody_else_runs(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "karpenter", "sandbox", "--nodes", "2", "--no-dashboard"]
    sandbox = subprocess.Popen(
        [*command, "--no-controllers", "--kubeconfig", str(kubeconfig)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert sandbox.stdout is not None
        for _ in range(3):
            sandbox.stdout.readline()
        with dashboard("--kubeconfig", str(kubeconfig)) as page:
            view, about = page.asked("view"), page.asked("about")
            ended = page.stop()
    finally:
        sandbox.kill()
        sandbox.communicate()

    assert (0, "") == ended
    assert ["node-1", "node-2"] == sorted(view["nodes"]["name"])
    assert "live" == view["source"]
    assert about["canPlan"]
    assert about["prices"].startswith("Those of kwok, asked for at ")
    assert about["history"]["since"] == view["at"]
