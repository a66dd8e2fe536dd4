"""A dashboard of a cluster that a test changes: a scene, a feed in virtual time, and its clients."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from helpers.builders import NOW
from karpenter.api.meta import Resource
from karpenter.dashboard.contract import Delta, View
from karpenter.dashboard.delta import applied
from karpenter.dashboard.feed import Identity
from karpenter.dashboard.follower import Follower
from karpenter.dashboard.picture import Picture
from karpenter.state.cluster import ClusterState

IDENTITY = Identity("sandbox", "kwok", release="1.2.3", assets="0123456789ab")


class StillScene:
    """A cluster that changes only when a test says so."""

    heard = "2026-11-16T20:15:09.000Z"

    def __init__(self, *objects: Resource) -> None:
        self.state = ClusterState()
        self.pictures = 0
        self._tellers: list[Callable[[], object]] = []
        self.put(*objects)

    def put(self, *objects: Resource) -> None:
        """Have objects, in place of those of the same names."""
        for each in objects:
            self.state.apply(each)
        self.tell()

    def tell(self) -> None:
        """Say that something has changed."""
        for changed in self._tellers:
            changed()

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        self._tellers.append(changed)
        return lambda: self._tellers.remove(changed)

    async def picture(self) -> Picture:
        self.pictures += 1
        return Picture(self.state.snapshot(), NOW)


@dataclass(slots=True)
class Page:
    """What a page makes of the stream: it holds a view, and applies deltas to it."""

    view: View
    events: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]

    @property
    def has_to_fetch(self) -> bool:
        return "resync" in self.kinds

    def take(self, follower: Follower) -> None:
        """Read what waits for a client."""
        self.read(follower.taken())

    def read(self, stream: bytes) -> None:
        for frame in filter(None, stream.decode().split("\n\n")):
            named, body = frame.split("\n", 1)
            kind = named.removeprefix("event: ")
            self.events.append((kind, msgspec.json.decode(body.removeprefix("data: "))))
            if kind == "delta":
                difference = msgspec.json.decode(body.removeprefix("data: "), type=Delta)
                assert difference.seq == self.view.seq + 1, "a delta is missing"
                self.view = applied(self.view, difference)
