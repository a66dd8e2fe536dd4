"""Topology spread: how many pods go to each domain, and which pods count."""

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

import pytest

from helpers.builders import (
    APP_T,
    NOW,
    PodOptions,
    expression,
    managed_node,
    node_pool,
    pod,
    pods,
    selector,
    spread,
    unmanaged_node,
)
from helpers.solver import claim_value, solved
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.model import labels as keys
from karpenter.model.requirements import Requirements
from karpenter.scheduling.plan import Why
from karpenter.scheduling.problem import PodVolumes
from karpenter.state.nodes import StateNode

HOSTNAMES = spread(keys.HOSTNAME)
ALL_ZONES = [node_pool()]


class Spreading(TypedDict):
    """The part of a pod that is about spread."""

    labels: Mapping[str, str]
    spread: Sequence[TopologySpreadConstraint]


def spreading(*constraints: TopologySpreadConstraint) -> Spreading:
    return {"labels": APP_T, "spread": constraints or (spread(),)}


def in_zones(*zones: str) -> list[NodePool]:
    return [node_pool(requirements=[expression(keys.ZONE, "In", *zones)])]


def full_node(zone: str, count: int = 1, name: str = "", **labels: str) -> StateNode:
    """A machine in a zone with so many pods that count, and no room for another."""
    name = name or f"full-{zone}"
    held = pods(count, name, labels=APP_T, node_name=name)
    return managed_node(name, zone=zone, slots=count, pods=held, labels=labels)


@pytest.mark.parametrize(
    ("count", "pools", "zones"),
    [
        pytest.param(4, ALL_ZONES, [1, 1, 2], id="SCH-151 four pods over three zones"),
        pytest.param(
            4, in_zones("z1", "z2"), [2, 2], id="SCH-152 the pool knows two of the three zones"
        ),
        pytest.param(3, ALL_ZONES, [1, 1, 1], id="three pods over three zones"),
    ],
)
def test_pods_are_spread_evenly(count: int, pools: list[NodePool], zones: list[int]) -> None:
    answer = solved(pods(count, **spreading()), pools=pools)

    assert zones == sorted(answer.pods_by(keys.ZONE).values())


@pytest.mark.case("SCH-153")
def test_a_label_nobody_has_refuses_the_pod() -> None:
    answer = solved([pod("p", **spreading(spread("unknown")))])

    assert {"p": {Why.TOPOLOGY}} == answer.unplaced


@pytest.mark.case("SCH-153")
def test_a_label_nobody_has_is_forgotten_when_it_was_only_a_wish() -> None:
    answer = solved([pod("p", **spreading(spread("unknown", soft=True)))])

    assert ["p"] == answer.placed


@pytest.mark.case("SCH-154")
def test_without_a_selector_no_pod_counts() -> None:
    answer = solved(pods(2, **spreading(spread(selector=None))))

    assert [2] == sorted(answer.pods_by(keys.ZONE).values())


@pytest.mark.parametrize(
    ("wanted", "nodes", "pools", "placed"),
    [
        pytest.param(
            pods(10, **spreading()),
            [full_node("z1")],
            in_zones("z2", "z3"),
            {"z2": 2, "z3": 2},
            id="SCH-155 a zone only machines are in holds the others back",
        ),
        pytest.param(
            pods(10, **spreading(spread(max_skew=5))),
            [full_node("z1"), full_node("z2")],
            in_zones("z3"),
            {"z3": 6},
            id="SCH-156 the one zone of the pool may be five ahead",
        ),
        pytest.param(
            pods(2, **spreading()),
            [full_node("z1", 3)],
            ALL_ZONES,
            {"z2": 1, "z3": 1},
            id="SCH-157 a zone that is ahead gets none",
        ),
        pytest.param(
            pods(10, **spreading(spread(min_domains=1))),
            [full_node("z1")],
            in_zones("z2", "z3"),
            {"z2": 2, "z3": 2},
            id="a minimum of domains that is met changes nothing",
        ),
    ],
)
def test_pods_that_run_already_count(
    wanted: list[Pod], nodes: list[StateNode], pools: list[NodePool], placed: dict[str, int]
) -> None:
    answer = solved(wanted, nodes=nodes, pools=pools)

    assert placed == answer.pods_by(keys.ZONE)
    assert len(wanted) - sum(placed.values()) == len(answer.unplaced)


@pytest.mark.case("SCH-157")
def test_three_pods_stay_clear_of_the_zone_that_is_ahead() -> None:
    answer = solved(pods(3, **spreading()), nodes=[full_node("z1", 3)])

    counts = answer.pods_by(keys.ZONE)
    assert {"z2", "z3"} == set(counts)
    assert [1, 2] == sorted(counts.values())


def in_z1(**options: Unpack[PodOptions]) -> StateNode:
    """Three pods like this in z1."""
    options.setdefault("labels", APP_T)
    options["node_name"] = "n1"
    return managed_node("n1", zone="z1", slots=3, pods=pods(3, "other", **options))


@pytest.mark.case("SCH-158")
@pytest.mark.parametrize(
    ("node", "zone"),
    [
        pytest.param(in_z1(), "z2", id="live matching pods count"),
        pytest.param(in_z1(labels={}), "z1", id="pods without the label do not"),
        pytest.param(in_z1(namespace="else"), "z1", id="nor do those of other namespaces"),
        pytest.param(in_z1(deleted=NOW), "z1", id="nor do those being deleted"),
        pytest.param(in_z1(phase="Failed"), "z1", id="nor do those that failed"),
        pytest.param(in_z1(phase="Succeeded"), "z1", id="nor do those that succeeded"),
        pytest.param(
            managed_node(
                "n1", zone="", slots=3, pods=pods(3, "other", labels=APP_T, node_name="n1")
            ),
            "z1",
            id="nor do those on a machine without the label",
        ),
    ],
)
def test_which_pods_count(node: StateNode, zone: str) -> None:
    answer = solved(
        [pod("p", **spreading())], nodes=[node, full_node("z2")], pools=in_zones("z1", "z2")
    )

    assert {zone: 1} == answer.pods_by(keys.ZONE)


@pytest.mark.case("SCH-158")
def test_a_pod_that_waits_in_vain_does_not_count() -> None:
    impossible = pods(3, "big", cpu="1000", labels=APP_T, node_selector={keys.ZONE: "z1"})

    answer = solved(
        [*impossible, pod("p", **spreading())], nodes=[full_node("z2")], pools=in_zones("z1", "z2")
    )

    assert {"z1": 1} == answer.pods_by(keys.ZONE)


@pytest.mark.parametrize(
    ("count", "pools", "zones", "left"),
    [
        pytest.param(
            3, in_zones("z1", "z2"), [1, 1], 1, id="SCH-159 a third zone that does not exist"
        ),
        pytest.param(11, ALL_ZONES, [3, 4, 4], 0, id="SCH-160 as many zones as asked for"),
    ],
)
def test_a_minimum_of_domains(
    count: int, pools: list[NodePool], zones: list[int], left: int
) -> None:
    answer = solved(pods(count, **spreading(spread(min_domains=3))), pools=pools)

    assert zones == sorted(answer.pods_by(keys.ZONE).values())
    assert left == len(answer.unplaced)


@pytest.mark.case("SCH-159")
def test_a_pod_is_told_of_the_minimum_of_domains() -> None:
    wanted = pods(3, **spreading(spread(min_domains=3)))

    answer = solved(wanted, pools=in_zones("z1", "z2"))

    (detail,) = answer.details("pod-2")
    assert f"topology spread over {keys.ZONE} maxSkew 1 minDomains 3 leaves no domain" in detail


@pytest.mark.parametrize(
    ("max_skew", "loads"),
    [
        pytest.param(1, [1, 1, 1, 1], id="SCH-161 a machine each"),
        pytest.param(4, [4], id="SCH-161 up to four per machine"),
        pytest.param(3, [3, 1], id="up to three per machine"),
    ],
)
def test_spread_over_machines(max_skew: int, loads: list[int]) -> None:
    answer = solved(pods(4, **spreading(spread(keys.HOSTNAME, max_skew))))

    assert loads == answer.loads


@pytest.mark.case("SCH-162")
def test_two_applications_share_machines() -> None:
    waiting = [
        each
        for app in ("one", "two")
        for each in pods(
            2,
            app,
            labels={"app": app},
            spread=[spread(keys.HOSTNAME, selector=selector({"app": app}))],
        )
    ]

    answer = solved(waiting)

    assert [2, 2] == answer.loads


@pytest.mark.case("SCH-163")
def test_pods_that_do_not_count_themselves_stay_together() -> None:
    answer = solved(pods(5, labels={"app": "other"}, spread=[HOSTNAMES]))

    assert [5] == answer.loads


@pytest.mark.case("SCH-164")
def test_capacity_types_are_spread_over_too() -> None:
    spot = pods(3, "spot", labels=APP_T, node_name="n")

    answer = solved(
        [pod("p", **spreading(spread(keys.CAPACITY_TYPE)))],
        nodes=[managed_node("n", capacity_type=keys.SPOT, slots=3, pods=spot)],
    )

    assert {keys.ON_DEMAND: 1} == answer.pods_by(keys.CAPACITY_TYPE)


@pytest.mark.case("SCH-165")
def test_a_label_of_pools_shares_pods_out_between_them() -> None:
    pools = [
        node_pool(
            name,
            requirements=[
                expression(keys.CAPACITY_TYPE, "In", name),
                expression("k", "In", *values),
            ],
        )
        for name, values in ((keys.SPOT, "2345"), (keys.ON_DEMAND, "1"))
    ]

    answer = solved(pods(20, **spreading(spread("k"))), pools=pools)

    assert {"1": 4, "2": 4, "3": 4, "4": 4, "5": 4} == answer.pods_by("k")
    assert {keys.SPOT: 16, keys.ON_DEMAND: 4} == answer.pods_by(keys.CAPACITY_TYPE)


@pytest.mark.case("SCH-166")
def test_zones_and_machines_together() -> None:
    answer = solved(pods(11, **spreading(spread(), spread(keys.HOSTNAME, 3))))

    assert [3, 4, 4] == sorted(answer.pods_by(keys.ZONE).values())
    assert max(answer.loads) <= 3


@pytest.mark.case("SCH-167")
def test_a_pool_at_its_limit_still_offers_its_zone() -> None:
    pools = [
        node_pool("open", requirements=[expression(keys.ZONE, "In", "z1", "z2")]),
        node_pool("shut", requirements=[expression(keys.ZONE, "In", "z3")], limits={"cpu": "0"}),
    ]

    answer = solved(pods(10, **spreading()), pools=pools)

    assert {"z1": 1, "z2": 1} == answer.pods_by(keys.ZONE)
    assert 8 == len(answer.unplaced)


@pytest.mark.case("SCH-173")
def test_pods_pinned_to_a_zone_need_not_wait_for_others() -> None:
    waiting = [
        *pods(5, "one", **spreading(), node_selector={keys.ZONE: "z1"}),
        *pods(10, "two", **spreading(), node_selector={keys.ZONE: "z2"}),
    ]

    answer = solved(waiting)

    assert {"z1": 5, "z2": 10} == answer.pods_by(keys.ZONE)


@pytest.mark.case("SCH-174")
def test_a_preferred_zone_does_not_narrow_the_spread() -> None:
    wish = [(1, [expression(keys.ZONE, "In", "z1", "z2")])]

    answer = solved(pods(6, **spreading(), preferred=wish))

    assert {"z1": 2, "z2": 2, "z3": 2} == answer.pods_by(keys.ZONE)


@pytest.mark.case("SCH-175")
def test_a_volume_decides_among_zones_that_are_even() -> None:
    reachable = PodVolumes(alternatives=(Requirements.from_labels({keys.ZONE: "z1"}),))

    answer = solved(
        [pod("p", **spreading(spread(min_domains=3)))],
        nodes=[full_node("z1"), full_node("z2"), full_node("z3")],
        volumes={"p": reachable},
    )

    assert "z1" == claim_value(answer.only, keys.ZONE)


def test_a_volume_does_not_narrow_the_spread() -> None:
    """The zone of the volume is one ahead already, though the volume allows no other."""
    reachable = PodVolumes(alternatives=(Requirements.from_labels({keys.ZONE: "z1"}),))

    answer = solved([pod("p", **spreading())], nodes=[full_node("z1")], volumes={"p": reachable})

    assert ["p"] == list(answer.unplaced)


@pytest.mark.case("SCH-176")
@pytest.mark.parametrize("settled", [True, False], ids=["settled", "still launching"])
def test_a_second_batch_evens_out_the_first(settled: bool) -> None:
    first_batch = pods(4, "first", **spreading())
    second_batch = pods(5, "second", **spreading())

    first = solved(first_batch)
    second = (
        solved(second_batch, nodes=first.settled())
        if settled
        else solved([*first_batch, *second_batch], nodes=first.launching())
    )

    together = first.pods_by(keys.ZONE) if settled else {}
    for zone, count in second.pods_by(keys.ZONE).items():
        together[zone] = together.get(zone, 0) + count
    assert {"z1": 3, "z2": 3, "z3": 3} == together
    assert () == second.claims


def test_a_machine_without_the_label_is_no_place_for_a_spread_pod() -> None:
    answer = solved([pod("p", **spreading())], nodes=[unmanaged_node("n", zone="")])

    assert {} == answer.existing
    assert 1 == len(answer.claims)
