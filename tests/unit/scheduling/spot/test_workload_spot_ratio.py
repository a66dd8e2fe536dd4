"""Spot ratios of workloads, counted in pods of one controller."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Unpack

import pytest

from helpers.builders import (
    FACTS_F,
    NOW,
    PodOptions,
    expression,
    managed_node,
    node_pool,
    offering,
    owner,
    pod,
    priced_type,
)
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.model import labels as keys
from karpenter.scheduling.provisioning import PassSettings, ProvisioningPlan, plan_provisioning
from karpenter.scheduling.spot.annotations import ON_DEMAND_BASE, SPOT_PERCENTAGE
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot

WAYS = (offering("z1", keys.ON_DEMAND, 0.2), offering("z1", keys.SPOT, 0.06))
TYPES = (priced_type("m", 4, ways=WAYS),)
HALF = {ON_DEMAND_BASE: "2", SPOT_PERCENTAGE: "50"}
WEB = owner("ReplicaSet", "web")


def members(count: int, first: int = 0, **options: Unpack[PodOptions]) -> list[Pod]:
    """Pods of one ReplicaSet, each a minute younger than the one before."""
    options.setdefault("annotations", HALF)
    options.setdefault("cpu", "3")
    options.setdefault("owners", [WEB])
    found = []
    for number in range(first, first + count):
        options["created"] = NOW + timedelta(minutes=number)
        found.append(pod(f"web-{number}", **options))
    return found


def planned(
    waiting: Sequence[Pod], *machines: StateNode, pools: Sequence[NodePool] = (node_pool(),)
) -> ProvisioningPlan:
    bound = {key_of(each): each for machine in machines for each in machine.pods}
    snapshot = Snapshot(
        nodes=machines,
        pods=bound | {key_of(each): each for each in waiting},
        unbound_pods={key_of(each): each for each in waiting},
        node_pools={each.metadata.name: each for each in pools},
    )
    return plan_provisioning(snapshot, lambda _: TYPES, FACTS_F, PassSettings(), now=NOW)


def where(outcome: ProvisioningPlan) -> dict[str, str]:
    """The capacity type of the new node of each pod."""
    return {
        name.removeprefix("default/"): claim.launch.capacity_type
        for claim in outcome.plan.claims
        for name in claim.pods
        if claim.launch is not None
    }


def on(capacity_type: str, *running: Pod, name: str = "", marked: bool = False) -> StateNode:
    name = name or capacity_type
    return managed_node(
        name, pods=running, capacity_type=capacity_type, cpu="4", marked=marked, memory="8Gi"
    )


@pytest.mark.case("OPT-55")
def test_base_and_share_are_kept_off_spot_oldest_first() -> None:
    outcome = planned(members(10))

    kept = {name for name, how in where(outcome).items() if how == keys.ON_DEMAND}
    assert {f"web-{n}" for n in range(6)} == kept
    assert 4 == sum(how == keys.SPOT for how in where(outcome).values())
    (told,) = outcome.workload_ratios
    assert ("ReplicaSet/default/web", 10, 6, True) == (
        told.owner,
        told.pods,
        told.asked,
        told.is_met,
    )


def test_pods_that_run_count_by_their_node() -> None:
    runs, spot = members(2, 2, node_name="on-demand"), members(2, node_name="spot")

    outcome = planned(members(2, 4), on(keys.ON_DEMAND, *runs), on(keys.SPOT, *spot))

    # 6 pods: 2 + half of 4 are 4 off spot, and 2 run so
    assert {"web-4": keys.ON_DEMAND, "web-5": keys.ON_DEMAND} == where(outcome)


def test_pods_of_a_node_that_goes_are_placed_anew() -> None:
    runs = members(2, node_name="on-demand")

    outcome = planned([], on(keys.ON_DEMAND, *runs, marked=True))

    assert {"web-0": keys.ON_DEMAND, "web-1": keys.ON_DEMAND} == where(outcome)


def test_what_a_pod_requires_is_stronger_than_the_ratio() -> None:
    on_spot = members(2, node_selector={keys.CAPACITY_TYPE: keys.SPOT})

    outcome = planned(on_spot)

    assert {keys.SPOT} == set(where(outcome).values())
    assert not outcome.workload_ratios[0].is_met


def test_pods_that_require_on_demand_count() -> None:
    dear = members(2, 2, node_selector={keys.CAPACITY_TYPE: keys.ON_DEMAND})

    outcome = planned([*members(2), *dear])

    # 4 pods: 2 + half of 2 are 3
    assert [keys.ON_DEMAND, keys.SPOT] == [where(outcome)["web-0"], where(outcome)["web-1"]]


def test_no_pod_is_stranded_for_a_ratio_that_no_pool_can_meet() -> None:
    spot_only = node_pool(requirements=[expression(keys.CAPACITY_TYPE, "In", keys.SPOT)])

    outcome = planned(members(4), pools=[spot_only])

    assert {keys.SPOT} == set(where(outcome).values())
    assert 4 == len(where(outcome))


def test_other_alternatives_of_a_pod_stay() -> None:
    either = [[expression(keys.ZONE, "In", "z9")], [expression(keys.ZONE, "In", "z1")]]

    outcome = planned(members(2, required=either))

    assert {"web-0": keys.ON_DEMAND, "web-1": keys.ON_DEMAND} == where(outcome)


def test_each_controller_counts_for_itself() -> None:
    other = members(2, 20, owners=[owner("ReplicaSet", "other")])
    alone = members(2, 40, owners=[])

    outcome = planned([*members(2), *other, *alone])

    assert [keys.ON_DEMAND] * 4 + [keys.SPOT] * 2 == sorted(where(outcome).values())


def test_the_objects_are_not_changed() -> None:
    waiting = members(3)
    before = [each.spec for each in waiting]

    planned(waiting)

    assert before == [each.spec for each in waiting]


def test_an_unreadable_value_is_one_warning_for_the_workload() -> None:
    outcome = planned(members(3, annotations={ON_DEMAND_BASE: "two", SPOT_PERCENTAGE: "100"}))

    (event,) = [e for e in outcome.events if e.reason == "InvalidCostAnnotation"]
    assert "Pod/default/web-2" == event.target
    assert "'two' is not a number of pods" in event.message
    assert {keys.SPOT} == set(where(outcome).values())
