"""One feed for many clients: what each gets, and when nothing is done at all."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from helpers.builders import pod, pods
from helpers.dashboard import IDENTITY, Page, StillScene
from karpenter.clock import run_virtual, running_clock
from karpenter.dashboard import feed as feeds
from karpenter.dashboard.contract import View
from karpenter.dashboard.feed import (
    BACKLOG_SECONDS,
    MOST_CLIENTS,
    Feed,
    Published,
    TooManyClientsError,
)
from karpenter.dashboard.follower import MOST_BYTES, MOST_WAITING
from karpenter.dashboard.server.stream import stream

Story = Callable[[Feed, StillScene], Awaitable[None]]


@asynccontextmanager
async def running(scene: StillScene) -> AsyncIterator[Feed]:
    feed = Feed(scene, IDENTITY, running_clock())
    task = asyncio.create_task(feed.run())
    try:
        yield feed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def play(story: Story, *names: str) -> None:
    """Run a story of a cluster that begins with pods of these names."""

    async def played() -> None:
        scene = StillScene(*map(pod, names))
        async with running(scene) as feed:
            await asyncio.sleep(0)
            await story(feed, scene)

    run_virtual(played())


def encoded(view: View) -> bytes:
    return msgspec.json.encode(view)


def test_nobody_looking_means_no_views() -> None:
    async def story(feed: Feed, scene: StillScene) -> None:
        for number in range(10):
            scene.put(pod(f"p-{number}"))
            await asyncio.sleep(60)

        assert 0 == scene.pictures

    play(story)


def test_changes_within_a_quarter_of_a_second_are_folded_into_one_delta() -> None:
    async def story(feed: Feed, scene: StillScene) -> None:
        page = Page((await feed.view()).view)
        with feed.following() as follower:
            await asyncio.sleep(1)
            for number in range(100):
                scene.put(pod(f"p-{number}"))
                await asyncio.sleep(0.01)
            await asyncio.sleep(1)
            page.take(follower)

        assert "hello" == page.kinds[0]
        assert 2 <= page.kinds.count("delta") <= 6
        assert 101 == len(page.view.pods.id)
        assert encoded(page.view) == encoded((await feed.view()).view)

    play(story, "first")


@pytest.mark.case("DASH-6")
def test_who_comes_back_within_ten_minutes_gets_deltas_alone() -> None:
    async def story(feed: Feed, scene: StillScene) -> None:
        page = Page((await feed.view()).view)
        with feed.following(), feed.following() as follower:
            await asyncio.sleep(1)
            page.take(follower)
        known = f"{page.view.epoch}-{page.view.seq}"
        with feed.following():  # somebody else, so that views are made meanwhile
            for number in range(50):
                scene.put(pod(f"p-{number}", node_name="a"))
                await asyncio.sleep(1)
            await asyncio.sleep(BACKLOG_SECONDS - 60)
            with feed.following(known) as follower:
                page.take(follower)

        assert not page.has_to_fetch
        assert encoded(page.view) == encoded((await feed.view()).view)

    play(story, "first")


@pytest.mark.case("DASH-6")
def test_who_comes_back_after_eleven_minutes_fetches_the_view() -> None:
    async def story(feed: Feed, scene: StillScene) -> None:
        page = Page((await feed.view()).view)
        with feed.following():
            scene.put(pod("late"))
            await asyncio.sleep(660)
            with feed.following(f"{page.view.epoch}-{page.view.seq}") as follower:
                page.take(follower)

        assert ["hello", "resync"] == page.kinds
        assert "too-old" == page.events[-1][1]["reason"]

    play(story, "first")


@pytest.mark.parametrize("since", ["another-1", "nonsense", "-1", "{epoch}-99", "{epoch}-x"])
def test_who_has_a_view_of_another_epoch_fetches_the_view(since: str) -> None:
    async def story(feed: Feed, scene: StillScene) -> None:
        epoch = (await feed.view()).view.epoch
        page = Page((await feed.view()).view)
        with feed.following(since.format(epoch=epoch)) as follower:
            page.take(follower)

        assert ["hello", "resync"] == page.kinds

    play(story, "first")


@pytest.mark.case("DASH-8")
def test_who_reads_too_slowly_fetches_the_view_and_others_do_not() -> None:
    async def story(feed: Feed, scene: StillScene) -> None:
        view = (await feed.view()).view
        slow, quick = Page(view), Page(view)
        with feed.following() as dozing, feed.following() as reading:
            for number in range(MOST_WAITING + 10):
                scene.put(pod(f"p-{number}"))
                await asyncio.sleep(0.3)
                quick.take(reading)
            waiting = dozing.taken()
            assert len(waiting) <= MOST_BYTES
            slow.events.clear()
            missed = waiting.partition(b"\n\n")[0].decode()

        assert missed.startswith("event: resync")
        assert '"reason":"behind"' in missed
        assert not quick.has_to_fetch
        assert encoded(quick.view) == encoded((await feed.view()).view)

    play(story, "first")


def test_a_change_of_most_rows_is_no_delta() -> None:
    async def story(feed: Feed, scene: StillScene) -> None:
        page = Page((await feed.view()).view)
        with feed.following() as follower:
            scene.put(*pods(600))
            await asyncio.sleep(1)
            page.take(follower)

        assert "too-much" == page.events[-1][1]["reason"]
        assert page.events[-1][1]["seq"] == (await feed.view()).view.seq

    play(story, "first")


def test_an_epoch_ends_when_its_dictionaries_have_grown_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeds, "_MOST_WORDS", 40)

    async def story(feed: Feed, scene: StillScene) -> None:
        page = Page((await feed.view()).view)
        with feed.following() as follower:
            for number in range(40):
                scene.put(pod(f"p-{number}", namespace=f"space-{number}"))
            await asyncio.sleep(1)
            scene.put(pod("last"))
            await asyncio.sleep(1)
            page.take(follower)

        assert page.events[-1] == (
            "resync",
            {"epoch": (await feed.view()).view.epoch, "seq": 0, "reason": "epoch"},
        )
        assert (await feed.view()).view.epoch != page.view.epoch

    play(story, "first")


@pytest.mark.case("DASH-8")
def test_who_never_reads_is_dropped_after_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are accepted until the buffers of the connection are full; then a write waits."""

    async def story(feed: Feed, scene: StillScene) -> None:
        monkeypatch.setattr(web, "StreamResponse", FullConnection)
        request = AskingForever()
        with feed.following() as follower:
            sent = asyncio.create_task(stream(request, follower, feed, running_clock()))  # type: ignore[arg-type]
            begun = asyncio.get_running_loop().time()
            await sent
            took = asyncio.get_running_loop().time() - begun

        assert request.transport.is_aborted
        assert 30 == pytest.approx(took, abs=0.5)
        assert 0 == feed.clients

    play(story)


class FullConnection:
    """A response whose client takes nothing."""

    def __init__(self, headers: object) -> None:
        pass

    async def prepare(self, request: object) -> None:
        pass

    async def write(self, data: bytes) -> None:
        await asyncio.Event().wait()


class Transport:
    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class AskingForever:
    """The request of such a client."""

    method = "GET"

    def __init__(self) -> None:
        self.transport = Transport()


@pytest.mark.case("DASH-9")
def test_there_is_room_for_thirty_two_clients_and_again_when_one_leaves() -> None:
    async def story(feed: Feed, scene: StillScene) -> None:
        followed = [feed.following() for _ in range(MOST_CLIENTS)]
        for each in followed:
            each.__enter__()
        with pytest.raises(TooManyClientsError), feed.following():
            pass
        followed.pop().__exit__(None, None, None)
        with feed.following():
            assert MOST_CLIENTS == feed.clients
        for each in followed:
            each.__exit__(None, None, None)

    play(story)


def test_a_view_that_cannot_be_made_does_not_end_the_feed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(feed: Feed, scene: StillScene) -> None:
        page = Page((await feed.view()).view)
        working = scene.picture
        with feed.following() as follower:

            async def broken() -> None:
                raise ValueError("the picture is torn")

            monkeypatch.setattr(scene, "picture", broken)
            scene.put(pod("late"))
            await asyncio.sleep(1)
            monkeypatch.setattr(scene, "picture", working)
            await asyncio.sleep(20)
            page.take(follower)

        assert {"first", "late"} == set(page.view.pods.name)

    play(story, "first")


def test_the_history_gets_every_view_and_the_delta_that_leads_to_it_also_without_clients() -> None:
    kept: list[tuple[int, bytes]] = []

    class Keeping:
        def keep(self, published: Published, difference: bytes) -> None:
            kept.append((published.view.seq, difference))

    async def played() -> None:
        scene = StillScene(pod("first"))
        feed = Feed(scene, IDENTITY, running_clock(), recorder=Keeping())
        task = asyncio.create_task(feed.run())
        await asyncio.sleep(30)
        for number in range(3):
            scene.put(pod(f"p-{number}"))
            await asyncio.sleep(10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(played())

    assert [0, 1, 2, 3] == [seq for seq, _ in kept]
    assert b"" == kept[0][1]
    assert [b"p-0" in kept[1][1], b"p-1" in kept[2][1], b"p-2" in kept[3][1]] == [True] * 3
