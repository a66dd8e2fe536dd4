"""The decision log: one call writes a log line and its record; the latest records stay in memory.

Followers of the log are called with each record at once and must not block: notifications and the
file have queues of their own. A follower that raises never stops a decision.
"""

import hashlib
import itertools
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, TypeAlias

import structlog

from karpenter.decision_log.record import DecisionRecord, Draft, decoded, encoded, recorded
from karpenter.kube.events import Recent

MOST_RECORDS: Final = 20_000
MOST_BYTES: Final = 32 * 1024 * 1024
_ID_BYTES: Final = 4
_IDENTITY_LENGTH: Final = 16
_log: Final = structlog.get_logger(__name__)

# Called with a record, and the line it is written as
Follower: TypeAlias = Callable[[DecisionRecord, bytes], object]
# A method of a logger, such as ``log.info``: takes a message, and facts by name
Say: TypeAlias = Callable[..., object]


class DecisionLog:
    """The decisions of one process."""

    def __init__(
        self, *, epoch: str = "", most: int = MOST_RECORDS, most_bytes: int = MOST_BYTES
    ) -> None:
        """Make an empty log.

        Args:
            epoch: how all ids begin; by default different for each process.
            most: how many records are kept.
            most_bytes: how many bytes of lines are kept.
        """
        self._epoch = epoch or secrets.token_hex(_ID_BYTES)
        self._numbers = itertools.count(1)
        self._most = most
        self._most_bytes = most_bytes
        self._lines: deque[bytes] = deque()  # as bytes, which are a fraction of the objects
        self._bytes = 0
        self._followers: list[Follower] = []
        self._identities: Recent[bool] = Recent()
        self._commands: Recent[str] = Recent(MOST_RECORDS)  # uid of a NodeClaim -> its command

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._bytes

    def decide(
        self, at: datetime, say: Say, message: str, draft: Draft, /, **facts: Any
    ) -> DecisionRecord:
        """Write the line of a decision to a log, and its record to this one."""
        say(message, **facts)
        return self.add(at, draft)

    def add(self, at: datetime, draft: Draft) -> DecisionRecord:
        """Add a record without a log line."""
        record = recorded(draft, self._id(draft), at)
        line = encoded(record)
        self._lines.append(line)
        self._bytes += len(line)
        while len(self._lines) > self._most or self._bytes > self._most_bytes:
            self._bytes -= len(self._lines.popleft())
        for follower in tuple(self._followers):
            try:
                follower(record, line)
            except Exception as error:  # noqa: BLE001 a follower must not affect the decision
                _log.error("decision not passed on", error=str(error), exc_info=error)
        return record

    def newest(self) -> Iterator[DecisionRecord]:
        """What is kept, the newest first."""
        return map(decoded, reversed(tuple(self._lines)))

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Call ``follower`` with every new record, until the returned function is called."""
        self._followers.append(follower)
        return lambda: self._followers.remove(follower)

    def tie(self, command: str, uids: Iterable[str]) -> None:
        """Count what happens to these NodeClaims as part of a command."""
        for uid in uids:
            self._commands.put(uid, command)

    def untie(self, uids: Iterable[str]) -> None:
        """Remove NodeClaims from their command, because they are not deleted after all."""
        self.tie("", uids)

    def command_of(self, uid: str) -> str:
        """The command that a NodeClaim is part of; empty if there is none."""
        return self._commands.get(uid) or ""

    def _id(self, draft: Draft) -> str:
        """An id that no other record has, here or in another process.

        A decision with an identity has a hash of it as id, the same in every process: receivers can
        deduplicate what two leaders decide. A second time in one process it is another decision.
        """
        if draft.identity and self._identities.get(draft.identity) is None:
            self._identities.put(draft.identity, True)
            text = "\n".join((draft.kind, draft.reason, *draft.identity))
            return hashlib.sha256(text.encode()).hexdigest()[:_IDENTITY_LENGTH]
        return f"{self._epoch}-{next(self._numbers)}"
