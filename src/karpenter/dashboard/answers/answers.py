"""The answers to everything that the dashboard's page asks besides the view itself.

Costs come from the view, decisions from the decision log, and plans, reasons and what-ifs from the
planning process. Names that may not be shown are taken out of all of it before it is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from karpenter import __version__
from karpenter.clock import Clock
from karpenter.dashboard.answers.asking import KINDS, POD
from karpenter.dashboard.answers.cost_series import EVERY, CostSeries
from karpenter.dashboard.answers.costs import TABLES, cost_tables
from karpenter.dashboard.answers.messages import EXPLAIN, PLAN, SAVINGS
from karpenter.dashboard.answers.planning import Planning
from karpenter.dashboard.answers.realised import RealisedSavings
from karpenter.dashboard.answers.records import page_of
from karpenter.dashboard.contract import (
    About,
    Costs,
    HistoryKept,
    Records,
    Savings,
    View,
    WhatIfAnswer,
    WhatIfRequest,
)
from karpenter.dashboard.questions import (
    BadQuestionError,
    NoAnswerError,
    QuestionError,
    UnknownObjectError,
)
from karpenter.dashboard.redaction import Redaction
from karpenter.dashboard.shown import EVERYTHING
from karpenter.decision_log.log import Follower
from karpenter.decision_log.record import DecisionRecord
from karpenter.model import durations
from karpenter.settings import FeatureGates, MinTypes, Percentage, Settings, variable_of
from karpenter.state.object_keys import DEFAULT_NAMESPACE

SAVINGS_KEPT: Final = 60.0  # seconds; they take a plan and a move for each node
_SAVINGS_SECONDS: Final = 1.0  # that costs wait for them; the next answer has them then


class Decisions(Protocol):
    """The decisions that are shown, such as those of a ``DecisionLog``."""

    def newest(self) -> Iterable[DecisionRecord]:
        """What is kept, the newest first."""

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Call ``follower`` with every new record, until the returned function is called."""


class Home(Protocol):
    """Where the dashboard runs, as far as that changes."""

    @property
    def prices(self) -> str:
        """Whose prices they are and of when, a sentence."""

    @property
    def unread(self) -> Sequence[str]:
        """The kinds that could not be read."""

    @property
    def settings(self) -> Settings | None:
        """The settings in force; None where they are not known."""

    @property
    def settings_from(self) -> str:
        """Where they are from, a sentence."""

    @property
    def leader(self) -> str:
        """The identity of the leader as it is shown; empty if it is not known."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the dashboard runs, as far as it stays the same."""

    source: str  # sandbox, controller, live or files
    provider: str = ""
    cluster: str = ""  # its context, or the names of files


class Answers:
    """Answers for one home."""

    def __init__(
        self,
        origin: Origin,
        home: Home,
        view: Callable[[], Awaitable[View]],
        decisions: Decisions,
        clock: Clock,
        planning: Planning | None,
        redaction: Redaction | None = None,
        *,
        real: Clock | None = None,
        recording: asyncio.Event | None = None,
    ) -> None:
        """Begin to keep what costs need over time.

        Args:
            origin: where the dashboard runs.
            home: the same, as far as it changes.
            view: the view as it is now.
            decisions: the decisions that are known.
            clock: the time of the cluster.
            planning: what plans; None where nothing can be planned.
            redaction: knows the names that may not be shown; its maker lets it learn them.
            real: real time, where that of the cluster is another one.
            recording: set while costs are noted over time; by default all the time.
        """
        self._origin = origin
        self._home = home
        self._view = view
        self._log = decisions
        self._clock = clock
        self._real = real or clock
        self._planning = planning
        self._recording = recording
        self._redaction = redaction or Redaction(EVERYTHING)
        self._series = CostSeries()
        self._realised = RealisedSavings()
        for record in reversed(list(decisions.newest())):
            self._realised.note(record)
        self._stop = decisions.follow(self._note)

    async def run(self) -> None:
        """Plan when asked, and keep what costs need over time, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_costs(), name="dashboard's costs")
                if self._planning is not None:
                    group.create_task(self._planning.run(), name="dashboard's plans")
        finally:
            self._stop()

    async def _watch_costs(self) -> None:
        while True:
            if self._recording is not None:
                await self._recording.wait()
            self._series.note(await self._view(), self._clock.now())
            await self._real.sleep(EVERY.total_seconds())

    async def plan(self) -> Mapping[str, Any]:
        """The document of ``plan -o json``, with the fields of ``contract.Answer``."""
        return await self._told(self._planned_by().ask(PLAN))

    async def explain(self, kind: str, namespace: str, name: str) -> Mapping[str, Any]:
        """The document of ``explain KIND NAME -o json``, with the fields of ``contract.Answer``."""
        if kind not in KINDS:
            raise BadQuestionError(f"a {kind} is not explained: one of {', '.join(KINDS)} is")
        namespace, named = map(self._redaction.original, (namespace, name))
        if kind == POD and not self._redaction.shows(namespace or DEFAULT_NAMESPACE):
            raise UnknownObjectError(f"there is no pod {name} in a namespace that is shown")
        return await self._told(self._planned_by().ask(EXPLAIN, (kind, namespace, named)))

    async def what_if(self, request: WhatIfRequest) -> WhatIfAnswer:
        """The plan without and with a change; nothing is changed."""
        asked = msgspec.structs.replace(
            request,
            drain=[self._redaction.original(each) for each in request.drain],
            delete=[self._reference(each) for each in request.delete],
        )
        answer = await self._told(self._planned_by().what_if(asked))
        return msgspec.convert(answer, WhatIfAnswer)

    async def costs(
        self, since: datetime | None, until: datetime | None, by: Sequence[str]
    ) -> Costs:
        """Costs now and over time."""
        view = await self._view()
        self._series.note(view, self._clock.now())
        more = await self._savings()
        saved = self._redaction.document(more.get("savings"))
        loop = asyncio.get_running_loop()
        tables = await loop.run_in_executor(None, cost_tables, view, tuple(by) or TABLES)
        return Costs(
            at=view.at,
            hourly=view.totals.hourly,
            monthly=view.totals.monthly,
            unpriced=view.totals.unpriced,
            is_estimate=view.totals.is_estimate,
            series=self._series.between(since, until),
            tables=tables,
            savings=msgspec.convert(saved, Savings) if saved is not None else None,
            bound=more.get("bound"),
            gap=more.get("gap"),
            realised=self._realised.until(self._clock.now()),
        )

    async def decisions(
        self,
        *,
        before: str = "",
        limit: int = 50,
        kind: str = "",
        node_pool: str = "",
        text: str = "",
    ) -> Records:
        """Decision records, the newest first."""
        kept = map(self._redaction.record, self._log.newest())

        def page() -> Records:
            return page_of(
                kept, before=before, limit=limit, kind=kind, node_pool=node_pool, text=text
            )

        # There may be thousands to look through
        return await asyncio.get_running_loop().run_in_executor(None, page)

    async def about(self) -> About:
        """What answers; the server itself fills in ``history`` and ``clients``."""
        origin, home = self._origin, self._home
        return About(
            version=__version__,
            source=origin.source,
            provider=origin.provider,
            cluster=self._redaction.name(origin.cluster),
            prices=home.prices,
            unread=list(home.unread),
            settings=settings_shown(home.settings) if home.settings is not None else {},
            settings_from=home.settings_from,
            history=HistoryKept(since=None, until="", bytes=0, is_on_disk=False),
            clients=0,
            can_plan=self._planning is not None,
            leader=home.leader,
        )

    def _note(self, record: DecisionRecord, line: bytes) -> None:
        self._realised.note(record)

    def _planned_by(self) -> Planning:
        if self._planning is None:
            raise NoAnswerError("nothing can be planned here: what machines there are is not known")
        return self._planning

    def _reference(self, reference: str) -> str:
        """An object as it is called, of one as it is shown."""
        kind, *path = reference.split("/")
        return "/".join((kind, *map(self._redaction.original, path)))

    async def _told(self, answer: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any]:
        """An answer, or a refusal, without names that may not be shown."""
        redaction = self._redaction
        if not redaction.is_needed:
            return await answer
        try:
            document = await answer
        except QuestionError as error:
            error.args = (redaction.text(str(error)),)
            error.problems = tuple(
                msgspec.structs.replace(each, text=redaction.text(each.text))
                for each in error.problems
            )
            raise
        loop = asyncio.get_running_loop()
        told: Mapping[str, Any] = await loop.run_in_executor(None, redaction.document, document)
        return told

    async def _savings(self) -> Mapping[str, Any]:
        """The savings that are known by now; they are on their way for the next time."""
        if self._planning is None:
            return {}
        coming = self._planning.asked(SAVINGS, kept=SAVINGS_KEPT)
        await asyncio.wait([coming], timeout=_SAVINGS_SECONDS)
        if not coming.done():
            return self._planning.known(SAVINGS)
        try:
            return coming.result()
        except QuestionError:
            return {}


def settings_shown(settings: Settings) -> dict[str, str]:
    """Settings by their names, as text."""
    return {
        variable_of(each.name): _text(getattr(settings, each.name)) for each in fields(settings)
    }


def _text(value: object) -> str:
    """The value of a setting as ``--set`` takes it."""
    match value:
        case bool():
            return str(value).lower()
        case timedelta():
            return durations.text(value)
        case MinTypes():
            return f"{value.on_demand},{value.spot}"
        case Percentage():
            return f"{value.percent:g}%"
        case FeatureGates():
            return ",".join(f"{name}={_text(is_on)}" for name, is_on in sorted(value.gates.items()))
        case _:
            return str(value)
