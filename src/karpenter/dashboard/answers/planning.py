"""Asks the planning process, one question at a time, for everybody who looks at the dashboard.

The process is begun by the first question and ended when none came for a while. It is told of every
object once, and then of those that changed. Answers are shared: who asks what is being answered
waits for the same answer, and who asks again soon, or while nothing has changed, gets the same one.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from karpenter.api.cluster import Event, Lease
from karpenter.api.meta import Resource
from karpenter.clock import Clock
from karpenter.dashboard import questions
from karpenter.dashboard.answers.messages import (
    PLAN,
    WHAT_IF,
    Ask,
    Refused,
    Reply,
    change_of,
)
from karpenter.dashboard.answers.process import PlannerGoneError, PlanningProcess
from karpenter.dashboard.answers.supply import Supply
from karpenter.dashboard.answers.world import Terms
from karpenter.dashboard.contract import Problem, WhatIfRequest
from karpenter.dashboard.questions import BusyError, NoAnswerError, QuestionError
from karpenter.decision_log.record import moment_text
from karpenter.state.object_keys import Identity, identity_of

Changed: TypeAlias = Callable[[Any, Any], None]  # with an object before and after
Supplier: TypeAlias = Callable[[], Awaitable[Supply | None]]

_NOT_PLANNED_WITH: Final = (Event, Lease)
_MOST_KEPT: Final = 256  # answers
_MOST_WAITING: Final = 32  # questions
_MOST_WHAT_IFS: Final = 3  # one that is answered and two that wait


class Objects(Protocol):
    """A cluster that is followed, such as ``sources.FollowedCluster``."""

    def objects(self) -> Iterator[Resource]:
        """Everything that is known now."""

    def follow(self, changed: Changed) -> None:
        """Call ``changed`` for every change."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take and last, in seconds."""

    plan: float = 5.0  # of planning; then what was found so far is the answer
    what_if: float = 10.0  # of each of its two plans
    overtime: float = 60.0  # beyond that, for a process that has to start; then it is ended
    idle: float = 60.0  # without a question, after which the process is ended
    kept: float = 10.0  # of an answer, whatever has changed
    kept_unchanged: float = 60.0  # of an answer while nothing has changed but the time


Key: TypeAlias = tuple[str, ...]  # verb and names


@dataclass(slots=True)
class _Question:
    verb: str
    names: tuple[str, ...]
    request: WhatIfRequest
    answer: "asyncio.Future[dict[str, Any]]" = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Kept:
    document: dict[str, Any]
    version: int
    at: float


class Planning:
    """The questions of a dashboard to its planning process."""

    def __init__(
        self,
        cluster: Objects,
        supplier: Supplier,
        terms: Callable[[], Terms],
        clock: Clock,
        *,
        limits: Limits | None = None,
        begin: Callable[[Terms], Awaitable[PlanningProcess]] = PlanningProcess.begin,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; ``run`` answers.

        Args:
            cluster: what is asked about.
            supplier: says what there is to buy; None while that is not known.
            terms: what else is known about the cluster when a process is begun.
            clock: the time of the cluster.
            limits: how long things may take and last.
            begin: begins a process.
            monotonic: the time of this process, in seconds.
        """
        self._cluster = cluster
        self._supplier = supplier
        self._terms = terms
        self._clock = clock
        self._limits = limits or Limits()
        self._begin = begin
        self._monotonic = monotonic
        self._process: PlanningProcess | None = None
        self._version = 0
        self._changed: dict[Identity, tuple[Resource | None, Resource | None]] = {}
        self._waiting: deque[_Question] = deque()
        self._is_asked = asyncio.Event()
        self._shared: dict[Key, asyncio.Future[dict[str, Any]]] = {}
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._what_ifs = 0
        self._is_running = False
        cluster.follow(self._note)

    @property
    def pid(self) -> int | None:
        """The number of the process; None while there is none."""
        return self._process.pid if self._process is not None else None

    async def run(self) -> None:
        """Answer what is asked, until cancelled."""
        self._is_running = True
        try:
            while True:
                await self._answer(await self._next())
        finally:
            self._is_running = False
            await self._end()
            while self._waiting:
                _fail(self._waiting.popleft(), NoAnswerError("the dashboard is being stopped"))

    async def ask(
        self, verb: str = PLAN, names: tuple[str, ...] = (), *, kept: float | None = None
    ) -> dict[str, Any]:
        """The document that answers a question; it must not be changed, since others have it too.

        Args:
            verb: plan, explain or savings.
            names: what to explain.
            kept: how old the answer may be whatever has changed, in seconds.

        Raises:
            QuestionError: there is no answer.
        """
        return await asyncio.shield(self.asked(verb, names, kept=kept))

    def asked(
        self, verb: str, names: tuple[str, ...] = (), *, kept: float | None = None
    ) -> "asyncio.Future[dict[str, Any]]":
        """The answer to come; it comes even if the first who asked has gone."""
        key = (verb, *names)
        coming = self._shared.get(key)
        if coming is not None:
            return coming
        known = self._kept.get(key)
        if known is not None and self._is_fresh(known, kept):
            coming = asyncio.get_running_loop().create_future()
            coming.set_result(known.document)
            return coming
        coming = self._put(verb, names, WhatIfRequest())
        self._shared[key] = coming
        coming.add_done_callback(partial(self._keep, key, self._version))
        return coming

    def known(self, verb: str, names: tuple[str, ...] = ()) -> dict[str, Any]:
        """The last answer to a question, however old; empty if there is none."""
        kept = self._kept.get((verb, *names))
        return kept.document if kept is not None else {}

    async def what_if(self, request: WhatIfRequest) -> dict[str, Any]:
        """The answer to a what-if.

        Raises:
            QuestionError: there is no answer.
        """
        if self._what_ifs >= _MOST_WHAT_IFS:
            raise BusyError(
                f"{_MOST_WHAT_IFS} what-ifs are answered or wait already; ask again in a second"
            )
        self._what_ifs += 1
        answer = self._put(WHAT_IF, (), request)
        answer.add_done_callback(self._what_if_done)
        return await answer

    def _what_if_done(self, _: object) -> None:
        self._what_ifs -= 1

    def _put(
        self, verb: str, names: tuple[str, ...], request: WhatIfRequest
    ) -> "asyncio.Future[dict[str, Any]]":
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        question = _Question(verb, names, request, answer)
        if not self._is_running:
            _fail(question, NoAnswerError("nothing is planned yet; ask again in a second"))
        elif len(self._waiting) >= _MOST_WAITING:
            _fail(question, BusyError("too many questions wait already; ask again in a second"))
        else:
            self._waiting.append(question)
            self._is_asked.set()
        return answer

    def _is_fresh(self, known: _Kept, kept: float | None) -> bool:
        age = self._monotonic() - known.at
        if age < (self._limits.kept if kept is None else kept):
            return True
        return known.version == self._version and age < self._limits.kept_unchanged

    def _keep(self, key: Key, version: int, answer: "asyncio.Future[dict[str, Any]]") -> None:
        del self._shared[key]
        if answer.cancelled() or answer.exception() is not None:
            return
        self._kept[key] = _Kept(answer.result(), version, self._monotonic())
        self._kept.move_to_end(key)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def _note(self, before: Resource | None, after: Resource | None) -> None:
        resource = after if after is not None else before
        if resource is None or isinstance(resource, _NOT_PLANNED_WITH):
            return
        self._version += 1
        if self._process is not None:
            self._changed[identity_of(resource)] = before, after

    async def _next(self) -> _Question:
        """The next question that is still awaited; without one the process is ended."""
        while True:
            while self._waiting:
                question = self._waiting.popleft()
                if not question.answer.done():
                    return question
            self._is_asked.clear()
            try:
                async with asyncio.timeout(self._limits.idle if self._process else None):
                    await self._is_asked.wait()
            except TimeoutError:
                await self._end()

    async def _answer(self, question: _Question) -> None:
        try:
            document = await self._document(question)
        except QuestionError as error:
            _fail(question, error)
        except BaseException:
            _fail(question, NoAnswerError("the dashboard is being stopped"))
            raise
        else:
            if not question.answer.done():
                question.answer.set_result(document)

    async def _document(self, question: _Question) -> dict[str, Any]:
        """Ask the process; if it is gone, a new one, once."""
        for is_last in (False, True):
            try:
                return await self._asked_of_process(question)
            except PlannerGoneError as error:
                await self._end()
                if is_last:
                    text = "the process that plans has ended before it answered; ask again"
                    raise NoAnswerError(text) from error
        raise AssertionError("the last attempt returns or raises")

    async def _asked_of_process(self, question: _Question) -> dict[str, Any]:
        limits = self._limits
        seconds = limits.what_if if question.verb == WHAT_IF else limits.plan
        supply = await self._supplier()
        if supply is None:
            raise NoAnswerError("nothing can be planned: what machines there are is not known yet")
        process = await self._fed()
        await process.supply(supply)
        now = self._clock.now()
        ask = Ask(now, self._version, seconds, question.verb, question.names, question.request)
        try:
            async with asyncio.timeout(2 * seconds + limits.overtime):
                reply = await process.ask(ask)
        except TimeoutError as error:
            await self._end()
            raise NoAnswerError("planning took too long and was given up; ask again") from error
        except asyncio.CancelledError:
            await self._end()  # its answer would be taken for that of the next question
            raise
        return _document_of(reply, moment_text(now))

    async def _fed(self) -> PlanningProcess:
        """The process, with the cluster as it is now."""
        process = self._process
        if process is None or not process.is_alive:
            await self._end()
            process = await self._begin(self._terms())
            self._process = process
            known = [each for each in self._cluster.objects() if _is_planned_with(each)]
            await process.feed(partial(change_of, None, each) for each in known)
        while self._changed:
            changed, self._changed = self._changed, {}
            await process.feed(partial(change_of, *each) for each in changed.values())
        return process

    async def _end(self) -> None:
        process, self._process = self._process, None
        self._changed.clear()
        if process is not None:
            await process.end()


def _is_planned_with(resource: Resource) -> bool:
    return not isinstance(resource, _NOT_PLANNED_WITH)


def _fail(question: _Question, error: QuestionError) -> None:
    if not question.answer.done():
        question.answer.set_exception(error)
        question.answer.exception()  # it may not be awaited any more


def _document_of(reply: Reply, as_of: str) -> dict[str, Any]:
    if isinstance(reply, Refused):
        raise _error_of(reply)
    said = {"asOf": as_of, "took": reply.took, "isPartial": reply.is_partial}
    return {**reply.document, **said}


def _error_of(refused: Refused) -> QuestionError:
    kind = getattr(questions, refused.error)
    problems = [msgspec.convert(each, Problem) for each in refused.problems]
    error: QuestionError = kind(refused.text, problems) if problems else kind(refused.text)
    return error
