"""The JSON Schema of scenarios, written from their model, and what it says about a document.

The reader judges documents by this very schema, so what it refuses and what an editor marks are
the same; only its sentences are its own.
"""

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from karpenter.manifests.positions import Path
from karpenter.simulate.scenario.models import MEANINGS, Part, Scenario

Schema: TypeAlias = dict[str, Any]

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_WORDS: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a group of fields",
    "null": "nothing",
}
_REFERENCE: Final = "#/$defs/"
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a field."""

    path: Path
    problem: str


@cache
def schema() -> Schema:
    """The schema of a Scenario."""
    written = msgspec.json.schema(Scenario)
    for model in _parts():
        part = written["$defs"].get(model.__name__)
        if part is not None:
            _close(part, model)
    definitions = {name: _without_null(part) for name, part in sorted(written["$defs"].items())}
    return {
        "$schema": _DRAFT,
        "title": "Scenario of karpenter simulate",
        "$ref": written["$ref"],
        "$defs": definitions,
    }


def findings(document: object) -> list[Finding]:
    """Everything that is wrong with the structure of a scenario."""
    return list(_judged(document, schema(), ()))


def _parts() -> Iterator[type[Part]]:
    pending: list[type[Part]] = [Part]
    while pending:
        for model in pending.pop().__subclasses__():
            pending.append(model)
            yield model


def _close(part: Schema, model: type[Part]) -> None:
    """Say in the schema which fields exclude each other."""
    part.pop("title", None)
    if model.exactly_one:
        part["oneOf"] = [{"required": [name]} for name in model.exactly_one]


def _without_null(part: Any) -> Any:
    """The schema without null, which the model uses for fields that are not given."""
    if isinstance(part, list):
        return [_without_null(each) for each in part if each != {"type": "null"}]
    if not isinstance(part, dict):
        return part
    plain = {key: _without_null(value) for key, value in part.items()}
    if plain.get("default", "") is None:
        del plain["default"]
    if len(plain.get("anyOf", ())) == 1:
        only = plain.pop("anyOf")[0]
        plain = {**only, **plain}
    return plain


def _judged(value: object, part: Schema, path: Path) -> Iterator[Finding]:
    part = _resolved(part)
    if "anyOf" in part:
        chosen = _alternative(value, part["anyOf"])
        if chosen is not None:
            yield from _judged(value, chosen, path)
            return
        kinds = dict.fromkeys(_kind(_resolved(each)) for each in part["anyOf"])
        yield Finding(path, f"expected {' or '.join(kinds)}, got {_said(value)}")
        return
    if "enum" in part:
        if value not in part["enum"] or isinstance(value, bool):
            yield Finding(path, _no_choice(value, part["enum"]))
        return
    wanted = part.get("type")
    if wanted is not None and not _is(value, wanted):
        yield Finding(path, f"expected {_WORDS[wanted]}, got {_said(value)}")
        return
    if isinstance(value, str):
        yield from _judged_text(value, part, path)
    elif isinstance(value, Mapping):
        yield from _judged_fields(value, part, path)
    elif isinstance(value, list):
        yield from _judged_items(value, part, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _judged_number(value, part, path)


def _kind(part: Schema) -> str:
    return _WORDS[part["type"]] if "type" in part else " or ".join(part["enum"])


def _judged_text(value: str, part: Schema, path: Path) -> Iterator[Finding]:
    pattern = part.get("pattern")
    if pattern is not None and not re.search(pattern.removesuffix("$") + r"\Z", value):
        yield Finding(path, f"{_said(value)} is not {MEANINGS[pattern]}")


def _judged_number(value: float, part: Schema, path: Path) -> Iterator[Finding]:
    for keyword, fails, word in (
        ("minimum", value < part.get("minimum", value), "at least"),
        ("maximum", value > part.get("maximum", value), "at most"),
        ("exclusiveMinimum", value <= part.get("exclusiveMinimum", -math.inf), "above"),
    ):
        if fails or value != value:
            yield Finding(path, f"{value:g} is not {word} {part.get(keyword, 0):g}")
            return


def _judged_items(value: Sequence[object], part: Schema, path: Path) -> Iterator[Finding]:
    least, most = part.get("minItems", 0), part.get("maxItems")
    if len(value) < least or (most is not None and len(value) > most):
        count = (
            f"{least} entries"
            if least == most
            else f"at least {least} entr{'y' if least == 1 else 'ies'}"
        )
        yield Finding(path, f"expected {count}, got {len(value)}")
        return
    first = part.get("prefixItems", ())
    for index, item in enumerate(value):
        inner = first[index] if index < len(first) else part.get("items", {})
        if isinstance(inner, dict):
            yield from _judged(item, inner, (*path, index))


def _judged_fields(value: Mapping[Any, object], part: Schema, path: Path) -> Iterator[Finding]:
    known = part.get("properties", {})
    others = part.get("additionalProperties", True)
    for name, inner in value.items():
        if name in known:
            yield from _judged(inner, known[name], (*path, name))
        elif others is False:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Finding((*path, name), f"there is no such field{hint}")
        elif isinstance(others, dict):
            yield from _judged(inner, others, (*path, name))
    for name in part.get("required", ()):
        if name not in value:
            yield Finding(path, f"{name} is missing")
    if "oneOf" in part:
        yield from _judged_choice(value, part, path)


def _judged_choice(value: Mapping[Any, object], part: Schema, path: Path) -> Iterator[Finding]:
    choices = [each["required"][0] for each in part["oneOf"]]
    given = [name for name in value if name in choices]
    if len(given) == 1:
        return
    thing = _things()[tuple(choices)]
    if given:
        yield Finding(path, f"has {_listed(given)}; {thing}")
    else:
        yield Finding(path, f"has none of {', '.join(choices)}; {thing}")


@cache
def _things() -> Mapping[tuple[str, ...], str]:
    return {model.exactly_one: model.thing for model in _parts() if model.exactly_one}


def _alternative(value: object, choices: Sequence[Schema]) -> Schema | None:
    """The alternative for values of its type, one that accepts it if there is one."""
    same = [each for each in map(_resolved, choices) if _may_be(value, each)]
    fitting = (each for each in same if not any(_judged(value, each, ())))
    return next(fitting, same[0] if same else None)


def _may_be(value: object, part: Schema) -> bool:
    if "type" in part:
        return _is(value, part["type"])
    # A choice of words has no type of its own
    return "enum" not in part or any(isinstance(value, type(word)) for word in part["enum"])


def _is(value: object, wanted: str) -> bool:
    match wanted:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, Mapping)
        case _:
            return False


def _resolved(part: Schema) -> Schema:
    while "$ref" in part:
        part = schema()["$defs"][part["$ref"].removeprefix(_REFERENCE)]
    return part


def _no_choice(value: object, choices: Sequence[object]) -> str:
    near = difflib.get_close_matches(str(value), map(str, choices), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{_said(value)} is none of {', '.join(map(str, choices))}{hint}"


def _said(value: object) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value}"
    if value is None:
        return "nothing"
    return "a list" if isinstance(value, list) else "a group of fields"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
