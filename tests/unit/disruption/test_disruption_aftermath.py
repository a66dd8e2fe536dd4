"""A cluster right after a command was begun: who leaves, who waits, and what is on its way."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from helpers.builders import (
    FACTS_F,
    NOW,
    RESERVATION_ID,
    condition,
    expression,
    node_claim,
    offering,
    reserved,
    taint,
    unmanaged_node,
)
from helpers.disruption import catalogue_of, found_by, only, planned, snapshot
from helpers.disruption_objects import (
    LONG_AGO,
    OD_POOL,
    ON_DEMAND_ONLY,
    kind,
    machine,
    on_demand,
    pod_on,
    pool,
    spot,
)
from karpenter.cloud.types import InstanceType, Offering
from karpenter.disruption.commands import Command, Decision
from karpenter.disruption.projected_state import ProjectedState
from karpenter.model import labels as keys
from karpenter.model.requirement import Operator, requirement
from karpenter.scheduling.plan import Launch
from karpenter.state.nodes import StateNode

DRIFTED: Final = condition("Drifted", at=LONG_AGO)
UNTIL: Final = NOW + timedelta(seconds=20)


def after(command: Command, *nodes: StateNode, **world: Any) -> ProjectedState:
    """A cluster in which one command was begun."""
    found = ProjectedState(snapshot(*nodes, **world), FACTS_F, catalogue_of(world))  # type: ignore[arg-type]
    found.begin(command, until=UNTIL)
    return found


def begun(*nodes: StateNode, **world: Any) -> tuple[Command, ProjectedState]:
    """What drift decides about a cluster, and the cluster after that."""
    command = only(found_by("drift", *nodes, **world))
    return command, after(command, *nodes, **world)


def drifted(name: str = "n1", cpu: str = "3", **options: Any) -> StateNode:
    return machine(name, pod_on(f"p-{name}", cpu=cpu), claim_conditions=[DRIFTED], **options)


def on_its_way(found: ProjectedState) -> StateNode:
    (made,) = [each for each in found.snapshot.nodes if each.node is None]
    return made


def test_who_goes_is_marked_and_who_takes_pods_waits_for_them() -> None:
    nodes = [drifted(cpu="500m"), machine("n2", pod_on("q"))]

    command, found = begun(*nodes, pools=[OD_POOL])

    assert {"n2": ("default/p-n1",)} == command.placements
    assert [("n1", True, None), ("n2", False, UNTIL)] == [
        (each.name, each.is_marked, each.nominated_until) for each in found.snapshot.nodes
    ]
    assert {"n1"} == found.in_progress


def test_a_machine_that_is_restarted_is_not_marked() -> None:
    ended = condition("Rebooting", "False", at=LONG_AGO)
    nodes = [drifted(), machine("n2", claim_conditions=[ended])]
    (second,) = found_by("drift", *nodes, pools=[OD_POOL]).commands
    candidate = replace(second.candidates[0], machine=nodes[1])
    restart = Command("repair", "Unhealthy", Decision.REBOOT, (candidate,))

    found = after(restart, *nodes)

    hung = found.snapshot.nodes[1]
    assert (True, False) == (hung.is_rebooting, hung.is_marked)
    assert hung.node_claim is not None
    assert 1 == sum(each.type == "Rebooting" for each in hung.node_claim.status.conditions)
    assert hung.has_condition("Consolidatable")


def test_a_claim_that_never_launched_is_gone() -> None:
    young = node_claim("young", provider_id="", created=NOW - timedelta(days=31))
    other = node_claim("other", provider_id="")
    (command,) = planned(unlaunched=[young]).commands

    found = after(command, unlaunched=[young, other])

    assert ["other"] == [each.metadata.name for each in found.snapshot.unlaunched]


def test_a_replacement_is_on_its_way_with_all_it_will_be() -> None:
    plain = pool(requirements=[*ON_DEMAND_ONLY, expression(keys.ZONE, "In", "z2")])
    spec = msgspec.structs.replace(
        plain.spec.template.spec,
        taints=(taint("dedicated:PreferNoSchedule"),),
        startup_taints=(taint("starting:NoSchedule"),),
        expire_after="1h",
        termination_grace_period="5m",
    )
    template = msgspec.structs.replace(plain.spec.template, spec=spec)
    wanted = msgspec.structs.replace(
        plain, spec=msgspec.structs.replace(plain.spec, template=template)
    )

    command, found = begun(drifted(), pools=[wanted])

    made = on_its_way(found)
    (claim,) = command.replacements
    assert made.node_claim is not None
    assert (claim.name, "np") == (made.name, made.node_pool)
    assert ("s4", "z2", "on-demand") == tuple(
        made.labels[key] for key in (keys.INSTANCE_TYPE, keys.ZONE, keys.CAPACITY_TYPE)
    )
    assert claim.annotations == made.node_claim.metadata.annotations
    asked = made.node_claim.spec
    assert (spec.taints, spec.startup_taints) == (asked.taints, asked.startup_taints)
    assert ("1h", "5m", spec.node_class_ref) == (
        asked.expire_after,
        asked.termination_grace_period,
        asked.node_class_ref,
    )
    assert "4" == made.node_claim.status.capacity["cpu"]
    assert made.node_claim.status.provider_id
    assert not made.is_initialized


def test_what_is_on_its_way_takes_the_pods_it_comes_for() -> None:
    """Each machine makes way for a cheaper one, although the pods of the first wait meanwhile."""
    nodes = [
        machine(name, pod_on(name, cpu="3", node_selector={keys.ZONE: zone}), **options)  # type: ignore[arg-type]
        for name, zone in (("n1", "z1"), ("n2", "z2"))
        for options in ({"instance_type": "s8", "zone": zone},)
    ]

    plan = planned(*nodes, pools=[OD_POOL])

    assert [("n1", "replace"), ("n2", "replace")] == [
        (*command.names, command.decision) for command in plan.commands
    ]


@pytest.mark.parametrize(
    ("change", "count"),
    [
        pytest.param({}, 1, id="it is launched as it says"),
        pytest.param({"launch": None}, 0, id="nobody knows as what"),
        pytest.param({"node_pool": "gone"}, 0, id="its pool is gone"),
        pytest.param({"launch": Launch("gone", "z1", "on-demand", 1.0)}, 0, id="no such type"),
        pytest.param({"launch": Launch("s4", "z9", "on-demand", 1.0)}, 0, id="no such zone"),
        pytest.param({"launch": Launch("s4", "z1", "reserved", 1.0)}, 0, id="in no such way"),
    ],
)
def test_a_replacement_that_cannot_be_launched_does_not_come(
    change: dict[str, Any], count: int
) -> None:
    nodes = drifted()
    command = only(found_by("drift", nodes, pools=[OD_POOL]))
    claim = replace(command.replacements[0], **change)

    found = after(replace(command, replacements=(claim,)), nodes, pools=[OD_POOL])

    assert count == sum(each.node is None for each in found.snapshot.nodes)


def on_reservations(*slots: int) -> tuple[InstanceType, ...]:
    """Two types, one of which can be had on reservations with so many slots each."""
    ways = [reserved(f"r-{number}", left) for number, left in enumerate(slots, start=1)]
    return kind("s4", 4, ways=[on_demand(1.0)], reservations=ways), kind("s8", 8, ways=[spot(2.0)])


@pytest.mark.parametrize(
    ("slots", "left"),
    [
        pytest.param((2,), [1], id="a slot is taken"),
        pytest.param((1,), [0], id="the last slot is taken"),
        pytest.param((1, 1), [0, 1], id="of two reservations the first by name"),
    ],
)
def test_a_replacement_takes_a_slot_of_its_reservation(
    slots: tuple[int, ...], left: list[int]
) -> None:
    types = on_reservations(*slots)

    command, found = begun(drifted(), types=types)

    assert command.replacements[0].launch is not None
    assert "reserved" == command.replacements[0].launch.capacity_type
    known, other = found.types(pool())
    assert left == [way.reservation_capacity for way in known.offerings if way.is_reserved]
    assert other is types[1]
    assert found.types(pool())[0] is known


def slot(name: str, price: float = 0.1, left: int = 1) -> Offering:
    return offering("z1", keys.RESERVED, price, reservation_id=name, reservation_capacity=left)


@pytest.mark.parametrize(
    ("slots", "wanted", "taken"),
    [
        pytest.param([slot("r-2"), slot("r-1")], [], "r-1", id="the first by name"),
        pytest.param([slot("r-1", 0.2), slot("r-2")], [], "r-2", id="the cheaper one"),
        pytest.param([slot("r-1", left=0), slot("r-2")], [], "r-2", id="the one with a slot left"),
        pytest.param(
            [slot("r-1"), slot("r-2")],
            [expression(RESERVATION_ID, "In", "r-2")],
            "r-2",
            id="the one that its pool asks for",
        ),
    ],
)
def test_which_reservation_a_replacement_runs_on(
    slots: list[Offering], wanted: list[Any], taken: str
) -> None:
    types = [kind("s4", 4, ways=(), reservations=slots)]

    _, found = begun(drifted(), types=types, pools=[pool(requirements=wanted)])

    assert {taken: 1} == found.taken
    assert taken == on_its_way(found).labels[RESERVATION_ID]


def test_what_a_type_leaves_open_is_not_written_on_its_machine() -> None:
    either = requirement("example.com/disk", Operator.IN, ("fast", "slow"))
    never = requirement("example.com/gpu", Operator.DOES_NOT_EXIST, ())
    some = requirement("example.com/rack", Operator.EXISTS, ())
    plain = kind("s4", 4)
    odd = replace(plain, requirements=plain.requirements & [either, never, some])

    _, found = begun(drifted(), types=[odd], pools=[OD_POOL])

    assert not [key for key in on_its_way(found).labels if key.startswith("example.com/")]


def test_slots_are_taken_one_by_one_until_none_is_left() -> None:
    nodes = [drifted(f"n{n}") for n in range(3)]

    plan = planned(*nodes, types=on_reservations(2))

    assert ["reserved", "reserved", "on-demand"] == [
        each.launch.capacity_type
        for command in plan.commands
        for each in command.replacements
        if each.launch is not None
    ]


def test_every_pool_has_its_own_view_of_a_reservation() -> None:
    shared = on_reservations(2)
    alike = on_reservations(2)
    types_of = {"np": shared, "other": alike}

    _, found = begun(drifted(), pools=[pool(), pool("other")], types_of=types_of)

    assert [1, 1] == [
        found.types(pool(name))[0].offerings[-1].reservation_capacity for name in types_of
    ]


def test_what_has_not_been_taken_from_is_as_it_was() -> None:
    types = on_reservations(1)
    nodes = [drifted(cpu="500m"), unmanaged_node("other")]

    _, found = begun(*nodes, types=types)

    assert all(a is b for a, b in zip(types, found.types(pool()), strict=True))
    assert [] == [each for each in found.snapshot.nodes if each.node is None]
