"""Logs: one JSON object a line, text at a terminal, and lists for tests.

No logger here is global. The level is fixed for the life of the process; repeated lines are
sampled, and a line that cannot be written never stops the work it reports.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeAlias, cast

import structlog
from structlog.typing import FilteringBoundLogger, WrappedLogger

from karpenter.os_errors import os_reason
from karpenter.settings import SettingError, Settings
from karpenter.telemetry.log_lines import Processor, json_line, text_line, with_traceback

Entry: TypeAlias = dict[str, Any]
Now: TypeAlias = Callable[[], datetime]

_DEBUG: Final = 10
_LEVELS: Final[Mapping[str, int]] = {"debug": _DEBUG, "info": 20, "error": 40, "": 20}
_NOTHING: Final = 50
_FIRST_LINES: Final = 100
_THEN_EVERY: Final = 100
_REVISION_LENGTH: Final = 7
_DIRTY: Final = "-dirty"
_MODE: Final = 0o644
# Modules that log on behalf of their caller, which the line names instead
_PASSING_ON: Final = ["karpenter.decision_log.log", "karpenter.controllers.context"]
_STREAMS: Final = ("stdout", "stderr")


def configure_logging(
    settings: Settings, *, commit: str = "", now: Now | None = None
) -> FilteringBoundLogger:
    """Return the logger of a controller in a cluster.

    Raises:
        SettingError: a file to write to cannot be opened.
    """
    level = _LEVELS[settings.log_level]
    now = now or _wall_clock
    sinks = _opened("LOG_OUTPUT_PATHS", settings.log_output_paths)
    failures = _opened("LOG_ERROR_OUTPUT_PATHS", settings.log_error_output_paths)
    processors = line_processors(now, commit, is_debug=level == _DEBUG)
    if settings.log_format == "text" or (not settings.log_format and _are_terminals(sinks)):
        processors[-1] = text_line(now)
    return _logger(Output(sinks, failures), processors, level)


def line_processors(now: Now, commit: str, *, is_debug: bool = False) -> list[Processor]:
    """The structlog processors of a controller's entries; the last one renders the line."""
    processors: list[Processor] = [structlog.contextvars.merge_contextvars, Sampling(now)]
    if is_debug:
        parameters = {
            structlog.processors.CallsiteParameter.PATHNAME,
            structlog.processors.CallsiteParameter.LINENO,
        }
        callsite = structlog.processors.CallsiteParameterAdder(parameters, _PASSING_ON)
        processors += [callsite, with_traceback]
    processors.append(json_line(now, commit))
    return processors


def take_over(log: FilteringBoundLogger) -> None:
    """Route the standard library's logging, which libraries use, to ``log``."""

    def pass_on(_: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> str:
        message = str(event.pop("event", ""))
        getattr(log, method, log.info)(message, **event)
        raise structlog.DropEvent

    structlog.configure(
        processors=[pass_on],
        wrapper_class=structlog.make_filtering_bound_logger(_DEBUG),
        logger_factory=lambda *_: None,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_Handler(log)], force=True)


def short_revision(revision: str) -> str:
    """The first seven characters of a revision, and whether the tree had changed since."""
    clean = revision.removesuffix(_DIRTY)
    return clean[:_REVISION_LENGTH] + (_DIRTY if clean != revision else "")


def quiet_logger() -> FilteringBoundLogger:
    """Return a logger that drops everything."""
    return _logger(None, [_drop], _NOTHING)


def recording_logger(level: str = "debug") -> tuple[FilteringBoundLogger, list[Entry]]:
    """Return a logger and the list its entries go to, each with ``level`` and ``message``."""
    entries: list[Entry] = []

    def record(_: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> str:
        message = event.pop("event", "")
        entries.append({"level": method, "message": message, **event})
        raise structlog.DropEvent

    return _logger(None, [record], _LEVELS[level]), entries


class Sampling:
    """Lets the first lines with the same level and message pass each second, then a few."""

    def __init__(self, now: Now) -> None:
        self._now = now
        self._second = 0
        self._counts: dict[tuple[str, object], int] = {}

    def __call__(
        self, _: WrappedLogger, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Pass the line on, or drop it."""
        second = int(self._now().timestamp())
        if second != self._second:
            self._second = second
            self._counts.clear()
        key = (method, event.get("event"))
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count > _FIRST_LINES and (count - _FIRST_LINES) % _THEN_EVERY:
            raise structlog.DropEvent
        return event


class Sink(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class Output:
    """Writes lines to several sinks; failures are reported on sinks of their own."""

    def __init__(self, sinks: Sequence[Sink], failures: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._failures = failures

    def msg(self, line: str) -> None:
        """Write one line everywhere."""
        for sink in self._sinks:
            try:
                sink.write(line)
                sink.flush()
            except (OSError, ValueError) as error:
                self._complain(f"a log line could not be written: {error}\n")

    debug = info = warning = error = critical = exception = msg

    def _complain(self, text: str) -> None:
        for sink in self._failures:
            with contextlib.suppress(OSError, ValueError):
                sink.write(text)
                sink.flush()


def _logger(target: object, processors: Sequence[Processor], level: int) -> FilteringBoundLogger:
    logger = structlog.wrap_logger(
        target,
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return cast(FilteringBoundLogger, logger.bind())


def _drop(_: WrappedLogger, _method: str, _event: MutableMapping[str, Any]) -> str:
    raise structlog.DropEvent


def _opened(variable: str, paths: str) -> list[Sink]:
    return [
        _open(variable, path) for path in filter(None, (part.strip() for part in paths.split(",")))
    ]


def _open(variable: str, path: str) -> Sink:
    if path in _STREAMS:
        return _Standard(path)
    try:
        return _File(path.removeprefix("file://"))
    except OSError as error:
        reason = os_reason(error)
        raise SettingError(f"{variable}: {path} cannot be written: {reason}") from error


class _Handler(logging.Handler):
    """Hands the lines of the standard library to a logger of ours."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        facts: dict[str, Any] = {"logger": f"controller.{record.name}"}
        if error is not None:
            facts |= {"error": error, "exc_info": error}
        say = self._log.error if record.levelno >= logging.ERROR else self._log.info
        say(record.getMessage(), **facts)


class _File:
    """A file for the life of the process; each line is one write at its end."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)

    def write(self, text: str, /) -> None:
        os.write(self._descriptor, text.encode(errors="replace"))

    def flush(self) -> None:
        """Do nothing: nothing is held back."""


class _Standard:
    """Standard output or error, whatever it is at the moment of writing."""

    def __init__(self, name: str) -> None:
        self._stream_name = name

    def write(self, text: str, /) -> None:
        stream = getattr(sys, self._stream_name)
        if stream is not None:
            stream.write(text)

    def flush(self) -> None:
        stream = getattr(sys, self._stream_name)
        if stream is not None:
            stream.flush()

    def is_terminal(self) -> bool:
        """Whether the sink is a terminal."""
        stream = getattr(sys, self._stream_name)
        return stream is not None and stream.isatty()


def _are_terminals(sinks: Sequence[Sink]) -> bool:
    """Whether all sinks are terminals."""
    return bool(sinks) and all(isinstance(s, _Standard) and s.is_terminal() for s in sinks)


def _wall_clock() -> datetime:
    return datetime.now(UTC)
