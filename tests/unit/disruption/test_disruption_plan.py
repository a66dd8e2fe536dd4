"""A whole plan: commands one after the other, and a reason for every machine that stays."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import msgspec
import pytest

from helpers.builders import (
    FACTS_F,
    NOW,
    READY,
    condition,
    launching_node,
    node_claim,
    owner,
    pod,
    pod_template,
    pod_term,
    reserved,
    unmanaged_node,
)
from helpers.disruption import catalogue_of, going, planned, snapshot
from helpers.disruption_objects import (
    LONG_AGO,
    OD_POOL,
    ON_DEMAND_ONLY,
    WEB,
    kind,
    machine,
    on_demand,
    pdb_of,
    pod_on,
    pods_on,
    pool,
)
from karpenter.api.karpenter import (
    CapacityBuffer,
    CapacityBufferSpec,
    NodeClassReference,
    PodTemplateReference,
)
from karpenter.api.meta import ObjectMeta
from karpenter.api.pods import PodTemplate
from karpenter.cloud.provider import REBOOT_NODE, RepairPolicy
from karpenter.cloud.repair import RepairPolicies
from karpenter.disruption.context import DisruptionSettings
from karpenter.disruption.plan import plan_disruption
from karpenter.model import labels as keys

Z1: Final = {keys.ZONE: "z1"}
DRIFTED: Final = condition("Drifted", at=LONG_AGO)


def test_commands_come_in_the_order_of_methods() -> None:
    nodes = [
        machine("empty"),
        machine("drifted", pod_on("a", cpu="3", node_selector=Z1), claim_conditions=[DRIFTED]),
        machine("dear", pod_on("b", cpu="2500m"), instance_type="s32", zone="z2"),
        machine("expired", expire_after="1h"),
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


@pytest.mark.case("DIS-101")
def test_a_machine_that_a_waiting_pod_would_come_to_stays() -> None:
    nodes = [machine("n1"), machine("n2", pod_on("b", cpu="3500m"), instance_type="s4")]

    plan = planned(*nodes, pods=[pod("waits", cpu="3")], pools=[OD_POOL])

    assert [] == going(plan)
    assert ("n1", "Nominated") in [(b.node, b.why) for b in plan.blocked]


@pytest.mark.case("DIS-101")
def test_a_pod_that_fits_nowhere_keeps_nothing() -> None:
    plan = planned(machine("n1"), pods=[pod("huge", cpu="1000")], pools=[OD_POOL])

    assert ["n1"] == going(plan)


@pytest.mark.case("DIS-101")
def test_a_machine_that_the_pods_of_one_on_its_way_out_would_come_to_stays() -> None:
    leaving = machine("n2", pod_on("b", cpu="3"), deleted=NOW)

    plan = planned(machine("n1"), leaving, pools=[OD_POOL])

    assert [] == going(plan)
    assert [("n1", "Nominated"), ("n2", "Deleting")] == [(b.node, b.why) for b in plan.blocked]


@pytest.mark.case("DIS-101")
def test_a_machine_that_the_pods_of_an_expired_one_would_come_to_stays() -> None:
    expired = machine("n2", pod_on("b", cpu="3"), expire_after="1h")

    plan = planned(machine("n1"), expired, pools=[OD_POOL])

    assert ["n2"] == going(plan)
    assert [("n1", "Nominated")] == [(b.node, b.why) for b in plan.blocked]


@pytest.mark.case("DIS-101")
def test_nothing_is_promised_on_a_machine_that_has_expired() -> None:
    expired = machine("n1", expire_after="1h")

    plan = planned(expired, machine("n2"), pods=[pod("waits", cpu="3")], pools=[OD_POOL])

    assert ["n1"] == going(plan)
    assert [("n2", "Nominated")] == [(b.node, b.why) for b in plan.blocked]


@pytest.mark.case("DIS-101")
def test_spare_room_promises_nothing() -> None:
    unit = ObjectMeta(name="unit", namespace="default")
    template = PodTemplate(metadata=unit, template=pod_template(cpu="1"))
    buffer = CapacityBuffer(
        metadata=unit,
        spec=CapacityBufferSpec(pod_template_ref=PodTemplateReference(name="unit"), replicas=1),
    )
    kept = machine("n1", claim_conditions=[DRIFTED])

    plan = planned(kept, buffers=[buffer], templates=[template], pools=[OD_POOL])

    assert ["n1"] == going(plan)


@pytest.mark.case("DIS-282")
def test_nothing_is_decided_before_every_claim_has_launched() -> None:
    nodes = [machine("empty"), machine("kept", annotations={keys.DO_NOT_DISRUPT: "true"})]
    expired = machine("expired", expire_after="1h")

    plan = planned(*nodes, expired, unlaunched=[node_claim("young", provider_id="")])

    assert [("expiration", "expired")] == [(c.method, *c.names) for c in plan.commands]
    assert {"empty": "NotEvaluated", "kept": "DoNotDisrupt"} == {
        verdict.node: verdict.why for verdict in plan.blocked
    }


@pytest.mark.case("DIS-282")
def test_a_claim_of_another_provider_holds_up_nothing() -> None:
    claim = node_claim("theirs", provider_id="")
    other = NodeClassReference(group="other.sh", kind="OtherNodeClass", name="default")
    spec = msgspec.structs.replace(claim.spec, node_class_ref=other)

    plan = planned(machine("n1"), unlaunched=[msgspec.structs.replace(claim, spec=spec)])

    assert ["n1"] == going(plan)


@pytest.mark.case("DIS-113")
def test_users_are_told_of_a_wish_that_nobody_understands() -> None:
    wish = {keys.DO_NOT_DISRUPT: "banana"}
    elsewhere = replace(unmanaged_node("foreign"), pods=(pod_on("c", annotations=wish),))

    plan = planned(machine("n1", pod_on("a", annotations=wish), pod_on("b")), elsewhere)

    told = [event for event in plan.events if event.reason == "InvalidDoNotDisruptAnnotation"]
    assert [("Pod/default/a", True)] == [(event.target, event.is_warning) for event in told]


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


def test_what_users_are_told_about_a_replacement() -> None:
    weighing = pool(requirements=ON_DEMAND_ONLY, policy="Balanced")

    plan = planned(machine("n1", pod_on("a"), instance_type="s8"), pools=[weighing])

    assert {
        ("Node/n1", "ConsolidationCandidate"),
        ("NodeClaim/n1", "ConsolidationCandidate"),
        ("Node/n1", "ConsolidationApproved"),
        ("NodeClaim/n1", "ConsolidationApproved"),
    } == {(event.target, event.reason) for event in plan.events}
    assert not any(event.is_warning for event in plan.events)


@pytest.mark.case("DIS-219")
def test_a_move_of_several_is_told_to_the_pools_that_weigh_it() -> None:
    pools = [pool("a", requirements=ON_DEMAND_ONLY, policy="Balanced"), pool("b")]
    nodes = [
        machine(f"{name}{n}", pod_on(f"{name}-p{n}"), instance_type="s8", pool=name)
        for name in ("a", "b")
        for n in range(2)
    ]

    plan = planned(*nodes, pools=pools)

    (command,) = plan.commands
    assert {"a", "b"} == {name[0] for name in command.names}
    approved = [event.target for event in plan.events if event.reason == "ConsolidationApproved"]
    assert ["NodePool/a"] == approved


def test_nodes_of_a_pool_that_is_being_deleted_go_with_it() -> None:
    leaving = pool(deleted=NOW, after="Never")
    owned = machine("n1", pod_on("p"))
    assert owned.node_claim is not None
    metadata = msgspec.structs.replace(
        owned.node_claim.metadata, owner_references=(owner("NodePool", "np"),)
    )
    claim = msgspec.structs.replace(owned.node_claim, metadata=metadata)

    plan = planned(replace(owned, node_claim=claim), pools=[leaving])

    (verdict,) = plan.blocked
    assert ("Deleting", "NodePool np is being deleted, and its nodes go with it") == (
        verdict.why,
        verdict.detail,
    )


@pytest.mark.case("DIS-285")
def test_orphans_of_a_pool_that_is_gone_stay() -> None:
    plan = planned(machine("n1", pool="gone"))

    assert [("n1", "NodePoolNotFound")] == [(b.node, b.why) for b in plan.blocked]


def test_a_restart_uses_up_the_budget_of_other_reasons() -> None:
    hung = condition("BadNode", reason="Hung", at=LONG_AGO)
    policies = RepairPolicies(
        [
            RepairPolicy("BadNode", "True", timedelta(0)),
            RepairPolicy("BadNode", "True", timedelta(0), "Hung", action=REBOOT_NODE),
        ]
    )
    nodes = [machine("n1", pod_on("p"), node_conditions=[READY, hung]), machine("n2")]

    plan = planned(
        *nodes,
        pools=[pool(budgets=["1"])],
        policies=policies,
        settings=DisruptionSettings(repair=True),
    )

    assert [("reboot", ("n1",))] == [(c.decision, c.names) for c in plan.commands]
    assert [("n2", "Budget")] == [(b.node, b.why) for b in plan.blocked]


def test_repair_the_old_way_asks_nobody() -> None:
    broken = condition("BadNode", at=LONG_AGO)
    nodes = [
        machine("n1", pod_on("p"), node_conditions=[READY, broken]),
        machine("n2", pod_on("q")),
    ]

    plan = plan_disruption(
        snapshot(*nodes, pools=[pool(budgets=["0"])]),
        catalogue_of({}),
        FACTS_F,
        DisruptionSettings(legacy_repair=True),
        now=NOW,
        legacy_policies=[RepairPolicy("BadNode", "True", timedelta(minutes=30))],
    )

    assert [("repair", "Unhealthy", ("n1",))] == [
        (command.method, command.reason, command.names) for command in plan.commands
    ]


@pytest.mark.case("DIS-268")
def test_repair_the_old_way_says_when_too_many_fail() -> None:
    broken = condition("BadNode", at=LONG_AGO)
    ill = [machine(f"b{n}", node_conditions=[READY, broken]) for n in range(3)]
    well = [machine(f"n{n}") for n in range(7)]

    plan = plan_disruption(
        snapshot(*ill, *well, pools=[pool(after="Never")]),
        catalogue_of({}),
        FACTS_F,
        DisruptionSettings(legacy_repair=True),
        now=NOW,
        legacy_policies=[RepairPolicy("BadNode", "True", timedelta(minutes=30))],
    )

    assert [] == going(plan)
    held = [verdict.node for verdict in plan.blocked if verdict.why == "RepairBlocked"]
    assert ["b0", "b1", "b2"] == held
    told = [event for event in plan.events if event.reason == "NodeRepairBlocked"]
    assert [("Node/b0", True), ("Node/b1", True), ("Node/b2", True)] == [
        (event.target, event.is_warning) for event in told
    ]


def test_a_plan_ends_after_so_many_commands() -> None:
    nodes = [
        machine(f"n{n}", pod_on(f"p{n}", cpu="3"), claim_conditions=[DRIFTED]) for n in range(4)
    ]

    plan = plan_disruption(
        snapshot(*nodes, pools=[OD_POOL]),
        catalogue_of({}),
        FACTS_F,
        DisruptionSettings(),
        now=NOW,
        most=2,
    )

    assert 2 == len(plan.commands)
    assert {"NotEvaluated"} == {verdict.why for verdict in plan.blocked}


def test_a_plan_that_runs_out_of_time_says_so() -> None:
    nodes = [machine("n1", pod_on("p", cpu="3"), claim_conditions=[DRIFTED])]

    plan = plan_disruption(
        snapshot(*nodes, pools=[pool(after="0s", requirements=ON_DEMAND_ONLY)]),
        catalogue_of({}),
        FACTS_F,
        DisruptionSettings(),
        now=NOW,
        timer=lambda method: lambda: False,
    )

    assert [("n1", "NotEvaluated")] == [(b.node, b.why) for b in plan.blocked]
