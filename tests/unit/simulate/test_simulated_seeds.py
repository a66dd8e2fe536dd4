"""Many seeds in worker processes: outcomes in order, once each, whatever happens to a worker."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from karpenter.simulate.seeds import FILE, SeedsError, run_seeds


def third_breaks(seed: int) -> Sequence[str]:
    return ("A1 at 5 s: broken",) if seed % 3 == 0 else ()


def test_outcomes_are_the_same_with_one_worker_and_with_three(tmp_path: Path) -> None:
    run_seeds(range(1, 21), third_breaks, tmp_path / "one", jobs=1)
    tally = run_seeds(range(1, 21), third_breaks, tmp_path / "three", jobs=3)

    one, three = ((tmp_path / name / FILE).read_text("utf-8") for name in ("one", "three"))
    assert one == three
    assert list(range(1, 21)) == [each.seed for each in tally.outcomes]
    assert [3, 6, 9, 12, 15, 18] == [each.seed for each in tally.broken]


@pytest.mark.case("SIM-50")
def test_a_worker_that_is_killed_is_an_outcome_and_the_rest_runs_once(tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    def one(seed: int) -> Sequence[str]:
        with ran.open("a") as file:
            file.write(f"{seed}\n")
        if seed == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return ()

    stops = iter([False] * 3 + [True] * 1000)
    run_seeds(range(1, 6), one, tmp_path, jobs=2, is_stopped=lambda: next(stops))
    tally = run_seeds(range(1, 13), one, tmp_path, jobs=2, is_resumed=True)

    assert [(7, ("its worker died of SIGKILL",))] == [(e.seed, e.broken) for e in tally.broken]
    assert list(range(1, 13)) == [each.seed for each in tally.outcomes]
    again = run_seeds(range(1, 13), one, tmp_path, jobs=2, is_resumed=True)
    assert tally.outcomes == again.outcomes
    assert 1 == ran.read_text().split().count("12")


def test_the_first_broken_seed_may_end_it(tmp_path: Path) -> None:
    tally = run_seeds(range(1, 1000), third_breaks, tmp_path, jobs=1, is_failing_fast=True)

    assert [1, 2, 3] == [each.seed for each in tally.outcomes]


def test_a_line_that_was_cut_off_is_run_again(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"seed": 1, "broken": []}\n{"seed": 2, "bro')

    tally = run_seeds(range(1, 4), third_breaks, tmp_path, jobs=1, is_resumed=True)

    assert [1, 2, 3] == [each.seed for each in tally.outcomes]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("hello\nworld\n")

    with pytest.raises(SeedsError, match=r"seeds.jsonl:1: is no outcome of a seed"):
        run_seeds(range(1, 4), third_breaks, tmp_path, jobs=1, is_resumed=True)


def test_outcomes_of_another_run_are_not_taken_for_its_own(tmp_path: Path) -> None:
    run_seeds(range(1, 4), third_breaks, tmp_path, jobs=1, run="one")
    before = (tmp_path / FILE).read_text("utf-8")

    with pytest.raises(SeedsError, match=r"its outcomes are of another scenario, other options or"):
        run_seeds(range(1, 9), third_breaks, tmp_path, jobs=1, run="two", is_resumed=True)

    assert before == (tmp_path / FILE).read_text("utf-8")
    tally = run_seeds(range(1, 9), third_breaks, tmp_path, jobs=1, run="one", is_resumed=True)
    assert list(range(1, 9)) == [each.seed for each in tally.outcomes]
