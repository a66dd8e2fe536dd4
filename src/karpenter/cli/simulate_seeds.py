"""``karpenter simulate --seeds``: one scenario under many storms, and what the broken ones need."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from karpenter import __version__
from karpenter.console import output

if TYPE_CHECKING:
    from karpenter.simulate.scenario.reader import Loaded
    from karpenter.simulate.seeds import Outcome, Tally

EXIT_NOT_HELD: Final = 3
EXIT_INTERRUPTED: Final = 130
_RANGE: Final = re.compile(r"(\d{1,18})(?:\.\.(\d{1,18}))?")
_MOST: Final = 1_000_000
_MOST_TOLD: Final = 20
_MOST_SHRUNK: Final = 3
_FOLDER: Final = "simulate-seeds"


def read_seeds(text: str) -> range:
    """The seeds of a text such as ``1..10000``."""
    found = _RANGE.fullmatch(text)
    if found is None:
        output.fail(f"--seeds {text!r}: write FIRST..LAST, such as 1..10000")
    first = int(found[1])
    last = int(found[2]) if found[2] is not None else first
    if last < first:
        output.fail(f"--seeds {text}: {last} comes before {first}")
    if last - first >= _MOST:
        output.fail(f"--seeds {text}: more than {_MOST:,} seeds")
    return range(first, last + 1)


def run_storms(
    loaded: "Loaded",
    seeds: range,
    *,
    jobs: int,
    resumes: Path | None,
    is_failing_fast: bool,
    shrinks: bool,
    given: Sequence[str] = (),
    is_stopped: Callable[[], bool],
) -> None:
    """Run a scenario with each seed, and say what broke.

    Args:
        loaded: the scenario.
        seeds: one for each run.
        jobs: how many run at once.
        resumes: the folder of earlier outcomes.
        is_failing_fast: end with the first that breaks a promise.
        shrinks: make broken ones small.
        given: options of the command line that a replay needs as well.
        is_stopped: whether the user has asked to end.
    """
    from karpenter.simulate.runs import setup_of
    from karpenter.simulate.seeds import FILE, SeedsError, SeedsWriteError, run_seeds
    from karpenter.simulate.storm import judged
    from karpenter.telemetry import quiet_logger
    from karpenter.telemetry.logs import take_over

    setup = setup_of(loaded, 0)

    def one(seed: int) -> Sequence[str]:
        take_over(quiet_logger())
        return judged(replace(setup, seed=seed)).broken

    folder = resumes or Path(_FOLDER)
    try:
        tally = run_seeds(
            seeds,
            one,
            folder,
            jobs=jobs,
            run=json.dumps([__version__, loaded.sha256, *given]),
            is_resumed=resumes is not None,
            is_failing_fast=is_failing_fast,
            told=_progress,
            is_stopped=is_stopped,
        )
    except SeedsWriteError as error:
        output.fail(str(error), output.EXIT_FAILED)
    except SeedsError as error:
        output.fail(str(error))
    finally:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
    _tell(loaded, tally.broken, given, folder / FILE)
    if shrinks and not is_stopped():
        for outcome in tally.broken[:_MOST_SHRUNK]:
            _shrink(loaded, outcome.seed, folder)
    done, broken = len(tally.outcomes), len(tally.broken)
    output.write(f"{done:,} of {tally.total:,} seeds run, {broken:,} broken; {folder / FILE}\n")
    if is_stopped():
        raise typer.Exit(EXIT_INTERRUPTED)
    if broken:
        raise typer.Exit(EXIT_NOT_HELD)


def _tell(loaded: "Loaded", broken: "Sequence[Outcome]", given: Sequence[str], file: Path) -> None:
    """Say what broke, and how to see it."""
    for outcome in broken[:_MOST_TOLD]:
        output.write(f"seed {outcome.seed}: {outcome.broken[0]}\n")
        replay = [loaded.name, *given, "--seed", str(outcome.seed), "--timeline"]
        output.write(f"  replay: karpenter simulate {shlex.join(replay)}\n")
    if len(broken) > _MOST_TOLD:
        output.write(f"and {len(broken) - _MOST_TOLD:,} more, in {file}\n")


def _shrink(loaded: "Loaded", seed: int, folder: Path) -> None:
    """Write the smallest scenario that breaks as a seed does."""
    from karpenter.os_errors import os_reason
    from karpenter.simulate.runs import setup_of
    from karpenter.simulate.shrinking import shrunk
    from karpenter.simulate.storm import judged, storm_of
    from karpenter.telemetry import quiet_logger
    from karpenter.telemetry.logs import take_over

    take_over(quiet_logger())
    setup = replace(setup_of(loaded, 0), seed=seed)
    if storm_of(setup) is None:
        return
    outcome = judged(setup)
    if not outcome.broken:
        return  # its worker died, and this process does not
    small = shrunk(setup, outcome)
    file = folder / f"seed-{seed}.yaml"
    try:
        file.write_text(small.text(), "utf-8")
    except OSError as error:
        output.fail(f"{file}: {os_reason(error)}", output.EXIT_FAILED)
    workloads = len(small.setup.scenario.workloads)
    output.write(f"seed {seed} needs {small.faults} faults and {workloads} workloads: {file}\n")


def _progress(tally: "Tally") -> None:
    """One line on a terminal; elsewhere nothing."""
    if sys.stderr.isatty():
        left = tally.total - len(tally.outcomes)
        sys.stderr.write(
            f"\r\x1b[K{len(tally.outcomes):,} seeds done, {len(tally.broken):,} broken, {left:,} left"
        )
        sys.stderr.flush()
