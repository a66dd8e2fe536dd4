"""Which places may still have room for pods of a class, as masks for the amounts pods ask for.

Places only fill up. So for each amount of a resource that classes of pods ask for, a mask holds the
places that may have as much; a place's bit is cleared once it has less. A place that is full for
everybody then costs nobody a look. With many different amounts only some are kept, and the mask of
the next lower one stands in: it may name a place too many, never one too few.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from karpenter.scheduling.classes import PodClass

_MOST_STEPS: Final = 64  # per resource; more make masks sharper and filling up dearer


class Steps:
    """For every resource: the places that may have at least so much, by amount."""

    __slots__ = ("_by_name", "_slots")

    def __init__(self, classes: Iterable[PodClass], having: Callable[[str, int], int]) -> None:
        """Keep masks for what ``classes`` need; ``having`` says who has so much at first."""
        needed: dict[str, set[int]] = {}
        for pod_class in classes:
            for name, amount in pod_class.needs:
                needed.setdefault(name, set()).add(amount)
        self._by_name: dict[str, tuple[Sequence[int], list[int]]] = {}  # amounts, their masks
        for name, found in needed.items():
            amounts = sorted(found)[:: 1 + (len(found) - 1) // _MOST_STEPS]
            self._by_name[name] = amounts, [having(name, amount) for amount in amounts]
        self._slots: dict[int, list[tuple[list[int], int]]] = {}  # class -> masks, and which one

    def perhaps(self, pod_class: PodClass) -> int:
        """Places that may have room for a pod; all others have not, and never will."""
        slots = self._slots.get(pod_class.number)
        if slots is None:
            slots = [self._slot(name, amount) for name, amount in pod_class.needs]
            self._slots[pod_class.number] = slots
        places = -1
        for masks, step in slots:
            places &= masks[step]
        return places

    def lower(self, place: int, name: str, left: int, before: int | None = None) -> None:
        """Note that a place has no more than ``left`` of a resource, and had ``before``."""
        amounts, masks = self._by_name[name]
        first = bisect_right(amounts, left)
        end = len(amounts) if before is None else bisect_right(amounts, before)
        if first < end:
            others = ~(1 << place)
            for step in range(first, end):
                masks[step] &= others

    @property
    def resources(self) -> Iterable[str]:
        """The resources that anybody needs."""
        return self._by_name.keys()

    def _slot(self, name: str, amount: int) -> tuple[list[int], int]:
        amounts, masks = self._by_name[name]
        return masks, bisect_right(amounts, amount) - 1
