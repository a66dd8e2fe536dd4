"""Objects made to do harm: those of a sound cluster, with a few values taken to their extremes.

The generator ignores schemas. It replaces values by others of the same JSON type, so a real API
server refuses most of the results; what it accepts, any user could have written.
"""

import random
import re
from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

TIMES: Final = (
    "0000-01-01T00:00:00Z",
    "0000-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "1677-09-21T00:12:43Z",
    "1969-12-31T23:59:59Z",
    "2038-01-19T03:14:08Z",
    "2262-04-11T23:47:17Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
)
NUMBERS: Final = (
    0,
    -1,
    1,
    2**31 - 1,
    -(2**31),
    2**31,
    2**53 + 1,
    10**11,
    2**63 - 1,
    -(2**63),
)
AMOUNTS: Final = (
    "0",
    "-1",
    "1e308",
    "1e-30",
    "9" * 40,
    "9223372036854775807",
    "8Ei",
    "0.0000000001",
    "1n",
    "-0",
)
LENGTHS: Final = (
    "0s",
    "-1s",
    "2562047h47m16s",
    "9223372036854775807ns",
    "1000000000h",
    "Never",
    "1.5h",
)
TEXTS: Final = (
    "",
    " ",
    "a",
    "a" * 63,
    "a" * 253,
    "x" * 20_000,
    "\u0000",
    "\u202eabc",
    "\x1b[31mred",
    "\U0001f600" * 50,
    "e\u0301\u00e9",
    "NaN",
    "true",
    "null",
    "../../etc",
    "%s{}$(x)",
    "a/b/c",
    *AMOUNTS,
    *LENGTHS,
)
# Not replaced by huge numbers: the control plane would create as many pods
_COUNTED: Final = frozenset({"replicas", "parallelism", "completions", "start", "count"})
_LASTING: Final = frozenset({"apiVersion", "kind", "name", "namespace", "uid", "resourceVersion"})
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT")
_MOST_ITEMS: Final = 20
_MOST_KEYS: Final = 200


def hostile(rng: random.Random, sample: Json, *, name: str) -> Json:
    """A copy of an object under another name, with one to four of its values spoilt."""
    made: Json = _copied(sample)
    made["metadata"]["name"] = name
    places = [place for place in _places(made) if not _is_lasting(place)]
    for place in rng.sample(places, min(len(places), rng.randint(1, 4))):
        _spoil(rng, made, place)
    return made


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _places(each, (*place, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _places(each, (*place, index))


def _is_lasting(place: tuple[Any, ...]) -> bool:
    """Whether a value identifies the object and is kept."""
    return place == ("metadata",) or (
        len(place) <= 2 and place[-1] in _LASTING and place[0] in (place[-1], "metadata")
    )


def _spoil(rng: random.Random, made: Json, place: tuple[Any, ...]) -> None:
    holder: Any = made
    for step in place[:-1]:
        if isinstance(holder, dict) and step not in holder:
            return  # a parent was replaced already
        if isinstance(holder, list) and step >= len(holder):
            return
        holder = holder[step]
    if not isinstance(holder, dict | list) or place[-1] in _COUNTED:
        return
    try:
        holder[place[-1]] = _extreme(rng, holder[place[-1]])
    except (KeyError, IndexError):
        return


def _extreme(rng: random.Random, value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return rng.choice(NUMBERS)
        case str() if _TIME.match(value):
            return rng.choice(TIMES)
        case str():
            return rng.choice(TEXTS)
        case list():
            return [] if rng.random() < 0.5 else value * rng.randint(2, _MOST_ITEMS)
        case dict() if value and all(isinstance(each, str) for each in value.values()):
            return _crowded(rng, value)
        case dict():
            return {}
    return None


def _crowded(rng: random.Random, value: dict[str, str]) -> dict[str, str]:
    """A map with many entries more, or with odd ones."""
    text = rng.choice(TEXTS)
    count = rng.choice((1, 10, _MOST_KEYS))
    return {**value, **{f"{rng.choice(('a', 'x.example/y'))}-{n}": text for n in range(count)}}
