"""The dashboard beside the controllers of a process, in virtual time: who leads, and what it costs.

Everything is as the program puts it together, but for the port: views and answers are asked for directly.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from unittest import mock

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.rights import INSTALL, Recording, Right, granted
from karpenter.api.meta import kind_of
from karpenter.clock import Clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.controllers.controllers import make_controllers
from karpenter.controllers.manager import Manager, Process
from karpenter.dashboard.answers.answers import Answers
from karpenter.dashboard.attendance import Attendance
from karpenter.dashboard.contract import View
from karpenter.dashboard.feed import Feed
from karpenter.dashboard.history import History
from karpenter.dashboard.homes.controller import NOT_LEADER, dashboard_beside
from karpenter.dashboard.server.serving import Address, Place
from karpenter.decision_log.record import Source
from karpenter.kube.client import Client
from karpenter.kube.events import Recorder
from karpenter.kube.lease import Election
from karpenter.kube.read_only import ReadOnlyClient
from karpenter.operator.beside import Running
from karpenter_sandbox.server.transport import MemoryTransport

SMALL = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4"]}
KEPT = {"consolidateAfter": "Never"}
HOUR = timedelta(hours=1).total_seconds()
A_WHILE = 60.0  # for what was under way when the hour ended


class CountingClock:
    """The time of the cluster; counts what is waited for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waits = 0

    def __getattr__(self, name: str) -> Any:
        if name not in ("now", "monotonic"):
            self.waits += 1
        return getattr(self._clock, name)


@dataclass
class Door:
    """What stands behind the port of a dashboard."""

    feed: Feed
    answers: Answers
    history: History
    attendance: Attendance
    clock: CountingClock
    used: set[Right]
    manager: Manager

    async def view(self) -> View:
        """Ask for the view, as the route does."""
        self.attendance.note()
        return (await self.feed.view()).view

    @contextmanager
    def client(self) -> Iterator[None]:
        """A page that follows the stream."""
        with ExitStack() as stack:
            stack.enter_context(self.attendance.present())
            stack.enter_context(self.feed.following())
            yield

    async def records(self) -> list[dict[str, Any]]:
        """All decisions, the newest first."""
        self.attendance.note()
        return (await self.answers.decisions(limit=200)).records

    async def notices(self) -> dict[str, str]:
        """The sentences above the page by their kinds."""
        return {notice.kind: notice.text for notice in (await self.view()).notices}

    @property
    def handlers(self) -> int:
        """How many handlers only look at the mirrors."""
        mirrors = self.manager.mirrors
        kept = [mirrors.of(kind)._followers for kind in mirrors.followed]
        return sum(follower.is_onlooker for followers in kept for follower in followers)


@asynccontextmanager
async def dashboard(
    run: Autoscaler, manager: Manager, election: Election | None = None
) -> AsyncIterator[Door]:
    """The dashboard of a process for as long as a block runs."""
    clock, used = CountingClock(run.clock), set[Right]()
    doors: list[Door] = []

    @asynccontextmanager
    async def behind_the_port(
        feed: Feed,
        answers: Answers,
        assets: object,
        place: Place,
        clock: CountingClock,
        *,
        history: History,
        attendance: Attendance,
    ) -> AsyncIterator[Address]:
        doors.append(Door(feed, answers, history, attendance, clock, used, manager))
        views = asyncio.create_task(feed.run())
        try:
            yield Address("127.0.0.1", 0, "")
        finally:
            views.cancel()
            await asyncio.gather(views, return_exceptions=True)

    reads = ReadOnlyClient(Recording(MemoryTransport(run.cluster.api), used), clock)
    process = replace(manager.process, clock=clock)
    running = Running(process, manager.mirrors, reads, election, namespace="kube-system")
    with mock.patch("karpenter.dashboard.homes.followed.serving", behind_the_port):
        async with dashboard_beside(running, Place()):
            yield doors[0]


class Replica:
    """One of several processes, which stand for election."""

    def __init__(self, run: Autoscaler, name: str) -> None:
        clock, rng = run.clock, random.Random(name)
        transport = MemoryTransport(run.cluster.api)
        self.election = Election(
            Client(transport, clock),
            clock,
            name="karpenter-leader-election",
            namespace="default",
            identity=f"{name}_5b7d",
            rng=rng,
        )
        kube = Client(transport, clock, may_write=self.election.is_leading)
        process = Process(
            kube=kube,
            cloud=KwokProvider(kube, clock, built_in()),
            clock=clock,
            settings=run.settings,
            recorder=Recorder(kube, clock, rng=rng),
            metrics=run.metrics,
            log=run.log,
            rng=rng,
        )
        self.manager = Manager(process, make_controllers, self.election)
        self._task = asyncio.create_task(self.manager.run(), name=name)

    async def stop(self) -> None:
        """End as after SIGTERM."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def launched(records: list[dict[str, Any]], source: Source) -> Counter[str]:
    """How many records tell of the launch of each claim."""
    return Counter(
        record["objects"][0]
        for record in records
        if (record["kind"], record["outcome"], record["source"]) == ("Launch", "done", source)
    )


def names(run: Autoscaler) -> set[str]:
    """The claims there are, as records name them."""
    return {f"NodeClaim/{claim['metadata']['name']}" for claim in run.claims}


@in_virtual_time
async def test_the_leader_shows_its_decisions_and_a_standby_what_it_sees_of_them() -> None:
    async with autoscaler(kwok_pool("general", SMALL, disruption=KEPT), starts=False) as run:
        first = Replica(run, "karpenter-one")
        await run.until(first.manager.leading.is_set)
        second = Replica(run, "karpenter-two")
        async with (
            dashboard(run, first.manager, first.election) as leader,
            dashboard(run, second.manager, second.election) as standby,
        ):
            with leader.client(), standby.client():
                await run.apply(deployment("early", 6))
                await run.pass_time(60)
                early = names(run)
                assert early

                assert NOT_LEADER not in await leader.notices()
                assert {Source.CONTROLLER} == {each["source"] for each in await leader.records()}
                assert launched(await leader.records(), Source.CONTROLLER) == Counter(early)

                told = (await standby.notices())[NOT_LEADER]
                assert "karpenter-one leads" in told
                assert {Source.OBSERVED} == {each["source"] for each in await standby.records()}
                assert launched(await standby.records(), Source.OBSERVED) == Counter(early)

                await first.stop()
                await run.until(second.manager.leading.is_set)
                await run.pass_time(5)
                assert NOT_LEADER not in await standby.notices()
                await run.apply(deployment("late", 6))
                await run.pass_time(60)
                late = names(run) - early
                assert late
                records = await standby.records()
                assert launched(records, Source.CONTROLLER) == Counter(late)
                assert launched(records, Source.OBSERVED) == Counter(early)
                assert [each["at"] for each in records] == sorted(
                    (each["at"] for each in records), reverse=True
                )
        await second.stop()


@in_virtual_time
async def test_a_leader_that_has_lost_its_lease_tells_nothing_again() -> None:
    async with autoscaler(kwok_pool("general", SMALL, disruption=KEPT), starts=False) as run:
        first = Replica(run, "karpenter-one")
        await run.until(first.manager.leading.is_set)
        async with dashboard(run, first.manager, first.election) as page:
            await run.apply(deployment("early", 6))
            await run.pass_time(60)
            early = names(run)
            lease = {"spec": {"holderIdentity": "karpenter-two_77", "leaseDurationSeconds": 900}}
            await run.client.patch(
                "merge",
                "coordination.k8s.io/v1",
                "Lease",
                "default",
                "karpenter-leader-election",
                lease,
            )
            await run.until(lambda: not first.election.is_leading())
            await run.pass_time(10)

            assert "karpenter-two leads" in (await page.notices())[NOT_LEADER]
            await run.pass_time(10)
            records = await page.records()
            assert launched(records, Source.CONTROLLER) == Counter(early)
            assert not launched(records, Source.OBSERVED)
        await first.stop()


@in_virtual_time
async def test_only_further_kinds_are_read_and_only_once_somebody_looks() -> None:
    async with autoscaler(kwok_pool("general", SMALL), deployment("web", 3)) as run:
        await run.pass_time(60)
        assert run.manager is not None
        async with dashboard(run, run.manager) as page:
            await run.pass_time(A_WHILE)
            assert not page.used
            assert not page.handlers

            with page.client():
                await run.pass_time(10)
            mirrored = {kind_of(kind) for kind in run.manager.mirrors.followed}
            assert {"Pod", "Node", "NodeClaim", "NodePool"} <= mirrored
            # The node class of this provider is read by its controllers, that of the other is not
            own = {("karpenter.kwok.sh", "kwoknodeclasses", verb) for verb in ("list", "watch")}
            allowed = granted(INSTALL / "optional" / "dashboard-kinds.yaml")
            assert own < allowed
            assert page.used == allowed - own


@in_virtual_time
async def test_it_costs_nothing_before_the_first_client_and_an_hour_after_the_last() -> None:
    async with autoscaler(kwok_pool("general", SMALL, disruption=KEPT)) as run:
        await run.until(lambda: run.manager is not None and run.manager.leading.is_set())
        assert run.manager is not None
        async with dashboard(run, run.manager) as page:
            await nothing_happens(run, page, lambda: run.apply(deployment("web", 3)))
            with page.client():
                await run.pass_time(30)
                view = await page.view()
                assert len(view.nodes.id) == len(run.nodes) > 0
            left, waits = run.clock.monotonic(), page.clock.waits
            assert waits

            # Nobody looks, and the hour is recorded
            await run.scale("web", 9)
            await run.pass_time(HOUR / 2)
            scaled = len(run.nodes)
            known = page.history.at(run.clock.now().timestamp())
            assert known is not None
            assert len(known.nodes.id) == scaled > len(view.nodes.id)
            assert page.clock.waits > waits

            await run.pass_time(left + HOUR + A_WHILE - run.clock.monotonic())
            await nothing_happens(run, page, lambda: run.scale("web", 20))
            assert page.history.at(run.clock.now().timestamp()) == known

            # The next client has the cluster as it is now
            again = await page.view()
            assert again.epoch == view.epoch
            assert len(again.nodes.id) == len(run.nodes) > scaled
            assert page.handlers


async def nothing_happens(run: Autoscaler, page: Door, work: Callable[[], Any]) -> None:
    """Let the controllers work for half an hour, and see that the dashboard does nothing at all."""
    waits, seq, kept = page.clock.waits, page.feed.seq, page.history.size
    nodes = len(run.nodes)
    used = set(page.used)
    await work()
    await run.pass_time(HOUR / 2)
    assert len(run.nodes) > nodes
    assert (page.clock.waits, page.feed.seq, page.history.size) == (waits, seq, kept)
    assert page.used == used
    assert not page.handlers
    assert not page.attendance.awake.is_set()
