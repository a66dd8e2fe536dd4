"""``karpenter simulate`` that is killed leaves no worker behind."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PATIENCE = 120.0
# Long enough that no worker can come to its end by itself while the test waits
SCENARIO = """
apiVersion: simulate.karpenter.sh/v1
kind: Scenario
metadata: {name: long}
until: 400d
objects:
- apiVersion: karpenter.kwok.sh/v1alpha1
  kind: KWOKNodeClass
  metadata: {name: default}
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: default}
  spec:
    template:
      spec:
        nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
        requirements: []
workloads:
- name: mail
  pod: {cpu: "1", memory: 1Gi}
  jobs: {rate: 60/h, duration: 5m}
"""
COMPARED = "compare: [{name: now}, {name: then}]\n"


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds workers as Linux does")
@pytest.mark.parametrize(
    ("more", "options"),
    [
        pytest.param(COMPARED, ["--jobs", "2"], id="variants"),
        pytest.param("faults: storm\n", ["--seeds", "1..4", "--jobs", "2"], id="seeds"),
    ],
)
def test_workers_end_with_a_command_that_is_killed(
    tmp_path: Path, more: str, options: list[str]
) -> None:
    (tmp_path / "long.yaml").write_text(SCENARIO + more, "utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "karpenter", "simulate", "long.yaml", *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE
    while len(children(process.pid)) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no workers"
        time.sleep(0.1)

    process.kill()

    # Workers hold the pipe as well: it ends with the last of them
    process.communicate(timeout=PATIENCE)
