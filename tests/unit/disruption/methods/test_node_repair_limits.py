"""Where repair ends: machines that are not for it, pools without capacity, and what it reports."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from helpers.builders import FACTS_F, NOW, READY, condition, expression, launching_node, reserved
from helpers.disruption import catalogue_of, found_by, going, only, planned, snapshot
from helpers.disruption_objects import (
    ON_DEMAND_ONLY,
    kind,
    machine,
    pod_on,
    pods_on,
    pool,
    reserved_on,
)
from karpenter.api.karpenter import NodePool, NodeRequirement
from karpenter.cloud.provider import REBOOT_NODE, RepairPolicy
from karpenter.cloud.repair import RepairPolicies
from karpenter.disruption.commands import Finding
from karpenter.disruption.context import DisruptionContext, DisruptionSettings, Memory
from karpenter.disruption.methods.repair import find_repair
from karpenter.model import labels as keys
from karpenter.scheduling.problem import Options
from karpenter.scheduling.provisioning import PassSettings
from karpenter.state.eviction_cost import POD_DELETION_COST
from karpenter.state.nodes import StateNode

HOUR: Final = timedelta(hours=1)
ON: Final = DisruptionSettings(repair=True)
FIRST: Final = DisruptionSettings(repair=True, terminate_first_repair=True)
POLICIES: Final = RepairPolicies([RepairPolicy("BadNode", "True", timedelta(minutes=30))])
BAD: Final = condition("BadNode", at=NOW - HOUR)
FULL: Final = [kind("s4", 4, ways=(), reservations=[reserved("r-1", 0)])]
RESERVED_ONLY: Final = (expression(keys.CAPACITY_TYPE, "In", keys.RESERVED),)


def sick(name: str, *on: Any, **options: Any) -> StateNode:
    """An unhealthy machine, ready all the same."""
    return machine(name, *on, node_conditions=[READY, BAD], **options)


def well(count: int = 9) -> list[StateNode]:
    return [machine(f"ok{n}", pod_on(f"ok{n}", cpu="3")) for n in range(count)]


def repaired(*nodes: StateNode, **world: Any) -> Finding:
    world.setdefault("settings", ON)
    return found_by("repair", *nodes, policies=POLICIES, **world)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(launching_node("x"), None, id="a claim without a node shows no trouble"),
        pytest.param(
            replace(sick("x"), node_claim=None), None, id="a node without a claim is not ours"
        ),
        pytest.param(sick("x", pool="gone"), "NodePoolNotFound", id="its pool is gone"),
        pytest.param(
            sick("x", pool="", nominated_until=NOW + HOUR),
            "NodePoolNotFound",
            id="V15-D20 that it has no pool is seen first",
        ),
    ],
)
def test_what_is_not_for_repair(found: StateNode, why: str | None) -> None:
    finding = repaired(found, *well())

    verdict = finding.verdicts.get("x")
    assert ([], 0) == (going(finding), finding.eligible)
    assert why == (None if verdict is None else verdict.why)


@pytest.mark.case("V15-D22")
def test_without_policies_nothing_is_repaired() -> None:
    found = found_by("repair", sick("x"), *well(), settings=ON)

    assert ((), {}) == (found.commands, found.verdicts)


@pytest.mark.case("V15-D45")
@pytest.mark.parametrize(("is_ours", "name"), [(False, "b"), (True, "a")])
def test_what_we_wrote_ourselves_does_not_say_who_is_repaired_first(
    is_ours: bool, name: str
) -> None:
    glad = pod_on("q", annotations={POD_DELETION_COST: "-134217728"})
    cluster = snapshot(sick("a", pod_on("p")), sick("b", glad), *well(8))
    settings = replace(ON, planning=PassSettings(deletion_cost_is_ours=is_ours))

    found = find_repair(
        DisruptionContext(cluster, catalogue_of({}), FACTS_F, settings, now=NOW, policies=POLICIES)
    )

    assert [name] == going(found)


@pytest.mark.case("DIS-106")
def test_a_pool_without_types_repairs_nothing() -> None:
    found = repaired(sick("x"), *well(), types=())

    assert ([], "NoInstanceTypes") == (going(found), found.verdicts["x"].why)


@pytest.mark.case("V15-D12")
def test_every_node_with_the_label_of_a_pool_counts() -> None:
    broken = [replace(sick(f"y{n}"), node_claim=None) for n in range(2)]

    found = repaired(sick("x"), *broken, *well(7))

    assert "3 of 10 nodes of NodePool np are unhealthy" in found.verdicts["x"].detail


@pytest.mark.case("V15-D26")
def test_only_the_end_of_a_restart_starts_the_time_again() -> None:
    other = condition("ConsistentStateFound", "False", at=NOW)

    assert ["x"] == going(repaired(sick("x", claim_conditions=[other]), *well()))


@pytest.mark.case("V15-D25")
def test_restarts_of_a_healthy_machine_are_no_reason_to_repair_it() -> None:
    healthy = machine("x")
    assert healthy.node_claim is not None
    memory = Memory(reboots={healthy.node_claim.metadata.uid: [NOW - HOUR, NOW - HOUR]})

    assert [] == going(repaired(healthy, *well(), memory=memory))


@pytest.mark.case("V15-D25")
def test_a_plan_remembers_restarts() -> None:
    bad = sick("x")
    assert bad.node_claim is not None
    restarting = RepairPolicy("BadNode", "True", HOUR / 2, "Hung", action=REBOOT_NODE)
    hung = replace(bad, node=machine("x", node_conditions=[READY, _hung()]).node)

    decisions = [
        planned(
            hung,
            *well(),
            settings=ON,
            policies=RepairPolicies([RepairPolicy("BadNode", "True", HOUR / 2), restarting]),
            memory=Memory(reboots={bad.node_claim.metadata.uid: [NOW - HOUR] * count}),
            pools=[pool(after="Never")],
        )
        .commands[0]
        .decision
        for count in (1, 2)
    ]

    assert ["reboot", "delete"] == decisions


@pytest.mark.case("DIS-136")
def test_a_closed_budget_is_told() -> None:
    closed = [pool(budgets=["0"])]

    found = repaired(sick("x"), *well(), pools=closed)

    assert (1, ["NodePool/np"]) == (found.eligible, [event.target for event in found.events])
    assert () == repaired(*well(), pools=closed).events


def test_where_pods_go_and_what_it_costs() -> None:
    elsewhere = only(repaired(sick("x", pod_on("p")), *well()))
    anew = only(repaired(sick("x", pod_on("p", cpu="7"), instance_type="s16"), *well()))

    assert (("delete", 0.4), {"ok0": ("default/p",)}) == (
        (elsewhere.decision, round(elsewhere.savings, 6)),
        elsewhere.placements,
    )
    assert ("replace", 1.36) == (anew.decision, round(anew.savings, 6))


@pytest.mark.parametrize(
    ("world", "detail"),
    [
        pytest.param(
            {"pools": [pool(conditions=[])]}, "no dynamic node pool is ready", id="no pool is ready"
        ),
        pytest.param(
            {
                "pools": [
                    pool(requirements=[NodeRequirement(keys.INSTANCE_TYPE, "Exists", min_values=2)])
                ],
                "options": Options(most_instance_types=1),
                "settings": FIRST,
            },
            "its replacement offers too little choice",
            id="less choice than the pool asks for",
        ),
        pytest.param(
            {"types": [kind("s1", 1)], "pools": [pool(requirements=ON_DEMAND_ONLY)]},
            "no place for default/p",
            id="DIS-173 no type that is large enough",
        ),
    ],
)
def test_why_nothing_takes_its_place(world: dict[str, Any], detail: str) -> None:
    found = repaired(sick("x", pod_on("p", cpu="3")), *well(), **world)

    assert ([], detail) == (going(found), found.verdicts["x"].detail)


@pytest.mark.case("V15-D38")
def test_one_slot_is_not_enough_for_two_machines() -> None:
    bad = reserved_on(
        "x", "r-1", *pods_on(2, "p", cpu="3"), node_conditions=[READY, BAD], instance_type="s8"
    )

    found = repaired(bad, *well(), types=[*FULL, kind("s8", 8, ways=())], settings=FIRST)

    assert [] == going(found)


@pytest.mark.case("V15-D37")
def test_pods_that_fit_elsewhere_keep_their_place_there() -> None:
    bad = reserved_on("x", "r-1", pod_on("a", cpu="3"), pod_on("b"), node_conditions=[READY, BAD])

    command = only(repaired(bad, *well(), types=FULL, settings=FIRST))

    assert ("terminate-first", {"ok0": ("default/b",)}) == (command.decision, command.placements)


def static(**options: Any) -> Sequence[NodePool]:
    return [pool(replicas=10, requirements=RESERVED_ONLY, **options)]


@pytest.mark.parametrize(
    ("pools", "settings", "outcome"),
    [
        pytest.param(static(), ON, "replace", id="without the gate reservations are not looked at"),
        pytest.param(static(), FIRST, "no-reserved-capacity", id="V15-D40 who holds a slot goes"),
        pytest.param(
            static(conditions=()),
            FIRST,
            "the reservations of its NodePool are full",
            id="unless its pool is not ready",
        ),
        pytest.param(
            static(limits={"nodes": "10"}),
            ON,
            "its NodePool has as many nodes as limits.nodes allows",
            id="V15-D39 at its limit",
        ),
        pytest.param(
            static(limits={"nodes": "10"}),
            FIRST,
            "no-reserved-capacity",
            id="full goes before at its limit",
        ),
    ],
)
def test_a_static_pool_that_lives_on_a_full_reservation(
    pools: Sequence[NodePool], settings: DisruptionSettings, outcome: str
) -> None:
    holder = reserved_on("x", "r-1", pod_on("p"), node_conditions=[READY, BAD])

    found = repaired(holder, *well(), pools=pools, types=FULL, settings=settings)

    if found.commands:
        command = only(found)
        assert outcome == (command.terminate_first_reason or command.decision)
    else:
        assert (outcome, True) == (found.verdicts["x"].detail, found.verdicts["x"].has_event)


def test_a_static_replacement_comes_from_the_template_and_has_its_price() -> None:
    fixed = pool(replicas=3, requirements=ON_DEMAND_ONLY)

    command = only(repaired(sick("x"), *well(2), pools=[fixed]))

    (claim,) = command.replacements
    assert (("np", ()), 0.3) == ((claim.node_pool, claim.pods), round(command.savings, 6))


def test_scaling_down_comes_before_repair_in_silence() -> None:
    verdict = repaired(sick("x"), *well(2), pools=[pool(replicas=2)]).verdicts["x"]

    assert ("its NodePool has more nodes than replicas, which is seen to first", False) == (
        verdict.detail,
        verdict.has_event,
    )


def _hung() -> Any:
    return condition("BadNode", reason="Hung", at=NOW - HOUR)
