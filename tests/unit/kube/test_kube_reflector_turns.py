"""A reflector that has much to take in lets others have their turn."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from helpers.server import config_map
from karpenter.api.cluster import ConfigMap
from karpenter.api.codec import WatchEvent, convert_as
from karpenter.api.meta import ListMeta, ObjectList, Resource
from karpenter.clock import SystemClock
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Reflector

S = TypeVar("S", bound=Resource)
MANY = 500


def config_maps(first: int, count: int) -> list[ConfigMap]:
    found = []
    for version in range(first, first + count):
        obj = config_map(f"n{version}")
        obj["metadata"] |= {"uid": str(version), "resourceVersion": str(version)}
        found.append(convert_as(obj, ConfigMap))
    return found


class Server:
    """Everything it has to say it says at once."""

    def __init__(self, listed: Sequence[Any], events: Sequence[Any]) -> None:
        self._listed = listed
        self._events = events

    async def page(
        self, kind: type[S], *, limit: int = 0, continue_token: str = ""
    ) -> ObjectList[S]:
        return ObjectList(metadata=ListMeta(resource_version="1"), items=tuple(self._listed))

    @asynccontextmanager
    async def watch(
        self, kind: type[S], *, resource_version: str, seconds: float
    ) -> AsyncIterator[AsyncIterator[WatchEvent[S]]]:
        yield self._said()

    async def _said(self) -> AsyncIterator[WatchEvent[Any]]:
        for obj in self._events:
            yield WatchEvent(type="ADDED", object=obj)
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("listed", "changed"),
    [
        pytest.param(MANY, 0, id="a long list"),
        pytest.param(0, MANY, id="many changes at once"),
    ],
)
def test_others_have_their_turn(listed: int, changed: int) -> None:
    async def scene() -> list[int]:
        turn, seen, done = 0, [], asyncio.Event()
        mirror = Mirror(ConfigMap)

        def take_note(_: ConfigMap | None, __: ConfigMap | None) -> None:
            seen.append(turn)
            if len(seen) == MANY:
                done.set()

        mirror.on_change(take_note)
        server = Server(config_maps(1, listed), config_maps(1, changed))
        reflector = Reflector(server, ConfigMap, mirror, SystemClock(), rng=random.Random(1))
        following = asyncio.create_task(reflector.run())
        while not done.is_set():
            turn += 1
            await asyncio.sleep(0)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return seen

    seen = asyncio.run(scene())

    assert MANY == len(seen)
    assert 20 == max(seen.count(turn) for turn in set(seen))
