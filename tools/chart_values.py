"""Reads what ``values.yaml`` of a chart says about each value: its table for readers, and its schema.

A comment that begins with ``# --`` describes the value below it, and goes on in the comment lines
that follow. ``# @schema {…}`` overlays what the type of the default would allow. A value that is
described, and none of whose parts is, may hold anything of its type.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_KEY: Final = re.compile(r"( *)([A-Za-z][A-Za-z0-9]*):")
_COMMENT: Final = re.compile(r" *# ?(.*)")
_DESCRIBES: Final = "-- "
_SCHEMA: Final = "@schema "
_TYPES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
# Helm passes these two to every subchart, so the schema must allow them
_OF_PARENTS: Final = {
    "enabled": {
        "description": "Whether a chart that depends on this one wants it.",
        "type": "boolean",
    },
    "global": {
        "description": "What a chart that depends on this one gives to all.",
        "type": "object",
    },
}

Json = dict[str, Any]
Place = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a chart describes."""

    place: Place
    text: str
    default: Any
    overlay: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The value as ``--set`` takes it."""
        return ".".join(self.place)

    @property
    def schema(self) -> Json:
        """What it may be."""
        own = {"description": self.text}
        if not self.overlay.keys() & {"enum", "type"}:
            own["type"] = _type_of(self)
        return {**own, **self.overlay}


def read(path: Path) -> list[Value]:
    """The values that a file describes, in its order.

    Raises:
        ValueError: something in it is not described.
    """
    text = path.read_text("utf-8")
    defaults: Json = yaml.safe_load(text)
    found = list(_described(text.splitlines(), defaults))
    places = {value.place for value in found}
    bare = [leaf for leaf in _leaves(defaults) if not _covers(places, leaf)]
    if bare:
        raise ValueError(f"{path.name}: nothing describes {', '.join(map('.'.join, bare))}")
    return found


def schema(values: list[Value]) -> str:
    """A JSON schema that has these values and no others."""
    root = _object()
    for value in values:
        inner = root
        for part in value.place[:-1]:
            inner = inner["properties"].setdefault(part, _object())
        inner["properties"][value.place[-1]] = value.schema
    root["properties"].update(_OF_PARENTS)
    written = {"$schema": "http://json-schema.org/draft-07/schema#", **root}
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def table(values: list[Value]) -> str:
    """A table of the values in Markdown."""
    rows = [f"| `{each.name}` | {_shown(each.default)} | {each.text} |" for each in values]
    return "\n".join(["| value | default | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def _described(lines: list[str], defaults: Json) -> Iterator[Value]:
    place: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in lines:
        said = _COMMENT.fullmatch(line)
        if said is not None:
            comment.append(said[1])
            continue
        key = _KEY.match(line)
        if key is not None:
            place = [*(each for each in place if each[0] < len(key[1])), (len(key[1]), key[2])]
            path = tuple(name for _, name in place)
            if comment and comment[0].startswith(_DESCRIBES):
                text = " ".join(each for each in comment if not each.startswith("@"))
                yield Value(
                    path, text.removeprefix(_DESCRIBES), _at(defaults, path), _overlay(comment)
                )
        comment = []


def _overlay(comment: list[str]) -> Json:
    for line in comment:
        if line.startswith(_SCHEMA):
            found: Json = json.loads(line.removeprefix(_SCHEMA))
            return found
    return {}


def _at(defaults: Any, place: Place) -> Any:
    for part in place:
        defaults = defaults[part]
    return defaults


def _leaves(defaults: Any, place: Place = ()) -> Iterator[Place]:
    if isinstance(defaults, dict) and defaults:
        for key, value in defaults.items():
            yield from _leaves(value, (*place, key))
    else:
        yield place


def _covers(places: set[Place], leaf: Place) -> bool:
    return any(leaf[: len(place)] == place for place in places)


def _object() -> Json:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _type_of(value: Value) -> str:
    for kind, name in _TYPES:
        if isinstance(value.default, kind):
            return name
    raise ValueError(f"{value.name}: a value without a default needs a type in a line # @schema")


def _shown(default: Any) -> str:
    if default is None or default == "":
        return ""
    if isinstance(default, dict | list):
        text = yaml.safe_dump(default, default_flow_style=True, width=10_000, sort_keys=False)
        return f"`{text.strip()}`"
    return f"`{json.dumps(default, ensure_ascii=False)}`"
