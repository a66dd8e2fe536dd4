"""The ledger: what commitments pay of a bill, in which order, and what is left of them."""

from datetime import timedelta

import pytest

from helpers.builders import (
    NOW,
    book_of,
    managed_node,
    offering,
    priced_type,
    reserved_instances,
    savings_plan,
    unmanaged_node,
)
from karpenter.model import labels as keys
from karpenter.scheduling.commitments import Ledger, Machine, running_machines, units_of

L, X = priced_type("l", 8, 0.36), priced_type("x", 32, 2.00)
M = priced_type("fam.medium", 1, 0.05)
TYPES = (L, X, M)
A_DAY = timedelta(days=1)


def machine(name: str, kind: str = "l", *, way: str = keys.ON_DEMAND) -> Machine:
    price = {"l": 0.36, "x": 2.00, "fam.medium": 0.05}[kind]
    return Machine(name, kind, "z1", way, price)


@pytest.mark.parametrize(
    ("name", "cpus", "units"),
    [
        ("m5.nano", 2, 0.25),
        ("m5.micro", 2, 0.5),
        ("m5.small", 2, 1),
        ("m5.medium", 1, 2),
        ("m5.large", 2, 4),
        ("m5.xlarge", 4, 8),
        ("m5.12xlarge", 48, 96),
        ("m5.metal", 96, 192),
        ("c7i.metal-24xl", 96, 192),
        ("a1.unheard-of", 4, 0),
        ("c-4x-amd64-linux", 4, 0),
    ],
)
def test_sizes_in_units(name: str, cpus: float, units: float) -> None:
    assert units == units_of(name, cpus)


def test_reserved_instances_come_before_plans_and_narrow_plans_before_wide_ones() -> None:
    commitments = [
        savings_plan("a-wide", "10"),
        savings_plan("z-narrow", "10", types=["l"]),
        reserved_instances("reserved", types=["l", "x"], instances=1),
    ]
    ledger = Ledger(book_of(commitments, TYPES))
    balance = ledger.balance()

    taken = [balance.take(machine(name)) for name in ("first", "second")]

    assert [["reserved"], ["z-narrow"]] == [[each.commitment for each in own] for own in taken]


def test_what_one_commitment_leaves_open_the_next_one_pays() -> None:
    commitments = [
        savings_plan("half", "0.135", types=["l"]),
        savings_plan("rest", "1", types=["l", "x"], discount="50%"),
    ]
    balance = Ledger(book_of(commitments, TYPES)).balance()

    covered = balance.take(machine("one"))

    assert {"half": 0.18, "rest": 0.18} == pytest.approx(
        {each.commitment: each.hourly for each in covered}
    )
    assert 1 - 0.09 == pytest.approx(balance.left[1])


def test_running_machines_with_the_largest_discount_come_first() -> None:
    rates = savings_plan("plan", "1", rates={"l": "0.30", "x": "1.00"})  # 17% and 50% off
    running = (machine("a", "l"), machine("b", "x"))

    ledger = Ledger(book_of([rates], TYPES), running)

    assert 0.36 == pytest.approx(ledger.bill())  # all of the plan goes to b


def test_of_equal_machines_it_does_not_matter_which_goes() -> None:
    one = savings_plan("plan", "0.27", types=["l"])
    ledger = Ledger(book_of([one], TYPES), (machine("a"), machine("b")))

    assert 0.36 == pytest.approx(ledger.bill())
    assert 0.0 == pytest.approx(ledger.bill(without={"a"}))
    assert 0.0 == pytest.approx(ledger.bill(without={"b"}))


def test_spot_and_reserved_offerings_are_not_covered() -> None:
    balance = Ledger(book_of([savings_plan("plan", "10")], TYPES)).balance()

    assert () == balance.take(machine("s", way=keys.SPOT))
    assert () == balance.take(machine("r", way=keys.RESERVED))


def test_a_plan_with_rates_covers_those_types_alone_and_names_unknown_ones() -> None:
    book = book_of([savings_plan("plan", "10", rates={"l": "0.2", "q9.huge": "3"})], TYPES)
    balance = Ledger(book).balance()

    assert () == balance.take(machine("x", "x"))
    assert 0.36 == pytest.approx(sum(each.hourly for each in balance.take(machine("l"))))
    assert ("q9.huge",) == book.unknown_types["plan"]


def test_a_share_is_all_that_counts() -> None:
    half = savings_plan("plan", "0.54", types=["l"], share="50%")

    assert 0.27 == pytest.approx(Ledger(book_of([half], TYPES)).balance().left[0])


def test_what_a_commitment_is_used_for_is_told_in_dollars() -> None:
    commitments = [
        savings_plan("plan", "1", types=["l"]),
        reserved_instances("reserved", types=["x"], instances=2),
    ]
    ledger = Ledger(book_of(commitments, TYPES), (machine("running"),))
    after = ledger.balance()
    after.take(machine("new"))

    plan, reserved = ledger.uses(after)

    assert (0.54, 0.73, 0.46, 2) == pytest.approx(
        (plan.used, plan.left, plan.wasted, plan.machines)
    )
    assert (0.0, 4.0, 4.0, 0) == pytest.approx(
        (reserved.used, reserved.left, reserved.wasted, reserved.machines)
    )


def test_machines_that_go_and_spot_take_nothing_and_foreign_ones_do() -> None:
    types = {"np": {"l": L.with_offerings((*L.offerings, offering("z1", keys.SPOT, 0.1)))}}
    elsewhere = {keys.INSTANCE_TYPE: "l", keys.ZONE: "z1"}
    nodes = [
        managed_node("ours", instance_type="l"),
        managed_node("going", instance_type="l", marked=True),
        managed_node("spot", instance_type="l", capacity_type=keys.SPOT),
        unmanaged_node("theirs", labels=elsewhere, capacity_type="", pool=""),
        unmanaged_node(
            "their-spot",
            labels={**elsewhere, "eks.amazonaws.com/capacityType": "SPOT"},
            capacity_type="",
            pool="",
        ),
    ]

    found = {each.name: (each.capacity_type, each.price) for each in running_machines(nodes, types)}

    assert {
        "ours": (keys.ON_DEMAND, 0.36),
        "spot": (keys.SPOT, 0.1),
        "theirs": (keys.ON_DEMAND, 0.36),
        "their-spot": (keys.SPOT, 0.1),
    } == found


def test_a_date_in_the_future_changes_nothing() -> None:
    later = savings_plan("plan", "1", expires=NOW + A_DAY)

    assert ["plan"] == [terms.name for terms in book_of([later], TYPES).terms]
