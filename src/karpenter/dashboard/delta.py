"""What differs between two views of one epoch, and a view with such differences applied.

``applied(a, delta(a, b)) == b`` for any two views of which the second continues the first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from karpenter.dashboard.contract import (
    Delta,
    Dictionaries,
    NodeColumns,
    PodColumns,
    Rows,
    View,
)

C = TypeVar("C", NodeColumns, PodColumns)
_Row: TypeAlias = tuple[Any, ...]  # the values of all columns, id first

# Attribute -> name on the wire
_DICTIONARIES: Final = dict(
    zip(Dictionaries.__struct_fields__, Dictionaries.__struct_encode_fields__, strict=True)
)
_replace = msgspec.structs.replace


def delta(old: View, new: View) -> Delta:
    """What makes ``new`` of ``old``; dictionaries of ``new`` begin with those of ``old``."""
    return Delta(
        seq=new.seq,
        at=new.at,
        dictionaries=_grown(old.dictionaries, new.dictionaries),
        nodes=_changed(old.nodes, new.nodes),
        pods=_changed(old.pods, new.pods),
        pools=None if old.pools == new.pools else new.pools,
        totals=None if old.totals == new.totals else new.totals,
        notices=None if old.notices == new.notices else new.notices,
    )


def changed_rows(difference: Delta) -> int:
    """How many rows a delta sets or removes."""
    tables = (difference.nodes, difference.pods)
    return sum(len(rows.set) + len(rows.removed) for rows in tables)


def is_empty(difference: Delta) -> bool:
    """Whether nothing but the time is different."""
    given = (difference.pools, difference.totals, difference.notices)
    return (
        not changed_rows(difference)
        and not difference.dictionaries
        and all(each is None for each in given)
    )


def applied(view: View, difference: Delta) -> View:
    """A view with a delta applied; the view itself stays as it is."""
    replay = Replay(view)
    replay.apply(difference)
    return replay.view()


class Replay:
    """A view to which one delta after the other is applied, in the time of what they change."""

    def __init__(self, view: View) -> None:
        """Begin with a view, which stays as it is."""
        self._view = view
        self._nodes: Final = _Table(view.nodes)
        self._pods: Final = _Table(view.pods)

    def apply(self, difference: Delta) -> None:
        """Apply the next delta."""
        view = self._view
        self._nodes.change(difference.nodes)
        self._pods.change(difference.pods)
        self._view = _replace(
            view,
            seq=difference.seq,
            at=difference.at,
            dictionaries=_extended(view.dictionaries, difference.dictionaries),
            pools=view.pools if difference.pools is None else difference.pools,
            totals=view.totals if difference.totals is None else difference.totals,
            notices=view.notices if difference.notices is None else difference.notices,
        )

    def view(self) -> View:
        """The view after all deltas."""
        nodes, pods = self._nodes.columns(), self._pods.columns()
        self._view = _replace(self._view, nodes=nodes, pods=pods)
        return self._view


class _Table:
    """Rows of one table, which become columns again when these are asked for."""

    def __init__(self, columns: NodeColumns | PodColumns) -> None:
        self._columns: Any = columns
        self._rows: dict[int, Sequence[Any]] | None = None

    def change(self, rows: Rows) -> None:
        if not (rows.set or rows.removed):
            return
        if self._rows is None:
            self._rows = {row[0]: row for row in _rows(self._columns)}
        for number in rows.removed:
            self._rows.pop(number, None)
        for row in rows.set:
            self._rows[row[0]] = row

    def columns(self) -> Any:
        if self._rows is not None:
            kind = type(self._columns)
            ordered = (self._rows[number] for number in sorted(self._rows))
            made = map(list, zip(*ordered, strict=True))
            # Of no rows there are no columns either: those of an empty table are the default
            self._columns = kind(**dict(zip(kind.__struct_fields__, made, strict=False)))
            self._rows = None
        return self._columns


def _rows(columns: NodeColumns | PodColumns) -> Iterator[_Row]:
    return zip(*(getattr(columns, name) for name in columns.__struct_fields__), strict=True)


def _changed(old: C, new: C) -> Rows:
    if old is new:
        return Rows()
    if old.id == new.id:  # as between most views: nothing came, nothing went
        pairs = zip(_rows(old), _rows(new), strict=True)
        return Rows(set=[list(after) for before, after in pairs if before != after])
    before = {row[0]: row for row in _rows(old)}
    changed = [list(row) for row in _rows(new) if before.get(row[0]) != row]
    return Rows(set=changed, removed=sorted(before.keys() - set(new.id)))


def _grown(old: Dictionaries, new: Dictionaries) -> dict[str, list[tuple[int, str]]]:
    grown = {}
    for attribute, name in _DICTIONARIES.items():
        known, texts = len(getattr(old, attribute)), getattr(new, attribute)
        if len(texts) > known:
            grown[name] = list(enumerate(texts[known:], known))
    return grown


def _extended(old: Dictionaries, grown: Mapping[str, Iterable[tuple[int, str]]]) -> Dictionaries:
    more = {
        attribute: [*getattr(old, attribute), *(text for _, text in grown[name])]
        for attribute, name in _DICTIONARIES.items()
        if name in grown
    }
    return _replace(old, **more) if more else old
