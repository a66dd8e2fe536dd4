"""The views of the past: any moment that is kept is what the view was then, and memory is bounded."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from karpenter.dashboard import history as past
from karpenter.dashboard.contract import NodeColumns, PodColumns, View
from karpenter.dashboard.delta import delta
from karpenter.dashboard.feed import Published
from karpenter.dashboard.history import History
from karpenter.dashboard.history_file import HistoryFile, HistoryFileError
from karpenter.decision_log.record import moment_text

Opened = Callable[..., History]
BEGAN = datetime(2026, 11, 16, 20, 0, tzinfo=UTC)


def table(kind: type, rows: int, turn: int, changed: int) -> object:
    """Columns of so many rows, of which some are different at every turn."""
    names = {"name", "claim"}
    columns: dict[str, list[object]] = {
        column: [f"{column}-{row}" if column in names else row % 7 for row in range(rows)]
        for column in kind.__struct_fields__  # type: ignore[attr-defined]
    }
    if "is_estimate" in columns:
        columns["is_estimate"] = [False] * rows
        columns["price"] = [0.125 * row for row in range(rows)]
    columns["id"] = list(range(1, rows + 1))
    for row in range(changed):
        columns["state"][(turn * changed + row) % rows] = turn % 5
    return kind(**columns)


def views(
    count: int, *, every: float, nodes: int = 3, pods: int = 10, changed: int = 1, epoch: str = "e"
) -> Iterator[View]:
    """Views of a cluster that changes all the time."""
    for turn in range(count):
        yield View(
            epoch=epoch,
            seq=turn,
            at=moment_text(BEGAN + timedelta(seconds=every * turn)),
            nodes=table(NodeColumns, nodes, turn, min(changed, nodes)),  # type: ignore[arg-type]
            pods=table(PodColumns, pods, turn, min(changed, pods)),  # type: ignore[arg-type]
        )


def record(history: History, series: Iterator[View]) -> list[View]:
    """Keep a series of views; return them."""
    kept: list[View] = []
    for view in series:
        difference = msgspec.json.encode(delta(kept[-1], view)) if kept else b""
        history.keep(Published(view), difference)
        kept.append(view)
    return kept


def seconds(view: View) -> float:
    return datetime.fromisoformat(view.at).timestamp()


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens histories that are kept in files, and closes them."""
    found: list[History] = []

    def opened_at(path: Path, **options: float) -> History:
        found.append(History(journal=HistoryFile(path), **options))  # type: ignore[arg-type]
        return found[-1]

    yield opened_at
    for history in found:
        history.close()


def as_past(view: View) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(view, is_live=False))


def assert_is_kept(history: History, views_then: list[View]) -> None:
    for view in views_then:
        found = history.at(seconds(view))
        assert found is not None
        assert msgspec.json.encode(found) == as_past(view)


def test_any_moment_is_the_view_of_then() -> None:
    history = History()
    kept = record(history, views(200, every=30))  # over several checkpoints
    between = history.at(seconds(kept[7]) + 29)

    assert_is_kept(history, kept)
    assert between is not None
    assert msgspec.json.encode(between) == as_past(kept[7])
    assert history.at(seconds(kept[0]) - 1) is None
    assert history.kept.since == kept[0].at
    assert history.kept.until == kept[-1].at
    assert not history.kept.is_on_disk


def test_a_view_that_was_not_kept_does_not_make_the_next_one_wrong() -> None:
    history = History()
    series = list(views(20, every=1))
    for number in (0, 1, 2, 10, 11):
        before = series[max(0, number - 1)]
        difference = msgspec.json.encode(delta(before, series[number])) if number else b""
        history.keep(Published(series[number]), difference)

    assert_is_kept(history, [series[number] for number in (0, 1, 2, 10, 11)])


def test_a_new_epoch_begins_anew() -> None:
    history = History()
    first = record(history, views(5, every=1))
    later = [
        msgspec.structs.replace(view, at=moment_text(BEGAN + timedelta(hours=1, seconds=view.seq)))
        for view in views(5, every=1, epoch="f", pods=4)
    ]
    record(history, iter(later))

    assert_is_kept(history, [*first, *later])


def test_the_oldest_is_dropped_when_there_is_too_much() -> None:
    history = History(most_bytes=60_000)
    kept = record(history, views(2_000, every=20, pods=50, changed=20))

    assert history.size <= 60_000 + past.SEGMENT_BYTES
    assert history.at(seconds(kept[0])) is None
    assert_is_kept(history, kept[-5:])


def test_the_oldest_is_dropped_when_it_is_too_old() -> None:
    history = History(seconds=3600)
    kept = record(history, views(400, every=30))

    assert history.at(seconds(kept[-1]) - 2 * 3600) is None
    assert history.at(seconds(kept[-1]) - 3600) is not None


@pytest.mark.slow
@pytest.mark.case("DASH-23")
def test_a_day_of_churn_stays_small_and_is_found_soon() -> None:
    history = History()
    last: View | None = None
    samples: list[View] = []
    for view in views(24 * 60 + 60, every=60, nodes=200, pods=1_000, changed=100):
        difference = msgspec.json.encode(delta(last, view)) if last is not None else b""
        history.keep(Published(view), difference)
        assert history.size <= past.MOST_BYTES + past.SEGMENT_BYTES
        if view.seq % 130 == 129:
            samples.append(view)
        last = view
    took = []
    for view in samples[1:]:
        begun = time.process_time()
        assert_is_kept(history, [view])
        took.append(time.process_time() - begun)

    assert history.size <= past.MOST_BYTES
    print(f"{history.size / 2**20:.1f} MiB; a moment takes {max(took) * 1000:.0f} ms at most")


def test_a_file_keeps_it_over_restarts(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "history"
    first = opened(path)
    kept = record(first, views(100, every=30))
    again = opened(path)
    later = [
        msgspec.structs.replace(view, at=moment_text(BEGAN + timedelta(hours=2, seconds=view.seq)))
        for view in views(5, every=1, epoch="f")
    ]
    record(again, iter(later))
    third = opened(path)

    assert_is_kept(again, kept)
    assert_is_kept(third, [*kept, *later])
    assert third.kept.is_on_disk
    assert 0o600 == path.stat().st_mode & 0o777


@pytest.mark.case("DASH-24")
def test_a_torn_end_is_cut_off_and_the_rest_is_read(tmp_path: Path, opened: Opened) -> None:
    path, whole = tmp_path / "history", tmp_path / "whole"
    kept = record(opened(whole), views(6, every=1))
    content = whole.read_bytes()
    entries = [len(content)]
    for torn in range(len(content) - 1, len(content) - 400, -7):
        path.write_bytes(content[:torn])
        history = opened(path)
        until = history.kept.until
        known = [view for view in kept if view.at <= until]

        assert known
        assert_is_kept(history, known)
        assert path.stat().st_size <= torn
        entries.append(len(known))
    assert min(entries) < len(kept)


def test_what_is_damaged_in_the_middle_does_not_lead_to_a_wrong_view(
    tmp_path: Path, opened: Opened
) -> None:
    path = tmp_path / "history"
    kept = record(opened(path), views(6, every=1))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    history = opened(path)

    for view in kept:
        found = history.at(seconds(view))
        assert found is None or found.at in {each.at for each in kept}
        if found is not None and found.at == view.at:
            assert msgspec.json.encode(found) == as_past(view)


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("what I have to do")

    with pytest.raises(HistoryFileError, match="is no history of a dashboard"):
        HistoryFile(path)
    assert path.read_text() == "what I have to do"
    with pytest.raises(HistoryFileError, match="missing"):
        HistoryFile(tmp_path / "missing" / "history")


def test_the_file_is_written_anew_when_most_of_it_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    monkeypatch.setattr("karpenter.dashboard.history_file._FEW_BYTES", 20_000)
    path = tmp_path / "history"
    history = opened(path, seconds=1800)
    kept = record(history, views(2_000, every=30))

    assert path.stat().st_size < 200_000
    assert_is_kept(opened(path), kept[-20:])


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from unit.dashboard.test_history import record, views
from karpenter.dashboard.history import History
from karpenter.dashboard.history_file import HistoryFile
print("ready", flush=True)
record(History(journal=HistoryFile(Path({path!r}))), views(10**9, every=1, pods=200, changed=50))
"""


@pytest.mark.slow
@pytest.mark.case("DASH-24")
def test_a_program_that_is_killed_while_it_writes_loses_the_torn_end_alone(
    tmp_path: Path, opened: Opened
) -> None:
    path = tmp_path / "history"
    program = WRITER.format(tests=str(Path(__file__).parents[2]), path=str(path))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        while not path.exists() or path.stat().st_size < 100_000:
            time.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
    history = opened(path)
    until = history.kept.until
    known = list(zip(range(10_000), views(10_000, every=1, pods=200, changed=50), strict=True))
    there = [view for _, view in known if view.at <= until]

    assert len(there) > 10
    assert_is_kept(history, [there[0], there[len(there) // 2], there[-1]])
    record(history, views(3, every=1, epoch="f"))
