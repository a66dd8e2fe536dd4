"""What each method reports besides its commands: whom it could look at, and what held it up."""

from dataclasses import replace
from typing import Final

import pytest

from helpers.builders import condition, expression, owner, reserved, unmanaged_node
from helpers.disruption import (
    DisruptionInputs,
    catalogue_of,
    context_of,
    found_by,
    going,
    only,
    planned,
)
from helpers.disruption_objects import (
    LONG_AGO,
    ON_DEMAND_ONLY,
    kind,
    machine,
    pod_on,
    pool,
    reserved_on,
)
from karpenter.api.karpenter import NodePool, NodeRequirement
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.disruption.methods.static_drift import find_static_drift
from karpenter.model import labels as keys
from karpenter.scheduling.problem import Options
from karpenter.state.nodes import StateNode

DRIFTED: Final = condition("Drifted", at=LONG_AGO)
DAEMON: Final = [owner("DaemonSet", "logs")]
FULL: Final = [kind("s4", 4, ways=(), reservations=[reserved("r-1", 0)])]
NOWHERE: Final = {keys.ZONE: "z9"}
METHODS: Final = ("empty", "static-drift", "drift", "multi", "single")


def eligible_for(method: str, count: int = 3) -> list[StateNode]:
    """Machines that a method would take."""
    said = [DRIFTED] if method.endswith("drift") else []
    return [
        machine(f"n{n}", *([] if method == "empty" else [pod_on(f"p{n}")]), claim_conditions=said)
        for n in range(count)
    ]


def pool_for(method: str, budget: str) -> NodePool:
    if method == "static-drift":
        return pool(budgets=[budget], replicas=3)
    return pool(budgets=[budget], requirements=ON_DEMAND_ONLY)


@pytest.mark.case("DIS-136")
@pytest.mark.parametrize("method", METHODS)
def test_a_closed_budget_is_told_by_whom_it_holds_up(method: str) -> None:
    found = found_by(method, *eligible_for(method), pools=[pool_for(method, "0")])

    assert ([], 3) == (going(found), found.eligible)
    assert dict.fromkeys(("n0", "n1", "n2"), ("Budget", False)) == {
        name: (verdict.why, verdict.has_event) for name, verdict in found.verdicts.items()
    }
    assert [("NodePool/np", "DisruptionBlocked", False)] == [
        (event.target, event.reason, event.is_warning) for event in found.events
    ]


@pytest.mark.case("DIS-136")
def test_pools_with_closed_budgets_are_told_by_name_unless_they_have_no_nodes() -> None:
    nodes = [machine(f"{name}1", pool=name) for name in "abc"]
    pools = [pool("c", budgets=["0"]), pool("b"), pool("a", budgets=["0"])]

    found = found_by("empty", *nodes, pools=[*pools, pool("unused", budgets=["0"])])

    assert ["b1"] == going(found)
    assert ["NodePool/a", "NodePool/c"] == [event.target for event in found.events]


@pytest.mark.case("DIS-136")
@pytest.mark.parametrize("method", METHODS)
def test_a_closed_budget_that_holds_up_nobody_is_not_told(method: str) -> None:
    kept = machine("n1", pod_on("p"), annotations={keys.DO_NOT_DISRUPT: "true"})

    found = found_by(method, kept, pools=[pool_for(method, "0")])

    assert ((), (), 0) == (found.commands, found.events, found.eligible)


@pytest.mark.case("DIS-211")
@pytest.mark.parametrize(
    ("method", "budget", "count", "is_constrained"),
    [
        pytest.param("empty", "3", 3, False, id="DIS-121 empty machines within the budget"),
        pytest.param("empty", "2", 2, True, id="DIS-121 more of them than the budget allows"),
        pytest.param("multi", "3", 3, False, id="several machines within the budget"),
        pytest.param("multi", "2", 2, True, id="more of them than the budget allows"),
        pytest.param("multi", "1", 0, True, id="one is not several"),
        pytest.param("single", "1", 1, False, id="one at a time within the budget"),
    ],
)
def test_what_a_budget_kept_from_looking_says_so(
    method: str, budget: str, count: int, is_constrained: bool
) -> None:
    nodes = [*eligible_for(method), unmanaged_node("other")]

    found = found_by(method, *nodes, pools=[pool_for(method, budget)])

    assert (count, is_constrained) == (len(going(found)), found.is_constrained)


@pytest.mark.case("DIS-133")
def test_several_machines_of_several_pools_go_within_the_budget_of_each() -> None:
    nodes = [
        machine(f"{name}{n}", pod_on(f"p-{name}{n}"), pool=name) for name in "ab" for n in range(3)
    ]
    pools = [pool("a", budgets=["1"]), pool("b", budgets=["2"])]

    found = found_by("multi", *nodes, unmanaged_node("other"), pools=pools)

    assert ["a0", "b0", "b1"] == going(found)
    assert {"a1": "Budget", "a2": "Budget", "b2": "Budget"} == {
        name: verdict.why for name, verdict in found.verdicts.items()
    }


@pytest.mark.case("DIS-224")
def test_daemons_are_nobody_to_move() -> None:
    daemon = machine("b", pod_on("d", owners=DAEMON), claim_conditions=[DRIFTED])
    nodes = [machine("a", pod_on("p"), claim_conditions=[DRIFTED]), daemon]

    assert ["b"] == going(found_by("drift", *nodes))


@pytest.mark.case("DIS-226")
def test_the_pods_of_every_next_machine_need_a_place_too() -> None:
    stuck = [
        machine(name, pod_on(name, cpu="3", node_selector=NOWHERE), claim_conditions=[DRIFTED])
        for name in ("a", "b")
    ]
    nodes = [*stuck, machine("c", pod_on("c", cpu="3"), claim_conditions=[DRIFTED])]

    found = found_by("drift", *nodes)

    assert ["a", "b"] == sorted(found.verdicts)
    assert ("replace", ("c",)) == (only(found).decision, only(found).names)


@pytest.mark.case("DIS-225")
def test_what_drifted_at_no_known_time_did_so_first() -> None:
    nodes = [
        machine("a", pod_on("p"), claim_conditions=[DRIFTED]),
        machine("b", pod_on("q"), claim_conditions=[condition("Drifted")]),
    ]

    assert ["b"] == going(found_by("drift", *nodes))


@pytest.mark.parametrize(
    ("method", "why"),
    [
        pytest.param("drift", "Unschedulable", id="drift"),
        pytest.param("single", "Unconsolidatable", id="single"),
    ],
)
def test_without_a_pool_that_is_ready_nobody_moves(method: str, why: str) -> None:
    nodes = machine("n1", pod_on("p"), claim_conditions=[DRIFTED])

    verdict = found_by(method, nodes, pools=[pool(conditions=[])]).verdicts["n1"]

    assert (why, "no dynamic node pool is ready") == (verdict.why, verdict.detail)


@pytest.mark.case("DIS-184")
@pytest.mark.parametrize("method", ["drift", "single"])
def test_a_replacement_must_leave_as_much_choice_as_its_pool_asks_for(method: str) -> None:
    """The claim could be any of six types, but only one is written on it."""
    choice = NodeRequirement(keys.INSTANCE_TYPE, "Exists", min_values=2)
    world: DisruptionInputs = {
        "pools": [pool(requirements=[choice, *ON_DEMAND_ONLY])],
        "options": Options(most_instance_types=1),
    }
    nodes = machine("n1", pod_on("p"), instance_type="s8", claim_conditions=[DRIFTED])

    found = found_by(method, nodes, **world)

    assert [] == going(found)
    assert "choice" in found.verdicts["n1"].detail


@pytest.mark.case("V15-D37")
def test_only_a_reservation_can_be_given_back() -> None:
    stuck = machine("n1", pod_on("p", node_selector=NOWHERE), claim_conditions=[DRIFTED])

    found = found_by("drift", stuck, settings=DisruptionSettings(terminate_first_drift=True))

    assert ([], "Unschedulable") == (going(found), found.verdicts["n1"].why)


@pytest.mark.case("V15-D37")
def test_pods_that_fit_elsewhere_have_their_place_there() -> None:
    going_first = reserved_on(
        "n1", "r-1", pod_on("a", cpu="3"), pod_on("b"), claim_conditions=[DRIFTED]
    )

    found = found_by(
        "drift",
        going_first,
        machine("n2", pod_on("c", cpu="3")),
        types=FULL,
        settings=DisruptionSettings(terminate_first_drift=True),
    )

    command = only(found)
    assert ("terminate-first", {"n2": ("default/b",)}) == (command.decision, command.placements)


def test_methods_take_turns_in_their_order() -> None:
    nodes = [
        machine("a", pod_on("p", cpu="3"), claim_conditions=[DRIFTED]),
        machine("b", pod_on("q", cpu="3"), pool="fixed", claim_conditions=[DRIFTED]),
        machine("c"),
    ]
    pools = [pool(requirements=ON_DEMAND_ONLY), pool("fixed", replicas=1)]

    plan = planned(*nodes, pools=pools)

    assert [("empty", "c"), ("static-drift", "b"), ("drift", "a")] == [
        (command.method, *command.names) for command in plan.commands
    ]


@pytest.mark.parametrize("method", METHODS)
def test_what_metrics_call_a_method(method: str) -> None:
    found = found_by(method, *eligible_for(method), pools=[pool_for(method, "100%")])

    name = "" if method.endswith("drift") else method
    assert {name} == {
        found.consolidation_type,
        *(each.consolidation_type for each in found.commands),
    }


@pytest.mark.case("DIS-208")
def test_what_was_looked_at_in_time_keeps_its_verdict() -> None:
    looks = iter([True, False])
    nodes = [machine(name, pod_on(f"p-{name}", node_selector=NOWHERE)) for name in ("a", "b")]

    found = found_by("single", *nodes, timer=lambda method: lambda: next(looks))

    assert {
        "a": ("Unconsolidatable", "no place for default/p-a", True),
        "b": ("NotEvaluated", "the search ended before its turn came", False),
    } == {name: (each.why, each.detail, each.has_event) for name, each in found.verdicts.items()}


@pytest.mark.case("DIS-208")
def test_a_pool_whose_turn_was_not_needed_is_not_unseen() -> None:
    nodes = [machine(f"{name}1", pod_on(f"p-{name}"), pool=name) for name in "ab"]

    found = found_by("single", *nodes, unmanaged_node("other"), pools=[pool("a"), pool("b")])

    assert (["a1"], frozenset()) == (going(found), found.unseen_pools)


@pytest.mark.parametrize(
    ("other_type", "scores"),
    [
        pytest.param("s32", [(0.22, False)], id="DIS-220 what could not be worth it"),
        pytest.param("s4", [(1.0, True)], id="DIS-216 what is worth it"),
    ],
)
def test_every_move_that_is_weighed_is_reported(
    other_type: str, scores: list[tuple[float, bool]]
) -> None:
    dear = machine("b", pod_on("q", node_selector=NOWHERE), instance_type=other_type)
    cheap = machine("a", pod_on("p"))
    weighing = pool(policy="Balanced", requirements=ON_DEMAND_ONLY)

    found = found_by("single", cheap, dear, unmanaged_node("other"), pools=[weighing])

    assert scores == [(round(each.value, 2), each.is_approved) for each in found.scores]


def static_nodes(*names: str, pool: str = "np") -> list[StateNode]:
    return [
        machine(name, pod_on(f"p-{name}"), pool=pool, claim_conditions=[DRIFTED]) for name in names
    ]


@pytest.mark.case("DIS-252")
def test_static_drift_has_a_gate() -> None:
    view = context_of(*static_nodes("n1"), pools=[pool(replicas=1)])
    closed = replace(view.settings, planning=replace(view.settings.planning, static=False))

    found = find_static_drift(
        DisruptionContext(view.snapshot, catalogue_of({}), view.facts, closed, now=view.now)
    )

    assert ([], 0) == (going(found), found.eligible)


def test_static_pools_drift_by_name_and_each_node_has_its_price() -> None:
    nodes = [*static_nodes("b1", pool="b"), *static_nodes("a1", pool="a")]

    found = found_by("static-drift", *nodes, pools=[pool(n, replicas=1) for n in "ba"])

    assert (["a1", "b1"], 2) == (going(found), found.eligible)
    assert [0.37, 0.37] == [round(command.savings, 6) for command in found.commands]


@pytest.mark.case("DIS-259")
def test_what_the_limit_leaves_no_room_for_waits_in_silence() -> None:
    fixed = pool(replicas=3, limits={"nodes": "4"}, budgets=["2"])

    found = found_by("static-drift", *static_nodes("n1", "n2", "n3"), pools=[fixed])

    assert ["n1"] == going(found)
    assert {
        "n2": ("Unschedulable", "its NodePool has as many nodes as limits.nodes allows", False),
        "n3": ("Budget", "the budgets of NodePool np allow no more disruptions now", False),
    } == {name: (each.why, each.detail, each.has_event) for name, each in found.verdicts.items()}


@pytest.mark.case("DIS-260")
def test_scaling_down_comes_before_drift_in_silence() -> None:
    found = found_by("static-drift", *static_nodes("n1", "n2"), pools=[pool(replicas=1)])

    assert {
        (
            "StaticNodePool",
            "its NodePool has more nodes than replicas, which is seen to first",
            False,
        )
    } == {(each.why, each.detail, each.has_event) for each in found.verdicts.values()}


@pytest.mark.case("V15-D40")
@pytest.mark.parametrize(
    ("is_gate_on", "decision", "verdicts"),
    [
        pytest.param(True, "terminate-first", {"n2": "Budget"}, id="one holder at a time"),
        pytest.param(False, "replace", {"n2": "Budget"}, id="the gate is off"),
    ],
)
def test_a_static_pool_that_lives_on_a_full_reservation(
    is_gate_on: bool, decision: str, verdicts: dict[str, str]
) -> None:
    requirements = [expression(keys.CAPACITY_TYPE, "In", keys.RESERVED)]
    nodes = [
        reserved_on(name, "r-1", pod_on(f"p-{name}"), claim_conditions=[DRIFTED])
        for name in ("n1", "n2")
    ]

    found = found_by(
        "static-drift",
        *nodes,
        pools=[pool(replicas=2, requirements=requirements, budgets=["1"])],
        types=FULL,
        settings=DisruptionSettings(terminate_first_drift=is_gate_on),
    )

    assert (decision, ("n1",)) == (only(found).decision, only(found).names)
    assert verdicts == {name: verdict.why for name, verdict in found.verdicts.items()}
