"""Segments as they are written and read: torn ones, spoilt ones, and those of other times."""

import gzip
import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.simulate.record.segments import (
    Change,
    Compressor,
    Gap,
    Head,
    Reading,
    RecordingError,
    alive_line,
    beginning,
    del_line,
    end_line,
    gap_line,
    head_line,
    merge_line,
    merge_of,
    merged,
    moment,
    read,
    seconds_at,
    set_line,
    whole_line,
)

T = 1_900_000_000.0


def pod(name: str, **status: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "status": status}


def compressed(*lines: bytes, is_finished: bool = True) -> bytes:
    pieces: list[bytes] = []
    compressor = Compressor(pieces.append)
    for line in lines:
        compressor.add(line)
        compressor.flush()
    if is_finished:
        compressor.finish()
    return b"".join(pieces)


def head(number: int = 1, at: float = T, previous: int | None = None, names: str = "") -> bytes:
    return head_line(Head(at, number, previous, names))


FIRST = compressed(
    head(),
    set_line(T, pod("a")),
    whole_line(T),
    set_line(T + 1, pod("b")),
    merge_line(T + 2, ("Pod", "", "a"), {"status": {"phase": "Running"}}),
    del_line(T + 3, ("Pod", "", "b")),
    gap_line(Gap(T + 4, T + 5)),
    alive_line(T + 6),
    end_line(T + 7),
)


def test_what_was_written_is_read() -> None:
    reading = Reading()

    found = list(read([("one", FIRST)], reading))

    assert found == [
        Change(T, ("Pod", "", "a"), None, pod("a")),
        Change(T + 1, ("Pod", "", "b"), None, pod("b")),
        Change(T + 2, ("Pod", "", "a"), pod("a"), pod("a", phase="Running")),
        Change(T + 3, ("Pod", "", "b"), pod("b"), None),
        Gap(T + 4, T + 5),
    ]
    assert reading.has_end
    assert (T, T + 7) == (reading.first, reading.last)
    assert reading.gaps == [Gap(T + 4, T + 5)]


def test_a_segment_is_ordinary_gzip_of_lines() -> None:
    lines = gzip.decompress(FIRST).splitlines()

    assert json.loads(lines[0])["recording"] == 2
    assert json.loads(lines[-1]) == {"end": moment(T + 7)}


def test_the_next_segment_tells_what_went_in_between() -> None:
    second = compressed(
        head(2, T + 60, len(FIRST)),
        set_line(T + 60, pod("c")),
        whole_line(T + 60),
        end_line(T + 61),
    )
    reading = Reading()

    found = list(read([("one", FIRST), ("two", second)], reading))[5:]

    assert found == [
        Change(T + 60, ("Pod", "", "a"), pod("a", phase="Running"), None),
        Change(T + 60, ("Pod", "", "c"), None, pod("c")),
    ]
    assert {("Pod", "", "c"): pod("c")} == reading.objects


@pytest.mark.parametrize("cut", [1, 8, 20])
@pytest.mark.case("SIM-47")
def test_a_torn_end_is_cut_off(cut: int) -> None:
    torn = compressed(
        head(), set_line(T, pod("a")), whole_line(T), alive_line(T + 6), is_finished=False
    )
    reading = Reading()

    found = list(read([("one", torn[:-cut])], reading))

    assert found == [Change(T, ("Pod", "", "a"), None, pod("a"))]
    assert not reading.has_end
    assert reading.torn == ["one"]


@given(st.integers(0, len(FIRST) - 1))
def test_a_file_cut_anywhere_is_read_as_far_as_it_goes_or_refused(size: int) -> None:
    reading = Reading()
    try:
        found = list(read([("one", FIRST[:size])], reading))
    except RecordingError:
        return
    assert found == list(read([("one", FIRST)]))[: len(found)]
    assert not reading.has_end or size > len(FIRST) - 30


def test_a_segment_that_was_cut_later_is_refused_by_the_next() -> None:
    second = compressed(head(2, T + 60, len(FIRST)), whole_line(T + 60), end_line(T + 61))

    with pytest.raises(RecordingError, match=r"one:1: has \d+ bytes, and had \d+ when"):
        list(read([("one", FIRST[:-40]), ("two", second)]))


def test_a_last_segment_that_was_never_written_is_none() -> None:
    reading = Reading()

    list(read([("one", FIRST), ("two", b"")], reading))

    assert reading.torn == ["two"]
    assert 1 == len(reading.heads)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "one:1: this is no recording, or none of it is left"),
        (b"apiVersion: v1\n", "one:1: this is no whole recording"),
        (gzip.compress(b"hello\n"), "one:1: this is no line of a recording"),
        (gzip.compress(b'{"kind": "Pod"}\n'), "one:1: this is no recording"),
        (gzip.compress(b'{"recording": "x"}\n'), "one:1: this is no recording"),
        (
            gzip.compress(b'{"recording": 3}\n'),
            "one:1: the recording has version 3, and only 1 to 2 can be read",
        ),
        (compressed(head(), b'{"at": 7, "op": "set"}\n'), "one:2: this is no line of a recording"),
        (compressed(head(), b"[]\n"), "one:2: this is no line of a recording"),
        (
            compressed(head(), whole_line(T), del_line(T, ("Pod", "", "never"))),
            "one:3: this is no line of a recording",
        ),
        (compressed(head(), b'{"at'), "one:1: this is no whole recording: its last line is cut"),
        (FIRST[:40] + bytes(8) + FIRST[48:], "one:1: this is no whole recording"),
    ],
    # compressed data has the time in it, which makes no name for a test
    ids=[
        "empty",
        "not compressed",
        "text",
        "an object",
        "another version",
        "a later version",
        "a line without its object",
        "a list",
        "an unknown object",
        "cut",
        "damaged",
    ],
)
def test_what_is_no_recording_is_refused_in_one_sentence(data: bytes, problem: str) -> None:
    with pytest.raises(RecordingError) as caught:
        list(read([("one", data)]))

    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (head(1, T + 60), "two:1: is not later than the segment before it"),
        (head(2, T + 60, names="abc"), "two:1: its names were hashed with another key"),
    ],
)
def test_segments_that_do_not_belong_together_are_refused(second: bytes, problem: str) -> None:
    with pytest.raises(RecordingError, match=problem):
        list(read([("one", FIRST), ("two", compressed(second, whole_line(T + 60)))]))


def test_a_file_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karpenter.simulate.record.segments._MOST_BYTES", 1_000_000)
    bomb = gzip.compress(b'{"recording": 1}\n' + b" " * 20_000_000)

    with pytest.raises(RecordingError, match="larger than any segment"):
        list(read([("one", bomb)]))


def test_the_beginning_of_a_segment_is_what_there_was() -> None:
    found, objects = beginning("one", FIRST)

    assert (found.at, found.segment) == (T, 1)
    assert objects == [pod("a")]


JSON = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans() | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


@settings(max_examples=30)
@given(OBJECTS, OBJECTS)
def test_a_merge_leads_from_one_object_to_the_other(before: Any, after: Any) -> None:
    assert after == merged(before, merge_of(before, after))


def test_times_are_kept_in_milliseconds() -> None:
    assert moment(T + 0.1234) == "2030-03-17T17:46:40.123Z"
    assert seconds_at(moment(T + 0.1234)) == T + 0.123


def test_what_was_flushed_can_be_read_although_the_stream_goes_on() -> None:
    pieces: list[bytes] = []
    compressor = Compressor(pieces.append)
    compressor.add(b"one\n")
    compressor.flush()
    compressor.add(b"two\n")

    assert zlib.decompressobj(31).decompress(b"".join(pieces)) == b"one\n"
