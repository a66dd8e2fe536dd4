"""A reflector keeps its mirror equal to the server, whatever happens on the way."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from helpers.clusters import in_virtual_time, running
from helpers.server import config_map, crd
from karpenter.api.cluster import ConfigMap
from karpenter.api.codec import convert_as
from karpenter.api.karpenter import CapacityBuffer
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Reflector
from karpenter.kube.transport import Request
from unit.kube.flaky import Break, FlakyCluster, Refusal


def is_watch(request: Request) -> bool:
    return ("watch", "true") in request.query


def is_list(request: Request) -> bool:
    return not is_watch(request)


def is_later_page(request: Request) -> bool:
    return any(name == "continue" for name, _ in request.query)


class Following:
    """A reflector at work, with the cluster it follows."""

    def __init__(self, cluster: FlakyCluster, **options: Any) -> None:
        self.cluster = cluster
        self.mirror = Mirror(ConfigMap)
        self.reflector = Reflector(
            cluster.kube, ConfigMap, self.mirror, cluster.clock, rng=random.Random(5), **options
        )

    @property
    def names(self) -> list[str]:
        return sorted(obj.metadata.name for obj in self.mirror.list())

    async def create(self, *names: str) -> None:
        for name in names:
            await self.cluster.direct.create(config_map(name))

    async def delete(self, name: str) -> None:
        await self.cluster.direct.delete("v1", "ConfigMap", "default", name)

    async def pass_time(self, seconds: float) -> None:
        await self.cluster.clock.sleep(seconds)

    def asked(self, which: Any) -> list[Request]:
        return [request for request in self.cluster.transport.requests if which(request)]


@asynccontextmanager
async def following(*names: str, **options: Any) -> AsyncIterator[Following]:
    """Follow a cluster in which these objects exist from the start."""
    cluster = FlakyCluster()
    await cluster.begin()
    made = Following(cluster, **options)
    await made.create(*names)
    async with running(made.reflector.run()):
        await made.pass_time(0.1)
        yield made


@in_virtual_time
async def test_what_exists_is_listed_and_what_happens_is_followed() -> None:
    async with following("a", "b") as it:
        listed = it.names
        await it.create("c")
        await it.delete("a")
        await it.pass_time(0.1)

        assert ["a", "b"] == listed
        assert ["b", "c"] == it.names
        assert it.mirror.is_synced


@in_virtual_time
async def test_lists_come_in_pages() -> None:
    async with following("a", "b", "c", "d", "e", page_size=2) as it:
        assert ["a", "b", "c", "d", "e"] == it.names
        assert 3 == len(it.asked(is_list))


@in_virtual_time
async def test_a_page_that_came_too_late_starts_the_list_again_at_once() -> None:
    cluster = FlakyCluster()
    await cluster.begin()
    it = Following(cluster, page_size=2)
    await it.create("a", "b", "c")
    cluster.transport.refuse(Refusal(410, where=is_later_page))
    async with running(it.reflector.run()):
        await it.pass_time(0.1)

        assert ["a", "b", "c"] == it.names
        assert 3 == len(it.asked(is_list))
        assert not is_later_page(it.asked(is_list)[-1])


@in_virtual_time
async def test_a_watch_asks_for_bookmarks_and_an_end() -> None:
    async with following(watch_seconds=100.0) as it:
        query = dict(it.asked(is_watch)[0].query)

        assert "true" == query["allowWatchBookmarks"]
        assert 80 <= int(query["timeoutSeconds"]) <= 100


@pytest.mark.parametrize("how", [Break.END, Break.LOST, Break.FAULT])
def test_a_watch_that_stops_goes_on_where_it_was(how: Break) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with following("a") as it:
            await it.pass_time(30)
            await it.create("b")
            await it.pass_time(1)
            it.cluster.transport.break_watches(how)
            await it.create("c")
            await it.delete("a")
            await it.pass_time(2)

            assert ["b", "c"] == it.names
            assert 1 == len(it.asked(is_list))

    scenario()


@in_virtual_time
async def test_a_bookmark_moves_the_place_to_resume_from() -> None:
    async with following("a") as it:
        first = dict(it.asked(is_watch)[0].query)["resourceVersion"]
        # Changes of other kinds move the server's version on
        for index in range(5):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{index}"}}
            await it.cluster.direct.create(namespace)
        await it.pass_time(61)
        it.cluster.transport.break_watches(Break.END)
        await it.pass_time(2)
        resumed = dict(it.asked(is_watch)[1].query)["resourceVersion"]

        assert int(first) + 5 == int(resumed)


@in_virtual_time
async def test_after_410_a_list_shows_what_was_deleted_meanwhile() -> None:
    async with following("a", "b") as it:
        seen: list[tuple[str, str]] = []
        it.mirror.on_change(
            lambda old, new: seen.append(
                (old.metadata.name if old else "", new.metadata.name if new else "")
            )
        )
        seen.clear()
        it.cluster.transport.break_watches(Break.GONE)
        await it.delete("a")
        await it.create("c")
        await it.pass_time(3)

        assert ["b", "c"] == it.names
        assert [("a", ""), ("", "c")] == seen


@in_virtual_time
async def test_410_as_the_answer_to_a_watch_lists_again() -> None:
    async with following("a") as it:
        await it.pass_time(30)
        it.cluster.transport.refuse(Refusal(410, where=is_watch))
        it.cluster.transport.break_watches(Break.END)
        await it.create("b")
        await it.pass_time(3)

        assert ["a", "b"] == it.names
        assert 2 == len(it.asked(is_list))


@in_virtual_time
async def test_a_watch_nothing_is_heard_of_is_dropped_and_opened_again() -> None:
    async with following("a", watch_seconds=290.0) as it:
        it.cluster.transport.break_watches(Break.SILENT)
        await it.create("b")
        await it.pass_time(200)
        before = it.names
        await it.pass_time(125)

        assert ["a"] == before
        assert ["a", "b"] == it.names
        assert 1 == len(it.asked(is_list)), "the place is remembered, so nothing is listed again"


@in_virtual_time
async def test_watches_that_end_at_once_are_not_reopened_in_a_hurry() -> None:
    async with following("a") as it:
        for _ in range(600):
            it.cluster.transport.break_watches(Break.END)
            await it.pass_time(0.1)

        assert len(it.asked(is_watch)) < 12


@in_virtual_time
async def test_pauses_grow_to_half_a_minute_and_start_anew_when_something_is_heard() -> None:
    async with following("a") as it:
        it.cluster.transport.is_cut = True
        it.cluster.transport.break_watches(Break.LOST)
        await it.pass_time(600)
        tries = len(it.asked(is_watch))
        it.cluster.transport.is_cut = False
        await it.pass_time(40)
        await it.create("b")
        await it.pass_time(1)
        it.cluster.transport.break_watches(Break.LOST)
        await it.create("c")
        await it.pass_time(1.1)

        # 0.8 + 1.6 + ... + 25.6 is a minute, then one each half minute
        assert 18 <= tries <= 32
        assert ["a", "b", "c"] == it.names


@in_virtual_time
async def test_a_version_the_server_keeps_refusing_is_given_up() -> None:
    # A server that was restored from a backup answers 500 or 504 to versions of its future
    async with following("a") as it:
        await it.pass_time(30)
        it.cluster.transport.refuse(Refusal(504, times=3, where=is_watch))
        it.cluster.transport.break_watches(Break.LOST)
        await it.pass_time(60)

        assert 2 == len(it.asked(is_list))


@in_virtual_time
async def test_a_server_that_asks_for_patience_is_not_listed_again() -> None:
    async with following("a") as it:
        await it.pass_time(30)
        it.cluster.transport.refuse(Refusal(429, times=5, where=is_watch))
        it.cluster.transport.break_watches(Break.LOST)
        await it.create("b")
        await it.pass_time(90)

        assert ["a", "b"] == it.names
        assert 1 == len(it.asked(is_list))


@pytest.mark.parametrize(
    ("optional", "synced_early"),
    [
        pytest.param(False, False, id="a kind we need leaves the mirror unsynced"),
        pytest.param(True, True, id="a kind we can do without counts as empty"),
    ],
)
def test_a_kind_the_server_does_not_know(optional: bool, synced_early: bool) -> None:
    @in_virtual_time
    async def scenario() -> None:
        cluster = FlakyCluster()
        await cluster.begin()
        mirror = Mirror(CapacityBuffer)
        reflector = Reflector(
            cluster.kube,
            CapacityBuffer,
            mirror,
            cluster.clock,
            rng=random.Random(1),
            optional=optional,
        )
        async with running(reflector.run()):
            await cluster.clock.sleep(100)
            before = mirror.is_synced
            group, version = CapacityBuffer.api_version.split("/")
            definition = crd("capacitybuffers", "CapacityBuffer", group=group, name=version)
            definition["metadata"]["annotations"] = {
                "api-approved.kubernetes.io": "https://example.com/1"
            }
            await cluster.direct.create(definition)
            buffer = {
                "apiVersion": CapacityBuffer.api_version,
                "kind": "CapacityBuffer",
                "metadata": {"name": "spare", "namespace": "default"},
            }
            await cluster.direct.create(buffer)
            await cluster.clock.sleep(60)

            assert synced_early == before
            assert mirror.is_synced
            assert ["spare"] == [obj.metadata.name for obj in mirror.list()]

    scenario()


@pytest.mark.parametrize("optional", [False, True])
def test_a_kind_we_may_not_see_is_like_one_that_is_not_there(optional: bool) -> None:
    @in_virtual_time
    async def scenario() -> None:
        cluster = FlakyCluster()
        await cluster.begin()
        it = Following(cluster, optional=optional)
        await it.create("a")
        cluster.transport.refuse(Refusal(403, times=4))
        async with running(it.reflector.run()):
            await it.pass_time(2)
            before = (it.mirror.is_synced, it.names)
            await it.pass_time(60)

            assert (optional, []) == before
            assert ["a"] == it.names

    scenario()


@in_virtual_time
async def test_what_was_seen_stays_while_we_may_not_look() -> None:
    async with following("a", optional=True) as it:
        it.cluster.transport.refuse(Refusal(403, times=4))
        it.cluster.transport.break_watches(Break.LOST)
        await it.pass_time(3)
        meanwhile = it.names
        await it.create("b")
        await it.pass_time(60)

        assert ["a"] == meanwhile
        assert ["a", "b"] == it.names


@in_virtual_time
async def test_why_a_kind_is_not_followed_is_known_for_as_long_as_it_lasts() -> None:
    async with following("a") as it:
        assert it.reflector.trouble is None
        it.cluster.transport.refuse(Refusal(500, times=4))
        lost_at = it.cluster.clock.now()
        it.cluster.transport.break_watches(Break.LOST)
        await it.pass_time(0.5)
        trouble = it.reflector.trouble
        assert trouble is not None
        assert not trouble.is_refused
        assert (trouble.since - lost_at).total_seconds() < 1
        await it.pass_time(60)
        assert it.reflector.trouble is None


@in_virtual_time
async def test_a_kind_that_may_not_be_read_is_refused_and_not_lost() -> None:
    async with following("a", optional=True) as it:
        it.cluster.transport.refuse(Refusal(403, times=4))
        it.cluster.transport.break_watches(Break.LOST)
        await it.pass_time(3)
        trouble = it.reflector.trouble
        assert trouble is not None
        assert trouble.is_refused
        await it.pass_time(60)
        assert it.reflector.trouble is None


@in_virtual_time
async def test_an_own_write_made_while_a_list_was_on_its_way_is_not_forgotten() -> None:
    async with following("a") as it:
        removed: list[str] = []
        it.mirror.on_change(lambda old, new: removed.append("gone") if new is None else None)
        it.cluster.transport.answer_delay = 20.0
        it.cluster.transport.break_watches(Break.GONE)
        await it.pass_time(10)
        mine = await it.cluster.direct.create(config_map("mine"))
        it.mirror.put(convert_as(mine, ConfigMap))
        await it.pass_time(30)

        assert ["a", "mine"] == it.names
        assert [] == removed
