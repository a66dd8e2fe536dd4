"""Which known key a user probably meant by an unknown one."""

from collections.abc import Iterable
from typing import Final

from karpenter.model.labels import name_of

# A short name like "os" is within two edits of half of all short words
_SHORT_NAME: Final = 5


def nearest_key(key: str, known: Iterable[str]) -> str | None:
    """Return the known key within one or two typing mistakes of ``key``.

    A known key has no correction. A typing mistake is one letter inserted, missing, wrong, or
    swapped with its neighbour.
    """
    candidates = set(known)
    if key in candidates:
        return None
    within_reach = []
    for candidate in candidates:
        slips = _slips_forgiven(candidate)
        distance = edit_distance(key, candidate, limit=slips)
        if distance <= slips:
            within_reach.append((distance, candidate))
    return min(within_reach)[1] if within_reach else None


def closest_label(key: str, known: Iterable[str]) -> str | None:
    """Return the known key to suggest for ``key``, which nothing defines.

    In this order: a known key with the same name in another domain, one that is a typing mistake
    away, one that ends with the name, one that contains the whole key.
    """
    name = name_of(key)
    if not name:
        return None
    candidates = sorted(set(known) - {key}, key=lambda candidate: (len(candidate), candidate))
    typing_mistake = nearest_key(key, candidates)
    suggestions = (
        *(candidate for candidate in candidates if name_of(candidate) == name),
        *((typing_mistake,) if typing_mistake else ()),
        *(candidate for candidate in candidates if candidate.endswith(name)),
        *(candidate for candidate in candidates if key in candidate),
    )
    return suggestions[0] if suggestions else None


def edit_distance(left: str, right: str, *, limit: int) -> int:
    """Count the typing mistakes between two texts; return ``limit + 1`` beyond ``limit``.

    Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours.
    """
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        earlier, before, row = before, row, [i]
        for j, b in enumerate(right, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
        if min(row) > limit and min(before) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def _slips_forgiven(key: str) -> int:
    return 1 if len(name_of(key)) < _SHORT_NAME else 2
