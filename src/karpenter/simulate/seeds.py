"""Many seeds in worker processes: their outcomes in the order of the seeds, however the workers ended.

A worker is a fork of this process, which has imported everything. One that dies is an outcome of the
seed that it ran, and another takes its place. Outcomes go to ``seeds.jsonl`` in the order of the seeds,
without anything that differs between equal runs.
"""

import json
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Final, TextIO

from karpenter.os_errors import os_reason
from karpenter.simulate.runs import end_with_parent

FILE: Final = "seeds.jsonl"
_RUN: Final = "seeds.run"  # what the outcomes are of
_SEEDS_OF_A_WORKER: Final = 100  # then it makes room for another, whose memory is fresh
_POLL_SECONDS: Final = 0.2

# What a seed breaks, as sentences; nothing if it holds
OneSeed = Callable[[int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed."""

    seed: int
    broken: tuple[str, ...]

    def line(self) -> str:
        """The outcome as a line of the file."""
        return json.dumps({"seed": self.seed, "broken": list(self.broken)}, ensure_ascii=False)


@dataclass(slots=True)
class Tally:
    """How far many seeds are."""

    total: int
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def broken(self) -> list[Outcome]:
        """Those that broke something."""
        return [each for each in self.outcomes if each.broken]


class SeedsError(Exception):
    """The folder holds no outcomes and can take none; the text is one sentence."""


class SeedsWriteError(SeedsError):
    """The outcomes could not be written, such as to a full disk."""


def run_seeds(
    seeds: Sequence[int],
    one: OneSeed,
    folder: Path,
    *,
    jobs: int,
    run: str = "",
    is_resumed: bool = False,
    is_failing_fast: bool = False,
    told: Callable[[Tally], None] = lambda tally: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Tally:
    """Run each seed once, and write what came of it.

    Args:
        seeds: in ascending order.
        one: runs a seed; it is called in a worker process.
        folder: where the outcomes go.
        jobs: how many workers there are.
        run: differs between runs whose outcomes may differ: of other scenarios, options or versions.
        is_resumed: seeds whose outcomes are in the folder are not run again.
        is_failing_fast: the first broken seed ends it.
        told: is called with every outcome, in order.
        is_stopped: asked now and then; once true, what runs is given up.

    Raises:
        SeedsError: the folder cannot be used.
        SeedsWriteError: it could not be written to.
    """
    known = _known(folder / FILE) if is_resumed else {}
    if known and _text(folder / _RUN) != run:
        raise SeedsError(
            f"{folder}: its outcomes are of another scenario, other options or another version;"
            " choose another folder"
        )
    tally = Tally(len(seeds))
    missing = [seed for seed in seeds if seed not in known]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _RUN).write_text(run, encoding="utf-8")
        with (folder / FILE).open("w", encoding="utf-8") as file:
            orderly = _Orderly(seeds, known, file, tally, told)
            _run(missing, one, jobs, orderly, is_failing_fast, is_stopped)
            orderly.give_up()
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise SeedsError(f"{folder / FILE}: {os_reason(error)}; choose another folder") from error
    except OSError as error:
        text = f"{folder / FILE}: {os_reason(error)}; choose another folder"
        raise SeedsWriteError(text) from error
    return tally


class _Orderly:
    """Writes outcomes in the order of their seeds."""

    def __init__(
        self,
        seeds: Sequence[int],
        known: dict[int, Outcome],
        file: TextIO,
        tally: Tally,
        told: Callable[[Tally], None],
    ) -> None:
        self._waiting = deque(seeds)
        self._found = dict(known)
        self._file = file
        self.tally = tally
        self._told = told
        self._flush()

    def add(self, outcome: Outcome) -> None:
        self._found[outcome.seed] = outcome
        self._flush()

    def give_up(self) -> None:
        """Write what is there of seeds after one that has no outcome."""
        for seed in self._waiting:
            if seed in self._found:
                self._write(self._found[seed])

    def _flush(self) -> None:
        while self._waiting and self._waiting[0] in self._found:
            self._write(self._found[self._waiting.popleft()])

    def _write(self, outcome: Outcome) -> None:
        self._file.write(outcome.line() + "\n")
        self._file.flush()
        self.tally.outcomes.append(outcome)
        self._told(self.tally)


class _Worker:
    """A process that runs one seed after the other."""

    def __init__(self, one: OneSeed) -> None:
        context = multiprocessing.get_context("fork")
        self.ours, theirs = context.Pipe()
        self.process: ForkProcess = context.Process(
            target=_work, args=(theirs, self.ours, one), daemon=True
        )
        self.process.start()
        theirs.close()
        self.seed: int | None = None
        self.done = 0

    def begin(self, seed: int) -> None:
        self.seed = seed
        with suppress(OSError):  # it has just died, which is noticed as its end
            self.ours.send(seed)

    def outcome(self) -> Outcome | None:
        """What came of its seed; None while it runs."""
        assert self.seed is not None
        is_alive = self.process.is_alive()  # first, so that its last word is not missed
        try:
            if self.ours.poll():
                self.done += 1
                return Outcome(self.seed, tuple(self.ours.recv()))
        except (EOFError, OSError):
            is_alive = False
        if is_alive:
            return None
        self.process.join()
        return Outcome(self.seed, (_death(self.process.exitcode),))

    def end(self) -> None:
        self.ours.close()
        self.process.terminate()
        self.process.join()


def _work(pipe: Connection, other: Connection, one: OneSeed) -> None:
    other.close()
    end_with_parent()  # later workers hold our end of the pipe too, so that it alone ends nothing
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    with suppress(EOFError, OSError):
        while True:
            pipe.send(tuple(one(pipe.recv())))


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its worker died of {signal.Signals(-code).name}"
    return f"its worker ended with exit code {code}"


def _run(
    missing: Iterable[int],
    one: OneSeed,
    jobs: int,
    orderly: _Orderly,
    is_failing_fast: bool,
    is_stopped: Callable[[], bool],
) -> None:
    left = deque(missing)
    busy: list[_Worker] = []
    idle: list[_Worker] = []
    try:
        while (left or busy) and not is_stopped():
            while left and len(busy) < jobs:
                worker = idle.pop() if idle else _Worker(one)
                worker.begin(left.popleft())
                busy.append(worker)
            wait([each.ours for each in busy], timeout=_POLL_SECONDS)
            for worker in list(busy):
                outcome = worker.outcome()
                if outcome is None:
                    continue
                busy.remove(worker)
                orderly.add(outcome)
                is_worn = worker.done >= _SEEDS_OF_A_WORKER or not worker.process.is_alive()
                if is_worn:
                    worker.end()
                else:
                    idle.append(worker)
                if is_failing_fast and outcome.broken:
                    return
    finally:
        for worker in (*busy, *idle):
            worker.end()


def _text(file: Path) -> str:
    """What a file says; nothing if it is not there."""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _known(file: Path) -> dict[int, Outcome]:
    """The outcomes of an earlier run; a line that was not written to its end counts as missing."""
    found: dict[int, Outcome] = {}
    try:
        lines = file.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return found
    except OSError as error:
        raise SeedsError(f"{file}: {os_reason(error)}; choose another folder") from error
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            found[int(entry["seed"])] = Outcome(int(entry["seed"]), tuple(entry["broken"]))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break
            raise SeedsError(
                f"{file}:{number}: is no outcome of a seed; choose another folder"
            ) from error
    return found
