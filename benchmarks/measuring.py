"""Measure one workload in one size, in a process of its own.

A fresh process makes the peak of its memory mean something, and no workload warms up for another.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.workloads import WORKLOADS

from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.solve import solve

ROOT: Final = Path(__file__).parents[1]

_LONG_ENOUGH: Final = 1.0  # seconds of measuring
_MOST_ROUNDS: Final = 10  # times as many as asked for


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds, bytes and dollars per hour."""

    workload: str
    pods: int
    seconds: float  # the best solve, classifying the pods included, the universe compiled
    processor_seconds: float  # the same on the clock of the process, which others do not disturb
    first_seconds: float  # the first solve, with everything still to be compiled
    compile_seconds: float  # the universe of offerings alone
    nodes: int  # to be created
    on_existing: int  # pods that go to machines that exist
    left_over: int  # pods that go nowhere
    hourly_cost: float
    lower_bound: float
    peak_memory: int

    @property
    def pods_per_second(self) -> float:
        """How many pods a second of the best solve is good for."""
        return self.pods / self.seconds


def measure(letter: str, pods: int, rounds: int) -> Figures:
    """Measure in a child process."""
    command = [sys.executable, "-m", "benchmarks.measuring", letter, str(pods), str(rounds)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"workload {letter} with {pods} pods failed:\n{done.stderr}")
    return Figures(**json.loads(done.stdout))


def positive(text: str) -> int:
    """Read a number of rounds or pods from the command line."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return int(text)


def _child(letter: str, pods: str, rounds: str) -> None:
    """Measure here, and print the figures for the parent."""
    print(json.dumps(asdict(_measured(letter, int(pods), int(rounds)))))


def _measured(letter: str, pods: int, rounds: int) -> Figures:
    problem = WORKLOADS[letter].build(pods)
    compiling = _best(lambda: _timed(lambda: Compiler().templates(problem)), rounds)
    compiler = Compiler()
    first = _timed(lambda: solve(problem, compiler=compiler))
    solving = _best(lambda: _timed(lambda: solve(problem, compiler=compiler)), rounds)
    plan = solve(problem, compiler=compiler)
    return Figures(
        workload=letter,
        pods=pods,
        seconds=solving.wall,
        processor_seconds=solving.processor,
        first_seconds=first.wall,
        compile_seconds=compiling.wall,
        nodes=len(plan.claims),
        on_existing=sum(map(len, plan.existing.values())),
        left_over=len(plan.unplaced) + len(plan.deferred) + len(plan.unevaluated),
        hourly_cost=plan.hourly_cost,
        lower_bound=plan.lower_bound,
        peak_memory=peak_memory(),
    )


class _Times(NamedTuple):
    wall: float
    processor: float


def _best(measured: Callable[[], _Times], rounds: int) -> _Times:
    """The best of so many rounds, or of more when they are short and so easily disturbed."""
    found = [measured() for _ in range(rounds)]
    while sum(times.wall for times in found) < _LONG_ENOUGH and len(found) < _MOST_ROUNDS * rounds:
        found.append(measured())
    return _Times(min(times.wall for times in found), min(times.processor for times in found))


def _timed(work: Callable[[], object]) -> _Times:
    gc.collect()
    wall, processor = time.perf_counter(), time.process_time()
    done = work()
    times = _Times(time.perf_counter() - wall, time.process_time() - processor)
    del done  # freeing a plan is not part of the measured time
    return times


def peak_memory() -> int:
    """The most memory this process has had so far, in bytes."""
    # Linux counts the parent's memory in ru_maxrss of a child, but not in VmHWM
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    _child(*sys.argv[1:])
