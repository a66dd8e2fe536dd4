"""Group H: how many nodes of a pool may be disrupted at a time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from helpers.builders import NOW, READY, condition
from helpers.disruption import context_of, decided, found_by, going, planned
from helpers.disruption_objects import LONG_AGO, machine, pod_on, pool
from karpenter.api.karpenter import Budget
from karpenter.disruption.budgets import UNLIMITED, allowance, budget_value, next_opening
from karpenter.state.nodes import StateNode

UNREADY: Final = condition("Ready", "False")
DRIFTED: Final = condition("Drifted", at=LONG_AGO)
TUESDAY: Final = datetime(2026, 8, 4, 12, tzinfo=UTC)
OFFICE_HOURS: Final = Budget(nodes="0", schedule="0 9 * * 1-5", duration="8h")


def empties(count: int, pool: str = "np") -> list[StateNode]:
    """Machines that nobody would miss."""
    return [machine(f"{pool}-{n}", pool=pool) for n in range(count)]


@pytest.mark.parametrize(
    ("budget", "count"),
    [
        pytest.param("3", 3, id="DIS-121 a number"),
        pytest.param("30%", 3, id="DIS-122 30% of ten"),
        pytest.param("100%", 10, id="DIS-122 all of ten"),
        pytest.param("0", 0, id="DIS-122 none"),
        pytest.param("21%", 3, id="a percentage is rounded up"),
        pytest.param("5%", 1, id="however small it is"),
    ],
)
def test_empty_machines_go_in_one_command_within_the_budget(budget: str, count: int) -> None:
    step = decided(*empties(10), pools=[pool(budgets=[budget])])

    assert count == len(going(step))
    assert min(count, 1) == len(step.commands)


@pytest.mark.parametrize(
    ("nodes", "budget", "remaining"),
    [
        pytest.param(empties(3), "10%", 1, id="DIS-123 10% of three is one"),
        pytest.param(
            [*empties(8), *(machine(f"x{n}", node_conditions=[UNREADY]) for n in range(2))],
            "100%",
            8,
            id="DIS-124 those that are not ready count as disrupted",
        ),
        pytest.param(
            [*empties(8), *(machine(f"x{n}", deleted=NOW) for n in range(2))],
            "10%",
            0,
            id="DIS-125 never less than nothing",
        ),
        pytest.param(
            [*empties(10), *(machine(f"x{n}", initialized=False) for n in range(5))],
            "100%",
            10,
            id="DIS-126 those that are not initialized do not count",
        ),
        pytest.param(
            [*empties(4), machine("x", claim_conditions=[condition("InstanceTerminating")])],
            "100%",
            4,
            id="DIS-127 nor does one whose instance terminates",
        ),
    ],
)
def test_what_is_left_of_a_budget(nodes: list[StateNode], budget: str, remaining: int) -> None:
    view = context_of(*nodes, pools=[pool(budgets=[budget])])

    assert remaining == view.allowance("np", "Empty").remaining


@pytest.mark.parametrize(
    ("odd", "counted"),
    [
        pytest.param(
            machine("x", claim_conditions=[condition("InstanceTerminating")]),
            (4, 0),
            id="DIS-127 one whose instance terminates is neither of the total nor disrupted",
        ),
        pytest.param(machine("x", initialized=False), (4, 0), id="DIS-126 nor is one that starts"),
        pytest.param(machine("x", deleted=NOW), (5, 1), id="DIS-125 one that goes is both"),
        pytest.param(machine("x", marked=True), (5, 1), id="one of a command is both"),
        pytest.param(
            machine("x", node_conditions=[UNREADY]), (5, 1), id="DIS-124 one not ready too"
        ),
        pytest.param(
            replace(machine("x"), node_claim=None), (4, 0), id="one without a claim is not ours"
        ),
    ],
)
def test_who_counts_for_a_budget(odd: StateNode, counted: tuple[int, int]) -> None:
    found = context_of(*empties(4), odd, pools=[pool(budgets=["100%"])]).allowance("np", "Empty")

    assert counted == (found.total, found.disrupting)


def test_percentages_of_large_pools_are_exact() -> None:
    assert [100, 200, 203] == [
        budget_value(Budget(nodes=share), total, now=NOW)
        for share, total in (("50%", 200), ("100%", 200), ("50%", 405))
    ]


@pytest.mark.case("DIS-130")
def test_a_window_of_two_days_that_opens_daily_never_closes() -> None:
    budget = Budget(nodes="0", schedule="@daily", duration="48h")
    moments = [TUESDAY + timedelta(minutes=37 * step) for step in range(100)]

    found = [
        allowance(pool(budgets=[budget]), empties(2), "Empty", now=moment).allowed
        for moment in moments
    ]

    assert [0] * len(moments) == found


@pytest.mark.case("DIS-128")
def test_the_strictest_budget_for_a_reason_decides() -> None:
    budgets = [
        Budget(nodes="10"),
        Budget(nodes="4", reasons=("Empty",)),
        Budget(nodes="5", reasons=("Drifted",)),
    ]
    view = context_of(*empties(20), pools=[pool(budgets=budgets)])

    found = [view.allowance("np", r).allowed for r in ("Empty", "Drifted", "Underutilized")]

    assert [4, 5, 10] == found


@pytest.mark.parametrize(
    ("budget", "now", "allowed"),
    [
        pytest.param(OFFICE_HOURS, TUESDAY, 0, id="DIS-129 within its window"),
        pytest.param(OFFICE_HOURS, TUESDAY.replace(hour=18), 2147483647, id="DIS-129 after it"),
        pytest.param(OFFICE_HOURS, TUESDAY.replace(hour=9), 0, id="its start belongs to it"),
        pytest.param(OFFICE_HOURS, TUESDAY.replace(hour=17), UNLIMITED, id="its end does not"),
        pytest.param(
            Budget(nodes="0", schedule="@daily", duration="48h"),
            TUESDAY.replace(hour=23, minute=59),
            0,
            id="DIS-130 windows that overlap never close",
        ),
    ],
)
def test_windows(budget: Budget, now: datetime, allowed: int) -> None:
    found = allowance(pool(budgets=[budget]), empties(2), "Empty", now=now)

    assert allowed == found.allowed


@pytest.mark.case("DIS-131")
def test_a_budget_that_cannot_be_read_closes_every_reason() -> None:
    bad = Budget(nodes="1", reasons=("Empty",), schedule="banana", duration="1h")
    view = context_of(*empties(3), pools=[pool(budgets=["100%", bad])])

    reasons = ("Empty", "Drifted", "Underutilized", "Unhealthy")
    found = [view.allowance("np", reason) for reason in reasons]

    assert [0] * 4 == [each.allowed for each in found]
    assert "spec.disruption.budgets[1]: expected exactly 5 fields, found 1: [banana]" == (
        found[1].problem
    )


@pytest.mark.case("DIS-131")
def test_of_several_that_cannot_be_read_the_first_is_named() -> None:
    found = allowance(pool(budgets=["100%", "x", "y%"]), empties(2), "Empty", now=NOW)

    assert (0, "spec.disruption.budgets[1]: 'x' is neither a number of nodes nor a percentage") == (
        found.allowed,
        found.problem,
    )


@pytest.mark.parametrize("length", ["0s", "-1h", "banana", ""])
def test_no_length_of_a_window_allows_none(length: str) -> None:
    odd = Budget(nodes="10", schedule="@daily", duration=length)

    found = allowance(pool(budgets=[odd]), empties(2), "Empty", now=NOW)

    assert (0, True) == (found.allowed, bool(found.problem))


@pytest.mark.parametrize(
    "half", [Budget(nodes="10", schedule="@daily"), Budget(nodes="10", duration="1h")]
)
def test_half_a_window_allows_none(half: Budget) -> None:
    found = allowance(pool(budgets=[half]), empties(2), "Empty", now=NOW)

    assert (0, "spec.disruption.budgets[0]: a schedule and a duration come together") == (
        found.allowed,
        found.problem,
    )


@pytest.mark.parametrize("nodes", ["-1", "banana", "5.5", "-10%", "1x%", "%", ""])
def test_no_number_of_nodes_allows_none(nodes: str) -> None:
    found = allowance(pool(budgets=[nodes]), empties(2), "Empty", now=NOW)

    assert 0 == found.allowed
    assert found.problem.endswith(f"{nodes!r} is neither a number of nodes nor a percentage")


@pytest.mark.case("DIS-132")
def test_a_budget_without_reasons_is_about_all_of_them() -> None:
    view = context_of(*empties(3), pools=[pool(budgets=["2"])])

    reasons = ("Empty", "Drifted", "Underutilized", "Unhealthy")

    assert [2] * 4 == [view.allowance("np", reason).allowed for reason in reasons]


def test_a_budget_with_no_reasons_at_all_is_about_none() -> None:
    view = context_of(*empties(3), pools=[pool(budgets=[Budget(nodes="0", reasons=())])])

    assert UNLIMITED == view.allowance("np", "Empty").allowed


@pytest.mark.case("DIS-133")
def test_every_pool_has_budgets_of_its_own() -> None:
    nodes = [*empties(3, "a"), *empties(3, "b")]

    step = decided(*nodes, pools=[pool("a", budgets=["2"]), pool("b", budgets=["2"])])

    assert ["a-0", "a-1", "b-0", "b-1"] == sorted(going(step))
    assert 1 == len(step.commands)


@pytest.mark.case("DIS-134")
def test_what_another_method_disrupts_counts() -> None:
    nodes = [machine("n1", pod_on("p"), marked=True), machine("n2")]

    assert [] == going(found_by("empty", *nodes, pools=[pool(budgets=["1"])]))


@pytest.mark.case("DIS-135")
def test_an_expired_claim_goes_whatever_budgets_say() -> None:
    plan = planned(machine("n1", expire_after="1h"), pools=[pool(budgets=["0"])])

    assert [("expiration", "Expired", ("n1",))] == [
        (command.method, command.reason, command.names) for command in plan.commands
    ]


@pytest.mark.parametrize(
    ("budget", "culprit"),
    [
        pytest.param("0", "blocking budget", id="DIS-136 one that allows nothing"),
        pytest.param(
            "many",
            "blocking budget, which cannot be read: spec.disruption.budgets[0]:"
            " 'many' is neither a number of nodes nor a percentage",
            id="DIS-131 one that cannot be read",
        ),
    ],
)
def test_users_are_told_of_a_pool_that_allows_nothing(budget: str, culprit: str) -> None:
    found = found_by("empty", machine("n1"), pools=[pool(budgets=[budget])])

    (event,) = found.events
    assert ("NodePool/np", "DisruptionBlocked") == (event.target, event.reason)
    assert f"No allowed disruptions for disruption reason Empty due to {culprit}" == event.message
    assert found.is_constrained


@pytest.mark.case("V15-D06")
@pytest.mark.parametrize(
    ("reason", "remaining"),
    [
        pytest.param("Unhealthy", 1, id="a node that is not ready may be repaired"),
        pytest.param("Drifted", 0, id="and uses up the budget of other reasons"),
    ],
)
def test_nodes_that_are_not_ready(reason: str, remaining: int) -> None:
    nodes = [*empties(9), machine("x", node_conditions=[UNREADY])]

    assert (
        remaining
        == context_of(*nodes, pools=[pool(budgets=["1"])]).allowance("np", reason).remaining
    )


@pytest.mark.case("V15-D36")
@pytest.mark.parametrize("reason", ["Empty", "Drifted", "Underutilized", "Unhealthy"])
def test_a_restart_counts_as_a_disruption_for_every_reason(reason: str) -> None:
    restarting = machine("x", claim_conditions=[condition("Rebooting")], initialized=False)

    found = context_of(machine("n1"), restarting, pools=[pool(budgets=["2"])]).allowance(
        "np", reason
    )

    assert (2, 1, 1) == (found.total, found.disrupting, found.remaining)


def test_drift_within_a_budget_of_another_reason() -> None:
    only_empty = Budget(nodes="0", reasons=("Empty",))
    nodes = machine("n1", claim_conditions=[DRIFTED], node_conditions=[READY])

    assert ["n1"] == going(decided(nodes, pools=[pool(budgets=[only_empty])]))


def test_when_a_window_opens_next() -> None:
    assert datetime(2026, 8, 5, 9, tzinfo=UTC) == next_opening(OFFICE_HOURS, now=TUESDAY)
    assert next_opening(Budget(nodes="1"), now=TUESDAY) is None


@pytest.mark.case("V15-S02")
@pytest.mark.parametrize(
    ("reason", "remaining"),
    [
        pytest.param("Unhealthy", 0, id="the stricter one for its own reason"),
        pytest.param("Drifted", 2, id="the general one for another"),
        pytest.param("Empty", 2, id="and for a third"),
    ],
)
def test_a_budget_for_one_reason_beside_one_for_all(reason: str, remaining: int) -> None:
    both = pool(budgets=["10%", Budget(nodes="0", reasons=("Unhealthy",))])

    view = context_of(*empties(20), pools=[both])

    assert remaining == view.remaining(reason)["np"]
