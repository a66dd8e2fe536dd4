"""Topology where rules meet: minimums, several rules at once, chains and namespaces."""

from itertools import pairwise

import pytest

from helpers.builders import (
    APP_T,
    expression,
    instance_type,
    managed_node,
    offering,
    pod,
    pod_term,
    pods,
    selector,
    spread,
    unmanaged_node,
)
from helpers.solver import Answer, claim_value, solved
from karpenter.api.pods import PodAffinityTerm
from karpenter.model import labels as keys
from karpenter.scheduling.plan import Why
from karpenter.state.nodes import StateNode

EVERYWHERE = [
    offering(zone, capacity_type, 1.0)
    for zone in ("z1", "z2", "z3")
    for capacity_type in (keys.SPOT, keys.ON_DEMAND)
]


def holding(name: str, zone: str, *labels: dict[str, str], room: int = 0) -> StateNode:
    """A machine in a zone with a pod for each set of labels and room for some more."""
    held = [pod(f"{name}-{n}", labels=each, node_name=name) for n, each in enumerate(labels)]
    return managed_node(name, zone=zone, pods=held, slots=len(held) + room)


def skew(answer: Answer, key: str) -> int:
    counts = answer.pods_by(key).values()
    return max(counts) - min(counts)


# --- minDomains


def test_fewer_domains_than_asked_for_leave_one_pod_in_each() -> None:
    rule = spread(min_domains=5)

    answer = solved(pods(6, labels=APP_T, spread=[rule]))

    assert {"z1": 1, "z2": 1, "z3": 1} == answer.pods_by(keys.ZONE)
    assert 3 == len(answer.unplaced)


def test_fewer_domains_than_asked_for_leave_as_many_as_the_skew_allows() -> None:
    rule = spread(max_skew=2, min_domains=4)

    answer = solved(pods(9, labels=APP_T, spread=[rule]))

    assert {"z1": 2, "z2": 2, "z3": 2} == answer.pods_by(keys.ZONE)
    assert 3 == len(answer.unplaced)


def test_domains_the_pod_does_not_allow_are_no_help_with_a_minimum() -> None:
    rule = spread(min_domains=3)
    two_zones = [[expression(keys.ZONE, "In", "z1", "z2")]]

    answer = solved(pods(4, labels=APP_T, spread=[rule], required=two_zones))

    assert {"z1": 1, "z2": 1} == answer.pods_by(keys.ZONE)


def test_a_machine_of_no_pool_helps_to_reach_a_minimum_of_domains() -> None:
    rule = spread(min_domains=4)
    elsewhere = unmanaged_node("n", zone="z9", slots=3)

    answer = solved(pods(8, labels=APP_T, spread=[rule]), nodes=[elsewhere])

    assert {"z1": 2, "z2": 2, "z3": 2, "z9": 2} == answer.pods_by(keys.ZONE)


def test_a_minimum_of_machines_changes_nothing() -> None:
    rule = spread(keys.HOSTNAME, 2, min_domains=10)

    answer = solved(pods(4, labels=APP_T, spread=[rule]))

    assert [2, 2] == answer.loads


# --- several rules


def test_two_rules_on_one_label_must_both_be_kept() -> None:
    rules = [spread(), spread(selector=selector({"tier": "web"}))]
    nodes = [holding("n1", "z1", APP_T), holding("n2", "z2", {"tier": "web"})]

    answer = solved([pod("p", labels={**APP_T, "tier": "web"}, spread=rules)], nodes=nodes)

    assert {"z3": 1} == answer.pods_by(keys.ZONE)


def test_two_rules_on_one_label_that_leave_no_domain_in_common() -> None:
    rules = [spread(), spread(selector=selector({"tier": "web"}))]
    nodes = [
        holding("n1", "z1", APP_T),
        holding("n2", "z2", {"tier": "web"}),
        holding("n3", "z3", {**APP_T, "tier": "web"}),
    ]

    answer = solved([pod("p", labels={**APP_T, "tier": "web"}, spread=rules)], nodes=nodes)

    assert {"p": {Why.TOPOLOGY}} == answer.unplaced


def test_the_tighter_of_two_rules_on_one_label_decides() -> None:
    rules = [spread(max_skew=3), spread(max_skew=1)]

    answer = solved(pods(7, labels=APP_T, spread=rules))

    assert [2, 2, 3] == sorted(answer.pods_by(keys.ZONE).values())


def test_a_wish_beside_a_rule_on_one_label_is_given_up_alone() -> None:
    rules = [spread(), spread(selector=selector({"tier": "web"}), soft=True)]
    nodes = [holding("n3", "z3", *[APP_T] * 2), holding("n", "z1", *[{"tier": "web"}] * 2)]

    answer = solved(
        pods(2, labels={**APP_T, "tier": "web"}, spread=rules),
        nodes=nodes,
    )

    assert {"z1": 1, "z2": 1} == answer.pods_by(keys.ZONE)


def test_zones_machines_and_capacity_types_at_once() -> None:
    rules = [spread(), spread(keys.HOSTNAME, 2), spread(keys.CAPACITY_TYPE)]

    answer = solved(
        pods(12, labels=APP_T, spread=rules), types=[instance_type("t", offerings=EVERYWHERE)]
    )

    assert 12 == len(answer.placed)
    assert 0 == skew(answer, keys.ZONE)
    assert 0 == skew(answer, keys.CAPACITY_TYPE)
    assert max(answer.loads) <= 2


def test_a_zone_without_the_capacity_type_that_is_due_is_passed_over() -> None:
    """Zone z3 is the emptiest, but spot, which is due, is not sold there."""
    rules = [spread(max_skew=2), spread(keys.CAPACITY_TYPE)]
    nodes = [holding("n1", "z1", APP_T), holding("n2", "z2", APP_T)]

    answer = solved([pod("p", labels=APP_T, spread=rules)], nodes=nodes)

    assert ["p"] == answer.placed
    assert keys.SPOT == claim_value(answer.only, keys.CAPACITY_TYPE)


def test_spread_and_anti_affinity_on_one_label() -> None:
    nodes = [holding("n1", "z1", {"app": "noisy"})]
    waiting = pods(
        4,
        labels=APP_T,
        spread=[spread(max_skew=2)],
        anti_affinity=[pod_term({"app": "noisy"}, keys.ZONE)],
    )

    answer = solved(waiting, nodes=nodes)

    assert {"z2": 2, "z3": 2} == answer.pods_by(keys.ZONE)


def test_spread_and_affinity_on_one_label() -> None:
    nodes = [holding("n1", "z1", {"app": "db"}), holding("n2", "z2", {"app": "db"})]
    waiting = pods(
        6, labels=APP_T, spread=[spread(max_skew=2)], affinity=[pod_term({"app": "db"}, keys.ZONE)]
    )

    answer = solved(waiting, nodes=nodes)

    assert {"z1": 2, "z2": 2} == answer.pods_by(keys.ZONE)
    assert 2 == len(answer.unplaced)


def test_zonal_affinity_with_machines_kept_apart() -> None:
    waiting = pods(4, labels=APP_T, affinity=[pod_term(key=keys.ZONE)], anti_affinity=[pod_term()])

    answer = solved(waiting)

    assert [1, 1, 1, 1] == answer.loads
    assert 1 == len(answer.pods_by(keys.ZONE))


# --- chains of affinity


@pytest.mark.parametrize("key", [keys.HOSTNAME, keys.ZONE])
@pytest.mark.parametrize("links", [2, 5])
def test_a_chain_is_resolved_though_its_last_link_is_tried_first(key: str, links: int) -> None:
    names = [f"link-{number}" for number in range(links)]
    anchor = pod(names[0], cpu="1m", labels={"app": names[0]}, node_selector={keys.ZONE: "z2"})
    others = [
        pod(
            name,
            cpu=f"{number + 2}m",
            labels={"app": name},
            affinity=[pod_term({"app": before}, key)],
        )
        for number, (before, name) in enumerate(pairwise(names))
    ]

    answer = solved([anchor, *others])

    assert {"z2": links} == answer.pods_by(keys.ZONE)
    assert {} == answer.unplaced


def test_pods_that_each_wait_for_the_other_stay() -> None:
    answer = solved(
        [
            pod("a", labels={"app": "a"}, affinity=[pod_term({"app": "b"})]),
            pod("b", labels={"app": "b"}, affinity=[pod_term({"app": "a"})]),
            pod("c"),
        ]
    )

    assert {"a": {Why.TOPOLOGY}, "b": {Why.TOPOLOGY}} == answer.unplaced
    assert ["c"] == answer.placed


def test_a_pod_that_wants_to_be_near_two_that_are_apart_stays() -> None:
    nodes = [holding("n1", "z1", {"app": "a"}, room=5), holding("n2", "z2", {"app": "b"}, room=5)]

    answer = solved(
        [pod("p", affinity=[pod_term({"app": "a"}), pod_term({"app": "b"})])], nodes=nodes
    )

    assert {"p": {Why.TOPOLOGY}} == answer.unplaced


# --- namespaces

TEAMS = {"default": {"team": "web"}, "db": {"team": "db"}, "more-db": {"team": "db"}}


@pytest.mark.parametrize(
    ("term", "open_zones"),
    [
        pytest.param(pod_term(key=keys.ZONE), "z1|z2|z3", id="only the pod's own namespace"),
        pytest.param(
            pod_term(key=keys.ZONE, namespace_selector=selector({"team": "db"})),
            "z3",
            id="the namespaces of a team",
        ),
        pytest.param(
            pod_term(key=keys.ZONE, namespaces=["db"]), "z2|z3", id="one namespace by name"
        ),
        pytest.param(
            pod_term(
                key=keys.ZONE,
                namespaces=["db"],
                namespace_selector=selector(None, ("team", "NotIn", ("db",))),
            ),
            "z2|z3",
            id="one namespace by name and others by an expression",
        ),
        pytest.param(
            pod_term(key=keys.ZONE, namespace_selector=selector()), "z3", id="all namespaces"
        ),
    ],
)
def test_anti_affinity_looks_at_the_namespaces_it_names(
    term: PodAffinityTerm, open_zones: str
) -> None:
    nodes = [
        managed_node(
            f"n-{zone}",
            zone=zone,
            slots=1,
            pods=[pod("held", namespace=namespace, labels=APP_T, node_name=f"n-{zone}")],
        )
        for zone, namespace in (("z1", "db"), ("z2", "more-db"))
    ]

    answer = solved([pod("p", anti_affinity=[term])], nodes=nodes, namespaces=TEAMS)

    assert open_zones == claim_value(answer.only, keys.ZONE)


def test_a_running_pod_keeps_away_the_pods_of_namespaces_it_selects() -> None:
    term = pod_term(namespace_selector=selector({"team": "db"}))
    held = pod("held", node_name="n", anti_affinity=[term])
    waiting = [pod("far", namespace="db", labels=APP_T), pod("near", labels=APP_T)]

    answer = solved(waiting, nodes=[managed_node("n", pods=[held])], namespaces=TEAMS)

    assert {"n": ["near"]} == answer.existing
    assert ["db/far"] == list(answer.only.pods)


@pytest.mark.parametrize(
    ("empty", "asked"),
    [
        pytest.param(["z8"], "z8", id="one zone is named as it is"),
        pytest.param(["z8", "z9"], "one of z8, z9", id="several are a choice"),
    ],
)
def test_zones_that_a_rule_asks_for_and_nobody_sells_are_named(
    empty: list[str], asked: str
) -> None:
    sold = [instance_type("t", offerings=[offering("z1", keys.SPOT, 1.0)])]
    nodes = [holding("n1", "z1", APP_T), *(holding(zone, zone) for zone in empty)]

    answer = solved([pod("p", labels=APP_T, spread=[spread()])], nodes=nodes, types=sold)

    assert [
        f"topology asks for {keys.ZONE} {asked}, where nothing that fits is offered"
    ] == answer.details("p")
