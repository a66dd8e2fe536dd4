"""JSON paths as CRDs use them for columns and for the scale subresource.

Understood are fields (``.spec.replicas``, ``['a.b']``, ``.a\\.b``), indexes and slices, wildcards,
recursive descent, and filters that compare a path below an item with a literal
(``[?(@.type=="Ready")].status``).
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from karpenter.model.memo import remembered

Step = Callable[[Any], Iterator[Any]]

_TOKEN: Final = re.compile(
    r"""
    (?P<descent>\.\.)
    | \.?\[(?P<wildcard>\*)\] | \.(?P<star>\*)
    | \.(?P<field>(?:\\.|[^.\[\]\\\s(){}'"])+)
    | \[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]
    | \[(?P<index>-?\d+)\]
    | \[(?P<start>-?\d*):(?P<stop>-?\d*)(?::(?P<step>-?\d+))?\]
    | \[\?\(\s*@(?P<left>[^=!<>]*?)\s*(?:(?P<comparison>==|!=|<=|>=|<|>)\s*(?P<right>.*?))?\s*\)\]
    """,
    re.VERBOSE,
)
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LITERALS: Final = {"true": True, "false": False, "null": None}


class JsonPathError(ValueError):
    """A path that cannot be understood."""


def find(path: str, value: Any) -> list[Any]:
    """Every value at a path.

    Raises:
        JsonPathError: the path is malformed.
    """
    found: Iterable[Any] = [value]
    for step in parse(path):
        found = [result for start in found for result in step(start)]
    return list(found)


@remembered(1024)
def parse(path: str) -> tuple[Step, ...]:
    """The steps of a path, checked.

    Raises:
        JsonPathError: the path is malformed.
    """
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = f".{text}"
    steps = []
    position = 0
    while position < len(text) and text != ".":
        token = _TOKEN.match(text, position)
        if token is None:
            raise JsonPathError(f"{path!r} is no JSON path: cannot read {text[position:]!r}")
        if token["descent"] and not text.startswith("[", token.end()):
            position = token.end() - 1  # the second dot belongs to the field that follows
        else:
            position = token.end()
        try:
            steps.append(_step(token))
        except ValueError as error:  # an index beyond all bounds, or a step of zero
            raise JsonPathError(f"{path!r} is no JSON path: {error}") from error
    return tuple(steps)


def _step(token: re.Match[str]) -> Step:
    if token["descent"]:
        return _descend
    if token["field"]:
        return _field(re.sub(r"\\(.)", r"\1", token["field"]))
    if token["quoted"]:
        return _field(re.sub(r"\\(.)", r"\1", token["quoted"][1:-1]))
    if token["wildcard"] or token["star"]:
        return _parts
    if token["index"]:
        return _slice(slice(int(token["index"]), int(token["index"]) + 1 or None))
    if token["left"] is not None:
        return _filter(token["left"], token["comparison"], token["right"])
    bounds = (token["start"], token["stop"], token["step"])
    if token["step"] and not int(token["step"]):
        raise ValueError("a step of zero leads nowhere")
    return _slice(slice(*(int(bound) if bound else None for bound in bounds)))


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, Mapping) and name in value:
            yield value[name]

    return step


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for part in _parts(value):
        yield from _descend(part)


def _slice(bounds: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[bounds]

    return step


def _filter(left: str, comparison: str | None, right: str | None) -> Step:
    inner = left.strip()
    wanted = _literal(right.strip()) if right is not None else None

    def passes(item: Any) -> bool:
        found = find(inner, item)
        if comparison is None or not found:
            return bool(found)
        try:
            return _COMPARISONS[comparison](found[0], wanted)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from filter(passes, value)

    return step


def _literal(text: str) -> Any:
    if text[:1] in ("'", '"') and text[-1:] == text[:1]:
        return text[1:-1]
    if text in _LITERALS:
        return _LITERALS[text]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise JsonPathError(f"{text!r} is no value to compare with; write it in quotes") from None
