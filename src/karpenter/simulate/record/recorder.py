"""The recorder itself, without any input or output: objects come in, lines go out.

It knows what was recorded of each object that there is, and nothing of those that are gone, so its
memory does not grow with time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from karpenter.api.meta import JsonObject
from karpenter.simulate.record.kinds import taken
from karpenter.simulate.record.names import Names
from karpenter.simulate.record.segments import (
    Change,
    Gap,
    Head,
    Key,
    alive_line,
    del_line,
    end_line,
    gap_line,
    head_line,
    key_of,
    merge_line,
    merge_of,
    set_line,
    whole_line,
)

# Shorter troubles leave no gap, unless the history was lost: what happened comes late, and whole
_SHORTEST_GAP: Final = 10.0
SCALED: Final = ("Deployment", "StatefulSet", "ReplicaSet")

Scope: TypeAlias = tuple[str, str]  # kind and namespace of one list


class Recorder:
    """Turns what lists and watches say into lines."""

    def __init__(
        self,
        names: Names,
        now: Callable[[], float],
        write: Callable[[bytes], None],
        changed: Callable[[Change], object],
    ) -> None:
        """Prepare; nothing is written before ``begin``.

        Args:
            names: of the recording.
            now: the time of day, in seconds.
            write: takes each line.
            changed: is told what happened.
        """
        self._names = names
        self._now = now
        self._write = write
        self._changed = changed
        self._objects: dict[Key, JsonObject] = {}
        self._has_begun = False
        self._is_quiet = True  # nothing was written since the last sign of life
        self._trouble: dict[Scope, float] = {}  # since when a list is not followed
        self._away: float | None = None  # when the first of them was lost
        self._is_lossy = False  # of the trouble there is: a history was lost
        self.counts: Counter[str] = Counter()  # of changes, by what they are
        self.gaps: list[Gap] = []

    @property
    def objects(self) -> Mapping[Key, JsonObject]:
        """What there is, as it was recorded."""
        return self._objects

    @property
    def is_away(self) -> bool:
        """Whether some list is not followed at the moment."""
        return self._away is not None

    # --- Segments

    def begin(self, segment: int, previous: int | None, *, heard: float | None = None) -> None:
        """Begin a segment with everything there is.

        Args:
            segment: its number.
            previous: bytes of the segment before.
            heard: when the recorder that is continued was last heard of.
        """
        now = self._now()
        self._write(head_line(Head(now, segment, previous, self._names.fingerprint)))
        if heard is not None:
            self._gap(Gap(heard, now))
        for key in sorted(self._objects):
            self._write(set_line(now, self._objects[key]))
        self._write(whole_line(now))
        if not self._has_begun:
            self._has_begun = True
            for key in sorted(self._objects):
                self._changed(Change(now, key, None, self._objects[key]))

    def end(self) -> None:
        """End a segment."""
        self._write(end_line(self._now()))

    def stop(self) -> None:
        """Write what is known of a trouble that has not ended."""
        if self._away is not None:
            self._gap(Gap(self._away, self._now()))
            self._away = None

    def live(self) -> None:
        """Write a sign of life, unless something else shows it or the cluster is away."""
        if self._is_quiet and self._away is None:
            self._write(alive_line(self._now()))
        self._is_quiet = True

    # --- Objects

    def put(self, kind: str, obj: JsonObject) -> None:
        """Take an object that is new or has changed."""
        found = taken(kind, obj, self._names)
        if found is None:
            return
        key = key_of(found)
        before = self._objects.get(key)
        if before is not None and before["metadata"].get("uid") != found["metadata"].get("uid"):
            self._gone(key)
            before = None
        if before == found:
            return
        self._objects[key] = found
        if not self._has_begun:
            return
        now = self._now()
        if before is None:
            self._line(set_line(now, found))
        else:
            self._line(merge_line(now, key, merge_of(before, found)))
        self._tell(Change(now, key, before, found))

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Take note that an object is gone."""
        names = self._names
        self._gone((kind, names.name(namespace), names.name(name)))

    def drop_others(self, scope: Scope, kept: Iterable[tuple[str, str]]) -> None:
        """Take note that of one list these objects are left."""
        kind, namespace = scope
        names = self._names
        wanted = names.name(namespace)
        known = {(names.name(space), names.name(name)) for space, name in kept}
        for key in [
            key
            for key in self._objects
            if key[0] == kind and (not namespace or key[1] == wanted) and key[1:] not in known
        ]:
            self._gone(key)

    def _gone(self, key: Key) -> None:
        before = self._objects.pop(key, None)
        if before is not None and self._has_begun:
            now = self._now()
            self._line(del_line(now, key))
            self._tell(Change(now, key, before, None))

    def _tell(self, change: Change) -> None:
        for what in _told(change):
            self.counts[what] += 1
        self._changed(change)

    def _line(self, line: bytes) -> None:
        self._is_quiet = False
        self._write(line)

    # --- Troubles

    def lost(self, scope: Scope, *, is_history_lost: bool = False) -> None:
        """Take note that a list is not followed at the moment."""
        now = self._now()
        self._trouble.setdefault(scope, now)
        self._is_lossy |= is_history_lost
        if self._away is None:
            self._away = now

    def well(self, scope: Scope) -> None:
        """Take note that a list is followed, again or still."""
        if self._trouble.pop(scope, None) is None or self._trouble or self._away is None:
            return
        gap = Gap(self._away, self._now())
        self._away = None
        if self._has_begun and (self._is_lossy or gap.until - gap.since >= _SHORTEST_GAP):
            self._gap(gap)
        self._is_lossy = False

    def _gap(self, gap: Gap) -> None:
        self.gaps.append(gap)
        self._line(gap_line(gap))


def _told(change: Change) -> Iterator[str]:
    """What a change counts as."""
    before, after = change.before, change.after
    if before is None:
        yield change.key[0]
    elif after is not None and change.key[0] in SCALED and replicas(before) != replicas(after):
        yield "scale"


def replicas(obj: JsonObject) -> int:
    """How many pods an object asks for."""
    return int((obj.get("spec") or {}).get("replicas", 1))
