"""Which fields a value has, in which fields two values differ, and what does not fit a schema."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter_sandbox.kinds.patching.elements import (
    ABSENT,
    ItemError,
    is_empty,
    item_element,
    part_for,
)
from karpenter_sandbox.kinds.patching.fieldsets import Elements, FieldSet, field_element, render
from karpenter_sandbox.kinds.schema import ListKind, ListSchema, MapSchema, Scalar, Schema


def fields_of(value: Any, schema: Schema) -> FieldSet:
    """Every field and list item a value mentions; containers count only where they are items."""
    holder = FieldSet()
    _collect(value, schema, holder, "")
    return holder.below("")


def _collect(value: Any, schema: Schema, parent: FieldSet, element: str) -> None:
    part = part_for(schema, value)
    if isinstance(part, Scalar) or _is_atomic(part):
        parent.members.add(element)
    elif value is None:
        return
    elif isinstance(part, MapSchema):
        _collect_map(value, part, parent.children.setdefault(element, FieldSet()))
    else:
        _collect_list(value, part, parent.children.setdefault(element, FieldSet()))


def _collect_map(value: Mapping[str, Any], schema: MapSchema, node: FieldSet) -> None:
    for key, part in value.items():
        element = field_element(key)
        _collect(part, schema.part(key), node, element)
        if part is None or part == {} or key not in schema.fields:
            node.members.add(element)


def _collect_list(value: list[Any], schema: ListSchema, node: FieldSet) -> None:
    for element, items in _grouped(value, schema).items():
        # items that share an element are owned together, without what is below
        if len(items) == 1:
            _collect(items[0], schema.items, node, element)
        node.members.add(element)


def _is_atomic(part: MapSchema | ListSchema) -> bool:
    return part.is_atomic if isinstance(part, MapSchema) else part.kind is ListKind.ATOMIC


def with_named_fields(fields: FieldSet, schema: Schema) -> FieldSet:
    """Add the declared fields that a set only passes through on the way to something deeper."""
    members = set(fields.members)
    children = {}
    for element, child in fields.children.items():
        kind, _, name = element.partition(":")
        below: Schema | None = None
        if kind == "f" and schema.map is not None:
            if name in schema.map.fields:
                members.add(element)
            below = schema.map.part(name)
        elif kind == "k" and schema.list is not None:
            below = schema.list.items
        children[element] = with_named_fields(child, below or Schema())
    return FieldSet(members, children)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two values differ; no path is in more than one of the sets."""

    removed: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    added: FieldSet = field(default_factory=FieldSet)

    def without(self, ignored: FieldSet) -> "Comparison":
        """Leave out fields and everything below them."""
        return Comparison(
            self.removed.without_subtrees(ignored),
            self.modified.without_subtrees(ignored),
            self.added.without_subtrees(ignored),
        )


def compare(before: Any, after: Any, schema: Schema) -> Comparison:
    """Find the fields that differ."""
    result = Comparison()
    _Comparer(result).compare(before, after, schema, ())
    return result


class _Comparer:
    def __init__(self, result: Comparison) -> None:
        self._result = result

    def compare(self, before: Any, after: Any, schema: Schema, path: Elements) -> None:
        if before == after:
            return
        parts = [part_for(schema, value) for value in (before, after) if not _is_unset(value)]
        if not parts:
            parts = [part_for(schema, None)]
        is_leaf = False
        for part in parts if len(parts) == 1 or parts[0] is not parts[1] else parts[:1]:
            is_leaf |= self._compare_as(part, before, after, path)
        if not is_leaf:
            self._note_presence(before, after, path)

    def _compare_as(
        self, part: MapSchema | ListSchema | Scalar, before: Any, after: Any, path: Elements
    ) -> bool:
        """Compare in one form; True when the values were compared as a whole."""
        whole = isinstance(part, Scalar) or _is_atomic(part)
        if whole or (is_empty(before) and is_empty(after)):
            if not self._note_presence(before, after, path):
                self._result.modified.insert(path)
            return True
        if isinstance(part, MapSchema):
            self._compare_maps(before, after, part, path)
        elif isinstance(part, ListSchema):
            self._compare_lists(before, after, part, path)
        return False

    def _note_presence(self, before: Any, after: Any, path: Elements) -> bool:
        if before is ABSENT:
            self._result.added.insert(path)
        elif after is ABSENT:
            self._result.removed.insert(path)
        return before is ABSENT or after is ABSENT

    def _compare_maps(self, before: Any, after: Any, schema: MapSchema, path: Elements) -> None:
        old = before if isinstance(before, dict) else {}
        new = after if isinstance(after, dict) else {}
        for key in {**old, **new}:
            inner = (*path, field_element(key))
            self.compare(old.get(key, ABSENT), new.get(key, ABSENT), schema.part(key), inner)

    def _compare_lists(self, before: Any, after: Any, schema: ListSchema, path: Elements) -> None:
        old, new = _grouped(before, schema), _grouped(after, schema)
        for element in {**old, **new}:
            was, now = old.get(element, []), new.get(element, [])
            inner = (*path, element)
            if len(was) > 1 and len(now) > 1:
                if was != now:
                    self._result.modified.insert(inner)
                continue
            # an item is compared only where it is the only one of its name
            lone_old = was[0] if len(was) == 1 else ABSENT
            lone_new = now[0] if len(now) == 1 or (len(was) > 1 and now) else ABSENT
            if not (lone_old is ABSENT and lone_new is ABSENT):
                self.compare(lone_old, lone_new, schema.items, inner)
            if len(was) > 1:
                self._result.removed.insert(inner)
            elif len(now) > 1:
                self._result.added.insert(inner)


def _is_unset(value: Any) -> bool:
    return value is ABSENT or value is None


def _grouped(value: Any, schema: ListSchema) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in value if isinstance(value, list) else ():
        groups.setdefault(item_element(item, schema), []).append(item)
    return groups


_SCALAR_CLASSES: Final[Mapping[Scalar, type | tuple[type, ...]]] = {
    Scalar.STRING: str,
    Scalar.NUMERIC: (int, float),
    Scalar.BOOLEAN: bool,
    Scalar.ANY: (str, int, float, bool),
}


def problems(value: Any, schema: Schema, path: Elements = ()) -> Iterator[str]:
    """What keeps a value from being applied: undeclared fields, wrong types, duplicate items."""
    part = part_for(schema, value)
    if value is None:
        return
    if isinstance(part, Scalar):
        if not _is_scalar(value, part):
            yield _at(path, f"expected {_scalar_name(part)}, got {_describe(value)}")
    elif isinstance(part, MapSchema):
        if isinstance(value, dict):
            yield from _map_problems(value, part, path)
        else:
            yield _at(path, f"expected map, got {_describe(value)}")
    elif isinstance(value, list):
        yield from _list_problems(value, part, path)
    else:
        yield _at(path, f"expected list, got {_describe(value)}")


def _map_problems(value: Mapping[str, Any], schema: MapSchema, path: Elements) -> Iterator[str]:
    for key, part in value.items():
        inner = (*path, field_element(key))
        if not schema.declares(key):
            yield _at(inner, "field not declared in schema")
        else:
            yield from problems(part, schema.part(key), inner)


def _list_problems(value: list[Any], schema: ListSchema, path: Elements) -> Iterator[str]:
    seen = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if schema.kind is not ListKind.ATOMIC:
            try:
                element = item_element(item, schema)
            except ItemError as error:
                yield _at(path, f"element {index}: {error}")
                return
            if element in seen:
                yield _at(path, f"duplicate entries for key {render((element,))}")
            seen.add(element)
        yield from problems(item, schema.items, (*path, element))


def _is_scalar(value: Any, wanted: Scalar) -> bool:
    if isinstance(value, bool):
        return wanted in (Scalar.BOOLEAN, Scalar.ANY)
    return isinstance(value, _SCALAR_CLASSES[wanted])


def _scalar_name(wanted: Scalar) -> str:
    if wanted is Scalar.NUMERIC:
        return "numeric (int or float)"
    return "any scalar" if wanted is Scalar.ANY else wanted.value


def _describe(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "list" if isinstance(value, list) else "map"


def _at(path: Elements, problem: str) -> str:
    return f"{render(path)}: {problem}" if path else problem
