"""The decision log as a file: in order, rotated, and never in the way."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from karpenter.clock import run_virtual, running_clock
from karpenter.decision_log.file import DecisionFile, RotatedFile
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Draft, Kind, Outcome
from karpenter.telemetry.logs import Entry, recording_logger

AT = datetime(2026, 11, 16, tzinfo=UTC)


def draft(number: int) -> Draft:
    return Draft(Kind.LAUNCH, Outcome.DONE, "Launched", f"decision {number}")


@asynccontextmanager
async def written(path: Path, **options: Any) -> AsyncIterator[tuple[DecisionLog, list[Entry]]]:
    """A decision log that is written to a file while the block runs."""
    log, lines = recording_logger()
    decisions, file = DecisionLog(), DecisionFile(str(path), running_clock(), log, **options)
    end = decisions.follow(file.take)
    task = asyncio.create_task(file.run())
    try:
        yield decisions, lines
    finally:
        end()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]


def expected(numbers: range) -> list[str]:
    return [f"decision {number}" for number in numbers]


def test_lines_are_those_of_the_log_in_order_within_a_second(tmp_path: Path) -> None:
    path = tmp_path / "decisions.ndjson"

    async def main() -> None:
        async with written(path) as (decisions, lines):
            for number in range(2500):
                decisions.add(AT, draft(number))
                if number % 500 == 0:
                    await asyncio.sleep(0.2)
            await asyncio.sleep(1.0)
            assert expected(range(2500)) == texts(path)
            assert [] == lines

    run_virtual(main())


def test_what_was_decided_before_the_end_is_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "decisions.ndjson"

    async def main() -> None:
        async with written(path) as (decisions, _):
            decisions.add(AT, draft(0))
            await asyncio.sleep(0.1)
            decisions.add(AT, draft(1))

    run_virtual(main())
    assert expected(range(2)) == texts(path)


def test_three_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "decisions.ndjson"

    async def main() -> None:
        async with written(path, most_bytes=10_000) as (decisions, _):
            for number in range(400):
                decisions.add(AT, draft(number))
                await asyncio.sleep(1.0)

    run_virtual(main())
    files = sorted(tmp_path.iterdir())
    assert ["decisions.ndjson", "decisions.ndjson.1", "decisions.ndjson.2"] == [
        file.name for file in files
    ]
    assert all(file.stat().st_size <= 10_000 for file in files)
    kept = [text for file in reversed(files) for text in texts(file)]
    assert expected(range(400 - len(kept), 400)) == kept
    assert len(kept) > 60


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_warning_and_no_stop() -> None:
    async def main() -> None:
        async with written(Path("/dev/full"), most_waiting=10) as (decisions, lines):
            for number in range(100):
                decisions.add(AT, draft(number))
                await asyncio.sleep(1.0)

            assert 100 == len(decisions)
            assert 1 == len(lines)
            assert (
                "DECISION_LOG: /dev/full cannot be written: no space left on device; make room or"
                " correct the path; decisions go on without it"
            ) == lines[0]["error"]

    run_virtual(main())


def test_what_could_not_be_written_is_written_when_it_can_be(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    path = folder / "decisions.ndjson"

    async def main() -> None:
        async with written(path) as (decisions, lines):
            for number in range(5):
                decisions.add(AT, draft(number))
                await asyncio.sleep(1.0)
            folder.mkdir()
            await asyncio.sleep(1.0)
            assert expected(range(5)) == texts(path)
            folder.rename(tmp_path / "elsewhere")  # the file that is open stays in use
            decisions.add(AT, draft(5))
            await asyncio.sleep(1.0)
            assert ["decision log not written"] == [line["message"] for line in lines]

    run_virtual(main())
    assert expected(range(6)) == texts(tmp_path / "elsewhere" / "decisions.ndjson")


def test_of_lines_that_wait_for_too_long_the_oldest_are_dropped(tmp_path: Path) -> None:
    folder = tmp_path / "missing"

    async def main() -> None:
        async with written(folder / "log", most_waiting=3) as (decisions, _):
            for number in range(10):
                decisions.add(AT, draft(number))
                await asyncio.sleep(1.0)
            folder.mkdir()

    run_virtual(main())
    assert expected(range(7, 10)) == texts(folder / "log")


def test_a_line_that_a_crash_has_torn_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"text":"decision 0"}\n{"text":"deci')

    target = RotatedFile(path, 1000)
    assert 1 == target.append([b'{"text":"decision 1"}'])
    target.close()

    assert expected(range(2)) == texts(path)


def test_a_file_that_is_one_torn_line_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 200_000)

    target = RotatedFile(path, 10**6)
    target.append([b'{"text":"decision 0"}'])
    target.close()

    assert expected(range(1)) == texts(path)


def test_a_line_that_did_not_fit_on_the_disk_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    target = RotatedFile(path, 10**6)
    target.append([b'{"text":"decision 0"}'])
    really: Callable[[int, Any], int] = os.write

    def filling_up(descriptor: int, text: Any) -> int:
        if len(text) > 10:
            return really(descriptor, text[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", filling_up)
        assert 0 == target.append([b'{"text":"12345"}'])
        assert "no space left on device" == target.trouble
    assert expected(range(1)) == texts(path)

    assert 1 == target.append([b'{"text":"decision 1"}'])
    target.close()
    assert expected(range(2)) == texts(path)
    assert "" == target.trouble


def test_a_pipe_is_written_and_not_rotated(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        target = RotatedFile(path, 10)
        assert 2 == target.append([b"one line of text", b"another line of text"])
        target.close()
        assert b"one line of text\nanother line of text\n" == os.read(reader, 1000)
    finally:
        os.close(reader)
