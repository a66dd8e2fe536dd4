"""What objects keep in memory: a walk from some roots to every text that can be reached from them.

A leak is a text with the name of something that is gone. It is found by where it is kept, such as
``NodeKubelet._settled``, and not by the memory of the process, which changes for many reasons.
"""

import asyncio
import functools
import types
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

_LEAVES: Final = (type, types.ModuleType, types.BuiltinFunctionType, int, float, complex, bool)
_SEQUENCES: Final = (list, tuple, set, frozenset, deque)


def places_of(
    words: Collection[str], roots: Iterable[object], *, passed_over: tuple[type, ...] = ()
) -> Counter[str]:
    """How many texts contain one of the words, by the attribute that leads to them.

    Args:
        words: such as the names of objects that are gone.
        roots: where the walk begins.
        passed_over: types whose objects are not looked into.
    """
    found: Counter[str] = Counter()
    for place, text in _texts(roots, passed_over):
        if any(word in text for word in words):
            found[place] += 1
    return found


def _texts(roots: Iterable[object], passed_over: tuple[type, ...]) -> Iterator[tuple[str, str]]:
    waiting: list[tuple[str, object]] = [("", root) for root in roots]
    known: dict[int, object] = {}  # by id; kept alive, so that no id is used twice
    while waiting:
        place, obj = waiting.pop()
        if isinstance(obj, str):
            yield place, obj
        elif isinstance(obj, bytes):
            yield place, obj.decode(errors="replace")
        elif id(obj) not in known and not isinstance(obj, (*_LEAVES, *passed_over)):
            known[id(obj)] = obj
            waiting += _parts(place, obj)


def _parts(place: str, obj: object) -> Iterator[tuple[str, object]]:
    """What an object consists of, each part with the nearest attribute above it."""
    if isinstance(obj, dict):
        yield from ((place, each) for pair in list(obj.items()) for each in pair)
    elif isinstance(obj, _SEQUENCES):
        yield from ((place, each) for each in list(obj))
    elif isinstance(obj, types.FunctionType):
        closure = obj.__closure__ or ()
        yield from ((obj.__qualname__, cell.cell_contents) for cell in closure)
    elif isinstance(obj, types.MethodType):
        yield place, obj.__self__
    elif isinstance(obj, functools.partial):
        yield from ((place, each) for each in (obj.func, *obj.args, *obj.keywords.values()))
    elif isinstance(obj, asyncio.Task):
        yield place, obj.get_coro()
    elif isinstance(obj, types.CoroutineType):
        for name, value in (obj.cr_frame.f_locals if obj.cr_frame else {}).items():
            yield f"{obj.__qualname__}.{name}", value
        yield place, obj.cr_await
    else:
        yield from _attributes(obj)


def _attributes(obj: Any) -> Iterator[tuple[str, object]]:
    name = type(obj).__qualname__
    for attribute, value in list(getattr(obj, "__dict__", {}).items()):
        yield f"{name}.{attribute}", value
    for kind in type(obj).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            mangled = f"_{kind.__name__.lstrip('_')}{slot}"
            for attribute in (slot, mangled):
                if not attribute.startswith("__") and hasattr(obj, attribute):
                    yield f"{name}.{slot}", getattr(obj, attribute)
