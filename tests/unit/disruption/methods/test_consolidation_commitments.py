"""What consolidation saves where commitments pay for machines: bill before less bill after.

Types are ``s1`` to ``s32``, a dime per cpu on demand.
"""

import pytest

from helpers.builders import reserved_instances, savings_plan
from helpers.disruption import DisruptionInputs, context_of, decided, found_by, going, only, planned
from helpers.disruption_objects import OD_POOL, machine, pod_on
from karpenter.disruption.candidates import Kind
from karpenter.disruption.commands import EMPTY, MULTI, SINGLE

PAYS_ONE_S4 = reserved_instances("one", types=["s4"], instances=1)


@pytest.mark.case("OPT-49")
def test_a_machine_that_is_paid_already_saves_nothing() -> None:
    paid = machine("paid", pod_on("a"), instance_type="s4")
    other = machine("other", pod_on("b"), instance_type="s2")

    finding = found_by(SINGLE, paid, other, pools=[OD_POOL], commitments=[PAYS_ONE_S4])

    assert ["other"] == going(finding)
    assert "commitments pay for it" in finding.verdicts["paid"].detail


@pytest.mark.case("OPT-49")
def test_it_goes_when_it_is_empty_and_the_commitment_is_told_as_unused() -> None:
    empty = machine("paid", instance_type="s4")
    world = DisruptionInputs(pools=[OD_POOL], commitments=[PAYS_ONE_S4])

    command = only(decided(empty, **world))

    assert (EMPTY, ("paid",), 0.0) == (command.method, command.names, command.savings)
    ledger = context_of(empty, **world).ground.ledger
    assert ledger is not None
    (use,) = ledger.uses(ledger.balance(command.names))
    assert 0.4 == pytest.approx(use.wasted)


def test_what_a_machine_leaves_pays_for_the_next_one() -> None:
    machines = [machine(name, pod_on(f"pod-{name}"), instance_type="s4") for name in ("a", "b")]

    command = only(found_by(SINGLE, *machines, pools=[OD_POOL], commitments=[PAYS_ONE_S4]))

    assert 1 == len(command.names)
    assert 0.4 == pytest.approx(command.savings)


def test_several_together_save_what_the_bill_falls_by() -> None:
    machines = [
        machine(name, pod_on(f"pod-{name}"), instance_type="s4") for name in ("a", "b", "c")
    ]

    command = only(found_by(MULTI, *machines, pools=[OD_POOL], commitments=[PAYS_ONE_S4]))

    view = context_of(*machines, pools=[OD_POOL], commitments=[PAYS_ONE_S4])
    candidates = [c for c in view.candidates(Kind.GRACEFUL) if c.name in command.names]
    assert view.savings(candidates, command.replacements) == pytest.approx(command.savings)


def test_a_replacement_that_is_paid_already_is_cheaper_than_a_smaller_one() -> None:
    load = pod_on("a", cpu="1500m")
    small = machine("small", load, instance_type="s2")
    pays_a_large_one = reserved_instances("large", types=["s8"], instances=1)

    command = only(found_by(SINGLE, small, pools=[OD_POOL], commitments=[pays_a_large_one]))

    (claim,) = command.replacements
    assert ("s8",) == claim.instance_types
    assert 0.2 == pytest.approx(command.savings)


def test_after_that_nothing_is_left_to_be_saved() -> None:
    large = machine("large", pod_on("a", cpu="1500m"), instance_type="s8")
    pays_a_large_one = reserved_instances("large", types=["s8"], instances=1)

    assert () == planned(large, pools=[OD_POOL], commitments=[pays_a_large_one]).commands


def test_a_plan_that_covers_a_part_leaves_the_rest_to_be_saved() -> None:
    half = savings_plan("half", "0.15", types=["s4"])  # half of $0.30, at 25% off
    view = context_of(machine("a", instance_type="s4"), pools=[OD_POOL], commitments=[half])

    (candidate,) = view.candidates(Kind.GRACEFUL)

    assert 0.2 == pytest.approx(view.savings([candidate]))
