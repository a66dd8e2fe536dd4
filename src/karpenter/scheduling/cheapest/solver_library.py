"""The solver library: imported on first use, quiet, the same on every run, with one kind of error."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any


class SolverError(Exception):
    """The solver is absent, has failed, or has returned an infeasible result."""


@cache
def library() -> tuple[ModuleType, ModuleType]:
    """highspy and numpy, imported on first use: the import takes a fifth of a second."""
    try:
        import highspy
        import numpy
    except ImportError as error:
        raise SolverError(
            "highspy is not installed; install the extra karpenter[optimize]"
        ) from error
    return highspy, numpy


@contextmanager
def failing_as_one() -> Iterator[None]:
    """Raise every exception of the library as ``SolverError``: a plan goes on without it."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise SolverError(f"the solver failed: {type(error).__name__}: {error}") from error


def quiet(highspy: Any) -> Any:
    """A solver that prints nothing and gives the same result on every run."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", 1)
    return highs


def run(highspy: Any, highs: Any) -> None:
    """Solve a program.

    Raises:
        SolverError: it has no best solution, or none was found.
    """
    highs.run()
    status = highs.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        # Retry once without the old basis, which may have become singular
        highs.clearSolver()
        highs.run()
        status = highs.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"the solver ended with {highs.modelStatusToString(status)}")
