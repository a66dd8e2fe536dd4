"""Columns, ages and other small parts that the rows of many kinds have in common."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

JsonObject = Mapping[str, Any]
Cells = list[Any]
Row = Callable[[JsonObject, datetime], Cells]

NONE: Final = "<none>"
UNSET: Final = "<unset>"
UNKNOWN: Final = "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
# Clocks that differ by less than this still count as agreeing
_FUTURE: Final = -2


@dataclass(frozen=True, slots=True)
class Column:
    """A column; those with a priority above 0 show only in wide output."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind and how to fill them for one object."""

    columns: tuple[Column, ...]
    row: Row


def columns(names: str, *, wide: str = "", integers: Iterable[str] = ()) -> tuple[Column, ...]:
    """Columns from their names, separated by ``|``, after the name of the object."""
    known = set(integers)
    plain = [(name, 0) for name in names.split("|") if name]
    more = [(name, 1) for name in wide.split("|") if name]
    return (
        Column("Name", format="name"),
        *(Column(name, "integer" if name in known else "string", p) for name, p in plain + more),
    )


def at(obj: Any, *path: str, default: Any = None) -> Any:
    """The value at a path, or ``default`` where the path ends early or at null."""
    value = obj
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return default if value is None else value


def name_of(obj: JsonObject) -> str:
    """The name of an object."""
    return str(at(obj, "metadata", "name", default=""))


def age(obj: JsonObject, now: datetime) -> str:
    """How long ago an object was created."""
    return since(at(obj, "metadata", "creationTimestamp"), now)


def since(timestamp: Any, now: datetime) -> str:
    """How long ago something was."""
    moment = read_time(timestamp)
    return UNKNOWN if moment is None else human_duration(now - moment)


def read_time(timestamp: Any) -> datetime | None:
    """A time as objects hold it."""
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def human_duration(duration: timedelta) -> str:
    """A duration in at most two units, the finer one only while it matters."""
    seconds = int(duration.total_seconds())
    if seconds <= _FUTURE:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _two_units(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two_units(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two_units(seconds, _DAY, "d", _HOUR, "h")
    return _long_duration(seconds)


def _long_duration(seconds: int) -> str:
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two_units(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two_units(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    whole, rest = divmod(seconds, large)
    part = rest // small
    return f"{whole}{large_name}{part}{small_name}" if part else f"{whole}{large_name}"


def labels(found: Any) -> str:
    """Labels as text, in the order of their keys."""
    if not isinstance(found, dict) or not found:
        return NONE
    return ",".join(f"{key}={found[key]}" for key in sorted(found))


def selector(found: Any) -> str:
    """A label selector as text; empty when it selects nothing or everything."""
    if not isinstance(found, dict):
        return ""
    requirements = [
        (key, f"{key}={value}") for key, value in at(found, "matchLabels", default={}).items()
    ]
    for expression in at(found, "matchExpressions", default=[]):
        key, operator = at(expression, "key", default=""), at(expression, "operator")
        values = ",".join(sorted(at(expression, "values", default=[])))
        if operator == "Exists":
            requirements.append((key, key))
        elif operator == "DoesNotExist":
            requirements.append((key, f"!{key}"))
        else:
            word = "in" if operator == "In" else "notin"
            requirements.append((key, f"{key} {word} ({values})"))
    return ",".join(text for _, text in sorted(requirements, key=lambda entry: entry[0]))


def containers(template: Any) -> tuple[str, str]:
    """Names and images of the containers of a pod template."""
    found = at(template, "spec", "containers", default=[])
    return (
        ",".join(str(at(container, "name", default="")) for container in found),
        ",".join(str(at(container, "image", default="")) for container in found),
    )


def condition_status(obj: JsonObject, condition_type: str) -> str | None:
    """The status of a condition, if the object has it."""
    for condition in at(obj, "status", "conditions", default=[]):
        if at(condition, "type") == condition_type:
            return str(at(condition, "status", default=""))
    return None


def first_few(found: Sequence[str], most: int, *, empty: str) -> str:
    """The first entries of a list, and how many more there are."""
    if not found:
        return empty
    shown = ",".join(found[:most])
    return f"{shown} + {len(found) - most} more..." if len(found) > most else shown
