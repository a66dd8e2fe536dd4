"""A mirror that follows a cluster through lost connections and lost history is exact in the end."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.server import MERGE, Cluster, cluster, config_map

pytestmark = pytest.mark.storm

MAPS = "/api/v1/namespaces/default/configmaps"
# Short enough that a few changes without reading lose the history
HISTORY = 3

CHANGES = st.tuples(
    st.sampled_from(["create", "update", "delete", "leave", "enter"]), st.integers(0, 4)
)
READS = st.sampled_from(["read", "disconnect", "restart"])
STEPS = st.lists(CHANGES | READS, max_size=60)


class Mirror:
    """Lists once, follows the watch, resumes where it was, and lists again when told to."""

    def __init__(self, api: Cluster, selector: str) -> None:
        self.objects: dict[str, Any] = {}
        self.relists = 0
        self._api = api
        self._query = {"labelSelector": selector} if selector else {}
        self._version = ""
        self._frames: AsyncGenerator[bytes, None] | None = None
        self._next: asyncio.Task[bytes] | None = None

    async def read(self) -> bool:
        """Take in what has come; whether there was anything."""
        if not self._version:
            self._list()
        if self._frames is None:
            self._frames = self._api.watch(
                MAPS, resourceVersion=self._version, allowWatchBookmarks="true", **self._query
            ).stream.frames()
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._frames))
        for _ in range(5):
            await asyncio.sleep(0)
        if not self._next.done():
            return False
        frame, self._next = self._next.result(), None
        for line in frame.splitlines():
            await self._take(msgspec.json.decode(line))
        return True

    async def disconnect(self) -> None:
        """Lose the connection, with whatever was on its way."""
        if self._next is not None:
            self._next.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await self._next
            self._next = None
        if self._frames is not None:
            await self._frames.aclose()
            self._frames = None

    def _list(self) -> None:
        body = self._api.call("GET", MAPS, **self._query).body
        self.objects = {item["metadata"]["name"]: item["data"] for item in body["items"]}
        self._version = body["metadata"]["resourceVersion"]
        self.relists += 1

    async def _take(self, event: dict[str, Any]) -> None:
        obj = event["object"]
        if event["type"] == "ERROR":
            assert 410 == obj["code"]
            await self.disconnect()
            self._list()
            return
        metadata = obj["metadata"]
        self._version = metadata["resourceVersion"]
        if event["type"] in {"ADDED", "MODIFIED"}:
            # A change that was missed would show here as an object that appears or vanishes twice
            assert (metadata["name"] in self.objects) == (event["type"] == "MODIFIED")
            self.objects[metadata["name"]] = obj["data"]
        elif event["type"] == "DELETED":
            del self.objects[metadata["name"]]


def change(api: Cluster, what: str, number: int, step: int) -> None:
    """One change by somebody else; some of them are refused, which is fine."""
    name = f"m{number}"
    if what == "create":
        made = config_map(name, step=str(step))
        made["metadata"]["labels"] = {"seen": "yes"} if number % 2 else {}
        api.call("POST", MAPS, made)
    elif what == "delete":
        api.call("DELETE", f"{MAPS}/{name}")
    else:
        labels = {"leave": {"seen": None}, "enter": {"seen": "yes"}}.get(what, {})
        patch = {"metadata": {"labels": labels}, "data": {"step": str(step)}}
        api.call("PATCH", f"{MAPS}/{name}", patch, content_type=MERGE)


async def follow(steps: list[Any], selector: str) -> tuple[dict[str, Any], dict[str, Any]]:
    api = cluster(history=HISTORY)
    mirror = Mirror(api, selector)
    for number, step in enumerate(steps):
        if step == "read":
            await mirror.read()
        elif step == "disconnect":
            await mirror.disconnect()
        elif step == "restart":
            await mirror.disconnect()
            mirror = Mirror(api, selector)
        else:
            what, which = step
            change(api, what, which, number)
    while await mirror.read():
        pass
    await mirror.disconnect()
    query = {"labelSelector": selector} if selector else {}
    items = api.call("GET", MAPS, **query).body["items"]
    return {item["metadata"]["name"]: item["data"] for item in items}, mirror.objects


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_a_mirror_of_everything_is_exact(steps: list[Any]) -> None:
    content, mirrored = asyncio.run(follow(steps, ""))

    assert content == mirrored


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_a_mirror_of_a_selection_is_exact(steps: list[Any]) -> None:
    content, mirrored = asyncio.run(follow(steps, "seen=yes"))

    assert content == mirrored
