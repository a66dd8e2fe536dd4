"""A rebalance is refused when kube-scheduler, which decides where pods go, would undo it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from helpers.builders import expression
from helpers.disruption import context_of
from helpers.disruption_objects import OD_POOL, machine, pod_on, pods_on
from karpenter.api.nodes import Taint
from karpenter.api.pods import Pod
from karpenter.disruption.budgets import UNDERUTILIZED
from karpenter.disruption.candidates import Candidate, Kind
from karpenter.disruption.commands import Command, Decision
from karpenter.disruption.rebalance.predicted_placement import objection
from karpenter.model.labels import INSTANCE_TYPE, ON_DEMAND
from karpenter.scheduling.plan import Launch, PlannedClaim
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of

Split = Sequence[tuple[str, Sequence[Pod]]]  # type of a replacement, and the pods planned for it


def moved(going: StateNode, staying: Sequence[StateNode], split: Split) -> str:
    """What stands against moving the pods of a machine to replacements of these types."""
    view = context_of(going, *staying, pools=[OD_POOL])
    candidate = view.standing(Kind.GRACEFUL)[going.name]
    assert isinstance(candidate, Candidate)
    made = tuple(
        replace(planned(going), pods=tuple(map(key_of, pods)), launch=launched_as(kind))
        for kind, pods in split
    )
    command = Command("rebalance", UNDERUTILIZED, Decision.REPLACE, (candidate,), made)
    return objection(view, command)


def planned(going: StateNode) -> PlannedClaim:
    """A replacement by itself, whatever else is there."""
    view = context_of(going, pools=[OD_POOL])
    answer = view.simulation(view.candidates(Kind.GRACEFUL)).replacing(
        view.candidates(Kind.GRACEFUL)
    )
    (claim,) = answer.replacements() or ()
    return claim


def launched_as(kind: str) -> Launch:
    return Launch(kind, "z1", ON_DEMAND, 1.0)


def test_nothing_stands_against_a_move_that_the_scheduler_repeats() -> None:
    pods = pods_on(12, "a", cpu="900m")

    said = moved(
        machine("n1", *pods, instance_type="s32"), [], [("s8", pods[:8]), ("s4", pods[8:])]
    )

    assert said == ""


@pytest.mark.case("OPT-45")
def test_small_pods_that_spread_leave_no_room_for_a_large_one() -> None:
    large, small = pod_on("large", cpu="3500m"), pods_on(4, "small", cpu="800m")

    said = moved(
        machine("n1", large, *small, instance_type="s32"), [], [("s4", [large]), ("s4", small)]
    )

    assert said == "kube-scheduler would place the pods so that default/large finds no room"


def test_a_replacement_that_the_scheduler_passes_over_stays_empty() -> None:
    wish = [(100, [expression(INSTANCE_TYPE, "In", "s16")])]
    pods = pods_on(10, "a", cpu="900m", preferred=wish)

    said = moved(
        machine("n1", *pods, instance_type="s32"), [], [("s16", pods[:6]), ("s4", pods[6:])]
    )

    assert said == "kube-scheduler would leave a replacement (s4) empty"


def test_a_replacement_that_gets_too_few_pods_would_go_at_once() -> None:
    pods = pods_on(7, "a", cpu="900m")
    roomy = machine("n2", pod_on("b"), instance_type="s8")

    said = moved(machine("n1", *pods, instance_type="s32"), [roomy], [("s8", pods)])

    assert said == (
        "kube-scheduler would place the pods so that consolidation saves $0.8000/h"
        " on a replacement (s8) at once"
    )


def test_machines_that_are_going_or_closed_take_no_pods() -> None:
    pods = pods_on(7, "a", cpu="900m")
    closed = [
        machine("n2", pod_on("b"), instance_type="s8", marked=True),
        machine(
            "n3", pod_on("c"), instance_type="s8", taints=[Taint(key="x", effect="NoSchedule")]
        ),
    ]

    said = moved(machine("n1", *pods, instance_type="s32"), closed, [("s8", pods)])

    assert said == ""


def test_a_replacement_that_is_no_longer_on_sale_is_an_objection() -> None:
    pods = pods_on(7, "a", cpu="900m")

    said = moved(machine("n1", *pods, instance_type="s32"), [], [("unknown", pods)])

    assert said == "a replacement could not be launched as planned"
