"""Pairwise combinations for tests: every pair of choices occurs in one, and they are few."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

Choice = tuple[str, object]
Pair = frozenset[Choice]


def pairwise(choices: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Combinations of the choices, so that each two choices of two names occur together in one.

    Each row begins with a pair that no row has yet, and takes for every other name the choice that
    adds most pairs.
    """
    left = dict.fromkeys(_all_pairs(choices))  # in order, so that the same rows come every time
    rows = []
    while left:
        row = dict(next(iter(left)))
        for name in choices:
            if name not in row:
                row[name] = _best(name, choices[name], row, left)
        for pair in pairs_of(row):
            left.pop(pair, None)
        rows.append({name: row[name] for name in choices})
    return rows


def pairs_of(row: Mapping[str, object]) -> Iterator[Pair]:
    """The pairs of choices in a combination."""
    return (frozenset(pair) for pair in combinations(row.items(), 2))


def _all_pairs(choices: Mapping[str, Sequence[object]]) -> Iterator[Pair]:
    for first, second in combinations(choices, 2):
        for one, two in product(choices[first], choices[second]):
            yield frozenset({(first, one), (second, two)})


def _best(
    name: str, values: Iterable[object], row: Mapping[str, object], left: Mapping[Pair, None]
) -> object:
    def gain(value: object) -> tuple[int, int]:
        choice = (name, value)
        now = sum(frozenset({choice, each}) in left for each in row.items())
        return now, sum(choice in pair for pair in left)  # ties: most pairs left for later names

    return max(values, key=gain)
