"""Which places may still have enough of a resource, as masks for some of the amounts asked for.

Places only fill up. So for each amount that classes of pods ask for, a mask holds the places that
may have as much; a place's bit is cleared once it has less. A place that is full for everybody then
costs nobody a look. With many different amounts only some are kept, and the mask of the next lower
one stands in: it may name a place too many, never one too few.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from karpenter.scheduling.classes import PodClass

_MOST_STEPS: Final = 64  # per resource; more make masks sharper and filling up dearer


class Steps:
    """For one resource: the places that may have at least so much, by amount."""

    __slots__ = ("_amounts", "_masks")

    def __init__(self, amounts: Sequence[int], having: Callable[[int], int]) -> None:
        """Keep masks for some of the sorted ``amounts``; ``having`` says what they are at first."""
        self._amounts = amounts[:: 1 + (len(amounts) - 1) // _MOST_STEPS]
        self._masks = [having(amount) for amount in self._amounts]

    def at_least(self, amount: int) -> int:
        """Places that may have this much."""
        return self._masks[bisect_right(self._amounts, amount) - 1]

    def slot(self, amount: int) -> tuple[Sequence[int], int]:
        """Where to look up ``at_least(amount)`` again: masks, and which one of them."""
        return self._masks, bisect_right(self._amounts, amount) - 1

    def lower(self, place: int, left: int, before: int | None = None) -> None:
        """Note that a place has no more than ``left``, and had no more than ``before``."""
        amounts = self._amounts
        first = bisect_right(amounts, left)
        end = len(amounts) if before is None else bisect_right(amounts, before)
        if first < end:
            others = ~(1 << place)
            for step in range(first, end):
                self._masks[step] &= others


def amounts_needed(classes: Iterable[PodClass]) -> dict[str, list[int]]:
    """The amounts of each resource that classes need, sorted."""
    needed: dict[str, set[int]] = {}
    for pod_class in classes:
        for name, amount in pod_class.needs:
            needed.setdefault(name, set()).add(amount)
    return {name: sorted(amounts) for name, amounts in needed.items()}
