"""The metrics that an expression of PromQL names, each with the labels it is asked for.

Only as much of the language is read as that takes: tokens, selectors, and the labels of aggregations
and of vector matching. ``promtool`` says whether the whole is an expression.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<range>\[[^\]]*\])
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?:ms|[smhdwy])?)
    | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    | (?P<symbol>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){},@])
    """,
    re.VERBOSE,
)
_GROUPINGS: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS: Final = frozenset({"and", "or", "unless", "bool", "offset"})


class PromqlError(ValueError):
    """An expression that cannot be read."""


@dataclass(frozen=True, slots=True)
class Selected:
    """A metric of an expression, with the labels that matchers and aggregations name."""

    metric: str
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Labels that an aggregation or a match keeps, and the metrics that may have them."""

    labels: frozenset[str]
    metrics: frozenset[str]


def selected(expression: str) -> list[Selected]:
    """Every metric of an expression with the labels that its own matchers name."""
    tokens = _tokens(expression)
    return [each for each, _, _ in _selectors(tokens)]


def groupings(expression: str) -> Iterator[Grouping]:
    """Every list of labels, with the metrics of what it is applied to."""
    tokens = _tokens(expression)
    found = list(_selectors(tokens))
    for position, token in enumerate(tokens):
        if token not in _GROUPINGS or tokens[position + 1 : position + 2] != ["("]:
            continue
        end = _closing(tokens, position + 1)
        labels = frozenset(tokens[position + 2 : end]) - {","}
        inside = range(len(tokens))  # of a match: both sides
        if token in ("by", "without"):
            if tokens[end + 1 : end + 2] != ["("]:
                raise PromqlError(f"write labels before what is aggregated: {expression}")
            inside = range(end + 1, _closing(tokens, end + 1))
        metrics = frozenset(each.metric for each, start, _ in found if start in inside)
        yield Grouping(labels, metrics)


def _tokens(expression: str) -> list[str]:
    tokens = []
    position = 0
    while position < len(expression):
        found = _TOKEN.match(expression, position)
        if found is None:
            raise PromqlError(f"cannot read {expression[position:]!r} in {expression!r}")
        position = found.end()
        if found.lastgroup != "space":
            tokens.append(found[0])
    if tokens.count("(") != tokens.count(")") or tokens.count("{") != tokens.count("}"):
        raise PromqlError(f"brackets do not match in {expression!r}")
    return tokens


def _selectors(tokens: Sequence[str]) -> Iterator[tuple[Selected, int, int]]:
    """Metrics with their labels, and the positions of their first and last token."""
    position = 0
    while position < len(tokens):
        token = tokens[position]
        following = tokens[position + 1] if position + 1 < len(tokens) else ""
        if token in _GROUPINGS and following == "(":
            position = _closing(tokens, position + 1)
        elif _is_metric(token, following):
            end = tokens.index("}", position) if following == "{" else position
            yield (
                Selected(token, frozenset(_matched(tokens[position + 2 : end]))),
                position,
                end,
            )
            position = end
        position += 1


def _matched(tokens: Sequence[str]) -> Iterator[str]:
    """The labels between the braces of a selector."""
    for position in range(0, len(tokens), 4):
        yield tokens[position]


def _closing(tokens: Sequence[str], opening: int) -> int:
    """The position of the bracket that closes the one at a position."""
    depth = 0
    for position in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[position], 0)
        if depth == 0:
            return position
    raise PromqlError(f"a bracket is not closed in {' '.join(tokens)}")


def _is_metric(token: str, following: str) -> bool:
    """Whether a token is a metric, and not a word of the language or a function."""
    is_name = re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", token) is not None
    is_applied = following in ("(", "by", "without")  # a function or an aggregation
    return is_name and not is_applied and token not in _WORDS | _GROUPINGS
