"""Which pool is used, and when its limits say that it is enough."""

import pytest

from helpers.builders import (
    APP_T,
    FACTS_F,
    expression,
    managed_node,
    node_pool,
    pod,
    pod_term,
    pods,
    unmanaged_node,
)
from helpers.solver import solved
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.model import labels as keys
from karpenter.scheduling.inputs.pools import sort_out_pools
from karpenter.scheduling.plan import Why

NOWHERE = node_pool(requirements=[expression(keys.INSTANCE_TYPE, "In", "nope")])


def alone(name: str, cpu: str = "0") -> Pod:
    """A pod that shares its node with none of its kind."""
    return pod(name, cpu=cpu, labels=APP_T, anti_affinity=[pod_term()])


@pytest.mark.parametrize(
    ("pools", "wanted", "used"),
    [
        pytest.param(
            [node_pool("none"), node_pool("some", weight=20), node_pool("most", weight=100)],
            pods(3),
            "most",
            id="SCH-103 the heaviest pool is used",
        ),
        pytest.param(
            [node_pool("alpha"), node_pool("zulu")],
            pods(3),
            "zulu",
            id="SCH-104 among equals the last by name",
        ),
        pytest.param(
            [node_pool("heavy", weight=100), node_pool("light", weight=1)],
            [pod(node_selector={keys.NODEPOOL: "light"})],
            "light",
            id="SCH-105 a pod may choose its pool",
        ),
    ],
)
def test_the_order_of_pools(pools: list[NodePool], wanted: list[Pod], used: str) -> None:
    answer = solved(wanted, pools=pools)

    assert {used} == set(answer.pools)
    assert {} == answer.unplaced


@pytest.mark.case("SCH-106")
def test_a_pool_beyond_its_limits_makes_no_more_nodes() -> None:
    full = managed_node("n", cpu="100", pods=[pod("busy", cpu="100", node_name="n")])

    answer = solved([pod("p", cpu="1")], pools=[node_pool(limits={"cpu": "20"})], nodes=[full])

    assert {"p": {Why.LIMIT_EXCEEDED}} == answer.unplaced


@pytest.mark.case("SCH-107")
@pytest.mark.parametrize(
    ("cpu", "types", "unplaced"),
    [
        pytest.param("1.75", ["small"], {}, id="a type within the limits is used"),
        pytest.param("2.1", [], {"p": {Why.LIMIT_EXCEEDED}}, id="one beyond them is not"),
    ],
)
def test_limits_leave_out_types(cpu: str, types: list[str], unplaced: dict[str, set[Why]]) -> None:
    answer = solved([pod("p", cpu=cpu)], pools=[node_pool(limits={"cpu": "2"})])

    assert types == answer.types
    assert unplaced == answer.unplaced


@pytest.mark.case("SCH-108")
def test_claims_of_one_pass_share_the_limits() -> None:
    answer = solved([alone("a", "1.5"), alone("b", "1.5")], pools=[node_pool(limits={"cpu": "3"})])

    assert ["small"] == answer.types
    assert {"b": {Why.LIMIT_EXCEEDED}} == answer.unplaced


def test_a_claim_counts_as_the_largest_type_it_lists() -> None:
    wanted = [alone("a"), alone("b"), alone("c")]

    answer = solved(wanted, pools=[node_pool(limits={"cpu": "18"})])

    assert {"small", "arm"} <= set(answer.with_pod("a").instance_types)
    assert ("small",) == answer.with_pod("b").instance_types
    assert {"c": {Why.LIMIT_EXCEEDED}} == answer.unplaced


@pytest.mark.parametrize(
    ("limit", "placed"),
    [
        pytest.param("2", ["p"], id="types without the resource remain when none of it is left"),
        pytest.param("1", [], id="a limit that is exceeded closes the whole pool"),
    ],
)
def test_a_limit_on_a_resource_that_few_types_have(limit: str, placed: list[str]) -> None:
    used = managed_node("n", slots=0, resources={"acme/gpu-a": "2"})

    answer = solved([pod("p")], pools=[node_pool(limits={"acme/gpu-a": limit})], nodes=[used])

    assert placed == answer.placed
    assert all("gpu-a" not in claim.instance_types for claim in answer.claims)


@pytest.mark.case("SCH-109")
def test_earlier_passes_use_up_the_limits() -> None:
    pools = [node_pool(limits={"cpu": "2"})]
    first = solved([pod("first", cpu="1.75")], pools=pools)

    second = solved([pod("second", cpu="1.75")], pools=pools, nodes=first.settled())

    assert ["small"] == first.types
    assert {"second": {Why.LIMIT_EXCEEDED}} == second.unplaced


@pytest.mark.case("SCH-109")
def test_nodes_that_are_still_launching_use_up_the_limits() -> None:
    pools = [node_pool(limits={"cpu": "2"})]
    first = solved([pod("first", cpu="1.75")], pools=pools)

    second = solved(
        [pod("second", cpu="1.75"), pod("first", cpu="1.75")], pools=pools, nodes=first.launching()
    )

    assert {first.only.name: ["first"]} == second.existing
    assert {"second": {Why.LIMIT_EXCEEDED}} == second.unplaced


@pytest.mark.case("SCH-110")
def test_any_resource_can_be_limited() -> None:
    answer = solved(
        [pod("p", requests={"acme/gpu-a": "1"})], pools=[node_pool(limits={"pods": "1"})]
    )

    assert {"p": {Why.LIMIT_EXCEEDED}} == answer.unplaced


@pytest.mark.case("SCH-111")
def test_the_number_of_nodes_can_be_limited() -> None:
    pools = [node_pool(limits={"nodes": "2"})]

    first = solved([alone("first")], pools=pools)
    second = solved([alone("second")], pools=pools, nodes=first.settled())
    third = solved([alone("third")], pools=pools, nodes=second.settled())

    assert 1 == len(first.claims)
    assert 1 == len(second.claims)
    assert {"third": {Why.LIMIT_EXCEEDED}} == third.unplaced


def test_nodes_that_leave_do_not_count_toward_the_limits() -> None:
    leaving = managed_node("n", cpu="100", marked=True)

    answer = solved([pod("p")], pools=[node_pool(limits={"cpu": "20"})], nodes=[leaving])

    assert ["p"] == answer.placed


def test_a_limit_on_what_the_pod_may_use_is_the_reason_even_if_other_types_remain() -> None:
    wanted = pod("p", node_selector={keys.ARCH: "arm64"})

    answer = solved([wanted], pools=[node_pool(limits={"cpu": "10"})])

    assert {"p": {Why.LIMIT_EXCEEDED}} == answer.unplaced


def test_without_any_pool_nothing_is_tried() -> None:
    answer = solved([pod("p")], pools=[], nodes=[unmanaged_node("n")])

    assert {"p": {Why.NO_POOLS}} == answer.unplaced


@pytest.mark.case("SCH-112")
def test_a_pool_without_types_is_reported_and_takes_nobody() -> None:
    full = unmanaged_node("n", cpu="1", pods=[pod("busy", cpu="1", node_name="n")])

    answer = solved([pod("p", cpu="1")], pools=[NOWHERE], nodes=[full])

    assert {"p": {Why.NO_INSTANCE_TYPES}} == answer.unplaced
    assert [("np", Why.NO_INSTANCE_TYPES)] == [
        (reason.node_pool, reason.why) for reason in answer.plan.empty_pools
    ]


@pytest.mark.case("SCH-113")
def test_machines_are_used_even_if_no_pool_has_types() -> None:
    answer = solved([pod("p", cpu="1")], pools=[NOWHERE], nodes=[unmanaged_node("n", cpu="1")])

    assert {"n": ["p"]} == answer.existing


@pytest.mark.case("SCH-114")
def test_pods_bring_nodes_of_dynamic_pools_only() -> None:
    pools = [node_pool("static", weight=100, replicas=3), node_pool("dynamic")]
    of_static = managed_node("n", pool="static", cpu="2")

    usable = sort_out_pools(pools, {}, FACTS_F).dynamic
    answer = solved([pod("a", cpu="2"), pod("b", cpu="2")], pools=usable, nodes=[of_static])

    assert {"n": ["a"]} == answer.existing
    assert ["dynamic"] == answer.pools
