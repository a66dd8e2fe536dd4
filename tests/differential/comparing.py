"""Where two answers differ, and whether that is known."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

ABSENT: Final = "<absent>"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A place at which the sandbox answers otherwise than the real control plane."""

    path: Path
    sandbox: Any
    real: Any

    def __str__(self) -> str:
        place = ".".join(part.replace(".", "\\.") for part in self.path)
        return f"{place}\n    sandbox: {self.sandbox!r}\n    real:    {self.real!r}"

    def is_at(self, pattern: str) -> bool:
        """Whether it lies at or below a place.

        In a pattern ``*`` stands for any part, or a piece of one, and ``**`` for any number of
        parts; a dot inside a part has a backslash before it.
        """
        return _regex(pattern).fullmatch("".join(f"{part}\0" for part in self.path)) is not None


def differences(sandbox: Any, real: Any, path: Path = ()) -> Iterator[Difference]:
    """The smallest parts in which two answers differ, in the order of the real one."""
    if isinstance(sandbox, dict) and isinstance(real, dict):
        for key in (*real, *(key for key in sandbox if key not in real)):
            here, there = sandbox.get(key, ABSENT), real.get(key, ABSENT)
            yield from differences(here, there, (*path, key))
    elif isinstance(sandbox, list) and isinstance(real, list) and len(sandbox) == len(real):
        for index, (here, there) in enumerate(zip(sandbox, real, strict=True)):
            yield from differences(here, there, (*path, str(index)))
    elif not _same(sandbox, real):
        yield Difference(path, sandbox, real)


def unexplained(
    found: Iterable[Difference],
    listed: Mapping[str, Iterable[str]],
    everywhere: Mapping[str, Iterable[str]],
) -> list[str]:
    """What speaks against a list of known differences: those it lacks and those that are gone.

    ``listed`` must all be there; ``everywhere`` need not show in each answer.
    """
    rest = [each for each in found if not _is_covered(each, everywhere)]
    new = [str(each) for each in rest if not _is_covered(each, listed)]
    gone = [
        f"{name} is listed at {place}, but both agree there"
        for name, places in listed.items()
        for place in places
        if not any(each.is_at(place) for each in rest)
    ]
    return [*new, *gone]


def _is_covered(difference: Difference, listed: Mapping[str, Iterable[str]]) -> bool:
    return any(difference.is_at(place) for places in listed.values() for place in places)


def _same(left: Any, right: Any) -> bool:
    # JSON has true and 1; Python takes them for equal
    return type(left) is type(right) and bool(left == right)


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(?<!\\)\.", pattern)
    return re.compile("".join(map(_part, parts)) + ".*", re.DOTALL)


def _part(part: str) -> str:
    if part == "**":
        return r"(?:[^\x00]+\x00)*"
    pieces = part.replace("\\.", ".").split("*")
    return r"[^\x00]*".join(map(re.escape, pieces)) + r"\x00"
