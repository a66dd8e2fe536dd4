"""What a running process takes: processor time and memory, looked at once a second."""

import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PERIOD: Final = 1.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sample:
    """A process at one moment."""

    at: float  # seconds since the epoch
    processor: float  # seconds used so far
    memory: int  # resident bytes


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has taken between two moments."""

    seconds: float
    processor: float
    memory: int  # resident bytes, 95 of 100 samples are below

    @property
    def share(self) -> float:
        """The share of one core."""
        return self.processor / self.seconds if self.seconds else 0.0


class Sampler:
    """The samples of one process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._samples: list[Sample] = [sample(pid)]

    def between(self, begin: float, end: float) -> Usage:
        """The usage between two moments, to the accuracy of the samples."""
        inside = [each for each in self._samples if begin - _PERIOD <= each.at <= end + _PERIOD]
        memory = sorted(each.memory for each in inside)
        return Usage(
            end - begin,
            inside[-1].processor - inside[0].processor,
            memory[math.ceil(0.95 * len(memory)) - 1],
        )

    def take(self) -> Sample:
        """Look at the process now."""
        taken = sample(self._pid)
        self._samples.append(taken)
        return taken


def sample(pid: int) -> Sample:
    """Look at a process."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return Sample(
        time.time(), (int(fields[11]) + int(fields[12])) / _TICKS, _resident(f"/proc/{pid}/status")
    )


@contextmanager
def sampling(pid: int) -> Iterator[Sampler]:
    """Look at a process once a second for as long as a block runs."""
    sampler, stopped = Sampler(pid), threading.Event()

    def watch() -> None:
        while not stopped.wait(_PERIOD):
            sampler.take()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield sampler
    finally:
        stopped.set()
        thread.join()


def load() -> Sequence[float]:
    """The load averages of the machine over 1, 5 and 15 minutes."""
    return os.getloadavg()


def _resident(path: str) -> int:
    for line in Path(path).read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
