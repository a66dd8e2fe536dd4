"""Text that many rows share, as numbers: a dictionary of a view while it grows."""

from collections.abc import Iterable


class Words:
    """Texts in the order in which they came; none is ever taken out or moved."""

    def __init__(self, entries: Iterable[str]) -> None:
        """Begin with entries that stand in every view."""
        self._texts = list(entries)
        self._places = {text: place for place, text in enumerate(self._texts)}
        self._shared: list[str] | None = None

    def place(self, text: str) -> int:
        """The place of a text, which is added if it is new."""
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self._texts)
            self._texts.append(text)
            self._shared = None
        return place

    def texts(self) -> list[str]:
        """All texts; the list does not change any more, and is the same while none is added."""
        if self._shared is None:
            self._shared = list(self._texts)
        return self._shared

    def __len__(self) -> int:
        """How many there are."""
        return len(self._texts)
