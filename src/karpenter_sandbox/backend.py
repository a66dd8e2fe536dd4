"""The shared state of request handlers: store, served kinds, clock, generated names and uids."""

import random
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from karpenter.admission.legacy.webhook import Profile
from karpenter_sandbox.kinds.registry import Registry, Resource
from karpenter_sandbox.log_ring import LogSource
from karpenter_sandbox.store.store import Key, Store

# Without vowels and similar characters: no generated name spells a word or is misread
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_LONGEST_PREFIX: Final = 63 - _SUFFIX_LENGTH


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """The time now, with its zone."""
        ...


class Identity:
    """Unique identifiers and name suffixes; the same seed gives the same ones."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 names are no secrets

    def uid(self) -> str:
        """A new unique identifier."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def name(self, prefix: str) -> str:
        """A name that begins with ``prefix``, cut so that the name stays a DNS label."""
        suffix = "".join(self._random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
        return prefix[:_LONGEST_PREFIX] + suffix


@dataclass(slots=True)
class Backend:
    """Everything a request may touch."""

    store: Store
    kinds: Registry
    clock: Clock
    identity: Identity = field(default_factory=Identity)
    # The provider and releases whose rules and defaults the webhook of the alpha kinds applies
    provider: str = "kwok"
    legacy_defaults: Profile = "late"
    # Logs of programs of this process, for the pods that represent them
    logs: list[LogSource] = field(default_factory=list)

    def timestamp(self) -> str:
        """The time now, as objects write it."""
        return timestamp(self.clock.now())

    def key(self, resource: Resource, namespace: str, name: str) -> Key:
        """Where an object of a resource is stored."""
        return Key(
            resource.storage_group, resource.plural, namespace if resource.namespaced else "", name
        )


def duration(seconds: int) -> timedelta:
    """Seconds as Go counts them: in 64 bits of nanoseconds, which overflow after 292 years.

    So a ``datetime`` of this century plus such a duration stays within the years Python supports.
    """
    half = 1 << 63
    nanoseconds = (int(seconds) * 10**9 + half) % (2 * half) - half
    return timedelta(microseconds=nanoseconds // 1000)


def timestamp(moment: datetime) -> str:
    """A moment as objects write it: UTC, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"


def parse_timestamp(text: str) -> datetime:
    """Read a moment from an object."""
    return datetime.fromisoformat(text)
