"""Static pools reach their number of nodes: up within the limit, down from the cheapest."""

from datetime import timedelta

import msgspec
import pytest

from builders import NOW, managed_node, node_claim, node_pool, pod
from karpenter.model.labels import DO_NOT_DISRUPT, NODEPOOL
from karpenter.scheduling.static import plan_static
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


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        pytest.param(False, ("b",), id="8.2 what the user says a pod is worth counts"),
        pytest.param(True, ("a",), id="8.2 what Karpenter itself wrote does not"),
    ],
)
def test_the_deletion_cost_of_pods(ours: bool, expected: tuple[str, ...]) -> None:
    pool = node_pool("fixed", replicas=1)
    cost = {"controller.kubernetes.io/pod-deletion-cost": "1000000"}
    dear = pod("dear", node_name="a", annotations=cost)
    snapshot = Snapshot(nodes=(managed_node("a", pool="fixed", pods=[dear]), machine("b", "x")))

    (outcome,) = plan_static([pool], snapshot, now=NOW, deletion_cost_is_ours=ours)

    assert expected == outcome.delete
