"""Groups P and R, and terminate-first: what becomes of machines that have drifted."""

from datetime import timedelta
from typing import Final

import pytest

from helpers.builders import (
    NOW,
    READY,
    condition,
    expression,
    node_claim,
    offering,
    owner,
    pod,
    reserved,
)
from helpers.disruption import decided, found_by, going, only, planned, snapshot
from helpers.disruption_objects import (
    LONG_AGO,
    ON_DEMAND_ONLY,
    kind,
    machine,
    pdb_of,
    pod_on,
    pods_on,
    pool,
    reserved_on,
)
from karpenter.api.meta import Condition
from karpenter.cloud.types import InstanceType
from karpenter.disruption.candidates import Blocked, Why
from karpenter.disruption.context import DisruptionSettings
from karpenter.model import labels as keys
from karpenter.scheduling.static_pools import plan_static
from karpenter.state.nodes import StateNode

FIRST: Final = DisruptionSettings(terminate_first_drift=True)
RESERVED_ONLY: Final = (expression(keys.CAPACITY_TYPE, "In", keys.RESERVED),)
PROTECTED: Final = {keys.DO_NOT_DISRUPT: "true"}


def drifted(minutes: int = 60) -> Condition:
    return condition("Drifted", at=NOW - timedelta(minutes=minutes))


@pytest.mark.case("DIS-221")
def test_pods_that_fit_elsewhere_need_no_replacement() -> None:
    nodes = [machine("n1", pod_on("a"), claim_conditions=[drifted()]), machine("n2", pod_on("b"))]

    command = only(found_by("drift", *nodes))

    assert ("drift", "Drifted", "delete") == (command.method, command.reason, command.decision)
    assert {"n2": ("default/a",)} == command.placements


@pytest.mark.case("DIS-222")
def test_a_replacement_may_cost_anything() -> None:
    types = [kind("dear", 4, price=99.0)]
    nodes = machine("n1", pod_on("a"), claim_conditions=[drifted()])

    command = only(found_by("drift", nodes, types=types))

    assert ("replace", ("dear",)) == (command.decision, command.replacements[0].instance_types)


@pytest.mark.case("DIS-223")
def test_one_machine_may_need_three() -> None:
    nodes = machine(
        "n1", *pods_on(3, "a", cpu="3"), instance_type="s16", claim_conditions=[drifted()]
    )

    command = only(found_by("drift", nodes, types=[kind("s4", 4)]))

    assert 3 == len(command.replacements)


@pytest.mark.case("DIS-224")
def test_a_machine_without_pods_goes_first() -> None:
    nodes = [
        machine("old", pod_on("a"), claim_conditions=[drifted(90)]),
        machine("empty", claim_conditions=[drifted(5)]),
    ]

    assert ["empty"] == going(found_by("drift", *nodes))


@pytest.mark.case("DIS-225")
def test_else_the_one_that_drifted_first() -> None:
    nodes = [
        machine("a", pod_on("p"), claim_conditions=[drifted(30)]),
        machine("b", pod_on("q"), claim_conditions=[drifted(90)]),
    ]

    assert ["b"] == going(found_by("drift", *nodes))


@pytest.mark.case("DIS-226")
def test_one_that_cannot_go_does_not_hold_up_the_next() -> None:
    nodes = [
        machine("a", pod_on("p", node_selector={keys.ZONE: "z9"}), claim_conditions=[drifted(90)]),
        machine("b", pod_on("q"), claim_conditions=[drifted(30)]),
    ]

    found = found_by("drift", *nodes)

    assert ["b"] == going(found)
    assert ("Unschedulable", "no place for default/p", True) == (
        found.verdicts["a"].why,
        found.verdicts["a"].detail,
        found.verdicts["a"].has_event,
    )


def test_a_machine_waits_for_one_that_is_coming_up_with_room_for_its_pods() -> None:
    nodes = [
        machine("n1", pod_on("a"), claim_conditions=[drifted()]),
        machine("new", initialized=False),
    ]

    found = found_by("drift", *nodes)

    assert [] == going(found)
    detail = "default/a would have to wait for new, not up yet"
    assert Blocked("n1", Why.UNSCHEDULABLE, detail) == found.verdicts["n1"]


@pytest.mark.parametrize("waiting", [False, True], ids=["that have to move", "that wait"])
@pytest.mark.parametrize("name", ["a", "z"], ids=["before its own", "after its own"])
def test_a_machine_does_not_wait_for_one_that_is_taken_by_pods(waiting: bool, name: str) -> None:
    """Whichever of them come first in the queue."""
    nodes = [
        machine("n1", pod_on("m", cpu="3"), claim_conditions=[drifted()]),
        machine("new", initialized=False),
    ]
    leaving = [] if waiting else [machine("x", pod_on(name, cpu="3"), marked=True)]
    pods = [pod(name, cpu="3")] if waiting else []

    command = only(found_by("drift", *nodes, *leaving, pods=pods))

    assert ("replace", ("n1",), 1) == (
        command.decision,
        command.names,
        len(command.replacements),
    )
    assert ("default/m",) == command.replacements[0].pods
    assert {"new": (f"default/{name}",)} == command.placements


@pytest.mark.case("DIS-227")
@pytest.mark.parametrize("said", [[], [condition("Drifted", "False", at=LONG_AGO)]])
def test_what_has_not_drifted_is_passed_over(said: list[Condition]) -> None:
    found = found_by("drift", machine("n1", pod_on("p"), claim_conditions=said))

    assert ([], 0) == (going(found), found.eligible)


@pytest.mark.case("DIS-228")
def test_drift_does_not_ask_about_consolidation() -> None:
    nodes = machine("n1", pod_on("p"), claim_conditions=[drifted()], without=["Consolidatable"])

    assert ["n1"] == going(decided(nodes, pools=[pool(after="Never")]))


@pytest.mark.case("DIS-229")
def test_a_protected_pod_gets_no_room_beforehand() -> None:
    nodes = machine(
        "n1",
        pod_on("p", annotations=PROTECTED),
        claim_conditions=[drifted()],
        grace_period="1h",
    )

    command = only(found_by("drift", nodes))

    assert ("delete", ()) == (command.decision, command.replacements)


@pytest.mark.case("DIS-230")
def test_nor_does_one_whose_budget_never_gives_way() -> None:
    nodes = machine("n1", pod_on("p"), claim_conditions=[drifted()], grace_period="1h")

    command = only(found_by("drift", nodes, pdbs=[pdb_of(0, max_unavailable=0)]))

    assert ("delete", ()) == (command.decision, command.replacements)


@pytest.mark.case("DIS-232")
def test_no_more_at_a_time_than_budgets_allow() -> None:
    nodes = [
        machine(f"n{n}", pod_on(f"p{n}", cpu="3"), claim_conditions=[drifted()]) for n in range(10)
    ]

    plan = planned(*nodes, pools=[pool(requirements=ON_DEMAND_ONLY, budgets=["30%"])])

    assert ["n0", "n1", "n2"] == going(plan)
    assert [1, 1, 1] == [len(command.replacements) for command in plan.commands]
    assert {"Budget"} == {verdict.why for verdict in plan.blocked}
    assert 7 == len(plan.blocked)


def test_a_replacement_is_not_made_for_pods_that_wait_anyway() -> None:
    nodes = machine("n1", claim_conditions=[drifted()])

    command = only(found_by("drift", nodes, pods=[pod("waits", cpu="1")]))

    assert ("delete", ()) == (command.decision, command.replacements)


def full(capacity: int = 0, **ways: float) -> list[InstanceType]:
    """A type that can be had on a reservation, and perhaps on demand."""
    also = [offering("z1", keys.ON_DEMAND, ways["on_demand"])] if ways else []
    return [kind("s4", 4, ways=also, reservations=[reserved("r-1", capacity)])]


@pytest.mark.case("V15-D37")
@pytest.mark.parametrize(
    ("settings", "decision"),
    [
        pytest.param(DisruptionSettings(), None, id="without the gate it stays"),
        pytest.param(FIRST, "terminate-first", id="with it, it goes first"),
    ],
)
def test_a_full_reservation(settings: DisruptionSettings, decision: str | None) -> None:
    nodes = reserved_on("n1", "r-1", pod_on("p"), claim_conditions=[drifted()])

    found = found_by("drift", nodes, types=full(), settings=settings)

    if decision is None:
        assert [] == going(found)
        assert "Unschedulable" == found.verdicts["n1"].why
    else:
        command = only(found)
        assert (decision, "no-reserved-capacity", ()) == (
            command.decision,
            command.terminate_first_reason,
            command.replacements,
        )


@pytest.mark.case("V15-D38")
def test_what_can_be_had_on_demand_is_replaced_first() -> None:
    nodes = reserved_on("n1", "r-1", pod_on("p"), claim_conditions=[drifted()])

    command = only(found_by("drift", nodes, types=full(on_demand=1.0), settings=FIRST))

    assert ("replace", 1) == (command.decision, len(command.replacements))


@pytest.mark.case("V15-D38")
def test_one_slot_is_not_enough_for_two_machines() -> None:
    nodes = reserved_on(
        "n1",
        "r-1",
        *pods_on(2, "p", cpu="3"),
        claim_conditions=[drifted()],
        instance_type="s8",
    )

    found = found_by("drift", nodes, types=[*full(), kind("s8", 8, ways=())], settings=FIRST)

    assert [] == going(found)


@pytest.mark.case("V15-D38")
def test_a_reservation_that_is_not_on_offer_gives_nothing_back() -> None:
    gone = offering(
        "z1", keys.RESERVED, 0.1, available=False, reservation_id="r-1", reservation_capacity=0
    )
    types = [kind("s4", 4, ways=(), reservations=[gone])]
    nodes = reserved_on("n1", "r-1", pod_on("p"), claim_conditions=[drifted()])

    assert [] == going(found_by("drift", nodes, types=types, settings=FIRST))


def static_nodes(count: int) -> list[StateNode]:
    return [machine(f"n{n}", pod_on(f"p{n}"), claim_conditions=[drifted()]) for n in range(count)]


@pytest.mark.parametrize(
    ("limit", "replicas", "budget", "count"),
    [
        pytest.param("5", 5, "100%", 0, id="DIS-258 at its limit nothing can be replaced"),
        pytest.param("7", 5, "100%", 2, id="DIS-259 as many as the limit leaves"),
        pytest.param("7", 4, "100%", 0, id="DIS-260 what is too many goes first"),
        pytest.param(None, 5, "100%", 5, id="without a limit all at once"),
        pytest.param(None, 5, "2", 2, id="within budgets"),
    ],
)
def test_static_drift(limit: str | None, replicas: int, budget: str, count: int) -> None:
    limits = {"nodes": limit} if limit else {}
    fixed = pool(replicas=replicas, limits=limits, budgets=[budget])

    found = found_by("static-drift", *static_nodes(5), pools=[fixed])

    assert count == len(found.commands)
    assert {"replace"} >= {command.decision for command in found.commands}
    assert all(len(c.candidates) == len(c.replacements) == 1 for c in found.commands)


def test_a_static_replacement_comes_straight_from_the_template() -> None:
    fixed = pool(replicas=1, requirements=ON_DEMAND_ONLY)

    command = only(found_by("static-drift", *static_nodes(1), pools=[fixed]))

    (claim,) = command.replacements
    assert ((), (), "np") == (claim.instance_types, claim.pods, claim.node_pool)
    assert {"on-demand"} == set(claim.requirements[keys.CAPACITY_TYPE].values)
    assert "s1" == claim.launch.instance_type  # type: ignore[union-attr]
    assert keys.NODEPOOL_HASH in claim.annotations


def test_a_static_pool_whose_budget_is_closed_is_told() -> None:
    fixed = pool(replicas=2, budgets=["0"])

    found = found_by("static-drift", *static_nodes(2), pools=[fixed])
    at_rest = found_by("static-drift", machine("n1"), pools=[fixed])

    assert [] == going(found)
    assert ["NodePool/np"] == [event.target for event in found.events]
    assert () == at_rest.events


def test_a_search_for_drift_that_nobody_waits_for_ends() -> None:
    nodes = machine("n1", pod_on("p"), claim_conditions=[drifted()])

    found = found_by("drift", nodes, timer=lambda method: lambda: False)

    assert ([], True) == (going(found), found.has_timed_out)


def test_dynamic_drift_leaves_static_pools_alone() -> None:
    assert [] == going(found_by("drift", *static_nodes(2), pools=[pool(replicas=2)]))


@pytest.mark.case("DIS-260")
def test_a_static_pool_waits_for_the_replacements_it_has_begun() -> None:
    nodes = static_nodes(3)
    leaving = machine("x", pod_on("x"), claim_conditions=[drifted()], marked=True)
    replacement = machine("new", without=["Drifted"])

    def begun(*machines: StateNode) -> list[str]:
        return going(found_by("static-drift", *nodes, *machines, pools=[pool(replicas=4)]))

    assert [] == begun(leaving, replacement)
    assert ["n0", "n1", "n2"] == begun(replacement)


def test_claims_without_a_machine_take_up_slots() -> None:
    fixed = pool(replicas=6, limits={"nodes": "7"})

    found = found_by(
        "static-drift", *static_nodes(5), pools=[fixed], unlaunched=[node_claim("on-its-way")]
    )

    assert 1 == len(found.commands)


@pytest.mark.case("V15-D39")
@pytest.mark.parametrize(
    ("settings", "conditions", "decisions", "has_event"),
    [
        pytest.param(DisruptionSettings(), (READY,), [], True, id="without the gate they stay"),
        pytest.param(FIRST, (READY,), ["static-at-limit"] * 3, False, id="with it they go first"),
        pytest.param(FIRST, (), [], True, id="unless the pool is not ready"),
    ],
)
def test_a_static_pool_at_its_limit(
    settings: DisruptionSettings,
    conditions: tuple[Condition, ...],
    decisions: list[str],
    has_event: bool,
) -> None:
    fixed = pool(replicas=3, limits={"nodes": "3"}, conditions=conditions)

    found = found_by("static-drift", *static_nodes(3), pools=[fixed], settings=settings)

    assert decisions == [command.terminate_first_reason for command in found.commands]
    assert has_event == any(verdict.has_event for verdict in found.verdicts.values())


@pytest.mark.case("V15-D40")
def test_who_holds_a_slot_goes_and_who_does_not_stays() -> None:
    fixed = pool(replicas=2, requirements=RESERVED_ONLY)
    nodes = [
        machine("a", claim_conditions=[drifted(90)]),
        reserved_on("b", "r-1", claim_conditions=[drifted(30)]),
    ]

    found = found_by("static-drift", *nodes, pools=[fixed], types=full(), settings=FIRST)

    assert ["b"] == going(found)
    assert "no-reserved-capacity" == only(found).terminate_first_reason
    assert "reservations" in found.verdicts["a"].detail


@pytest.mark.case("V15-D40")
def test_the_holder_comes_first_within_a_budget() -> None:
    fixed = pool(replicas=2, requirements=RESERVED_ONLY, budgets=["1"])
    nodes = [
        machine("a", claim_conditions=[drifted(90)]),
        reserved_on("b", "r-1", claim_conditions=[drifted(30)]),
    ]

    found = found_by("static-drift", *nodes, pools=[fixed], types=full(), settings=FIRST)

    assert (["b"], "Budget") == (going(found), found.verdicts["a"].why)


def shrunk(replicas: int, *nodes: StateNode) -> list[str]:
    (outcome,) = plan_static([pool(replicas=replicas)], snapshot(*nodes), now=NOW)
    return list(outcome.delete)


@pytest.mark.case("DIS-254")
def test_nodes_without_pods_but_daemons_go_first() -> None:
    daemon = [owner("DaemonSet", "logs")]
    busy = [machine(f"b{n}", pod_on(f"p{n}")) for n in range(6)]
    idle = [machine(f"i{n}", pod_on(f"d{n}", owners=daemon)) for n in range(2)]

    assert ["i0", "i1"] == shrunk(6, *busy, *idle)


@pytest.mark.case("DIS-255")
def test_claims_without_a_machine_go_before_every_node() -> None:
    idle = machine("idle")
    fixed = pool(replicas=2)
    coming = [node_claim("b-coming"), node_claim("a-coming")]

    def shrunk_to(replicas: int) -> list[str]:
        view = snapshot(idle, machine("busy", pod_on("p")), unlaunched=coming, pools=[fixed])
        (outcome,) = plan_static([pool(replicas=replicas)], view, now=NOW)
        return list(outcome.delete)

    assert ["a-coming"] == shrunk_to(3)
    assert ["a-coming", "b-coming"] == shrunk_to(2)
    assert ["a-coming", "b-coming", "idle"] == shrunk_to(1)


@pytest.mark.case("DIS-256")
def test_in_the_end_protected_nodes_go_too() -> None:
    nodes = [
        machine("a", pod_on("p", annotations=PROTECTED)),
        machine("b", pod_on("q")),
    ]

    assert ["b", "a"] == shrunk(0, *nodes)


@pytest.mark.case("DIS-257")
def test_no_budget_keeps_a_static_pool_from_shrinking() -> None:
    fixed = pool(replicas=1, budgets=["0"])

    plan = planned(machine("a", pod_on("p")), machine("b"), pools=[fixed])

    assert [("static", ("b",))] == [(c.method, c.names) for c in plan.commands]


@pytest.mark.case("DIS-261")
def test_a_static_node_is_never_consolidated() -> None:
    plan = planned(machine("a", pod_on("p"), instance_type="s32"), pools=[pool(replicas=1)])

    assert ([], [("StaticNodePool", False)]) == (
        going(plan),
        [(verdict.why, verdict.has_event) for verdict in plan.blocked],
    )
