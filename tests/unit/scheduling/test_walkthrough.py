"""A walk through scaling one app up: a fixed node, two types, and exactly the nodes it takes.

The fixed node is a small one that is nearly full. Of the new types the smaller is the cheaper one,
and a daemon takes 125m on each new node.
"""

import pytest

from helpers.builders import (
    daemon_set,
    expression,
    instance_type,
    node_pool,
    offering,
    pod,
    pods,
    unmanaged_node,
)
from helpers.solver import Answer, solved
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.model.resources import NO_RESOURCES
from karpenter.state.nodes import StateNode


def sold(name: str, cpu: str, memory: str, price: float) -> InstanceType:
    return instance_type(
        name,
        cpu=cpu,
        memory=memory,
        slots=58,
        reserved_system=NO_RESOURCES,
        offerings=[
            offering("z1", keys.SPOT, price / 3),
            offering("z1", keys.ON_DEMAND, price),
        ],
    )


CATALOGUE = (
    sold("m5.24xlarge", "95690m", "370Gi", 5.95),
    sold("t3a.2xlarge", "7910m", "31Gi", 0.39),
    sold("c4.xlarge", "3920m", "6.5Gi", 0.25),
)
# on the fixed node, what daemons take is part of what is in use there
DAEMON = daemon_set(cpu="125m", required=[[expression(keys.NODEPOOL, "Exists")]])
POOL = node_pool(
    "default",
    requirements=[expression(keys.CAPACITY_TYPE, "In", keys.SPOT, keys.ON_DEMAND)],
    limits={"cpu": "100"},
)


def fixed_node() -> StateNode:
    system = pod("system", cpu="1425m", memory="1214Mi", node_name="fixed")
    return unmanaged_node("fixed", cpu="1930m", memory="7Gi", slots=29, pods=[system])


def scaled(replicas: int, before: Answer | None) -> Answer:
    """Add replicas of the app to what stands already."""
    nodes = before.settled() if before else [fixed_node()]
    running = sum(p.metadata.name.startswith("app") for node in nodes for p in node.pods)
    wanted = pods(replicas, "app", cpu="500m", memory="512Mi")[running:]
    return solved(wanted, pools=[POOL], types=CATALOGUE, nodes=nodes, daemon_sets=[DAEMON])


def apps_per_node(answer: Answer) -> list[int]:
    return [sum(p.metadata.name.startswith("app") for p in node.pods) for node in answer.settled()]


ONE = scaled(1, None)
FIVE = scaled(5, ONE)
TWENTY = scaled(20, FIVE)


@pytest.mark.row("S3-16")
def test_one_replica_just_fits_on_the_fixed_node() -> None:
    (fixed,) = ONE.settled()

    assert (1925, 1930) == (fixed.requested.cpu, fixed.allocatable.cpu)


@pytest.mark.row("S3-17")
def test_with_one_replica_there_is_one_node_and_no_claim() -> None:
    assert () == ONE.claims
    assert [1] == apps_per_node(ONE)


@pytest.mark.row("S3-23")
def test_five_replicas_stand_one_and_four_with_one_claim() -> None:
    assert [4] == FIVE.loads
    assert [1, 4] == apps_per_node(FIVE)


@pytest.mark.row("S3-24")
def test_the_first_claim_is_the_smallest_type_that_fits() -> None:
    assert 2125 == FIVE.only.requests.cpu
    assert ["c4.xlarge"] == FIVE.types


@pytest.mark.row("S3-29")
def test_twenty_replicas_bring_a_third_node_and_one_more_claim() -> None:
    assert 1 == len(TWENTY.claims)
    assert 3 == len(TWENTY.settled())


@pytest.mark.row("S3-30")
def test_the_second_claim_is_the_smallest_type_for_twelve_pods() -> None:
    assert 6125 == TWENTY.only.requests.cpu
    assert ["t3a.2xlarge"] == TWENTY.types


@pytest.mark.row("S3-31")
def test_free_room_is_filled_first() -> None:
    assert {FIVE.only.name: 3} == {name: len(p) for name, p in TWENTY.existing.items()}
    assert [1, 7, 12] == apps_per_node(TWENTY)
