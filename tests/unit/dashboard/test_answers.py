"""Costs, decisions and what answers, put together for one home."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from helpers.builders import NOW, node, pod
from karpenter.clock import Clock
from karpenter.dashboard.answers.answers import Answers, Origin, settings_shown
from karpenter.dashboard.answers.planning import Planning
from karpenter.dashboard.contract import Problem, Totals, View
from karpenter.dashboard.questions import BadQuestionError, NoAnswerError, UnknownObjectError
from karpenter.dashboard.redaction import Redaction
from karpenter.dashboard.shown import Shown
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Draft, Kind, Outcome, moment_text
from karpenter.settings import Settings, with_assignments

SAVINGS = {
    "savings": {
        "planned": 0.5,
        "commands": 1,
        "blocked": [
            {
                "reason": "Budget",
                "hourly": 0.25,
                "nodes": [{"node": "a", "hourly": 0.25, "detail": "d", "objects": ["NodePool/x"]}],
            }
        ],
        "isPartial": False,
    },
    "bound": 1.0,
    "gap": 0.5,
}


@dataclass
class StillClock:
    """A clock that stands still, and lets nobody wait for long a number of times."""

    waits: int = 0
    waited: list[float] = field(default_factory=list)
    has_waited: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self) -> Any:
        return NOW

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        if len(self.waited) > self.waits:
            self.has_waited.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)


@dataclass
class Home:
    """A home that stays the same."""

    prices: str = "estimates"
    unread: tuple[str, ...] = ("Event",)
    settings: Settings | None = None
    settings_from: str = "the sandbox's own"
    leader: str = "pod-1"


class Planned:
    """A planning that answers at once, or never."""

    def __init__(self, document: dict[str, Any] | Exception | None = None) -> None:
        self.document = document
        self.asked_for: list[tuple[Any, ...]] = []

    def asked(self, verb: str, *names: Any, kept: float | None = None) -> "asyncio.Future[Any]":
        self.asked_for.append((verb, *names))
        coming = asyncio.get_running_loop().create_future()
        if isinstance(self.document, Exception):
            coming.set_exception(self.document)
        elif self.document is not None:
            coming.set_result(self.document)
        return coming

    async def ask(self, verb: str, *names: Any) -> Any:
        return await self.asked(verb, *names)

    def known(self, verb: str) -> dict[str, Any]:
        return {"bound": 7.0}


def answers(
    log: DecisionLog | None = None,
    planned: Planned | None = None,
    view: Callable[[], View] = lambda: View(at=moment_text(NOW)),
    redaction: Redaction | None = None,
    settings: Settings | None = None,
    clock: StillClock | None = None,
    **origin: Any,
) -> Answers:
    """The answers of a sandbox."""

    async def now() -> View:
        return view()

    return Answers(
        Origin("sandbox", **origin),
        Home(settings=settings),
        now,
        log or DecisionLog(epoch="e"),
        cast(Clock, clock or StillClock()),
        cast(Planning, planned) if planned is not None else None,
        redaction,
    )


def log_of(count: int) -> DecisionLog:
    """Records of two pools and kinds, numbered from the oldest on."""
    log = DecisionLog(epoch="e")
    for number in range(1, count + 1):
        is_even = number % 2 == 0
        log.add(
            NOW + timedelta(seconds=number),
            Draft(
                Kind.LAUNCH if is_even else Kind.DISRUPT,
                Outcome.DONE,
                "Because",
                f"Decision {number}",
                objects=(f"NodeClaim/claim-{number}",),
                node_pools=("even" if is_even else "odd",),
            ),
        )
    return log


async def pages(found: Answers, **query: Any) -> list[list[str]]:
    """Page after page of sentences."""
    read, before = [], ""
    while True:
        page = await found.decisions(before=before, **query)
        read.append([each["text"] for each in page.records])
        if page.before is None:
            return read
        before = page.before


async def test_decisions_come_in_pages_the_newest_first() -> None:
    found = answers(log_of(7))

    read = await pages(found, limit=3)

    numbers = [[int(text.removeprefix("Decision ")) for text in page] for page in read]
    assert [[7, 6, 5], [4, 3, 2], [1]] == numbers


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({"kind": "Launch"}, [6, 4, 2]),
        ({"node_pool": "odd"}, [7, 5, 3, 1]),
        ({"text": "DECISION 3"}, [3]),
        ({"text": "claim-5"}, [5]),
        ({"kind": "Launch", "node_pool": "odd"}, []),
    ],
)
async def test_decisions_are_filtered(query: dict[str, str], numbers: list[int]) -> None:
    (page,) = await pages(answers(log_of(7)), limit=200, **query)

    assert [f"Decision {number}" for number in numbers] == page


async def test_a_page_that_ends_with_the_last_record_is_the_last() -> None:
    assert [["Decision 2", "Decision 1"]] == await pages(answers(log_of(2)), limit=2)


async def test_after_a_record_that_is_not_kept_any_more_there_is_nothing() -> None:
    page = await answers(log_of(2)).decisions(before="long-ago")

    assert ([], None) == (page.records, page.before)


async def test_costs_of_a_cluster_for_which_nothing_can_be_planned() -> None:
    view = View(at=moment_text(NOW), totals=Totals(hourly=1.5, monthly=1095.0, unpriced=2))

    costs = await answers(view=lambda: view).costs(None, None, ())

    assert (1.5, 1095.0, 2) == (costs.hourly, costs.monthly, costs.unpriced)
    assert ["pool", "capacityType", "namespace", "owner"] == [each.by for each in costs.tables]
    assert (None, None, None) == (costs.savings, costs.bound, costs.gap)
    assert [1.5] == costs.series.hourly


async def test_costs_have_the_savings_of_the_plan_and_the_bound() -> None:
    costs = await answers(planned=Planned(SAVINGS)).costs(None, None, ("pool",))

    assert ["pool"] == [each.by for each in costs.tables]
    assert costs.savings is not None
    assert (0.5, 0.25, 1.0, 0.5) == (
        costs.savings.planned,
        costs.savings.blocked[0].hourly,
        costs.bound,
        costs.gap,
    )


@pytest.mark.parametrize("planned", [Planned(NoAnswerError("no"))])
async def test_costs_do_without_savings_that_cannot_be_had(planned: Planned) -> None:
    costs = await answers(planned=planned).costs(None, None, ())

    assert costs.savings is None


async def test_costs_are_kept_over_time_while_nobody_asks() -> None:
    class Passing(StillClock):
        def now(self) -> Any:
            return NOW + timedelta(seconds=sum(self.waited))

    clock = Passing(waits=2)
    found = answers(view=lambda: View(at=moment_text(NOW), totals=Totals(hourly=1.0)), clock=clock)
    running = asyncio.create_task(found.run())
    await clock.has_waited.wait()
    costs = await found.costs(NOW + timedelta(seconds=30), None, ())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert [30, 60, 90] == [at - int(NOW.timestamp()) for at in costs.series.at]
    assert [30.0] * 3 == clock.waited


async def test_what_was_saved_is_counted_from_records_of_before_and_of_later() -> None:
    done = Draft(Kind.DISRUPT, Outcome.DONE, "Empty", "a", savings_hourly=0.5, command="c1")
    log = DecisionLog(epoch="e")
    log.add(NOW - timedelta(hours=2), done)
    found = answers(log)
    log.add(NOW - timedelta(hours=1), replace(done, command="c2"))

    realised = (await found.costs(None, None, ())).realised

    assert realised is not None
    assert (2, 1.0) == (realised.commands, realised.hourly)
    assert realised.dollars == pytest.approx(0.5 * 2 + 0.5 * 1)
    running = asyncio.create_task(found.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    log.add(NOW, replace(done, command="c3"))
    realised = (await found.costs(None, None, ())).realised
    assert realised is not None
    assert 2 == realised.commands


def redaction() -> Redaction:
    """What hides every name of a cluster with a pod and a node."""
    found = Redaction(Shown(is_redacted=True))
    found.learn([pod("payroll", namespace="secret", node_name="node-7"), node("node-7")])
    return found


async def test_names_that_are_hidden_are_in_no_answer() -> None:
    hiding = redaction()
    shown = hiding.text("node-7")
    planned = Planned({"node": "node-7", "detail": "pod secret/payroll holds node-7"})
    found = answers(planned=planned, redaction=hiding)

    told = await found.explain("node", "", shown)

    assert [("explain", ("node", "", "node-7"))] == planned.asked_for
    assert shown == told["node"]
    assert not any(name in str(told) for name in ("node-7", "secret", "payroll"))


async def test_names_that_are_hidden_are_in_no_refusal() -> None:
    hiding = redaction()
    problem = Problem(text="node-7 is no such thing")
    planned = Planned(BadQuestionError("there is no node x; did you mean node-7?", [problem]))

    with pytest.raises(BadQuestionError) as caught:
        await answers(planned=planned, redaction=hiding).plan()

    assert "node-7" not in str(caught.value.refusal)
    assert str(caught.value).startswith("there is no node x; did you mean ")


async def test_names_that_are_hidden_are_in_no_decision() -> None:
    log = DecisionLog(epoch="e")
    log.add(NOW, Draft(Kind.DRAIN, Outcome.DONE, "X", "node-7 goes", objects=("Node/node-7",)))

    (page,) = await pages(answers(log, redaction=redaction()))

    assert "node-7" not in page[0]


async def test_a_pod_of_a_namespace_that_is_not_shown_is_not_explained() -> None:
    planned = Planned({})
    found = answers(planned=planned, redaction=Redaction(Shown(namespaces=frozenset({"shop"}))))

    with pytest.raises(UnknownObjectError, match="no pod web in a namespace that is shown"):
        await found.explain("pod", "payroll", "web")

    assert [] == planned.asked_for


async def test_without_machines_nothing_is_planned() -> None:
    found = answers()

    with pytest.raises(NoAnswerError, match="what machines there are is not known"):
        await found.plan()
    assert not (await found.about()).can_plan


async def test_a_kind_that_is_not_explained_does_not_reach_the_planner() -> None:
    planned = Planned({})

    with pytest.raises(BadQuestionError, match="a secret is not explained"):
        await answers(planned=planned).explain("secret", "", "x")

    assert [] == planned.asked_for


async def test_an_explanation_is_asked_for_by_kind_namespace_and_name() -> None:
    planned = Planned({"pod": "shop/web"})

    assert {"pod": "shop/web"} == await answers(planned=planned).explain("pod", "shop", "web")
    assert [("explain", ("pod", "shop", "web"))] == planned.asked_for


async def test_about_tells_what_answers() -> None:
    settings = with_assignments(Settings(), {"PREFERENCE_POLICY": "Ignore"})
    told = await answers(
        planned=Planned({}),
        provider="kwok",
        cluster="here",
        settings=settings,
    ).about()

    assert ("sandbox", "kwok", "here") == (told.source, told.provider, told.cluster)
    assert ("estimates", ["Event"], "pod-1") == (told.prices, told.unread, told.leader)
    assert "Ignore" == told.settings["PREFERENCE_POLICY"]
    assert told.can_plan


async def test_about_does_not_tell_the_name_of_a_cluster_whose_names_are_hidden() -> None:
    shown = Shown(is_redacted=True, key=b"k")
    told = await answers(cluster="payroll", redaction=Redaction(shown)).about()

    assert told.cluster == shown.name("payroll") != "payroll"


def changed() -> Iterator[Settings]:
    """Settings of every type, as they are by default and otherwise."""
    yield Settings()
    assignments = {
        "FEATURE_GATES": "NodeOverlay=true,StaticCapacity=true",
        "BATCH_MAX_DURATION": "1m30.5s",
        "PACKING_MIN_TYPES": "3,9",
        "REBALANCE_MOVES": "7.5%",
        "SPOT_INTERRUPTION_COST": "0.25",
        "EARLY_BINDING": "true",
        "MEMORY_LIMIT": "5",
    }
    yield with_assignments(Settings(), assignments)


@pytest.mark.parametrize("settings", [*changed()], ids=["default", "changed"])
def test_settings_are_shown_as_they_are_set(settings: Settings) -> None:
    shown = settings_shown(settings)

    assert len(fields(Settings)) == len(shown)
    chosen = {name: text for name, text in shown.items() if text}
    assert settings == with_assignments(Settings(), chosen)
