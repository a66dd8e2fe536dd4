"""Segments of a recording: lines of JSON, compressed, of which each segment can be read by itself.

A segment begins with a head and the objects there are; then come changes, gaps in which changes may
have been missed, and signs of life. A recorder that is killed leaves a segment without an end, which
is read up to its last whole line. The next head says how long the segment before it was, so a file
that was cut off later is told from one that was never longer.

    {"recording": 2, "at": T, "segment": 3, "previous": 5120, "names": ""}
    {"at": T, "op": "set", "object": {...}}                                  one for each object
    {"whole": T}
    {"at": T, "op": "set", "object": {...}}
    {"at": T, "op": "set", "kind": "Pod", "key": ["shop", "web-0"], "merge": {...}}
    {"at": T, "op": "del", "kind": "Pod", "key": ["shop", "web-0"]}
    {"gap": [T, T]}
    {"alive": T}
    {"end": T}
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec

from karpenter.api.meta import JsonObject

VERSION: Final = 2  # the first had no ReplicaSets of Deployments
_READABLE: Final = (1, VERSION)
PATTERN: Final = "events-*.jsonl.gz"
_NO_LINE: Final = "this is no line of a recording"
_GZIP: Final = 31  # window bits of a gzip stream
_MOST_BYTES: Final = 4 * 2**30  # that one segment may grow to; more is not what a recorder writes
_PIECE: Final = 1 << 14  # at a time: it may become a thousand times as large

Key: TypeAlias = tuple[str, str, str]  # kind, namespace, name
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class RecordingError(ValueError):
    """A recording that cannot be used; the text is one sentence with file and line."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a segment."""

    at: float
    segment: int
    previous: int | None  # bytes of the segment before
    names: str  # tells apart the keys that names were hashed with


@dataclass(frozen=True, slots=True)
class Change:
    """An object as it was and as it is; None stands for "not there"."""

    at: float
    key: Key
    before: JsonObject | None
    after: JsonObject | None


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which changes may have been missed."""

    since: float
    until: float


@dataclass(slots=True)
class Reading:
    """How far a recording has been read, and what is known by then."""

    heads: list[Head] = field(default_factory=list)
    objects: dict[Key, JsonObject] = field(default_factory=dict)
    last: float = 0.0  # when the recorder was last heard of
    has_end: bool = True
    torn: list[str] = field(default_factory=list)  # segments without an end
    gaps: list[Gap] = field(default_factory=list)

    @property
    def first(self) -> float:
        """When the recording begins."""
        return self.heads[0].at


def name_of(segment: int) -> str:
    """The file of a segment."""
    return f"events-{segment:04}.jsonl.gz"


def key_of(obj: JsonObject) -> Key:
    """What tells an object apart."""
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata.get("name", "")


# --- Lines


def head_line(head: Head) -> bytes:
    """The first line of a segment."""
    found: JsonObject = {"recording": VERSION, "at": moment(head.at), "segment": head.segment}
    if head.previous is not None:
        found["previous"] = head.previous
    found["names"] = head.names
    return _line(found)


def set_line(at: float, obj: JsonObject) -> bytes:
    """An object that is new."""
    return _line({"at": moment(at), "op": "set", "object": obj})


def merge_line(at: float, key: Key, merge: JsonObject) -> bytes:
    """An object that has changed."""
    return _line({"at": moment(at), "op": "set", "kind": key[0], "key": key[1:], "merge": merge})


def del_line(at: float, key: Key) -> bytes:
    """An object that is gone."""
    return _line({"at": moment(at), "op": "del", "kind": key[0], "key": key[1:]})


def gap_line(gap: Gap) -> bytes:
    """A time in which changes may have been missed."""
    return _line({"gap": [moment(gap.since), moment(gap.until)]})


def whole_line(at: float) -> bytes:
    """All objects that are there at the head of a segment have been written."""
    return _line({"whole": moment(at)})


def alive_line(at: float) -> bytes:
    """Nothing has happened until now."""
    return _line({"alive": moment(at)})


def end_line(at: float) -> bytes:
    """The segment ends here, and not because its recorder died."""
    return _line({"end": moment(at)})


def moment(at: float) -> str:
    """A time as recordings write it, in milliseconds."""
    text = datetime.fromtimestamp(round(at, 3), UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def seconds_at(text: str) -> float:
    """The time that a text stands for."""
    return round(datetime.fromisoformat(text).timestamp(), 3)


def _line(value: JsonObject) -> bytes:
    return bytes(_encode(value)) + b"\n"


def merge_of(before: JsonObject, after: JsonObject) -> JsonObject:
    """The merge patch from one object to another."""
    found: JsonObject = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_of(old, value):
                found[key] = inner
        elif value != old or key not in before:
            found[key] = value
    return found


def merged(obj: JsonObject, merge: JsonObject) -> JsonObject:
    """An object with such a patch applied."""
    found = dict(obj)
    for key, value in merge.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(inner := found.get(key), dict):
            found[key] = merged(inner, value)
        else:
            found[key] = value
    return found


# --- Reading


def read(
    segments: Sequence[tuple[str, bytes]], reading: Reading | None = None
) -> Iterator[Change | Gap]:
    """What happened, in the order of its recording.

    The objects there are at the beginning come first, as changes. Those that the next segment no
    longer has at its head are gone from then on.

    Args:
        segments: names and contents, oldest first.
        reading: is kept up to date while the iterator is used.

    Raises:
        RecordingError: this is no recording, or a part of it is lost.
    """
    reading = reading if reading is not None else Reading()
    before: tuple[str, int] | None = None
    for index, (name, data) in enumerate(segments):
        lines = _Lines(name, data)
        if index and index == len(segments) - 1 and not lines.has_any():
            reading.torn.append(name)  # its recorder died at once
            return
        yield from _Segment(name, reading, before).changes(lines)
        if lines.is_torn or not reading.has_end:
            reading.torn.append(name)
        before = (name, len(data))


def beginning(name: str, data: bytes) -> tuple[Head, list[JsonObject]]:
    """When a segment begins, and with what.

    Raises:
        RecordingError: this is no recording.
    """
    reading = Reading()
    found = [
        change.after
        for change in _Segment(name, reading, None).head(_Lines(name, data))
        if change.after is not None
    ]
    return reading.heads[0], found


class _Lines:
    """The whole lines of a compressed file, up to where it is torn."""

    def __init__(self, name: str, data: bytes) -> None:
        self._name = name
        self._data = data
        self.is_torn = False

    def has_any(self) -> bool:
        """Whether there is a line."""
        return next(self._texts(), None) is not None

    def __iter__(self) -> Iterator[tuple[int, JsonObject]]:
        number = 0
        for number, line in enumerate(self._texts(), start=1):
            try:
                found = _decode(line)
            except msgspec.DecodeError:
                raise RecordingError(self._name, number, _NO_LINE) from None
            yield number, found
        if not number:
            raise RecordingError(self._name, 1, "this is no recording, or none of it is left")

    def _texts(self) -> Iterator[bytes]:
        inflating, rest, total = zlib.decompressobj(_GZIP), b"", 0
        for at in range(0, len(self._data), _PIECE):
            try:
                found = inflating.decompress(self._data[at : at + _PIECE])
            except zlib.error:
                raise RecordingError(self._name, 1, "this is no whole recording") from None
            total += len(found)
            if total > _MOST_BYTES:
                raise RecordingError(self._name, 1, "is larger than any segment of a recording")
            *lines, rest = (rest + found).split(b"\n")
            yield from lines
            if inflating.eof:
                break
        self.is_torn = not inflating.eof
        if rest and not self.is_torn:
            raise RecordingError(self._name, 1, "this is no whole recording: its last line is cut")


class _Segment:
    """The reading of one segment."""

    def __init__(self, name: str, reading: Reading, before: tuple[str, int] | None) -> None:
        self._name = name
        self._reading = reading
        self._before = before
        self._listed: dict[Key, JsonObject] | None = {}  # until the head is whole
        self._is_past_head = False

    def head(self, lines: _Lines) -> Iterator[Change]:
        """What there is at its beginning."""
        for each in self.changes(lines):
            if self._is_past_head:
                return
            if isinstance(each, Change):
                yield each

    def changes(self, lines: _Lines) -> Iterator[Change | Gap]:
        """What happened in it."""
        reading, numbered = self._reading, iter(lines)
        _, first = next(numbered)
        head = self._head(first)
        reading.heads.append(head)
        reading.has_end = False
        for number, line in numbered:
            self._is_past_head = self._listed is None
            try:
                found = self._taken(line)
            except (KeyError, TypeError, ValueError, AttributeError):
                raise RecordingError(self._name, number, _NO_LINE) from None
            yield from found
        if self._listed is not None and reading.heads[1:]:
            # Died before it had written what there was: what was known still holds
            self._listed = None
        elif self._listed is not None:
            yield from self._take_all(head.at)

    def _head(self, line: JsonObject) -> Head:
        version = line.get("recording")
        if not isinstance(version, int):
            raise RecordingError(self._name, 1, "this is no recording")
        if version not in _READABLE:
            problem = f"the recording has version {version}, and only 1 to {VERSION} can be read"
            raise RecordingError(self._name, 1, problem)
        try:
            head = Head(
                seconds_at(line["at"]), line["segment"], line.get("previous"), line["names"]
            )
        except (KeyError, TypeError, ValueError):
            raise RecordingError(self._name, 1, "this is no recording") from None
        heads = self._reading.heads
        if heads and head.segment <= heads[-1].segment:
            raise RecordingError(self._name, 1, "is not later than the segment before it")
        if heads and head.names != heads[-1].names:
            problem = "its names were hashed with another key than those before it"
            raise RecordingError(self._name, 1, problem)
        if heads and head.segment == heads[-1].segment + 1 and head.previous is not None:
            name, size = self._before or ("", head.previous)
            if size != head.previous:
                problem = (
                    f"has {size:,} bytes, and had {head.previous:,} when it was written; copy it"
                    " again"
                )
                raise RecordingError(name, 1, problem)
        return head

    def _taken(self, line: JsonObject) -> list[Change | Gap]:
        reading = self._reading
        if "op" in line:
            at = seconds_at(line["at"])
            reading.last = max(reading.last, at)
            return self._changed(at, line)
        if "gap" in line:
            since, until = (seconds_at(text) for text in line["gap"])
            reading.last = max(reading.last, until)
            gap = Gap(since, until)
            reading.gaps.append(gap)
            return [gap]
        if "whole" in line:
            return list(self._take_all(seconds_at(line["whole"])))
        reading.has_end = "end" in line
        reading.last = max(reading.last, seconds_at(line["end" if "end" in line else "alive"]))
        return []

    def _changed(self, at: float, line: JsonObject) -> list[Change | Gap]:
        objects = self._reading.objects
        if "object" in line:
            obj = line["object"]
            key = key_of(obj)
            if self._listed is not None:
                self._listed[key] = obj
                return []
        else:
            kind, (namespace, name) = line["kind"], line["key"]
            key = (kind, namespace, name)
            known = objects.get(key)
            if known is None:
                raise KeyError(name)
            obj = merged(known, line["merge"]) if line["op"] == "set" else None
        before = objects.get(key)
        if obj is None:
            del objects[key]
        else:
            objects[key] = obj
        return [Change(at, key, before, obj)]

    def _take_all(self, at: float) -> Iterator[Change]:
        """Compare what there is at the head with what was known."""
        listed, self._listed = self._listed or {}, None
        objects = self._reading.objects
        self._reading.last = max(self._reading.last, at)
        for key in [key for key in objects if key not in listed]:
            yield Change(at, key, objects.pop(key), None)
        for key, obj in listed.items():
            before = objects.get(key)
            if before != obj:
                objects[key] = obj
                yield Change(at, key, before, obj)


# --- Writing


class Compressor:
    """A compressed stream whose beginning can be read whenever it was flushed."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._deflating = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
        self.size = 0

    def add(self, line: bytes) -> None:
        """Add a line, which may not be written before the next flush."""
        self._put(self._deflating.compress(line))

    def flush(self) -> None:
        """Write everything that was added."""
        self._put(self._deflating.flush(zlib.Z_SYNC_FLUSH))

    def finish(self) -> None:
        """Write the end of the stream."""
        self._put(self._deflating.flush(zlib.Z_FINISH))

    def _put(self, data: bytes) -> None:
        if data:
            self._write(data)
            self.size += len(data)
