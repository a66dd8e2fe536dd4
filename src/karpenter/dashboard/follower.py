"""One client of the stream: the messages that wait for it, of which there are never too many."""

import asyncio
from collections import deque
from typing import Final

import msgspec

from karpenter.dashboard.contract import Resync

MOST_WAITING: Final = 256  # messages
MOST_BYTES: Final = 2**20


class Follower:
    """The queue of one client."""

    def __init__(self) -> None:
        """Begin with nothing to send."""
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self.filled: Final = asyncio.Event()

    def push(self, frame: bytes, latest: tuple[str, int]) -> None:
        """Have a message sent; a client that is too far behind has to fetch the view instead.

        Args:
            frame: the message.
            latest: epoch and number of the view that the client would have to fetch.
        """
        self.put(frame)
        if len(self._waiting) > MOST_WAITING or self._bytes > MOST_BYTES:
            self.reset(resync(*latest, "behind"))

    def reset(self, frame: bytes) -> None:
        """Have a message sent in place of everything that waits."""
        self.taken()
        self.put(frame)

    def put(self, *frames: bytes) -> None:
        """Have messages sent, however many wait."""
        self._waiting.extend(frames)
        self._bytes += sum(map(len, frames))
        if frames:
            self.filled.set()

    def taken(self) -> bytes:
        """Remove and return everything that waits."""
        frames = b"".join(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        self.filled.clear()
        return frames


def framed(event: str, body: bytes) -> bytes:
    """A message of the stream; JSON has no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), body)


def resync(epoch: str, seq: int, reason: str) -> bytes:
    """The message that the view has to be fetched."""
    return framed("resync", msgspec.json.encode(Resync(epoch=epoch, seq=seq, reason=reason)))
