"""Contains failures to the object that causes them: they are logged and counted.

Any user with write access may create objects. One that cannot be decoded, or that makes a handler
of its mirror raise, must not affect other objects: it is named in the log and in the metrics, and
the work continues.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import structlog

from karpenter.api.codec import Unreadable
from karpenter.clock import Clock
from karpenter.kube.index import Key
from karpenter.kube.workqueue import Backoff

# Logged per kind; further ones add no information
MOST_NAMED: Final = 100
# A handler that raised is called again with back-off: first soon, then every few minutes
AGAIN: Final = Backoff(1.0, 300.0)

_Keys: TypeAlias = set[Key]
_log = structlog.get_logger(__name__)


class GuardObserver(Protocol):
    """Counts failures."""

    def set_aside(self, kind: str, namespace: str, name: str, *, is_aside: bool) -> None:
        """Note that an object cannot be read, or that it can be again."""

    def handler_failed(self, kind: str) -> None:
        """Note that a handler of a kind raised for one object."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Where a mirror and its reflector report failing objects."""

    clock: Clock
    observer: GuardObserver | None = None

    def handler_failed(
        self, kind: str, key: Key, handler: object, error: Exception, *, failures: int
    ) -> float:
        """Report that a handler raised for an object; return the seconds until it is retried.

        Args:
            kind: of the object.
            key: which one it is.
            handler: the handler that raised.
            error: what was raised.
            failures: how often in a row it raised before.
        """
        seconds = AGAIN.after(failures)
        _log.error(
            "object could not be processed",
            kind=kind,
            namespace=key[0],
            name=key[1],
            handler=getattr(handler, "__qualname__", type(handler).__name__),
            error=f"{type(error).__name__}: {error}",
            retry_in=f"{seconds:g}s",
            exc_info=None if failures else error,
        )
        if self.observer is not None:
            self.observer.handler_failed(kind)
        return seconds


class SetAside:
    """The objects of one kind that cannot be read, each named once."""

    def __init__(self, kind: str, observer: GuardObserver | None) -> None:
        self._kind = kind
        self._observer = observer
        self._keys: _Keys = set()
        self._named: _Keys = set()

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, obj: Unreadable) -> None:
        """Take note of an object that cannot be read."""
        key = (obj.namespace, obj.name)
        if key in self._keys:
            return
        self._keys.add(key)
        if len(self._named) >= MOST_NAMED:
            return
        self._named.add(key)
        _log.error(
            "object set aside",
            kind=self._kind,
            namespace=obj.namespace,
            name=obj.name,
            error=f"it cannot be read: {obj.problem}",
            advice="correct or delete it; until then the controllers ignore it",
        )
        if len(self._named) == MOST_NAMED:
            _log.error("further objects are set aside unnamed", kind=self._kind)
        self._report(key, is_aside=True)

    def discard(self, key: Key) -> None:
        """Take note that an object can be read again, or is gone."""
        if key in self._keys:
            self._keys.discard(key)
            if key in self._named:
                self._named.discard(key)
                self._report(key, is_aside=False)
                namespace, name = key
                _log.info(
                    "object no longer set aside", kind=self._kind, namespace=namespace, name=name
                )

    def replace(self, objects: Iterable[Unreadable]) -> None:
        """Replace the set with these objects, as a new list gives them."""
        objects = list(objects)
        present = {(obj.namespace, obj.name) for obj in objects}
        for key in self._keys - present:
            self.discard(key)
        for obj in objects:
            self.add(obj)

    def _report(self, key: Key, *, is_aside: bool) -> None:
        if self._observer is not None:
            self._observer.set_aside(self._kind, *key, is_aside=is_aside)
