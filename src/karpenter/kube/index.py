"""Objects by a value taken from them."""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
Key: TypeAlias = tuple[str, str]  # namespace, name


class Index(Generic[T]):
    """Objects by a value taken from them, in the order in which they came."""

    def __init__(self, values_of: Callable[[T], Iterable[Hashable]]) -> None:
        self._values_of = values_of
        self._objects: dict[Hashable, dict[Key, T]] = {}

    def get(self, value: Hashable) -> list[T]:
        """The objects that have ``value``."""
        return list(self._objects.get(value, {}).values())

    def values(self) -> list[Hashable]:
        """The values that objects have."""
        return list(self._objects)

    def change(self, key: Key, old: T | None, new: T | None) -> None:
        """Follow a change of the object at ``key``."""
        before = tuple(self._values_of(old)) if old is not None else ()
        after = tuple(self._values_of(new)) if new is not None else ()
        for value in before:
            if value not in after:
                objects = self._objects[value]
                objects.pop(key, None)
                if not objects:
                    del self._objects[value]
        if new is not None:
            for value in after:
                self._objects.setdefault(value, {})[key] = new
