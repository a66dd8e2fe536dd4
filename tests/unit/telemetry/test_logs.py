"""Logs: one JSON object a line, keys as operators grep for them, never too many of the same."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from karpenter.model import durations
from karpenter.settings import SettingError, Settings
from karpenter.telemetry import configure_logging, quiet_logger, recording_logger
from karpenter.telemetry.logs import Output, short_revision, take_over

MOMENT = datetime(2026, 8, 20, 22, 19, 15, 123_999, tzinfo=UTC)


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = MOMENT

    def __call__(self) -> datetime:
        return self.now


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def logger(level: str = "info", paths: str = "stdout") -> Any:
    settings = replace(Settings(), log_level=level, log_output_paths=paths)
    return configure_logging(settings, commit="abcdef1", now=Hand())


@pytest.mark.row("S2-76")
def test_a_line_is_one_object_with_fixed_keys_first(capsys: pytest.CaptureFixture[str]) -> None:
    logger().info("created nodeclaim", NodeClaim={"name": "a"}, **{"provider-id": "x"})

    (line,) = capsys.readouterr().out.splitlines()
    assert line == (
        '{"level":"INFO","time":"2026-08-20T22:19:15.123Z","logger":"controller",'
        '"message":"created nodeclaim","commit":"abcdef1",'
        '"NodeClaim":{"name":"a"},"provider-id":"x"}'
    )


@pytest.mark.parametrize(
    ("asked", "paths", "is_terminal", "is_json"),
    [
        pytest.param("", "stdout", True, False, id="people read along"),
        pytest.param("json", "stdout", True, True, id="people who ask for JSON"),
        pytest.param("", "stdout", False, True, id="nobody reads along"),
        pytest.param("text", "stdout", False, False, id="text is asked for"),
        pytest.param("", "stdout,FILE", True, True, id="a file is written too"),
    ],
)
def test_people_at_a_terminal_get_text(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    asked: str,
    paths: str,
    is_terminal: bool,
    is_json: bool,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    paths = paths.replace("FILE", str(tmp_path / "log"))
    settings = replace(Settings(), log_format=asked, log_output_paths=paths)
    log = configure_logging(settings, commit="abcdef1", now=Hand())

    log.error(
        "reconcile\x1b failed", Pod={"namespace": "a", "name": "b"}, error=ValueError("no"), n=2
    )

    (line,) = capsys.readouterr().out.splitlines()
    expected = "22:19:15 ERROR reconcile\\x1b failed  Pod=a/b  error=no  n=2"
    assert (line[0] == "{", line == expected) == (is_json, not is_json)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["DEBUG", "INFO", "INFO", "ERROR"]),
        ("info", ["INFO", "INFO", "ERROR"]),
        ("", ["INFO", "INFO", "ERROR"]),
        ("error", ["ERROR"]),
    ],
)
def test_the_level_decides_what_is_worth_a_line(
    level: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log = logger(level)

    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")

    assert expected == [line["level"] for line in lines(capsys)]


class FieldError(Exception):
    """An error with facts."""

    def __init__(self) -> None:
        super().__init__("no room")
        self.log_fields = {"NodePool": {"name": "general"}, "waited": timedelta(seconds=1.2)}


def test_an_error_unfolds_its_facts_into_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    logger().error("could not schedule pod", error=FieldError(), exc_info=FieldError())

    (line,) = lines(capsys)
    assert ("no room", {"name": "general"}, "1.2s") == (
        line["error"],
        line["NodePool"],
        line["waited"],
    )
    assert {"exc_info", "stacktrace", "caller"}.isdisjoint(line)


def test_only_debug_tells_who_said_it_and_where_it_went_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger("debug").error("bad", exc_info=ValueError("boom"))

    (line,) = lines(capsys)
    assert line["caller"].startswith("telemetry/test_logs.py:")
    assert "ValueError: boom\n" == line["stacktrace"]


def test_context_stays_and_children_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    log = logger().bind(controller="provisioner", logger="controller.provisioner")

    log.info("a", level="not this", at=MOMENT, tags={"x"})

    (line,) = lines(capsys)
    assert ("controller.provisioner", "provisioner") == (line["logger"], line["controller"])
    assert ("INFO", "2026-08-20T22:19:15.123Z", ["x"]) == (
        line["level"],
        line["at"],
        line["tags"],
    )


def test_odd_values_do_not_break_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    logger().info("odd", half="\ud800", thing=object, many={1: {"deep": timedelta(minutes=2)}})

    (line,) = lines(capsys)
    assert {"1": {"deep": "2m0s"}} == line["many"]


class TestSampling:
    def test_after_a_hundred_lines_only_every_hundredth_passes(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        log = logger()

        for number in range(350):
            log.info("again", number=number)
        log.error("again")
        log.info("another")

        numbers = [line.get("number") for line in lines(capsys)]
        assert [*range(100), 199, 299, None, None] == numbers

    def test_a_new_second_begins_anew(self, capsys: pytest.CaptureFixture[str]) -> None:
        clock = Hand()
        log = configure_logging(Settings(), now=clock)

        for second in range(2):
            clock.now = MOMENT + timedelta(seconds=second)
            for _ in range(150):
                log.info("again")

        assert 200 == len(lines(capsys))


def test_lines_go_to_all_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log"
    log = logger(paths=f"stdout, stderr,{file}")

    log.info("a")

    said = capsys.readouterr()
    assert said.out == said.err == file.read_text("utf-8")
    assert said.out.count("\n") == 1


def test_a_path_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingError) as refused:
        logger(paths=f"{tmp_path}/no/log")

    expected = f"LOG_OUTPUT_PATHS: {tmp_path}/no/log cannot be written: no such file or directory"
    assert expected == str(refused.value)


def test_a_line_that_cannot_be_written_is_told_elsewhere() -> None:
    closed, told = io.StringIO(), io.StringIO()
    closed.close()

    Output([closed], [told]).msg("x\n")

    assert "a log line could not be written: I/O operation on closed file\n" == told.getvalue()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (1.2, "1.2s"),
        (0.0155, "15.5ms"),
        (0.000004, "4µs"),
        (90, "1m30s"),
        (3600, "1h0m0s"),
        (-1.5, "-1.5s"),
    ],
)
def test_durations_are_written_as_go_does(seconds: float, expected: str) -> None:
    assert expected == durations.text(timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("revision", "expected"),
    [
        ("0123456789abcdef", "0123456"),
        ("0123456789abcdef-dirty", "0123456-dirty"),
        ("", ""),
    ],
)
def test_a_revision_is_short(revision: str, expected: str) -> None:
    assert expected == short_revision(revision)


def test_a_quiet_logger_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    log = quiet_logger().bind(a=1)

    log.error("b")
    log.critical("c")

    assert ("", "") == capsys.readouterr()


def test_a_recording_logger_keeps_entries() -> None:
    log, entries = recording_logger()

    log.bind(controller="x").info("created nodeclaim", NodeClaim={"name": "a"})
    log.debug("b")

    assert [
        {
            "level": "info",
            "message": "created nodeclaim",
            "controller": "x",
            "NodeClaim": {"name": "a"},
        },
        {"level": "debug", "message": "b"},
    ] == entries


@pytest.fixture
def global_loggers() -> Iterator[None]:
    """Put back what a test does to the loggers of the process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    before = structlog.get_config()
    yield
    structlog.configure(**before)
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("global_loggers")
def test_others_log_through_ours() -> None:
    log, entries = recording_logger()

    take_over(log)
    structlog.get_logger("karpenter.kube.lease").warning("lost the lease", holder="a")
    logging.getLogger("asyncio").error("slow %s", "callback")
    logging.getLogger("aiohttp").info("not worth a line")

    assert [
        {"level": "warning", "message": "lost the lease", "holder": "a"},
        {"level": "error", "message": "slow callback", "logger": "controller.asyncio"},
    ] == entries
