"""What finished commands have saved: from their end on, each once, and nothing that was not done."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from karpenter.dashboard.answers.realised import RealisedSavings
from karpenter.decision_log.record import (
    Draft,
    Kind,
    Outcome,
    Source,
    moment_text,
    recorded,
)

START = datetime(2026, 11, 16, tzinfo=UTC)
DONE = Draft(
    Kind.DISRUPT, Outcome.DONE, "Empty", "a has been asked to go", savings_hourly=0.5, command="c1"
)


def saved(*drafts: tuple[float, Draft]) -> RealisedSavings:
    """The savings of records that were written so many hours after the start."""
    found = RealisedSavings()
    for number, (hours, draft) in enumerate(drafts):
        found.note(recorded(draft, str(number), START + timedelta(hours=hours)))
    return found


def test_a_saving_counts_from_the_end_of_its_command() -> None:
    found = saved((0, DONE), (2, replace(DONE, command="c2", savings_hourly=0.1)))

    told = found.until(START + timedelta(hours=6))

    assert told is not None
    assert told.dollars == pytest.approx(0.5 * 6 + 0.1 * 4)
    assert (0.6, 2, moment_text(START)) == (told.hourly, told.commands, told.since)


def test_the_order_of_records_does_not_matter() -> None:
    other = replace(DONE, command="c2", savings_hourly=0.1)
    now = START + timedelta(hours=6)

    one = saved((0, DONE), (2, other)).until(now)
    two = saved((2, other), (0, DONE)).until(now)

    assert one is not None
    assert two is not None
    assert one.dollars == pytest.approx(two.dollars)
    assert one.since == two.since


@pytest.mark.parametrize(
    "draft",
    [
        pytest.param(replace(DONE, outcome=Outcome.BEGUN), id="begun"),
        pytest.param(replace(DONE, outcome=Outcome.ABANDONED), id="abandoned"),
        pytest.param(replace(DONE, outcome=Outcome.FAILED), id="failed"),
        pytest.param(replace(DONE, source=Source.OBSERVED), id="only-observed"),
        pytest.param(replace(DONE, savings_hourly=None), id="of-unknown-saving"),
        pytest.param(replace(DONE, command=""), id="of-no-command"),
    ],
)
def test_what_was_not_carried_out_saves_nothing(draft: Draft) -> None:
    assert saved((0, draft)).until(START) is None


def test_a_command_counts_once() -> None:
    told = saved((0, DONE), (1, DONE)).until(START)

    assert told is not None
    assert 1 == told.commands


def test_an_estimate_stays_one() -> None:
    told = saved((0, replace(DONE, is_estimate=True))).until(START)

    assert told is not None
    assert told.is_estimate
