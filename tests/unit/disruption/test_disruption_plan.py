"""A whole plan: commands one after the other, and a reason for every machine that stays."""

from datetime import timedelta
from typing import Final

from builders import NOW, condition, launching_node, pod_term, reserved, unmanaged_node
from disrupting import (
    LONG_AGO,
    ON_DEMAND_ONLY,
    WEB,
    going,
    kind,
    machine,
    on_demand,
    pdb_of,
    planned,
    pod_on,
    pods_on,
    pool,
)
from karpenter.model import labels as keys

OD_POOL: Final = pool(requirements=ON_DEMAND_ONLY)
Z1: Final = {keys.ZONE: "z1"}
DRIFTED: Final = condition("Drifted", at=LONG_AGO)


def test_commands_come_in_the_order_of_methods() -> None:
    nodes = [
        machine("empty"),
        machine("drifted", pod_on("a", cpu="3", node_selector=Z1), claim_conditions=[DRIFTED]),
        machine("dear", pod_on("b", cpu="2500m"), instance_type="s32", zone="z2"),
        machine("expired", pod_on("c", cpu="3", node_selector=Z1), expire_after="1h"),
    ]

    plan = planned(*nodes, pools=[OD_POOL])

    assert [
        ("expiration", "expired"),
        ("empty", "empty"),
        ("drift", "drifted"),
        ("single", "dear"),
    ] == [(command.method, *command.names) for command in plan.commands]
    assert () == plan.blocked


def test_a_machine_that_is_to_take_pods_stays() -> None:
    nodes = [machine("n1", *pods_on(3, "a")), machine("n2", pod_on("b"))]

    plan = planned(*nodes, pools=[pool(requirements=ON_DEMAND_ONLY, budgets=["1"])])

    assert ["n2"] == going(plan)
    assert [("n1", "Nominated")] == [(b.node, b.why) for b in plan.blocked]


def test_every_machine_that_stays_has_its_reason() -> None:
    nodes = [
        machine("cheap", pod_on("a", node_selector={keys.INSTANCE_TYPE: "s1"}), instance_type="s1"),
        machine("fresh", pod_on("b"), without=["Consolidatable"], pool="slow", last_pod_event=NOW),
        machine("held", pod_on("c", labels={"app": "held"})),
        machine("kept", annotations={keys.DO_NOT_DISRUPT: "true"}),
        machine("odd", pod_on("d"), instance_type="odd", created=NOW),
        machine("starting", initialized=False),
        launching_node("launching"),
        unmanaged_node("foreign", cpu="1"),
    ]

    plan = planned(
        *nodes,
        pools=[OD_POOL, pool("slow", after="5m", requirements=ON_DEMAND_ONLY)],
        pdbs=[pdb_of(0, labels={"app": "held"})],
    )

    assert {
        "cheap": "Unconsolidatable",
        "foreign": "NotManaged",
        "fresh": "Unconsolidatable",
        "held": "PodDisruptionBudget",
        "kept": "DoNotDisrupt",
        "launching": "NodeNotFound",
        "odd": "Unconsolidatable",
        "starting": "NotInitialized",
    } == {verdict.node: str(verdict.why) for verdict in plan.blocked}
    assert [] == going(plan)
    assert {"Unconsolidatable", "DisruptionBlocked"} == {event.reason for event in plan.events}
    quiet = {verdict.node for verdict in plan.blocked if not verdict.has_event}
    assert {"foreign", "fresh"} == quiet


def test_budgets_are_told_as_they_were_before() -> None:
    plan = planned(*(machine(f"n{n}") for n in range(10)), pools=[pool(budgets=["30%"])])

    assert 3 == plan.budgets["np"]["Empty"].remaining
    assert {"Empty", "Drifted", "Underutilized", "Unhealthy"} == set(plan.budgets["np"])
    assert 3 == len(going(plan))
    assert 7 == len(plan.blocked)


def test_a_reservation_is_promised_once() -> None:
    types = [kind("s4", 4, ways=[on_demand(1.0)], reservations=[reserved("r-1", 1)])]
    apart = [pod_term(WEB)]
    nodes = [machine(f"n{n}", pod_on(f"p{n}", anti_affinity=apart), types=types) for n in range(3)]

    plan = planned(*nodes, types=types)

    assert 1 == len(going(plan))
    (claim,) = plan.commands[0].replacements
    assert {"reserved"} == set(claim.requirements[keys.CAPACITY_TYPE].values)


def test_without_a_pool_that_is_ready_nothing_moves() -> None:
    nodes = [machine("n1", *pods_on(3, "a")), machine("n2", pod_on("b"))]

    plan = planned(*nodes, pools=[pool(conditions=())])

    assert [] == going(plan)
    assert {"no dynamic node pool is ready"} == {verdict.detail for verdict in plan.blocked}


def test_an_empty_cluster_has_an_empty_plan() -> None:
    plan = planned()

    assert ((), ()) == (plan.commands, plan.blocked)


def test_a_clock_in_the_future_removes_nothing() -> None:
    later = NOW + timedelta(days=365)
    nodes = machine(
        "n1",
        created=later,
        expire_after="1h",
        last_pod_event=later,
        without=["Consolidatable"],
    )

    plan = planned(nodes, pools=[pool(after="30s")])

    assert [] == going(plan)
