"""Two hours of a long day: nothing leaks, and no budget of nodes or pods is broken.

``python -m benchmarks long_day`` is the whole of it: 24 hours of 200 nodes. This runs the same program, in a
process of its own since its memory counts.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.storm

ROOT = Path(__file__).resolve().parents[2]
LARGEST_GROWTH = 1.2


def test_two_hours_of_churn_interruptions_and_faults_leave_nothing_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.long_day", "--smoke", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr + done.stdout
    figures = json.loads(done.stdout)

    assert [] == figures["broken"]
    assert figures["growth"] < LARGEST_GROWTH
    # that it was a day worth the name
    assert min(figures["launches"], figures["voluntary"], figures["evictions"]) > 0
    assert {"interruption", "machine vanished", "controllers killed"} <= figures["struck"].keys()
