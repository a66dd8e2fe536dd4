"""``karpenter record`` as a process beside a sandbox: ended in order, and killed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.sandbox.test_sandbox_cli import Sandbox, needs_kubectl
from helpers.commands import run
from helpers.recorded import told
from karpenter.simulate.record.segments import PATTERN

pytestmark = [pytest.mark.slow, needs_kubectl]

PATIENCE = 60.0


class Recorder:
    """A running ``karpenter record``."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.folder = folder
        before = len([*folder.glob(PATTERN)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "karpenter", "record", "-o", str(folder)],
            env={"KUBECONFIG": str(sandbox.kubeconfig), "PATH": "/usr/bin:/bin"},
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: len([*folder.glob(PATTERN)]) > before, "a segment")

    def end(self, how: int) -> str:
        self.process.send_signal(how)
        _, said = self.process.communicate(timeout=PATIENCE)
        return said


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:g} s"
        time.sleep(0.1)


def replicas(folder: Path) -> list[int]:
    """How many replicas of the example there were, one after the other."""
    changes = [each for each in told(folder).changes if each.key[2] == "inflate"]
    return [c.after["spec"]["replicas"] for c in changes if c.after and c.key[0] == "Deployment"]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    running = Sandbox(tmp_path, "--example")
    try:
        yield running
    finally:
        running.stop()


@pytest.mark.case("SIM-47")
def test_a_recorder_that_is_killed_and_started_again_misses_less_than_ten_seconds(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    first = Recorder(sandbox, folder)
    sandbox.kubectl("scale", "deployment", "inflate", "--replicas=2")
    until(lambda: replicas(folder)[-1:] == [2], "the first change is on the disk")
    died = datetime.now(UTC).timestamp()
    first.end(signal.SIGKILL)
    sandbox.kubectl("scale", "deployment", "inflate", "--replicas=4")
    second = Recorder(sandbox, folder)
    sandbox.kubectl("scale", "deployment", "inflate", "--replicas=3")
    until(lambda: replicas(folder)[-1:] == [3], "the last change is on the disk")

    said = second.end(signal.SIGTERM)

    found = told(folder)
    (gap,) = found.gaps
    assert 0 == second.process.returncode
    assert [0, 2, 4, 3] == replicas(folder)
    assert 2 == len(found.reading.heads)
    assert found.reading.has_end
    assert died - gap.since < 10
    assert "1 gap of" in said
    assert f"replay with: karpenter simulate {folder / 'scenario.yaml'}" in said
    ran = run("simulate", str(folder / "scenario.yaml"), "--check")
    assert 0 == ran.code, ran.err
    assert any("the recording has a gap" in each for each in ran.warnings)
