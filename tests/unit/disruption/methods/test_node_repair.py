"""Repair as a method of disruption: V15-D02 to V15-D26 as far as they are decisions, and V15-D36 to V15-D41."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from helpers.builders import NOW, READY, condition, expression, reserved
from helpers.disruption import found_by, going, only, planned
from helpers.disruption_objects import (
    LONG_AGO,
    kind,
    machine,
    pdb_of,
    pod_on,
    pods_on,
    pool,
    reserved_on,
)
from karpenter.api.karpenter import NodePool
from karpenter.cloud.provider import REBOOT_NODE, RepairPolicy
from karpenter.cloud.repair import RepairPolicies, violations
from karpenter.disruption.commands import Finding
from karpenter.disruption.context import DisruptionSettings, Memory
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
ON: Final = DisruptionSettings(repair=True)
FIRST: Final = DisruptionSettings(repair=True, terminate_first_repair=True)
PROTECTED: Final = {keys.DO_NOT_DISRUPT: "true"}
FALLBACK: Final = RepairPolicy("BadNode", "True", 30 * MINUTE)
BAD_LONG: Final = condition("BadNode", at=NOW - HOUR)
BAD_JUST_NOW: Final = condition("BadNode", at=NOW)


def sick(name: str, *on: Any, bad: Sequence[Any] = (BAD_LONG,), **options: Any) -> StateNode:
    """An unhealthy machine, ready all the same."""
    return machine(name, *on, node_conditions=[READY, *bad], **options)


def well(count: int) -> list[StateNode]:
    return [machine(f"ok{n}", pod_on(f"ok{n}", cpu="3")) for n in range(count)]


def repaired(
    *nodes: StateNode, policies: Sequence[RepairPolicy] = (FALLBACK,), **world: Any
) -> Finding:
    world.setdefault("settings", ON)
    return found_by("repair", *nodes, policies=RepairPolicies(policies), **world)


@pytest.mark.case("V15-D02")
def test_an_unhealthy_machine_is_replaced_first() -> None:
    command = only(repaired(sick("x", pod_on("p", cpu="3")), *well(9)))

    assert ("repair", "Unhealthy", "replace", ("x",)) == (
        command.method,
        command.reason,
        command.decision,
        command.names,
    )
    assert command.repair is not None
    assert "BadNode" == command.repair.governing.condition.type


@pytest.mark.case("V15-D03")
def test_an_empty_one_is_just_deleted() -> None:
    command = only(repaired(sick("x"), *well(9)))

    assert ("delete", (), "Unhealthy") == (command.decision, command.replacements, command.reason)


@pytest.mark.case("V15-D05")
@pytest.mark.parametrize(
    ("initialized", "names"),
    [
        pytest.param(True, [], id="a closed budget keeps it"),
        pytest.param(False, ["x"], id="unless it never came up"),
    ],
)
def test_budgets(initialized: bool, names: list[str]) -> None:
    nodes = [sick("x", initialized=initialized), *well(9)]

    found = repaired(*nodes, pools=[pool(budgets=["0"])])

    assert names == going(found)


@pytest.mark.case("V15-D06")
def test_a_node_that_is_not_ready_does_not_use_up_its_own_budget() -> None:
    bad = machine("x", node_conditions=[condition("Ready", "False"), BAD_LONG])

    assert ["x"] == going(repaired(bad, *well(9), pools=[pool(budgets=["1"])]))


@pytest.mark.case("V15-D07")
@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        pytest.param(PROTECTED, "", id="do-not-disrupt is no veto"),
        pytest.param({keys.DO_NOT_REPAIR: "true"}, "DoNotRepair", id="do-not-repair is"),
        pytest.param({keys.DO_NOT_REPAIR: "yes"}, "", id="only true is true"),
    ],
)
def test_vetoes(annotations: dict[str, str], why: str) -> None:
    found = repaired(sick("x", annotations=annotations), *well(9))

    assert ([] if why else ["x"]) == going(found)
    assert ([why] if why else []) == [verdict.why for verdict in found.verdicts.values()]


@pytest.mark.case("V15-D08")
def test_nobody_is_told_of_a_veto_before_its_time() -> None:
    found = repaired(
        sick("x", bad=[BAD_JUST_NOW], annotations={keys.DO_NOT_REPAIR: "true"}), *well(9)
    )

    assert ([], {}) == (going(found), found.verdicts)


@pytest.mark.case("V15-D09")
@pytest.mark.parametrize(
    ("bound", "grace_period", "is_repaired"),
    [
        pytest.param(None, None, False, id="nothing ends the wait for a protected pod"),
        pytest.param(5 * MINUTE, None, True, id="the policy does"),
        pytest.param(None, "10m", True, id="the claim does"),
    ],
)
def test_pods_that_stand_in_the_way(
    bound: timedelta | None, grace_period: str | None, is_repaired: bool
) -> None:
    policy = RepairPolicy("BadNode", "True", 30 * MINUTE, termination_grace_period=bound)
    options = {"grace_period": grace_period} if grace_period else {}
    bad = sick("x", pod_on("p", cpu="3", annotations=PROTECTED), **options)

    found = repaired(bad, *well(9), policies=[policy])

    if is_repaired:
        (claim,) = only(found).replacements
        assert ("default/p",) == claim.pods
    else:
        assert "PodDoNotDisrupt" == found.verdicts["x"].why


@pytest.mark.parametrize(
    ("bound", "grace_period", "expected"),
    [
        pytest.param(30 * MINUTE, "10m", 10 * MINUTE, id="V15-D10 the shorter of both"),
        pytest.param(5 * MINUTE, "10m", 5 * MINUTE, id="V15-D10 the policy's"),
        pytest.param(timedelta(0), None, timedelta(0), id="V15-D11 at once"),
        pytest.param(None, "10m", None, id="the claim's works by itself"),
    ],
)
def test_how_long_pods_have(
    bound: timedelta | None, grace_period: str | None, expected: timedelta | None
) -> None:
    policy = RepairPolicy("BadNode", "True", 30 * MINUTE, termination_grace_period=bound)
    options = {"grace_period": grace_period} if grace_period else {}

    command = only(repaired(sick("x", **options), *well(9), policies=[policy]))

    assert expected == command.drain_bound


@pytest.mark.parametrize(
    ("failing", "total", "names"),
    [
        pytest.param(3, 10, [], id="V15-D12 too many of ten fail"),
        pytest.param(2, 10, ["x"], id="two of ten may fail"),
        pytest.param(1, 3, ["x"], id="V15-D13 one of three may fail"),
        pytest.param(2, 6, ["x"], id="a fifth of six is rounded up to two"),
    ],
)
def test_the_breaker(failing: int, total: int, names: list[str]) -> None:
    others = [sick(f"y{n}", bad=[BAD_JUST_NOW]) for n in range(failing - 1)]

    found = repaired(sick("x"), *others, *well(total - failing))

    assert names == going(found)
    if not names:
        assert ("RepairBlocked", True) == (found.verdicts["x"].why, found.verdicts["x"].has_event)


@pytest.mark.case("V15-D12")
def test_everybody_concerned_is_told() -> None:
    others = [sick(f"y{n}", pod_on(f"y{n}"), bad=[BAD_JUST_NOW]) for n in range(2)]
    plan = planned(
        sick("x", pod_on("x")),
        *others,
        *well(7),
        settings=ON,
        policies=RepairPolicies([FALLBACK]),
        pools=[pool(after="Never")],
    )

    told = {event.target for event in plan.events if event.reason == "NodeRepairBlocked"}

    assert {"Node/x", "NodeClaim/x", "NodePool/np"} == told


@pytest.mark.case("V15-D14")
def test_waiting_long_enough_is_worth_a_rank() -> None:
    policies = [
        RepairPolicy("A", "True", timedelta(0)),
        RepairPolicy("B", "True", timedelta(0), reason_regex="b", priority=50),
    ]
    waited = sick("b", bad=[condition("A", at=NOW - 150 * MINUTE)], created=LONG_AGO)
    urgent = sick("a", bad=[condition("B", reason="b", at=NOW - 90 * MINUTE)], created=LONG_AGO)

    assert ["b"] == going(repaired(urgent, waited, *well(8), policies=policies))


def test_a_broken_machine_waits_for_one_that_is_coming_up_with_room_for_its_pods() -> None:
    found = repaired(sick("x", pod_on("p", cpu="3")), *well(9), machine("new", initialized=False))

    assert [] == going(found)
    assert "default/p would have to wait for new, not up yet" == found.verdicts["x"].detail


def test_a_broken_machine_does_not_wait_for_one_that_is_taken() -> None:
    """Though its own pods come first in the queue."""
    leaving = machine("y", pod_on("q", cpu="3"), marked=True)
    coming = machine("new", initialized=False)

    command = only(repaired(sick("x", pod_on("p", cpu="3")), *well(9), leaving, coming))

    assert (("default/p",), {"new": ("default/q",)}) == (
        command.replacements[0].pods,
        command.placements,
    )


@pytest.mark.case("V15-D15")
def test_between_equals_the_name_decides() -> None:
    assert ["a"] == going(repaired(sick("b"), sick("a"), *well(8)))


def test_those_that_are_cheaper_to_move_come_before_the_name() -> None:
    nodes = [sick("a", *pods_on(3, "p")), sick("b", pod_on("q")), *well(8)]

    assert ["b"] == going(repaired(*nodes))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        pytest.param(
            sick("x", registered=False, initialized=False),
            "NotInitialized",
            id="V15-D20 what is not registered is not repaired",
        ),
        pytest.param(
            sick("x", pool=""), "NodePoolNotFound", id="V15-D20 nor is a claim of no pool"
        ),
        pytest.param(
            sick("x", nominated_until=NOW + MINUTE),
            "Nominated",
            id="V15-D21 nor is one that pods are expected on",
        ),
        pytest.param(
            sick("x", claim_conditions=[condition("Rebooting")]),
            "Rebooting",
            id="V15-D36 nor is one that restarts",
        ),
    ],
)
def test_who_is_not_repaired(bad: StateNode, why: str) -> None:
    found = repaired(bad, *well(9))

    (verdict,) = found.verdicts.values()
    assert ([], why, True) == (going(found), verdict.why, verdict.has_event)


@pytest.mark.case("V15-D21")
def test_no_pods_are_expected_on_what_never_came_up() -> None:
    bad = sick("x", initialized=False, nominated_until=NOW + MINUTE)

    assert ["x"] == going(repaired(bad, *well(9)))


@pytest.mark.case("V15-D22")
@pytest.mark.parametrize("settings", [DisruptionSettings(), DisruptionSettings(legacy_repair=True)])
def test_without_the_gate_or_with_the_old_way_there_is_no_such_method(
    settings: DisruptionSettings,
) -> None:
    assert [] == going(repaired(sick("x"), *well(9), settings=settings))


def rebooting(bound: timedelta | None = None) -> list[RepairPolicy]:
    return [
        FALLBACK,
        RepairPolicy("BadNode", "True", 30 * MINUTE, "Hung", bound, action=REBOOT_NODE),
    ]


HUNG: Final = condition("BadNode", reason="Hung", at=NOW - HOUR)


@pytest.mark.case("V15-D23")
def test_a_restart_needs_no_replacement() -> None:
    bad = sick("x", pod_on("p"), bad=[HUNG])

    command = only(repaired(bad, *well(9), policies=rebooting(5 * MINUTE)))

    assert ("reboot", (), 5 * MINUTE) == (
        command.decision,
        command.replacements,
        command.drain_bound,
    )


@pytest.mark.case("V15-D24")
def test_without_a_bound_a_restart_waits_for_its_pods() -> None:
    command = only(repaired(sick("x", bad=[HUNG]), *well(9), policies=rebooting()))

    assert command.drain_bound is None


@pytest.mark.parametrize(
    ("hours", "decision"),
    [
        pytest.param([1, 23], "delete", id="V15-D25 what restarts did not help is replaced"),
        pytest.param([25, 26], "reboot", id="V15-D25 old restarts are forgotten"),
        pytest.param([1], "reboot", id="one restart is no proof"),
        pytest.param([1, 24], "reboot", id="a day is over"),
    ],
)
def test_restarts_that_did_not_help(hours: list[int], decision: str) -> None:
    bad = sick("x", bad=[HUNG])
    assert bad.node_claim is not None
    done: list[datetime] = [NOW - hour * HOUR for hour in hours]
    memory = Memory(reboots={bad.node_claim.metadata.uid: done})

    command = only(repaired(bad, *well(9), policies=rebooting(), memory=memory))

    assert decision == command.decision


@pytest.mark.case("V15-D26")
@pytest.mark.parametrize(("minutes", "names"), [(29, []), (30, ["x"])])
def test_a_restart_gives_it_all_of_its_time_again(minutes: int, names: list[str]) -> None:
    ended = condition("Rebooting", "False", at=NOW - minutes * MINUTE)

    assert names == going(repaired(sick("x", claim_conditions=[ended]), *well(9)))


def test_a_pod_that_fits_nowhere_keeps_an_unhealthy_machine() -> None:
    bad = sick("x", pod_on("p", node_selector={keys.ZONE: "z9"}))

    found = repaired(bad, *well(9))

    assert ([], "Unschedulable") == (going(found), found.verdicts["x"].why)


def test_a_budget_of_pods_holds_only_without_a_bound() -> None:
    bad = sick("x", pod_on("p", labels={"app": "held"}))

    found = repaired(bad, *well(9), pdbs=[pdb_of(0, labels={"app": "held"})])

    assert "PodDisruptionBudget" == found.verdicts["x"].why


RESERVED_ONLY: Final = (expression(keys.CAPACITY_TYPE, "In", keys.RESERVED),)
FULL: Final = [kind("s4", 4, ways=(), reservations=[reserved("r-1", 0)])]


@pytest.mark.parametrize(
    ("settings", "names"),
    [pytest.param(ON, [], id="gate off"), pytest.param(FIRST, ["x"], id="on")],
)
def test_a_full_reservation(settings: DisruptionSettings, names: list[str]) -> None:
    bad = reserved_on("x", "r-1", pod_on("p", cpu="3"), node_conditions=[READY, BAD_LONG])

    found = repaired(bad, *well(9), types=FULL, settings=settings)

    assert names == going(found)
    if names:
        assert "no-reserved-capacity" == only(found).terminate_first_reason


@pytest.mark.parametrize(
    ("fixed", "settings", "outcome"),
    [
        pytest.param(pool(replicas=3), ON, "replace", id="one for one"),
        pytest.param(
            pool(replicas=3, limits={"nodes": "3"}), ON, "Unschedulable", id="at its limit"
        ),
        pytest.param(
            pool(replicas=3, limits={"nodes": "3"}), FIRST, "static-at-limit", id="it goes first"
        ),
        pytest.param(
            pool(replicas=3, limits={"nodes": "3"}, conditions=()),
            FIRST,
            "Unschedulable",
            id="unless its pool is not ready",
        ),
        pytest.param(pool(replicas=2), ON, "StaticNodePool", id="scaling down comes first"),
    ],
)
def test_static_pools(fixed: NodePool, settings: DisruptionSettings, outcome: str) -> None:
    found = repaired(sick("x"), *well(2), pools=[fixed], settings=settings)

    if found.commands:
        command = only(found)
        assert outcome == (command.terminate_first_reason or command.decision)
    else:
        assert outcome == found.verdicts["x"].why


def test_a_static_node_without_a_slot_of_a_full_reservation_stays() -> None:
    fixed = pool(replicas=3, requirements=RESERVED_ONLY)

    found = repaired(sick("x"), *well(2), pools=[fixed], types=FULL, settings=FIRST)

    assert "reservations" in found.verdicts["x"].detail


def test_repair_comes_before_everything_else() -> None:
    plan = planned(
        sick("x"),
        machine("empty"),
        *well(8),
        settings=ON,
        policies=RepairPolicies([FALLBACK]),
        pools=[pool(after="0s", budgets=["1"])],
    )

    assert ["x"] == going(plan)
    assert "Budget" == {b.node: b.why for b in plan.blocked}["empty"]


@pytest.mark.case("V15-D01")
@pytest.mark.parametrize(
    "policies",
    [
        pytest.param([], id="no policy at all"),
        pytest.param([FALLBACK, RepairPolicy("Disk", "True", MINUTE)], id="two fallbacks"),
        pytest.param(
            [RepairPolicy("BadNode", "True", MINUTE, action=REBOOT_NODE)],
            id="a fallback that restarts",
        ),
        pytest.param([RepairPolicy("BadNode", "True", MINUTE, priority=101)], id="beyond 100"),
    ],
)
def test_policies_that_cannot_be_used(policies: list[RepairPolicy]) -> None:
    assert violations(policies)


@pytest.mark.parametrize(
    ("reason", "names"),
    [
        pytest.param("Hung", [], id="V15-D16 a special policy hides the fallback while it waits"),
        pytest.param("Other", ["x"], id="V15-D17 what no expression matches falls back"),
    ],
)
def test_special_policies_and_the_fallback(reason: str, names: list[str]) -> None:
    policies = [
        RepairPolicy("BadNode", "True", 10 * MINUTE),
        RepairPolicy("BadNode", "True", 30 * MINUTE, "Hung"),
    ]
    said = condition("BadNode", reason=reason, at=NOW - 20 * MINUTE)

    assert names == going(repaired(sick("x", bad=[said]), *well(9), policies=policies))


@pytest.mark.case("V15-D18")
def test_replacing_goes_before_restarting_within_the_shorter_time() -> None:
    policies = [
        FALLBACK,
        RepairPolicy("Boot", "True", MINUTE, "r", MINUTE, priority=90, action=REBOOT_NODE),
        RepairPolicy("Disk", "True", MINUTE, "r", 5 * MINUTE, priority=10),
    ]
    said = [condition(each, reason="r", at=NOW - HOUR) for each in ("Boot", "Disk")]

    command = only(repaired(sick("x", pod_on("p", cpu="3"), bad=said), *well(9), policies=policies))

    assert ("replace", MINUTE) == (command.decision, command.drain_bound)
    assert command.repair is not None
    assert "Disk" == command.repair.governing.condition.type


@pytest.mark.case("V15-D19")
@pytest.mark.parametrize(("minutes", "names"), [(29, []), (30, ["x"])])
def test_without_a_time_the_age_of_the_node_counts(minutes: int, names: list[str]) -> None:
    bad = sick("x", bad=[condition("BadNode")], created=NOW - minutes * MINUTE)

    assert names == going(repaired(bad, *well(9)))
