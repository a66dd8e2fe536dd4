"""Static pools reach their number of nodes: up within the limit, down from the cheapest."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from helpers.builders import (
    NOW,
    condition,
    instance_type,
    managed_node,
    node_claim,
    node_pool,
    offering,
    pod,
    reserved,
)
from karpenter.model.labels import DO_NOT_DISRUPT, NODEPOOL, REPLACES
from karpenter.scheduling.static_pools import plan_static, static_launches
from karpenter.state.expectations import ComingClaim
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot


def machine(name: str, *pods: str, protected: bool = False) -> StateNode:
    annotations = {DO_NOT_DISRUPT: "true"} if protected else {}
    bound = [pod(f"{name}-{p}", node_name=name, annotations=annotations) for p in pods]
    return managed_node(name, pool="fixed", pods=bound)


def test_missing_nodes_are_created() -> None:
    pool = node_pool("fixed", replicas=3)

    (outcome,) = plan_static([pool], Snapshot(nodes=(machine("a"),)), now=NOW)

    assert (3, 1, 2, ()) == (outcome.replicas, outcome.have, outcome.create, outcome.delete)


def test_the_node_limit_holds() -> None:
    pool = node_pool("fixed", replicas=5, limits={"nodes": "2"})

    (outcome,) = plan_static([pool], Snapshot(nodes=(machine("a"),)), now=NOW)

    assert 1 == outcome.create


def test_claims_that_have_not_launched_count_and_go_first() -> None:
    claim = node_claim("waiting")
    meta = msgspec.structs.replace(claim.metadata, labels={NODEPOOL: "fixed"})
    claim = msgspec.structs.replace(claim, metadata=meta)
    pool = node_pool("fixed", replicas=1)
    snapshot = Snapshot(nodes=(machine("a"),), unlaunched=(claim,))

    (outcome,) = plan_static([pool], snapshot, now=NOW)

    assert (2, 0, ("waiting",)) == (outcome.have, outcome.create, outcome.delete)


def test_empty_nodes_go_before_busy_ones_and_protected_ones_last() -> None:
    pool = node_pool("fixed", replicas=1)
    nodes = (
        machine("busy", "x", "y"),
        machine("empty"),
        machine("guarded", "z", protected=True),
        machine("light", "x"),
    )

    (outcome,) = plan_static([pool], Snapshot(nodes=nodes), now=NOW + timedelta(hours=1))

    assert ("empty", "light", "busy") == outcome.delete


def replacing(name: str, replacement: StateNode) -> StateNode:
    claim = replacement.node_claim
    assert claim is not None
    meta = msgspec.structs.replace(claim.metadata, annotations={REPLACES: name})
    return replace(replacement, node_claim=msgspec.structs.replace(claim, metadata=meta))


def test_the_first_to_go_has_been_replaced_and_then_goes_what_is_being_replaced() -> None:
    pool = node_pool("fixed", replicas=1)
    standing = [condition("Initialized", "True")]
    new = managed_node("new", pool="fixed", conditions=standing, created=NOW)
    coming = managed_node("coming", pool="fixed", created=NOW)
    old = [machine(name, "x") for name in ("leaving", "replaced")]
    nodes = (
        replace(old[0], is_marked=True),
        replacing("leaving", coming),
        old[1],
        replacing("replaced", new),
        machine("empty"),
    )

    def going(replicas: int) -> tuple[str, ...]:
        wanted = node_pool("fixed", replicas=replicas)
        return plan_static([wanted], Snapshot(nodes=nodes), now=NOW)[0].delete

    assert 4 == plan_static([pool], Snapshot(nodes=nodes), now=NOW)[0].have
    assert ("replaced",) == going(3)
    assert ("replaced", "leaving", "coming") == going(2)
    assert ("replaced", "leaving", "coming", "empty") == going(1)


def test_one_that_nobody_has_seen_goes_first_but_not_before_it_is_seen() -> None:
    pool = node_pool("fixed", replicas=2)
    coming = {
        "single": ComingClaim("fixed"),
        "other": ComingClaim("fixed", replaces="a"),
    }
    cluster = Snapshot(nodes=(machine("a"), machine("b")), coming=coming)

    (outcome,) = plan_static([pool], cluster, now=NOW)
    (smaller,) = plan_static([node_pool("fixed", replicas=0)], cluster, now=NOW)

    assert (3, 0, ()) == (outcome.have, outcome.create, outcome.delete)
    assert ("b",) == smaller.delete  # the couple of a is not complete


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        pytest.param(False, ("b",), id="what the user says a pod is worth counts"),
        pytest.param(True, ("a",), id="what Karpenter itself wrote does not"),
    ],
)
def test_the_deletion_cost_of_pods(ours: bool, expected: tuple[str, ...]) -> None:
    pool = node_pool("fixed", replicas=1)
    cost = {"controller.kubernetes.io/pod-deletion-cost": "1000000"}
    dear = pod("dear", node_name="a", annotations=cost)
    snapshot = Snapshot(nodes=(managed_node("a", pool="fixed", pods=[dear]), machine("b", "x")))

    (outcome,) = plan_static([pool], snapshot, now=NOW, deletion_cost_is_ours=ours)

    assert expected == outcome.delete


def test_a_reservation_serves_as_many_new_nodes_as_it_has_room_for() -> None:
    kind = instance_type(
        "s4",
        cpu="4",
        offerings=[offering("z1", "on-demand", 1.0)],
        reservations=[reserved("r1", 2)],
    )

    found = static_launches(node_pool("fixed", replicas=3), [kind], 3)

    assert ["reserved", "reserved", "on-demand"] == [
        each.capacity_type for each in found if each is not None
    ]
    assert (None,) * 2 == static_launches(node_pool("fixed", replicas=2), [], 2)
