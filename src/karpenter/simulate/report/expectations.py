"""What a scenario expects of its report, judged by the report alone."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from karpenter.api.meta import JsonObject
from karpenter.simulate.report.fields import at
from karpenter.simulate.report.schema import is_zero_where_absent


class Expected(Protocol):
    """A figure, and where it should lie: between amounts, or relative to another variant's."""

    @property
    def path(self) -> str: ...
    @property
    def in_(self) -> str | None: ...
    @property
    def than(self) -> str | None: ...
    @property
    def min(self) -> float | None: ...
    @property
    def max(self) -> float | None: ...
    @property
    def equals(self) -> Any: ...
    @property
    def at_most(self) -> float | None: ...
    @property
    def at_least(self) -> float | None: ...


def outcomes(
    variant: Mapping[str, Any], expected: Sequence[Expected], when: str = ""
) -> list[JsonObject]:
    """The outcomes of expectations about one variant alone, as it is at a moment."""
    found = [_outcome(each, variant, None) for each in expected]
    if when:
        for each in found:
            each["sentence"] = f"at {when}: {each['sentence']}"
    return found


def judged(report: JsonObject, expected: Sequence[Expected]) -> None:
    """Add the outcome of each expectation to the variants that it is about."""
    by_name = {variant["name"]: variant for variant in report["variants"]}
    for each in expected:
        for name in (each.in_,) if each.in_ else tuple(by_name):
            if name in by_name:
                other = by_name.get(each.than) if each.than else None
                by_name[name]["expectations"].append(_outcome(each, by_name[name], other))


def _outcome(
    expected: Expected, variant: Mapping[str, Any], other: Mapping[str, Any] | None
) -> JsonObject:
    value = _figure(variant, expected.path)
    compared = _figure(other, expected.path) if other is not None else None
    problem = _problem(expected, value, compared)
    return {
        "path": expected.path,
        "value": value if isinstance(value, int | float | str) else None,
        "held": not problem,
        "sentence": f"{expected.path} {problem or f'is {_written(value)}'}",
    }


def _figure(variant: Mapping[str, Any], path: str) -> Any:
    """The figure at a path; what a report counts by name is nothing where the name is absent."""
    found = at(variant, path)
    return 0 if found is None and is_zero_where_absent(path) else found


def _problem(expected: Expected, value: Any, compared: Any) -> str:
    """Why an expectation does not hold; empty if it does."""
    if expected.equals is not None:
        is_equal = value == expected.equals
        return "" if is_equal else f"is {_written(value)}, and not {_written(expected.equals)}"
    if not isinstance(value, int | float):
        return "has no value, as there was nothing to measure"
    if expected.min is not None and value < expected.min:
        return f"is {_written(value)}, which is less than {_written(expected.min)}"
    if expected.max is not None and value > expected.max:
        return f"is {_written(value)}, which is more than {_written(expected.max)}"
    return _relative(expected, value, compared)


def _relative(expected: Expected, value: float, compared: Any) -> str:
    if expected.than is None:
        return ""
    if not isinstance(compared, int | float):
        return f"cannot be compared: {expected.than} has no such figure"
    which = f"{_written(compared)} of {expected.than}"
    if expected.at_most is not None and value > expected.at_most * compared:
        return (
            f"is {_written(value)}, which is more than {_written(expected.at_most)} times {which}"
        )
    if expected.at_least is not None and value < expected.at_least * compared:
        return (
            f"is {_written(value)}, which is less than {_written(expected.at_least)} times {which}"
        )
    return ""


def _written(value: Any) -> str:
    if value is None:
        return "nothing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
