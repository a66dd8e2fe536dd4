"""Rows of the conformance ledger that the solver alone can prove: pods and their nodes."""

from dataclasses import replace

import pytest

from helpers.builders import (
    APP_T,
    daemon_set,
    expression,
    instance_type,
    ladder,
    managed_node,
    node_pool,
    offering,
    pod,
    pod_term,
    pods,
    spread,
)
from helpers.solver import FIXTURE_F, TYPES_OF_F, launch_of, solved
from karpenter.api.pods import Pod
from karpenter.cloud.types import Offering
from karpenter.model import labels as keys
from karpenter.model.requirement import requirement
from karpenter.scheduling.plan import Why

ON_DEMAND = offering("z1", keys.ON_DEMAND, 1.0)
SPOT = offering("z1", keys.SPOT, 0.3)


@pytest.mark.row("S0-02")
def test_the_cheapest_offering_that_is_available_and_suits_is_launched() -> None:
    types = [
        instance_type("cheap", cpu="1", price=0.1),
        instance_type(
            "good",
            offerings=[
                offering("z1", price=0.2, available=False),
                offering("z2", price=0.4),
                offering("z3", price=0.3),
            ],
        ),
        instance_type("dear", price=0.35),
    ]

    launch = launch_of(solved([pod(cpu="2")], types=types).only)

    assert ("good", "z3", 0.3) == (launch.instance_type, launch.zone, launch.price)


@pytest.mark.row("S0-04", "S1-04")
@pytest.mark.parametrize(
    ("cpu", "overhead", "expected"),
    [
        pytest.param("1", "0", ["it-1", "it-2", "it-3", "it-4"], id="one cpu fits on two"),
        pytest.param("3", "0", ["it-3", "it-4"], id="three cpu do not fit on two, nor on three"),
        pytest.param("3", "1", ["it-4"], id="and daemons need room besides"),
    ],
)
def test_requests_and_daemons_decide_the_size(cpu: str, overhead: str, expected: list[str]) -> None:
    answer = solved([pod(cpu=cpu)], types=ladder(5), daemon_sets=[daemon_set(cpu=overhead)])

    assert expected == list(answer.only.instance_types)
    assert expected[:1] == answer.types


@pytest.mark.row("S0-05")
def test_a_selector_on_a_zone_becomes_a_requirement_of_the_claim() -> None:
    claim = solved([pod(node_selector={keys.ZONE: "z2"})]).only

    assert requirement(keys.ZONE, "In", ["z2"]) == claim.requirements[keys.ZONE]


@pytest.mark.row("S0-06")
@pytest.mark.parametrize(
    ("wanted", "loads", "zones"),
    [
        pytest.param(pods(2, labels=APP_T), [2], ["z1"], id="without any, one node in any zone"),
        pytest.param(
            pods(2, labels=APP_T, required=[[expression(keys.ZONE, "In", "z3")]]),
            [2],
            ["z3"],
            id="node affinity moves the node",
        ),
        pytest.param(
            [
                pod("near", affinity=[pod_term({"db": "x"}, keys.ZONE)], labels=APP_T),
                pod("db", labels={"db": "x"}, cpu="1", node_selector={keys.ZONE: "z2"}),
            ],
            [2],
            ["z2"],
            id="pod affinity brings pods together",
        ),
        pytest.param(
            pods(2, labels=APP_T, anti_affinity=[pod_term()]),
            [1, 1],
            ["z1", "z1"],
            id="pod anti-affinity keeps them apart",
        ),
    ],
)
def test_affinity_changes_which_claims_are_made(
    wanted: list[Pod], loads: list[int], zones: list[str]
) -> None:
    answer = solved(wanted)

    assert loads == answer.loads
    assert zones == answer.zones


@pytest.mark.row("S0-08")
def test_six_pods_spread_over_three_zones_are_two_in_each() -> None:
    answer = solved(pods(6, labels=APP_T, spread=[spread()]))

    assert {"z1": 2, "z2": 2, "z3": 2} == answer.pods_in_zones


@pytest.mark.row("S0-14")
def test_a_pod_recreated_with_larger_requests_gets_a_larger_node() -> None:
    before = solved([pod("p", cpu="1")])
    emptied = [replace(node, pods=()) for node in before.settled()]

    after = solved([pod("p", cpu="3")], nodes=emptied)

    assert (["small"], ["std"]) == (before.types, after.types)
    assert {} == after.existing


@pytest.mark.row("S0-33", "S1-20")
@pytest.mark.parametrize(
    ("selector", "launched"),
    [
        pytest.param({keys.ARCH: "arm64"}, "grav", id="arm64 is asked for"),
        pytest.param({keys.ARCH: "amd64"}, "intel", id="amd64 is asked for"),
        pytest.param({}, "grav", id="neither, so the cheaper one is taken"),
        pytest.param({keys.ZONE: "z2"}, "intel", id="a zone where only one is offered"),
    ],
)
def test_architecture_and_zone_filter_offerings(selector: dict[str, str], launched: str) -> None:
    types = [
        instance_type("intel", offerings=[offering("z1", price=0.5), offering("z2", price=0.5)]),
        instance_type("grav", arch="arm64", offerings=[offering("z1", price=0.4)]),
    ]

    answer = solved([pod(node_selector=selector)], types=types)

    assert [launched] == answer.types


@pytest.mark.row("S0-34", "S2-58")
@pytest.mark.parametrize(
    ("allowed", "spot", "launched"),
    [
        pytest.param([keys.SPOT, keys.ON_DEMAND], SPOT, keys.SPOT, id="spot first"),
        pytest.param(
            [keys.SPOT, keys.ON_DEMAND],
            replace(SPOT, available=False),
            keys.ON_DEMAND,
            id="on-demand when spot is sold out",
        ),
        pytest.param([keys.ON_DEMAND], SPOT, keys.ON_DEMAND, id="on-demand alone is allowed"),
    ],
)
def test_spot_comes_first_where_both_are_allowed(
    allowed: list[str], spot: Offering, launched: str
) -> None:
    pool = node_pool(requirements=[expression(keys.CAPACITY_TYPE, "In", *allowed)])

    answer = solved([pod()], pools=[pool], types=[instance_type("t", offerings=[ON_DEMAND, spot])])

    assert [launched] == answer.capacity_types


@pytest.mark.row("S2-58")
def test_zones_of_the_pool_filter_offerings_of_both_capacity_types() -> None:
    zones = expression(keys.ZONE, "In", "z3")

    answer = solved([pod()], pools=[node_pool(requirements=[zones])])

    assert (["z3"], [keys.ON_DEMAND]) == (answer.zones, answer.capacity_types)


@pytest.mark.row("S0-36")
def test_requirements_of_pool_and_pod_intersect() -> None:
    pool = node_pool(requirements=[expression(keys.ZONE, "In", "z1", "z2")])
    wanted = [
        pod("some", required=[[expression(keys.ZONE, "In", "z2", "z3")]]),
        pod("none", node_selector={keys.ZONE: "z3"}),
    ]

    answer = solved(wanted, pools=[pool])

    assert requirement(keys.ZONE, "In", ["z2"]) == answer.only.requirements[keys.ZONE]
    assert {"none": {Why.REQUIREMENT_CONFLICT}} == answer.unplaced


@pytest.mark.row("S0-42")
def test_a_pool_without_requirements_considers_the_whole_catalogue() -> None:
    claim = solved([pod()]).only

    assert TYPES_OF_F == set(claim.instance_types)
    assert claim.requirements.get(keys.ZONE) is None
    assert {keys.SPOT, keys.ON_DEMAND} == claim.requirements[keys.CAPACITY_TYPE].values


@pytest.mark.row("S1-07")
def test_the_second_of_two_pods_of_seventy_percent_gets_a_claim_of_its_own() -> None:
    only = [t for t in ladder(4) if t.name == "it-3"]  # 3.9 cpu for pods
    first = solved([pod("first", cpu="2.73")], types=only)

    second = solved([pod("second", cpu="2.73")], types=only, nodes=first.settled())

    assert {} == second.existing
    assert 2730 == second.only.requests.cpu


@pytest.mark.row("S1-07")
def test_merging_both_needs_a_type_of_a_hundred_and_forty_percent() -> None:
    both = [pod(name, cpu="2.73", node_name=name) for name in ("first", "second")]
    leaving = [managed_node(p.metadata.name, cpu="3.9", pods=[p], marked=True) for p in both]

    answer = solved(both, types=ladder(6), nodes=leaving)

    assert ("it-5",) == answer.only.instance_types
    assert 5460 == answer.only.requests.cpu


@pytest.mark.row("S2-09")
def test_twenty_pods_that_need_five_nodes_get_five_claims_at_once() -> None:
    answer = solved(pods(20, cpu="0.9"), types=[t for t in FIXTURE_F if t.name == "std"])

    assert [4] * 5 == answer.loads


@pytest.mark.row("S2-74")
def test_no_pods_bring_no_nodes_whatever_daemons_there_are() -> None:
    answer = solved([], daemon_sets=[daemon_set(cpu="1")])

    assert () == answer.claims


@pytest.mark.row("S2-75")
def test_four_pods_of_one_cpu_share_a_claim_that_has_room_for_daemons_too() -> None:
    answer = solved(pods(4, cpu="1"), types=ladder(8), daemon_sets=[daemon_set(cpu="0.5")])

    assert 4 == len(answer.only.pods)
    assert 4500 == answer.only.requests.cpu
    assert ["it-4"] == answer.types
