"""Questions to the planning process: one at a time, shared, kept for a while, bounded, and survived."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from helpers.builders import pod
from helpers.dashboard_worlds import DISRUPTION, NOW, supply, world_of
from karpenter.api.cluster import Event
from karpenter.api.meta import ObjectMeta, Resource
from karpenter.clock import Clock
from karpenter.dashboard.answers.asking import Asking
from karpenter.dashboard.answers.messages import (
    EXPLAIN,
    PLAN,
    Answered,
    Ask,
    Change,
    Refused,
    Reply,
)
from karpenter.dashboard.answers.planning import Limits, Planning
from karpenter.dashboard.answers.process import PlannerGoneError, PlanningProcess
from karpenter.dashboard.answers.supply import Supply
from karpenter.dashboard.answers.world import Terms
from karpenter.dashboard.contract import WhatIfRequest
from karpenter.dashboard.questions import BadQuestionError, BusyError, NoAnswerError

SUPPLY = supply()


class StillClock:
    """A clock for which it is always the same moment."""

    def now(self) -> Any:
        return NOW


CLOCK = cast(Clock, StillClock())


class Cluster:
    """Objects that somebody follows."""

    def __init__(self, *objects: Resource) -> None:
        self.known = list(objects)
        self.changed: list[Callable[[Any, Any], None]] = []

    def objects(self) -> Iterator[Resource]:
        yield from self.known

    def follow(self, changed: Callable[[Any, Any], None]) -> None:
        self.changed.append(changed)

    def change(self, before: Resource | None, after: Resource | None) -> None:
        for changed in self.changed:
            changed(before, after)


@dataclass
class Fake:
    """A process that answers with the number of the question."""

    replies: Iterator[Reply | Exception]
    fed: list[str] = field(default_factory=list)
    asked: list[Ask] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    pid: int = 1

    @property
    def is_alive(self) -> bool:
        return not self.ended.is_set()

    async def feed(self, changes: Iterable[Callable[[], Change]]) -> None:
        for each in changes:
            change = each()
            self.fed.append(("-" if change.content is None else "+") + change.identity[2])

    async def supply(self, supply: Supply) -> None:
        assert supply is SUPPLY

    async def ask(self, question: Ask) -> Reply:
        self.asked.append(question)
        await self.may_answer.wait()
        reply = next(self.replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def end(self) -> None:
        self.ended.set()


def numbered() -> Iterator[Reply | Exception]:
    """Answers that differ."""
    yield from (Answered({"number": number}, False, 0.5) for number in range(1, 100))


@dataclass
class Bench:
    """A planning with fake processes."""

    planning: Planning
    cluster: Cluster
    processes: list[Fake]
    now: list[float]

    @property
    def process(self) -> Fake:
        return self.processes[-1]


@asynccontextmanager
async def bench(
    *objects: Resource,
    replies: Iterator[Reply | Exception] | None = None,
    limits: Limits | None = None,
    may_answer: bool = True,
    sold: Supply | None = SUPPLY,
) -> AsyncIterator[Bench]:
    """A planning that runs."""
    cluster, processes, now = Cluster(*objects), list[Fake](), [0.0]
    answers = replies or numbered()

    async def begin(terms: Terms) -> PlanningProcess:
        made = Fake(answers)
        if may_answer:
            made.may_answer.set()
        processes.append(made)
        return cast(PlanningProcess, made)

    async def supplier() -> Supply | None:
        return sold

    planning = Planning(
        cluster,
        supplier,
        Terms,
        CLOCK,
        limits=limits,
        begin=begin,
        monotonic=lambda: now[0],
    )
    running = asyncio.create_task(planning.run())
    await asyncio.sleep(0)
    try:
        yield Bench(planning, cluster, processes, now)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(holds: Callable[[], object]) -> None:
    """Let others have their turns until something holds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 what is waited for happens in turns of the loop
            await asyncio.sleep(0)


async def test_nobody_looks_and_no_process_runs() -> None:
    async with bench(pod("a")) as it:
        it.cluster.change(None, pod("b"))
        await asyncio.sleep(0)

        assert [] == it.processes
        assert it.planning.pid is None


async def test_an_answer_says_when_it_was_made_and_how_long_it_took() -> None:
    async with bench() as it:
        answer = await it.planning.ask(PLAN)

    assert {
        "number": 1,
        "asOf": "2026-11-16T20:15:00.000Z",
        "took": 0.5,
        "isPartial": False,
    } == answer


async def test_who_asks_the_same_at_the_same_time_gets_the_same_answer() -> None:
    async with bench() as it:
        answers = await asyncio.gather(*(it.planning.ask(PLAN) for _ in range(5)))
        other = await it.planning.ask(EXPLAIN, ("node", "", "a"))

    assert [1] * 5 == [each["number"] for each in answers]
    assert 2 == other["number"]


@pytest.mark.parametrize(
    ("after", "is_changed", "number"),
    [
        pytest.param(9.9, True, 1, id="changed-but-soon"),
        pytest.param(10.1, True, 2, id="changed-and-later"),
        pytest.param(10.1, False, 1, id="unchanged"),
        pytest.param(60.1, False, 2, id="unchanged-for-long"),
    ],
)
async def test_an_answer_is_kept(after: float, is_changed: bool, number: int) -> None:
    async with bench() as it:
        await it.planning.ask(PLAN)
        it.now[0] = after
        if is_changed:
            it.cluster.change(None, pod("b"))

        assert number == (await it.planning.ask(PLAN))["number"]


async def test_what_no_plan_depends_on_is_no_change() -> None:
    async with bench() as it:
        await it.planning.ask(PLAN)
        it.now[0] = 10.1
        it.cluster.change(None, Event(metadata=ObjectMeta(name="e")))

        assert 1 == (await it.planning.ask(PLAN))["number"]


async def test_the_process_is_told_of_everything_once_and_then_of_changes() -> None:
    old = pod("a")
    async with bench(old, Event(metadata=ObjectMeta(name="e"))) as it:
        await it.planning.ask(PLAN)
        it.now[0] = 10.1
        for _ in range(3):
            it.cluster.change(None, pod("b"))
        it.cluster.change(old, None)
        await it.planning.ask(PLAN)

        assert ["+default/a", "+default/b", "-default/a"] == it.process.fed


async def test_a_process_that_is_not_asked_for_a_while_is_ended_and_another_one_begun() -> None:
    async with bench(pod("a"), limits=Limits(idle=0.0, kept=0.0, kept_unchanged=0.0)) as it:
        await it.planning.ask(PLAN)
        await asyncio.wait_for(it.process.ended.wait(), 10)
        assert it.planning.pid is None

        assert 2 == (await it.planning.ask(PLAN))["number"]
        assert 2 == len(it.processes)
        assert ["+default/a"] == it.process.fed


async def test_a_process_that_is_killed_is_replaced_within_the_question() -> None:
    replies = iter([PlannerGoneError("killed"), *numbered()])
    async with bench(replies=replies) as it:
        assert 1 == (await it.planning.ask(PLAN))["number"]
        assert [True, False] == [each.ended.is_set() for each in it.processes]


async def test_a_question_that_ends_every_process_has_no_answer_but_the_next_one_has() -> None:
    gone = PlannerGoneError("killed")
    async with bench(replies=iter([gone, gone, *numbered()])) as it:
        with pytest.raises(NoAnswerError, match="has ended before it answered; ask again"):
            await it.planning.ask(PLAN)

        assert 1 == (await it.planning.ask(PLAN))["number"]


async def test_a_question_that_takes_too_long_is_given_up() -> None:
    hasty = Limits(plan=0.0, overtime=0.0)
    async with bench(may_answer=False, limits=hasty) as it:
        with pytest.raises(NoAnswerError, match="planning took too long and was given up"):
            await it.planning.ask(PLAN)

        assert it.process.ended.is_set()


@pytest.mark.case("DASH-18")
async def test_of_four_what_ifs_at_once_the_fourth_is_refused() -> None:
    async with bench(may_answer=False) as it:
        first = [
            asyncio.ensure_future(it.planning.what_if(WhatIfRequest(drain=[f"n{number}"])))
            for number in range(3)
        ]
        await until(lambda: it.processes and it.process.asked)

        with pytest.raises(BusyError, match="3 what-ifs are answered or wait already"):
            await it.planning.what_if(WhatIfRequest(drain=["d"]))

        it.process.may_answer.set()
        assert [1, 2, 3] == [each["number"] for each in await asyncio.gather(*first)]
        assert 4 == (await it.planning.what_if(WhatIfRequest(drain=["d"])))["number"]
        drained = [each.request.drain for each in it.process.asked]
        assert [["n0"], ["n1"], ["n2"], ["d"]] == drained


async def test_a_what_if_that_nobody_waits_for_is_not_asked() -> None:
    async with bench(may_answer=False) as it:
        waiting = [
            asyncio.ensure_future(it.planning.what_if(WhatIfRequest(drain=[f"n{number}"])))
            for number in range(3)
        ]
        await until(lambda: it.processes and it.process.asked)
        waiting[1].cancel()
        await asyncio.gather(waiting[1], return_exceptions=True)
        it.process.may_answer.set()
        await asyncio.gather(waiting[0], waiting[2])

        assert [["n0"], ["n2"]] == [each.request.drain for each in it.process.asked]


async def test_too_many_questions_are_refused() -> None:
    async with bench(may_answer=False) as it:
        first = it.planning.asked(PLAN)
        await until(lambda: it.processes and it.process.asked)
        for number in range(32):
            it.planning.asked(EXPLAIN, ("node", "", str(number)))

        with pytest.raises(BusyError, match="too many questions wait already"):
            await it.planning.ask(EXPLAIN, ("node", "", "32"))

        assert not first.done()


async def test_a_refusal_keeps_its_problems() -> None:
    problem: dict[str, str | int | None] = {"text": "no", "line": 3, "field": "spec"}
    refused = Refused("BadQuestionError", "input:3: no", [problem])
    async with bench(replies=iter([refused])) as it:
        with pytest.raises(BadQuestionError, match="input:3: no") as caught:
            await it.planning.what_if(WhatIfRequest(drain=["a"]))

    assert [3] == [each.line for each in caught.value.problems]


async def test_nothing_is_planned_before_machines_are_known() -> None:
    async with bench(sold=None) as it:
        with pytest.raises(NoAnswerError, match="what machines there are is not known yet"):
            await it.planning.ask(PLAN)

        assert [] == it.processes


async def test_who_waits_when_the_dashboard_is_stopped_is_told() -> None:
    async with bench(may_answer=False) as it:
        waiting = [it.planning.asked(PLAN), it.planning.asked(EXPLAIN, ("node", "", "a"))]
        await until(lambda: it.processes and it.process.asked)

    for each in waiting:
        assert isinstance(each.exception(), NoAnswerError)
    assert it.process.ended.is_set()
    with pytest.raises(NoAnswerError, match="nothing is planned yet"):
        await it.planning.ask(PLAN)


@pytest.mark.slow
async def test_a_real_process_answers_as_explain_does_survives_being_killed_and_is_ended() -> None:
    world = world_of(*DISRUPTION)
    expected = Asking(world, None)
    cluster = Cluster(*world.objects)

    async def supplier() -> Supply | None:
        return world.supply

    planning = Planning(
        cluster,
        supplier,
        lambda: world.terms,
        CLOCK,
        limits=Limits(plan=600.0, what_if=600.0, kept=0.0, kept_unchanged=0.0),
    )
    running = asyncio.create_task(planning.run())
    await asyncio.sleep(0)
    try:
        first = await planning.ask(PLAN)
        pid = planning.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        second = await planning.ask(EXPLAIN, ("node", "", "general-web"))
        assert planning.pid != pid
        answer = await planning.what_if(WhatIfRequest(drain=["general-web"]))
        other = planning.pid
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert expected.plan().document.items() <= first.items()
    assert expected.explain("node", "", "general-web").document.items() <= second.items()
    assert ["default/web-0", "default/web-1"] == [each["pod"] for each in answer["held"]]
    assert other is not None
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)
