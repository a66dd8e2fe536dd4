"""Machines that fell back to on-demand go back to spot: not too early, and to spot alone."""

from datetime import timedelta
from typing import Final

import pytest

from helpers.builders import NOW
from helpers.disruption import context_of, found_by, going, only
from helpers.disruption_objects import kind, machine, on_demand, pod_on, pool, spot
from karpenter.api.karpenter import NodePool
from karpenter.disruption import commands
from karpenter.disruption.validation import validated
from karpenter.model import labels as keys
from karpenter.scheduling.spot.fallback import RETURN_TO_SPOT, OnSale
from karpenter.state.nodes import StateNode

MINUTE: Final = timedelta(minutes=1)
NAMES: Final = tuple(f"t{number:02}" for number in range(16))
TYPES: Final = tuple(kind(name, 4, ways=(on_demand(1.0), spot(0.3))) for name in NAMES)
WAITING: Final = pool(annotations={RETURN_TO_SPOT: "30m"})


def fallen(
    *, since: timedelta = 30 * MINUTE, types: tuple[str, ...] = NAMES, failures: int = 0
) -> StateNode:
    """A machine that fell back, with these types on sale for so long."""
    held = {
        keys.FELL_BACK: "2026-01-01T00:00:00Z",
        keys.SPOT_ON_SALE: OnSale(NOW - since, types).text(),
        keys.RETURN_FAILED: str(failures),
    }
    return machine("od", pod_on("a"), instance_type="t00", types=TYPES, claim_annotations=held)


def single(each: StateNode, asks: NodePool = WAITING) -> commands.Finding:
    return found_by(commands.SINGLE, each, types=TYPES, pools=[asks])


@pytest.mark.case("OPT-57")
def test_it_stays_before_the_wait_is_over_and_is_replaced_then() -> None:
    early = single(fallen(since=29 * MINUTE))
    due = only(single(fallen(since=30 * MINUTE)))

    assert [] == going(early)
    assert "it fell back to on-demand, and returns to spot at " in early.verdicts["od"].detail
    (replacement,) = due.replacements
    assert [keys.SPOT] == sorted(replacement.requirements[keys.CAPACITY_TYPE].values)
    assert set(NAMES) == set(replacement.instance_types)


@pytest.mark.case("OPT-57")
@pytest.mark.parametrize(("failures", "minutes"), [(1, 60), (2, 120)])
def test_it_waits_longer_after_failures(failures: int, minutes: int) -> None:
    assert [] == going(single(fallen(since=(minutes - 1) * MINUTE, failures=failures)))
    assert ["od"] == going(single(fallen(since=minutes * MINUTE, failures=failures)))


def test_only_types_that_were_on_sale_all_the_time_count() -> None:
    (replacement,) = only(single(fallen(types=NAMES[:15]))).replacements

    assert set(NAMES[:15]) == set(replacement.instance_types)
    few = single(fallen(types=NAMES[:14]))
    assert [] == going(few)
    assert "once 15 instance types" in few.verdicts["od"].detail


def test_types_that_are_gone_from_the_catalogue_do_not_count() -> None:
    strange = (*NAMES[:14], "other-a", "other-b")

    finding = single(fallen(types=strange))

    assert [] == going(finding)
    assert "and there are 14" in finding.verdicts["od"].detail


def test_without_the_annotation_of_the_pool_nothing_differs() -> None:
    plain = machine("od", pod_on("a"), instance_type="t00", types=TYPES)

    assert ["od"] == going(single(plain))
    assert ["od"] == going(single(fallen(since=0 * MINUTE), pool()))


def test_a_machine_that_is_not_due_may_still_be_emptied_into_others() -> None:
    room = machine("room", pod_on("b"), instance_type="t01", types=TYPES)

    finding = found_by(
        commands.SINGLE, fallen(since=0 * MINUTE), room, types=TYPES, pools=[WAITING]
    )

    assert 1 == len(going(finding))
    assert () == only(finding).replacements


def test_budgets_hold() -> None:
    closed = pool(annotations={RETURN_TO_SPOT: "30m"}, budgets=["0"])

    assert [] == going(single(fallen(), closed))


def test_what_is_sold_out_meanwhile_ends_the_command() -> None:
    command = only(single(fallen()))

    again = context_of(fallen(types=NAMES[1:]), types=TYPES, pools=[WAITING])
    early = context_of(fallen(since=1 * MINUTE), types=TYPES, pools=[WAITING])
    same = context_of(fallen(), types=TYPES, pools=[WAITING])

    assert "t00 has not been on sale on spot all the time" in validated(command, again).detail
    assert "returns to spot at" in validated(command, early).detail
    assert validated(command, same).command is not None
