"""The JSON Schema of a report; closed, so that an unknown field is an error."""

import difflib
import json
from functools import cache
from importlib import resources
from typing import Final

from karpenter.api.meta import JsonObject

_FILE: Final = "report.schema.json"
_REFERENCE: Final = "#/$defs/"


def schema() -> JsonObject:
    """The schema of ``karpenter simulate -o json``."""
    found: JsonObject = json.loads((resources.files(__package__) / _FILE).read_text("utf-8"))
    return found


@cache
def problem_of(path: str) -> str:
    """Why no expectation can be about a path of a variant; empty if one can."""
    parts = path.split(".")
    part = _resolved({"$ref": f"{_REFERENCE}variant"})
    for index, name in enumerate(parts):
        fields = part.get("properties", {})
        if name not in fields:
            others = part.get("additionalProperties")
            return "" if others else _missing(path, parts[:index], name, list(fields))
        part = _resolved(fields[name])
    if "properties" in part:
        named = ", ".join(f"{path}.{name}" for name in part["properties"])
        return f"{path} is no figure by itself; there are {named}"
    if "additionalProperties" in part:
        return f"{path} is no figure by itself; add a name to it, as in {path}.NAME"
    return f"{path} is a list, and not a figure" if part.get("type") == "array" else ""


@cache
def is_zero_where_absent(path: str) -> bool:
    """Whether a path is one of the figures by name, which are left out where they are nothing."""
    part = _resolved({"$ref": f"{_REFERENCE}variant"})
    for name in path.split("."):
        fields = part.get("properties", {})
        if name not in fields:
            others = part.get("additionalProperties")
            return isinstance(others, dict) and others.get("type") in ("integer", "number")
        part = _resolved(fields[name])
    return False


def _missing(path: str, before: list[str], name: str, fields: list[str]) -> str:
    if not fields:
        return f"{'.'.join(before)} has no parts that a path can name"
    near = difflib.get_close_matches(name, fields, n=1)
    named = ", ".join(".".join([*before, each]) for each in fields)
    hint = f"did you mean {'.'.join([*before, near[0]])}?" if near else f"there are {named}"
    return f"{path} is no figure of a report; {hint}"


def _resolved(part: JsonObject) -> JsonObject:
    """A part of the schema as it is where it is not null."""
    while "$ref" in part or "anyOf" in part:
        if "$ref" in part:
            part = _schema()["$defs"][part["$ref"].removeprefix(_REFERENCE)]
        else:
            part = next(each for each in part["anyOf"] if each != {"type": "null"})
    return part


@cache
def _schema() -> JsonObject:
    return schema()
