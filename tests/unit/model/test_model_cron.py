"""Cron schedules: which moments they name, and which texts are none."""

from datetime import UTC, datetime

import pytest

from karpenter.model.cron import ScheduleError, parse_schedule

SATURDAY = datetime(2026, 8, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("* * * * *", "2026-08-01 12:31", id="every minute"),
        pytest.param("*/15 * * * *", "2026-08-01 12:45", id="every quarter of an hour"),
        pytest.param("0 9 * * 1-5", "2026-08-03 09:00", id="on weekdays"),
        pytest.param("0 9 * * mon-fri", "2026-08-03 09:00", id="by name"),
        pytest.param("0 0 * * 7", "2026-08-02 00:00", id="seven is Sunday too"),
        pytest.param("0 0 29 2 *", "2028-02-29 00:00", id="in leap years"),
        pytest.param("0 0 13 * 5", "2026-08-07 00:00", id="a day or a weekday"),
        pytest.param("0 0 2 * 5", "2026-08-02 00:00", id="the day when it is the sooner"),
        pytest.param("0 0 * * 1", "2026-08-03 00:00", id="any day leaves it to the weekday"),
        pytest.param("0 0 20 * *", "2026-08-20 00:00", id="any weekday leaves it to the day"),
        pytest.param("0 0 */10 * 3", "2026-08-05 00:00", id="every tenth day, or a weekday"),
        pytest.param("0 0 20 * */3", "2026-08-02 00:00", id="a day, or every third weekday"),
        pytest.param("0 0 */1 * 3", "2026-08-05 00:00", id="a step of one is any day"),
        pytest.param("0 0 20,* * 3", "2026-08-05 00:00", id="any day among others is any day"),
        pytest.param("5/20 * * * *", "2026-08-01 12:45", id="from then on in steps"),
        pytest.param("0 0 * * 1/2", "2026-08-03 00:00", id="steps end with the week"),
        pytest.param("0 0 1 11/2 *", "2026-11-01 00:00", id="months in steps"),
        pytest.param("0 22 31 12 ?", "2026-12-31 22:00", id="a question mark is a star"),
        pytest.param("@hourly", "2026-08-01 13:00", id="hourly"),
        pytest.param("@daily", "2026-08-02 00:00", id="daily"),
        pytest.param("@weekly", "2026-08-02 00:00", id="weekly"),
        pytest.param("@monthly", "2026-09-01 00:00", id="monthly"),
        pytest.param("@yearly", "2027-01-01 00:00", id="yearly"),
    ],
)
def test_the_next_moment(text: str, expected: str) -> None:
    found = parse_schedule(text).next_after(SATURDAY)

    assert expected == f"{found:%Y-%m-%d %H:%M}"


def test_a_schedule_names_whole_minutes() -> None:
    late = SATURDAY.replace(second=59, microsecond=999999)

    assert datetime(2026, 8, 1, 12, 31, tzinfo=UTC) == parse_schedule("* * * * *").next_after(late)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "banana",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "5-1 * * * *",
        "*/0 * * * *",
        "@never",
        "x * * * *",
        "1-x * * * *",
        "*/x * * * *",
    ],
)
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(text)


def test_a_day_that_never_comes() -> None:
    with pytest.raises(ScheduleError, match="never comes due"):
        parse_schedule("0 0 31 2 *").next_after(SATURDAY)
