"""What did not fit when an object was decoded, where, and what to write instead.

msgspec finds the misfit and describes it in terms of Python types; this module restates it in terms
of the manifest, and finds out which entry of a map is meant where msgspec only says ``[...]``.
"""

import re
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

Path: TypeAlias = tuple[str | int, ...]

_PLACE = re.compile(r"(?P<text>.*?) - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`", re.DOTALL)
_STEP = re.compile(r"\.(?P<field>[^.\[\]]+)|\[(?P<index>\d+)\]|(?P<entry>\[\.\.\.\])")
_MISMATCH = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<found>[^`]+)`")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SOME_ENTRY = "[...]"  # msgspec's name for an entry of a map; no field can be called that

_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a map",
    "array": "a list",
    "datetime": "a time",
    "date": "a date",
}


class DecodeError(ValueError):
    """An object does not have the shape of its kind; ``problem`` has no final period."""

    def __init__(self, path: Path, problem: str, *, missing: bool = False) -> None:
        super().__init__(f"{_rendered(path)}: {problem}" if path else problem)
        self.path = path
        self.problem = problem
        self.missing = missing

    def below(self, path: Path) -> "DecodeError":
        """Return the same error, seen from an object that holds this one at ``path``."""
        return DecodeError(path + self.path, self.problem, missing=self.missing)


class TooDeepError(DecodeError):
    """The data is nested more deeply than a decoder follows."""

    def __init__(self) -> None:
        super().__init__((), "the data is nested too deeply")

    def below(self, path: Path) -> "TooDeepError":
        """Return this error: it concerns the data as a whole, not a field."""
        return self


class UnknownKindError(DecodeError):
    """The object names a kind that has no wire model."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(("kind",), f'no matches for kind "{kind}" in version "{api_version}"')
        self.api_version = api_version
        self.kind = kind


def explain(
    error: msgspec.ValidationError, value: object, model: type[msgspec.Struct]
) -> DecodeError:
    """Restate msgspec's error about ``value`` as a sentence about a field."""
    text, path, is_key = _parsed(error)
    while _SOME_ENTRY in path:
        value, path = _narrowed(value, model, path)
    if is_key:
        return DecodeError(path, "a key is not a string; write it in quotes")
    if missing := _MISSING.fullmatch(text):
        return DecodeError((*path, missing["field"]), "required field is missing", missing=True)
    return DecodeError(path, _problem(text))


def _parsed(error: msgspec.ValidationError) -> tuple[str, Path, bool]:
    place = _PLACE.fullmatch(str(error))
    if place is None:
        return str(error), (), False
    path = tuple(
        int(step["index"]) if step["index"] else step["field"] or _SOME_ENTRY
        for step in _STEP.finditer(place["path"])
    )
    return place["text"], path, place["key"] is not None


def _problem(text: str) -> str:
    if "datetime" in text:
        return "expected a time such as 2006-01-02T15:04:05Z"
    mismatch = _MISMATCH.fullmatch(text)
    if mismatch is None:
        return text[:1].lower() + text[1:]
    expected, found = mismatch["expected"].split(" | "), mismatch["found"]
    advice = ""
    if expected[0] == "str" and found in ("int", "float", "bool"):
        advice = "; write it in quotes"
    elif expected[0] == "str" and found == "null":
        advice = '; write "" for an empty one'
    found = "a number with a fraction" if found == "float" else _WORDS.get(found, found)
    return f"expected {_alternatives(expected)}, got {found}{advice}"


def _alternatives(types: list[str]) -> str:
    shown = [name for name in types if name != "null" and not (name == "int" and "float" in types)]
    return " or ".join(_WORDS.get(name, name) for name in shown)


def _narrowed(value: object, model: type[msgspec.Struct], path: Path) -> tuple[object, Path]:
    """Find the entry behind the first ``[...]`` of ``path``: the first one that does not fit.

    Returns ``value`` with no other entry left in that map, and the path with the entry's key. The
    search halves the map each time, so a map of a million entries costs twenty conversions.
    """
    place = path.index(_SOME_ENTRY)
    entries = _follow(value, path[:place])
    assert isinstance(entries, Mapping)
    keys = list(entries)
    fitting, failing = 0, len(keys)  # so many entries from the front are known to fit, to fail
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        front = {key: entries[key] for key in keys[:middle]}
        if _fails_at(_replaced(value, path[:place], front), model, path[: place + 1]):
            failing = middle
        else:
            fitting = middle
    key = keys[failing - 1]
    only = _replaced(value, path[:place], {key: entries[key]})
    return only, (*path[:place], str(key), *path[place + 1 :])


def _fails_at(value: object, model: type[msgspec.Struct], path: Path) -> bool:
    try:
        msgspec.convert(value, model)
    except msgspec.ValidationError as error:
        return _parsed(error)[1][: len(path)] == path
    return False


def _follow(value: object, path: Path) -> object:
    for step in path:
        # the path is one that the decoder has just walked, so each step leads somewhere
        value = value[step]  # type: ignore[index]
    return value


def _replaced(value: object, path: Path, new: object) -> object:
    """Return ``value`` with what lies at ``path`` exchanged, sharing everything else."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        assert isinstance(value, list)
        return [*value[:step], _replaced(value[step], rest, new), *value[step + 1 :]]
    assert isinstance(value, Mapping)
    return {**value, step: _replaced(value[step], rest, new)}


def _rendered(path: Path) -> str:
    text = ""
    for step in path:
        plain = isinstance(step, str) and _PLAIN_KEY.fullmatch(step)
        text += f".{step}" if plain else f"[{step}]"
    return text.removeprefix(".")
