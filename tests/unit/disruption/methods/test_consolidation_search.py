"""Groups N and O: which machines are tried together, in which order, and what is worth it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from helpers.builders import condition, unmanaged_node
from helpers.disruption import DisruptionInputs, context_of, decided, found_by, going, only, planned
from helpers.disruption_objects import (
    LONG_AGO,
    OD_POOL,
    ON_DEMAND_ONLY,
    TYPES,
    kind,
    machine,
    on_demand,
    pod_on,
    pods_on,
    pool,
    spot,
)
from karpenter.disruption.candidates import Candidate, Kind
from karpenter.disruption.commands import Command, Decision
from karpenter.disruption.context import DisruptionContext, Memory
from karpenter.disruption.methods.balanced import best_score, score, score_of
from karpenter.disruption.methods.replacements import Refused
from karpenter.disruption.methods.single_node import in_turns
from karpenter.disruption.plan import Search, next_commands
from karpenter.scheduling.attempt import HasTime
from karpenter.state.nodes import StateNode


def expiring_after(looks: int, method: str) -> Callable[[str], HasTime]:
    """A timer under which one method may look so many times."""
    left = [looks]

    def has_time() -> bool:
        left[0] -= 1
        return left[0] >= 0

    return lambda name: has_time if name == method else (lambda: True)


def candidates_of(view: DisruptionContext) -> dict[str, Candidate]:
    return {each.name: each for each in view.candidates(Kind.GRACEFUL)}


@pytest.mark.case("DIS-203")
def test_three_half_empty_machines_become_one() -> None:
    nodes = [machine(f"n{n}", pod_on(f"p{n}", cpu="9"), instance_type="s16") for n in range(3)]
    types = [kind("s16", 16), kind("s20", 20), kind("s32", 32)]

    command = only(decided(*nodes, pools=[OD_POOL], types=types))

    assert ("multi", "replace") == (command.method, command.decision)
    assert 3 == len(command.candidates)
    assert ("s32",) == command.replacements[0].instance_types
    assert 1.6 == pytest.approx(command.savings)


@pytest.mark.case("DIS-204")
def test_two_of_the_cheapest_do_not_become_one_of_the_same() -> None:
    nodes = [machine(f"n{n}", pod_on(f"p{n}", cpu="400m"), instance_type="s1") for n in range(2)]

    assert [] == going(found_by("multi", *nodes, pools=[OD_POOL]))
    assert "delete" == only(found_by("single", *nodes, pools=[OD_POOL])).decision


@pytest.mark.case("DIS-205")
def test_what_could_have_stayed_is_no_replacement() -> None:
    types = [kind("small", 4, ways=[on_demand(1.0)]), kind("big", 8, ways=[on_demand(2.0)])]
    nodes = [
        machine("b1", pod_on("p1", cpu="1"), instance_type="big", types=types),
        machine("b2", pod_on("p2", cpu="1"), instance_type="big", types=types),
        machine("s1", pod_on("p3", cpu="1"), instance_type="small", types=types),
    ]

    found = context_of(*nodes, types=types, pools=[OD_POOL])
    consolidation = Search(found).consolidation
    together = consolidation.command("multi", consolidation.candidates)

    assert ["b1", "b2", "s1"] == [each.name for each in consolidation.candidates]
    assert isinstance(together, Refused)
    assert together.detail.endswith("small (on-demand, z1) at $1/h, not below $1/h")


def test_a_machine_that_nobody_can_price_may_go_together_with_others() -> None:
    types = [kind("small", 4, ways=[on_demand(1.0)]), kind("big", 8, ways=[on_demand(2.0)])]
    nodes = [
        machine("b1", pod_on("p1", cpu="2"), instance_type="big", types=types),
        machine("b2", pod_on("p2", cpu="4"), instance_type="big", types=types),
        machine("x", pod_on("p3", cpu="1"), instance_type="small", types=types, zone="z9"),
    ]
    consolidation = Search(context_of(*nodes, types=types, pools=[OD_POOL])).consolidation

    together = consolidation.command("multi", consolidation.candidates)

    assert ["b1", "b2", "x"] == [each.name for each in consolidation.candidates]
    assert isinstance(together, Refused)
    assert together.detail.endswith("big (on-demand, z1) at $2/h, not below $2/h")


@pytest.mark.case("DIS-206")
def test_unless_there_is_something_cheaper_still() -> None:
    types = [
        kind("nano", 4, ways=[on_demand(0.5)]),
        kind("small", 4, ways=[on_demand(1.0)]),
        kind("big", 8, ways=[on_demand(2.0)]),
    ]
    nodes = [
        machine("b1", pod_on("p1", cpu="1"), instance_type="big", types=types),
        machine("b2", pod_on("p2", cpu="1"), instance_type="big", types=types),
        machine("s1", pod_on("p3", cpu="1"), instance_type="small", types=types),
    ]

    command = only(found_by("multi", *nodes, types=types, pools=[OD_POOL]))

    assert 3 == len(command.candidates)
    assert ("nano",) == command.replacements[0].instance_types


def test_what_is_sold_on_demand_alone_could_have_stayed_too() -> None:
    """Asking for spot must not hide that the pods of both fit on one of them."""
    types = [
        kind("plain", 4, ways=[on_demand(0.1)]),
        kind("big", 8, ways=[on_demand(1), spot(0.3)]),
    ]
    nodes = [
        machine("p", pod_on("p1", cpu="1"), instance_type="plain", types=types),
        machine("b", pod_on("p2", cpu="1"), instance_type="big", types=types),
    ]

    command = only(decided(*nodes, types=types))

    assert ("single", "delete", ("b",)) == (command.method, command.decision, command.names)
    assert 1.0 == pytest.approx(command.savings)


@pytest.mark.parametrize(
    ("looks", "count"),
    [
        pytest.param(0, 0, id="DIS-207 without any time nothing is found"),
        pytest.param(1, 5, id="DIS-207 what was found before the end is used"),
        pytest.param(9, 8, id="given time, all go"),
    ],
)
def test_the_end_of_a_search_for_several(looks: int, count: int) -> None:
    nodes = [machine(f"n{n}", pod_on(f"p{n}", cpu="400m"), instance_type="s8") for n in range(8)]

    found = found_by("multi", *nodes, pools=[OD_POOL], timer=expiring_after(looks, "multi"))

    assert (count, count < 8) == (len(going(found)), found.has_timed_out)


@pytest.mark.parametrize("room", range(2, 9))
def test_as_many_go_together_as_there_is_room_for(room: int) -> None:
    """One more would need a machine like those that go, which could as well have stayed."""
    nodes = [machine(f"n{n}", pod_on(f"p{n}", cpu="3")) for n in range(8)]
    other = unmanaged_node("other", cpu=str(3 * room), memory="100Gi")

    found = found_by("multi", *nodes, other, pools=[OD_POOL], types=TYPES[2:3])

    assert room == len(going(found))
    assert "delete" == only(found).decision


def test_no_more_than_a_hundred_are_tried_together() -> None:
    nodes = [machine(f"n{n:03}", pod_on(f"p{n}", cpu="1m")) for n in range(120)]

    found = found_by("multi", *nodes, unmanaged_node("other", slots=500), pools=[OD_POOL])

    assert 100 == len(going(found))
    assert not found.is_constrained


def test_several_go_together_only_from_the_front_of_the_order() -> None:
    """The first two hold too much; of those behind them each goes, in a pass of its own."""
    full = [machine(f"a{n}", pod_on(f"p{n}", cpu="6"), instance_type="s8") for n in range(2)]
    spare = [machine(f"b{n}", *pods_on(4, f"q{n}", cpu="100m")) for n in range(3)]
    small: DisruptionInputs = {"pools": [OD_POOL], "types": TYPES[:4]}

    multi = found_by("multi", *full, *spare, **small)
    plan = planned(*full, *spare, **small)

    assert [] == going(multi)
    assert [("single", ("b0",)), ("single", ("b1",)), ("single", ("b2",))] == [
        (command.method, command.names) for command in plan.commands
    ]
    assert ["b0", "b1"] == going(found_by("multi", *spare[:2], unmanaged_node("other"), **small))


def stuck(name: str, node_pool: str) -> StateNode:
    """A machine that is as cheap as can be."""
    return machine(name, pod_on(f"p-{name}", cpu="800m"), instance_type="s1", pool=node_pool)


@pytest.mark.case("DIS-208")
def test_pools_that_were_not_reached_come_first_next_time() -> None:
    pools = [pool(name, requirements=ON_DEMAND_ONLY) for name in ("a", "b")]
    nodes = [stuck("a1", "a"), stuck("b1", "b")]

    found = found_by("single", *nodes, pools=pools, timer=expiring_after(1, "single"))

    assert (True, frozenset("b")) == (found.has_timed_out, found.unseen_pools)
    assert "NotEvaluated" == found.verdicts["b1"].why

    memory = Memory(unseen_pools=found.unseen_pools)
    again = found_by(
        "single", *nodes, pools=pools, timer=expiring_after(1, "single"), memory=memory
    )

    assert frozenset("a") == again.unseen_pools


@pytest.mark.case("DIS-209")
def test_a_small_pool_does_not_wait_for_a_large_one() -> None:
    nodes = [stuck(f"a{n:03}", "a") for n in range(100)] + [stuck("b", "b")]
    view = context_of(*nodes, pools=[pool("a"), pool("b")])

    ordered = in_turns(view.candidates(Kind.GRACEFUL))

    assert "b" in [candidate.name for candidate in ordered[:2]]
    assert len(nodes) == len(ordered)


@pytest.mark.parametrize(
    ("budget", "is_constrained"),
    [
        pytest.param("100%", False, id="DIS-210 what found nothing may be remembered"),
        pytest.param("0", True, id="DIS-211 what budgets kept from looking may not"),
    ],
)
def test_whether_nothing_to_do_may_be_remembered(budget: str, is_constrained: bool) -> None:
    pools = [pool(requirements=ON_DEMAND_ONLY, budgets=[budget])]

    findings = decided(stuck("n1", "np"), stuck("n2", "np"), pools=pools).findings

    found = {finding.method: finding.is_constrained for finding in findings}
    assert (is_constrained, is_constrained) == (found["multi"], found["single"])
    assert not any(finding.has_timed_out for finding in findings)


def test_methods_can_be_skipped() -> None:
    view = context_of(
        machine("n1"), machine("n2", pod_on("p"), instance_type="s8"), pools=[OD_POOL]
    )

    step = next_commands(Search(view), skip={"empty", "multi"})

    assert ("single", ["n2"]) == (only(step).method, going(step))


@pytest.mark.parametrize(
    ("savings", "disruption", "cost", "total", "worth"),
    [
        pytest.param(7.26, 3, 58.08, 80, 3.33, id="DIS-213 much for little"),
        pytest.param(2.42, 8, 58.08, 80, 0.42, id="DIS-214 little for much"),
        pytest.param(2.42, 8, 48.40, 80, 0.50, id="DIS-215 just enough"),
        pytest.param(1.0, 3, 1.0, 3, 1.0, id="DIS-216 all of a pool of one"),
        pytest.param(0.0, 3, 58.08, 80, 0.0, id="DIS-217 nothing saved"),
        pytest.param(-1.0, 3, 58.08, 80, 0.0, id="DIS-217 less than nothing saved"),
        pytest.param(-0.5, 3, 1.0, 80, 0.0, id="DIS-217 a little less than nothing saved"),
        pytest.param(1.0, 3, 0.0, 80, 0.0, id="a pool that costs nothing"),
        pytest.param(1.0, 3, 58.08, 0, 0.0, id="a pool that nobody would miss"),
        pytest.param(0.5, 0.5, 0.5, 1, 2.0, id="parts of a dollar, of one that a pod costs"),
        pytest.param(1.0, 0, 58.08, 80, float("inf"), id="nobody disturbed"),
    ],
)
def test_scores(savings: float, disruption: float, cost: float, total: float, worth: float) -> None:
    assert worth == pytest.approx(score(savings, disruption, cost, total), abs=0.005)


@pytest.mark.case("DIS-215")
def test_half_is_enough() -> None:
    pools = [pool(policy="Balanced", requirements=ON_DEMAND_ONLY)]
    nodes = [machine("n1", pod_on("p"), instance_type="s2"), machine("n2", pod_on("q"))]
    nodes += [machine("n3", pod_on("r"), instance_type="s2")]
    view = context_of(*nodes, pools=pools)

    found = score_of(view, "np", _delete(candidates_of(view)["n1"], savings=0.2 * 4 / 6))

    assert 0.5 == pytest.approx(found.value)
    assert found.is_approved


@pytest.mark.case("DIS-215")
def test_exactly_enough_is_enough_in_floats() -> None:
    """A fifth of the cost for two fifths of the trouble: 0.49999999999999994 as floats go."""
    types = [kind("cent", 4, price=0.01)]
    loads = [pods_on(3, "a"), pods_on(1, "b"), pods_on(1, "c"), [], []]
    nodes = [
        machine(f"n{n}", *pods, instance_type="cent", types=types) for n, pods in enumerate(loads)
    ]
    view = context_of(*nodes, pools=[pool(policy="Balanced")], types=types)

    best = best_score(view, candidates_of(view)["n0"])

    assert 0.4999 < best.value < 0.5
    assert best.is_approved


def test_what_the_whole_of_a_pool_costs() -> None:
    """A machine that nobody can price is disturbed for nothing; one without a claim is no part."""
    pools = [pool(policy="Balanced", requirements=ON_DEMAND_ONLY)]
    nodes = [machine("n1", pod_on("p")), machine("n2", pod_on("q"), zone="z9")]
    nodes += [replace(machine("n3", pod_on("r")), node_claim=None)]

    view = context_of(*nodes, pools=pools)

    cost, disruption = view.totals("np")
    assert 0.4 == pytest.approx(cost)
    assert 4.0 == disruption
    assert 2.0 == pytest.approx(best_score(view, candidates_of(view)["n1"]).value)


@pytest.mark.case("DIS-217")
def test_what_nobody_can_price_saves_nothing() -> None:
    pools = [pool(policy="Balanced", requirements=ON_DEMAND_ONLY)]
    nodes = [machine(f"n{n}", pod_on(f"p{n}"), zone="z9") for n in range(2)]

    found = found_by("multi", *nodes, unmanaged_node("other"), pools=pools)

    assert [] == going(found)
    assert [("np", 0.0, False)] == [(s.node_pool, s.value, s.is_approved) for s in found.scores]


@pytest.mark.case("DIS-216")
def test_the_only_machine_of_a_pool_may_go() -> None:
    pools = [pool(policy="Balanced", requirements=ON_DEMAND_ONLY), pool("other", after="Never")]
    nodes = [machine("n1", pod_on("p")), machine("big", pool="other", instance_type="s32")]

    command = only(found_by("single", *nodes, pools=pools))

    assert ("n1",) == command.names
    assert 1.0 == pytest.approx(command.score)


@pytest.mark.case("DIS-218")
def test_one_pool_that_refuses_is_enough() -> None:
    pools = [pool(name, policy="Balanced", requirements=ON_DEMAND_ONLY) for name in ("a", "b")]
    nodes = [
        machine("a1", pod_on("p"), pool="a", instance_type="s8"),
        machine("b1", *pods_on(9, "q", cpu="100m"), pool="b", instance_type="s1"),
        machine("b2", pool="b", instance_type="s32"),
    ]
    view = context_of(*nodes, pools=pools)
    found = candidates_of(view)
    move = Command(
        "multi", "Underutilized", Decision.DELETE, (found["a1"], found["b1"]), savings=0.9
    )

    judged, scores = Search(view).consolidation.judged(move)

    assert not isinstance(judged, Command)
    assert [("a", True), ("b", False)] == [(s.node_pool, s.is_approved) for s in scores]


@pytest.mark.case("DIS-219")
def test_pools_of_other_policies_are_not_asked() -> None:
    pools = [pool("a", policy="Balanced"), pool("b")]
    nodes = [machine("a1", pod_on("p"), pool="a"), machine("b1", pod_on("q"), pool="b")]
    view = context_of(*nodes, pools=pools)
    found = candidates_of(view)
    move = Command(
        "multi", "Underutilized", Decision.DELETE, (found["a1"], found["b1"]), savings=0.8
    )

    judged, scores = Search(view).consolidation.judged(move)

    assert isinstance(judged, Command)
    assert ["a"] == [each.node_pool for each in scores]
    assert 1.0 == pytest.approx(judged.score)


@pytest.mark.case("DIS-220")
def test_what_could_never_be_worth_it_is_not_even_tried() -> None:
    pools = [pool(policy="Balanced", requirements=ON_DEMAND_ONLY)]
    nodes = [
        machine("busy", *pods_on(9, "p", cpu="90m"), instance_type="s1"),
        machine("dear", pod_on("q", cpu="20"), instance_type="s32"),
    ]

    found = found_by("single", *nodes, pools=pools)
    view = context_of(*nodes, pools=pools)

    assert not best_score(view, candidates_of(view)["busy"]).is_approved
    assert "even removing it would score" in found.verdicts["busy"].detail
    assert not found.verdicts["busy"].has_event


@pytest.mark.case("DIS-231")
def test_what_is_empty_and_drifted_goes_as_empty() -> None:
    drifted = condition("Drifted", at=LONG_AGO)

    command = only(decided(machine("n1", claim_conditions=[drifted])))

    assert ("empty", "Empty") == (command.method, command.reason)


def _delete(candidate: Candidate, savings: float) -> Command:
    return Command("single", "Underutilized", Decision.DELETE, (candidate,), savings=savings)
