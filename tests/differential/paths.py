"""Places in an answer: ``body.items[name=web].status`` and the like."""

import re
from collections.abc import Iterator
from typing import Any, Final

_STEP: Final = re.compile(r"\[([^\]]+)\]|((?:\\.|[^.\[])+)")


def at(tree: Any, path: str) -> Any:
    """What stands at a path, or None.

    A part is a key, an index, or ``[key=value]`` for the first item of a list with that value;
    ``*`` is all items. A dot inside a key is written with a backslash before it.
    """
    return _walk(tree, list(_steps(path)))


def _walk(tree: Any, steps: list[str]) -> Any:
    for index, step in enumerate(steps):
        if step == "*" and isinstance(tree, list):
            return [_walk(each, steps[index + 1 :]) for each in tree]
        tree = _child(tree, step)
    return tree


def _child(tree: Any, step: str) -> Any:
    if isinstance(tree, dict):
        return tree.get(step)
    if not isinstance(tree, list):
        return None
    if step.lstrip("-").isdigit():
        place = int(step)
        return tree[place] if -len(tree) <= place < len(tree) else None
    key, _, value = step.partition("=")
    key, _, inner = key.partition("/")
    return next((each for each in tree if _value(each, key, inner) == value), None)


def _value(item: Any, key: str, inner: str) -> Any:
    value = item.get(key) if isinstance(item, dict) else None
    return value.get(inner) if inner and isinstance(value, dict) else value


def _steps(path: str) -> Iterator[str]:
    for match in _STEP.finditer(path):
        yield match[1] or match[2].replace("\\.", ".")
