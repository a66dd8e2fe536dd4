"""Formats log entries as JSON or text lines."""

import json
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any, Final, TypeAlias

import msgspec
from structlog.typing import Processor as Processor
from structlog.typing import WrappedLogger

from karpenter.api.times import in_utc
from karpenter.model import durations
from karpenter.visible import in_json, visible, visible_lines

Fields: TypeAlias = MutableMapping[str, Any]
Now: TypeAlias = Callable[[], datetime]

# Kubernetes components log three levels; a warning is an INFO line, since the work is retried
_LEVELS: Final[Mapping[str, str]] = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "INFO",
    "error": "ERROR",
    "exception": "ERROR",
    "critical": "ERROR",
}
_LOGGER: Final = "controller"
_encoder: Final = msgspec.json.Encoder(enc_hook=str)


def json_line(now: Now, commit: str) -> Processor:
    """Format a line as JSON: fixed keys first, in a fixed order, then the context."""

    def render(_: WrappedLogger, method: str, event: Fields) -> str:
        line = {
            "level": _LEVELS.get(method, "INFO"),
            "time": _timestamp(now()),
            "logger": event.pop("logger", _LOGGER),
        }
        path, number = event.pop("pathname", ""), event.pop("lineno", "")
        if path:
            line["caller"] = "/".join(PurePath(path).parts[-2:]) + f":{number}"
        line["message"] = event.pop("event", "")
        line["commit"] = commit
        event.pop("exc_info", None)
        for key, value in _context(event).items():
            line.setdefault(key, value)
        return _encoded(line) + "\n"

    return render


def text_line(now: Now) -> Processor:
    """Format a line as text: time, level, message, and then the context."""

    def render(_: WrappedLogger, method: str, event: Fields) -> str:
        for key in ("logger", "exc_info", "pathname", "lineno"):
            event.pop(key, None)
        message, trace = str(event.pop("event", "")), str(event.pop("stacktrace", ""))
        facts = "".join(f"  {key}={_readable(value)}" for key, value in _context(event).items())
        level = _LEVELS.get(method, "INFO")
        first = visible(f"{in_utc(now()):%H:%M:%S} {level:5} {message}{facts}")
        return f"{first}\n{visible_lines(trace)}"

    return render


def _readable(value: Any) -> str:
    """A fact in short form: objects by their names, text without quotes."""
    if isinstance(value, dict) and "name" in value and value.keys() <= {"namespace", "name"}:
        return "/".join(filter(None, (value.get("namespace", ""), str(value["name"]))))
    if isinstance(value, str) and value and "=" not in value and not value.startswith('"'):
        return value
    return _encoded(value)


def with_traceback(_: WrappedLogger, _method: str, event: Fields) -> Fields:
    """Add the traceback of an unexpected error; shown at debug level only."""
    error = event.pop("exc_info", None)
    if error is True:
        return event
    if isinstance(error, BaseException):
        event["stacktrace"] = "".join(traceback.format_exception(error))
    return event


def _context(event: Fields) -> dict[str, Any]:
    """The facts of an entry as plain data; an error brings its own facts with it."""
    facts: dict[str, Any] = {}
    for key, value in event.items():
        if isinstance(value, BaseException):
            facts.update(_plain(getattr(value, "log_fields", None) or {}))
            facts[key] = str(value) or type(value).__name__
        else:
            facts[key] = _plain(value)
    return facts


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return durations.text(value)
        case datetime():
            return _timestamp(value)
        case BaseException():
            return str(value)
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(each) for each in value]
    return value


def _timestamp(moment: datetime) -> str:
    utc = in_utc(moment)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def _encoded(line: Any) -> str:
    try:
        return in_json(_encoder.encode(line).decode())
    except (UnicodeEncodeError, TypeError, ValueError):  # halves of characters, odd keys
        return in_json(json.dumps(line, default=str))
