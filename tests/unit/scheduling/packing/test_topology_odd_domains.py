"""Topology over odd domains: labels of pools, machines outside every pool, any order."""

import pytest

from helpers.builders import (
    APP_T,
    expression,
    instance_type,
    ladder,
    launching_node,
    managed_node,
    node_pool,
    offering,
    pod,
    pod_term,
    pods,
    spread,
    unmanaged_node,
)
from helpers.solver import claim_value, solved
from karpenter.api.pods import Pod
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

ON_Z1 = {keys.ZONE: "z1"}


def holding(name: str, zone: str, *labels: dict[str, str], room: int = 0) -> StateNode:
    """A machine in a zone with a pod for each set of labels and room for some more."""
    held = [pod(f"{name}-{n}", labels=each, node_name=name) for n, each in enumerate(labels)]
    return managed_node(name, zone=zone, pods=held, slots=len(held) + room)


# --- labels other than zones


def test_pods_are_spread_over_pools() -> None:
    answer = solved(
        pods(4, labels=APP_T, spread=[spread(keys.NODEPOOL)]),
        pools=[node_pool("a", weight=100), node_pool("b")],
    )

    assert {"a": 2, "b": 2} == answer.pods_by(keys.NODEPOOL)


def test_pods_are_spread_over_instance_types() -> None:
    answer = solved(pods(3, labels=APP_T, spread=[spread(keys.INSTANCE_TYPE)]), types=ladder(3))

    assert ["it-0", "it-1", "it-2"] == answer.types


def test_a_pool_without_the_label_is_no_domain_of_it() -> None:
    pools = [node_pool("plain", weight=100), node_pool("racks", labels={"rack": "r1"})]

    answer = solved([pod("p", labels=APP_T, spread=[spread("rack")])], pools=pools)

    assert ["racks"] == answer.pools


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(pod("p", labels=APP_T, affinity=[pod_term(key="rack")]), id="near to itself"),
        pytest.param(pod("p", anti_affinity=[pod_term(key="rack")]), id="away from others"),
    ],
)
def test_affinity_over_a_label_only_one_pool_has(wanted: Pod) -> None:
    pools = [node_pool("plain", weight=100), node_pool("racks", labels={"rack": "r1"})]

    answer = solved([wanted], pools=pools)

    assert ["racks"] == answer.pools


def test_a_pool_that_leaves_a_label_open_takes_the_domains_of_others() -> None:
    pools = [
        node_pool("any", weight=100, requirements=[expression("rack", "Exists")]),
        node_pool("racks", requirements=[expression("rack", "In", "r1", "r2")]),
    ]

    answer = solved(pods(2, labels=APP_T, spread=[spread("rack")]), pools=pools)

    assert {"r1": 1, "r2": 1} == answer.pods_by("rack")
    assert ["any", "any"] == answer.pools


# --- machines outside every pool


def test_a_domain_of_machines_alone_takes_pods_while_it_has_room() -> None:
    elsewhere = unmanaged_node("n", zone="z9", slots=1)

    answer = solved(pods(8, labels=APP_T, spread=[spread()]), nodes=[elsewhere])

    assert {"z1": 2, "z2": 2, "z3": 2, "z9": 1} == answer.pods_by(keys.ZONE)
    assert 1 == len(answer.unplaced)


def test_a_zone_that_is_sold_out_holds_the_others_back() -> None:
    sold_out = instance_type(
        "t",
        offerings=[
            offering("z1", keys.SPOT, 1.0),
            offering("z2", keys.SPOT, 1.0),
            offering("z3", keys.SPOT, 1.0, available=False),
        ],
    )

    answer = solved(pods(4, labels=APP_T, spread=[spread()]), types=[sold_out])

    assert {"z1": 1, "z2": 1} == answer.pods_by(keys.ZONE)
    assert 2 == len(answer.unplaced)


def test_pods_stay_together_on_a_machine_that_is_launching() -> None:
    waiting = [
        pod("target", cpu="2", labels=APP_T),
        pod("follower", cpu="1", affinity=[pod_term()]),
    ]

    answer = solved(waiting, nodes=[launching_node("n")])

    assert {"n": ["target", "follower"]} == answer.existing


def test_a_domain_of_departing_machines_does_not_count() -> None:
    leaving = managed_node("n", zone="z9", slots=1, marked=True)

    answer = solved(pods(6, labels=APP_T, spread=[spread()]), nodes=[leaving])

    assert {"z1": 2, "z2": 2, "z3": 2} == answer.pods_by(keys.ZONE)


def test_a_domain_of_launching_machines_does_not_count_before_they_are_nodes() -> None:
    answer = solved(
        pods(6, labels=APP_T, spread=[spread()]), nodes=[launching_node("n", zone="z9", slots=0)]
    )

    assert {"z1": 2, "z2": 2, "z3": 2} == answer.pods_by(keys.ZONE)


def test_pods_that_move_do_not_count_where_they_were() -> None:
    moving = pods(3, "moving", labels=APP_T, spread=[spread()], node_name="n")
    leaving = managed_node("n", zone="z1", pods=moving, marked=True)

    answer = solved(moving, nodes=[leaving])

    assert {"z1": 1, "z2": 1, "z3": 1} == answer.pods_by(keys.ZONE)


def test_pods_that_stay_on_a_departing_machine_count_until_they_are_gone() -> None:
    staying = pods(3, "staying", labels=APP_T, node_name="n")
    leaving = managed_node("n", zone="z1", pods=staying, marked=True)

    answer = solved(pods(2, labels=APP_T, spread=[spread()]), nodes=[leaving])

    assert {"z2": 1, "z3": 1} == answer.pods_by(keys.ZONE)


def test_machines_that_exist_are_filled_as_far_as_the_rule_allows() -> None:
    nodes = [holding(f"n{n}", f"z{n}", room=10) for n in (1, 2)]

    answer = solved(pods(6, labels=APP_T, spread=[spread()]), nodes=nodes)

    assert {"n1": 2, "n2": 2} == {name: len(held) for name, held in answer.existing.items()}
    assert {"z3"} == {claim_value(claim, keys.ZONE) for claim in answer.claims}


def test_a_hostname_rule_counts_what_runs_on_each_machine() -> None:
    nodes = [holding("n1", "z1", APP_T, room=10), holding("n2", "z1", *[APP_T] * 2, room=10)]

    answer = solved(pods(2, labels=APP_T, spread=[spread(keys.HOSTNAME, 2)]), nodes=nodes)

    assert {"n1": ["pod-0"]} == answer.existing
    assert [1] == answer.loads


def test_a_machine_that_calls_itself_by_another_hostname_is_one_domain() -> None:
    held = pod("held", labels=APP_T, node_name="n")
    odd = managed_node("n", labels={keys.HOSTNAME: "other"}, pods=[held])

    answer = solved([pod("p", labels=APP_T, affinity=[pod_term()])], nodes=[odd])

    assert {"n": ["p"]} == answer.existing


# --- the order of the question


def test_the_answer_does_not_depend_on_the_order_of_the_question() -> None:
    waiting = [
        *pods(5, "spread", cpu="1", labels=APP_T, spread=[spread()]),
        *pods(3, "apart", cpu="1", labels={"app": "x"}, anti_affinity=[pod_term({"app": "x"})]),
        *pods(3, "near", cpu="2", affinity=[pod_term(key=keys.ZONE)]),
    ]
    nodes = [
        holding("n1", "z1", APP_T, room=1),
        holding("n2", "z2", {"app": "x"}, room=2),
        holding("n9", "z9", room=1),
    ]
    pools = [node_pool("a"), node_pool("b", weight=1), node_pool("c")]

    forth = solved(waiting, nodes=nodes, pools=pools)
    back = solved(reversed(waiting), nodes=nodes[::-1], pools=pools[::-1])

    assert forth.plan == back.plan


def test_reasons_do_not_depend_on_the_order_of_the_question() -> None:
    waiting = [
        pod("avoids-racks", cpu="3", anti_affinity=[pod_term(key="rack")], node_selector=ON_Z1),
        pod("avoids-zones", cpu="2", anti_affinity=[pod_term(key=keys.ZONE)], node_selector=ON_Z1),
        pod("avoided", cpu="1", labels=APP_T),
    ]
    nodes = [managed_node("n", slots=0, labels={"rack": "x"})]

    forth = solved(waiting, nodes=nodes)
    back = solved(reversed(waiting), nodes=nodes)

    assert ["avoided", "avoids-racks"] == sorted(forth.unplaced)
    assert forth.plan == back.plan
