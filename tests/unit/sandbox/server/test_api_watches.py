"""Watching: what comes first, what follows, and how a watch ends."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from helpers.server import MERGE, TABLE, Cluster, cluster, config_map, crd, manifest, pod
from karpenter.clock import run_virtual
from karpenter_sandbox.server.api import WatchResponse

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


class Reader:
    """Reads the lines of a watch one by one."""

    def __init__(self, response: WatchResponse) -> None:
        self._frames: AsyncGenerator[bytes, None] = response.stream.frames()
        self._lines: list[bytes] = []

    async def next(self) -> tuple[str, dict[str, Any]]:
        while not self._lines:
            self._lines = (await anext(self._frames)).splitlines()
        event = msgspec.json.decode(self._lines.pop(0))
        return event["type"], event["object"]

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(kind, obj["metadata"].get("name", "")) for kind, obj in events]

    async def rest(self) -> list[dict[str, Any]]:
        """Everything until the watch ends by itself."""
        lines = [*self._lines]
        async for frame in self._frames:
            lines.extend(frame.splitlines())
        return [msgspec.json.decode(line) for line in lines]

    async def close(self) -> None:
        await self._frames.aclose()


async def test_without_a_version_a_watch_begins_with_what_is_there(api: Cluster) -> None:
    api.create(config_map("a"))
    reader = Reader(api.watch(MAPS))
    api.create(config_map("b"))
    api.call("DELETE", f"{MAPS}/a")

    assert [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")] == await reader.take(3)
    await reader.close()


async def test_large_objects_are_sent_a_few_at_a_time(api: Cluster) -> None:
    for number in range(20):
        api.create(config_map(f"map-{number:02}", text="x" * 500_000))
    frames = api.watch(MAPS).stream.frames()
    sizes: list[int] = []
    names: list[str] = []
    while len(names) < 20:
        frame = await anext(frames)
        sizes.append(len(frame))
        lines = [msgspec.json.decode(line) for line in frame.splitlines()]
        names += [line["object"]["metadata"]["name"] for line in lines]
    await frames.aclose()

    assert [f"map-{number:02}" for number in range(20)] == names
    assert max(sizes) < 2_000_000


async def test_with_a_version_it_begins_there(api: Cluster) -> None:
    api.create(config_map("a"))
    version = api.call("GET", MAPS).body["metadata"]["resourceVersion"]
    api.create(config_map("b"))
    reader = Reader(api.watch(MAPS, resourceVersion=version))

    assert [("ADDED", "b")] == await reader.take(1)
    await reader.close()


async def test_nothing_between_the_request_and_the_first_read_is_missed(api: Cluster) -> None:
    response = api.watch(MAPS)
    api.create(config_map("a"))
    reader = Reader(response)

    assert [("ADDED", "a")] == await reader.take(1)
    await reader.close()


async def test_initial_events_end_with_a_bookmark(api: Cluster) -> None:
    api.create(config_map("a"))
    reader = Reader(
        api.watch(
            MAPS,
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
        )
    )

    first, second = await reader.next(), await reader.next()

    assert ("ADDED", "a") == (first[0], first[1]["metadata"]["name"])
    assert "BOOKMARK" == second[0]
    assert {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": "3",
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    } == second[1]
    await reader.close()


async def test_initial_events_may_be_declined(api: Cluster) -> None:
    api.create(config_map("a"))
    reader = Reader(api.watch(MAPS, sendInitialEvents="false", resourceVersionMatch="NotOlderThan"))
    api.create(config_map("b"))

    assert [("ADDED", "b")] == await reader.take(1)
    await reader.close()


async def test_a_version_too_old_is_an_error_event() -> None:
    api = cluster(history=2)
    for number in range(10):
        api.create(config_map(f"x{number}"))
    reader = Reader(api.watch(MAPS, resourceVersion="3"))

    events = await reader.rest()

    assert ["ERROR"] == [event["type"] for event in events]
    status = events[0]["object"]
    assert (410, "Expired") == (status["code"], status["reason"])
    assert status["message"].startswith("too old resource version: 3 (")


async def test_a_reader_that_sleeps_too_long_is_told_to_list_again() -> None:
    api = cluster(history=2)
    reader = Reader(api.watch(MAPS, resourceVersion="2"))
    for number in range(10):
        api.create(config_map(f"x{number}"))

    assert [410] == [event["object"]["code"] for event in await reader.rest()]


async def test_objects_enter_and_leave_the_view_of_a_selector(api: Cluster) -> None:
    reader = Reader(api.watch(PODS, labelSelector="tier=web"))
    api.create(pod("a"))

    def label(value: str | None) -> None:
        patch = {"metadata": {"labels": {"tier": value}}}
        assert 200 == api.call("PATCH", f"{PODS}/a", patch, content_type=MERGE).status

    label("web")
    label("db")
    label("web")
    api.call("DELETE", f"{PODS}/a")

    assert [
        ("ADDED", "a"),
        ("DELETED", "a"),
        ("ADDED", "a"),
        ("MODIFIED", "a"),  # marked, before it goes
        ("DELETED", "a"),
    ] == await reader.take(5)
    await reader.close()


async def test_an_object_that_leaves_the_view_is_shown_as_it_was_seen(api: Cluster) -> None:
    made = pod("a")
    made["metadata"]["labels"] = {"tier": "web"}
    api.create(made)
    version = api.call("GET", PODS).body["metadata"]["resourceVersion"]
    reader = Reader(api.watch(PODS, labelSelector="tier=web", resourceVersion=version))
    patch = {"metadata": {"labels": {"tier": "db"}}}
    changed = api.call("PATCH", f"{PODS}/a", patch, content_type=MERGE).body

    kind, obj = await reader.next()

    assert ("DELETED", {"tier": "web"}) == (kind, obj["metadata"]["labels"])
    assert changed["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]
    await reader.close()


async def test_one_object_is_watched_by_its_name(api: Cluster) -> None:
    reader = Reader(api.watch(MAPS, fieldSelector="metadata.name=b"))
    api.create(config_map("a"))
    api.create(config_map("b"))

    assert [("ADDED", "b")] == await reader.take(1)
    await reader.close()


async def test_the_old_path_for_watches_still_works(api: Cluster) -> None:
    api.create(config_map("a"))
    api.create(config_map("b"))
    reader = Reader(api.watch("/api/v1/watch/namespaces/default/configmaps/b"))

    assert [("ADDED", "b")] == await reader.take(1)
    await reader.close()


async def test_tables_name_their_columns_once(api: Cluster) -> None:
    reader = Reader(api.watch(PODS, accept=TABLE))
    api.create(pod("a"))
    api.create(pod("b"))

    first, second = await reader.next(), await reader.next()

    assert ("Table", "Table") == (first[1]["kind"], second[1]["kind"])
    assert first[1]["columnDefinitions"]
    assert not second[1].get("columnDefinitions")
    assert "b" == second[1]["rows"][0]["cells"][0]
    await reader.close()


async def test_watches_of_a_kind_end_when_its_crd_is_gone(api: Cluster) -> None:
    api.create(crd())
    reader = Reader(api.watch("/apis/example.com/v1/gadgets"))
    api.create(manifest("example.com/v1", "Gadget", "g"))
    api.call(
        "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com"
    )

    assert ["ADDED", "DELETED"] == [event["type"] for event in await reader.rest()]


def test_a_watch_ends_after_the_time_the_client_gave_it(api: Cluster) -> None:
    async def follow() -> tuple[list[dict[str, Any]], float]:
        reader = Reader(api.watch(MAPS, timeoutSeconds="30"))
        begun = asyncio.get_running_loop().time()
        return await reader.rest(), asyncio.get_running_loop().time() - begun

    events, seconds = run_virtual(follow())

    assert [] == events
    assert 30 == round(seconds)


def test_bookmarks_come_once_a_minute(api: Cluster) -> None:
    async def follow() -> list[dict[str, Any]]:
        reader = Reader(api.watch(MAPS, timeoutSeconds="150", allowWatchBookmarks="true"))
        return await reader.rest()

    events = run_virtual(follow())

    assert ["BOOKMARK"] * 3 == [event["type"] for event in events]
    assert {"2"} == {event["object"]["metadata"]["resourceVersion"] for event in events}


def test_nobody_gets_bookmarks_who_did_not_ask(api: Cluster) -> None:
    async def follow() -> list[dict[str, Any]]:
        return await Reader(api.watch(MAPS, timeoutSeconds="150")).rest()

    assert [] == run_virtual(follow())


async def test_a_thousand_watches_see_the_same(api: Cluster) -> None:
    readers = [Reader(api.watch(MAPS)) for _ in range(1000)]
    waiting = [asyncio.create_task(reader.take(1)) for reader in readers]
    await asyncio.sleep(0)

    api.create(config_map("a"))

    assert [[("ADDED", "a")]] * 1000 == await asyncio.gather(*waiting)
    for reader in readers:
        await reader.close()
    assert {} == api.store.collection("", "configmaps")._waiting
