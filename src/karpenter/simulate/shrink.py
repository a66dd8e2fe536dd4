"""The smallest part of what went wrong that still breaks the same promise (delta debugging, ddmin)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Budget:
    """How many more runs a search may take."""

    def __init__(self, runs: int) -> None:
        self.left = runs

    def spend(self) -> bool:
        """Take one run, if there is one left."""
        self.left -= 1
        return self.left >= 0


def smallest(items: Sequence[T], breaks: Callable[[Sequence[T]], bool], budget: Budget) -> list[T]:
    """A part of items that breaks as all of them do, and of which no chunk can be left out.

    Where the budget ends first, it is the smallest part that was found.

    Args:
        items: what breaks when all of it is there.
        breaks: whether a part breaks as well; parts keep the order of items.
        budget: how often that may be asked.
    """
    found = list(items)
    if found and budget.spend() and breaks([]):
        return []
    parts = 2
    while len(found) > 1:
        size = -(-len(found) // parts)
        chunks = [found[begin : begin + size] for begin in range(0, len(found), size)]
        smaller = _smaller(chunks, breaks, budget)
        if smaller is not None:
            found = smaller
            parts = max(2, min(parts - 1, len(found)))
        elif parts >= len(found) or budget.left <= 0:
            break
        else:
            parts = min(len(found), parts * 2)
    return found


def _smaller(
    chunks: list[list[T]], breaks: Callable[[Sequence[T]], bool], budget: Budget
) -> list[T] | None:
    """One chunk that breaks alone, or all but one that break without it."""
    for chunk in chunks:
        if not budget.spend():
            return None
        if breaks(chunk):
            return chunk
    if len(chunks) == 2:
        return None  # what is left without one half is the other half
    for left_out in range(len(chunks)):
        rest = [item for n, chunk in enumerate(chunks) if n != left_out for item in chunk]
        if not budget.spend():
            return None
        if breaks(rest):
            return rest
    return None
