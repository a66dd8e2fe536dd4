"""Plans where commitments pay for machines, by the cases of docs/spec/optimize.md.

Types unless said: ``s`` 2 cpu/4Gi $0.10, ``m`` 4/8 $0.19, ``l`` 8/16 $0.36, ``x`` 32/64 $2.00.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import pytest

from helpers.builders import (
    APP_T,
    managed_node,
    node_pool,
    offering,
    pod,
    pod_term,
    pods,
    priced_type,
    reserved_instances,
    savings_plan,
)
from helpers.priced_catalogues import L, M, S, X
from helpers.solver import CHEAPEST, Answer, Setting, launch_of, solved
from karpenter.api.pods import Pod
from karpenter.model import labels as keys
from karpenter.scheduling.commitments import Use
from karpenter.scheduling.problem import CostOptions, Options, PackingMode

L_OR_SPOT = L.with_offerings((*L.offerings, offering("z1", keys.SPOT, 0.15)))
TYPES = (S, M, L_OR_SPOT, X)
PLAN = savings_plan("plan", "0.27", types=["l"], discount="25%")
A_RUNNING_L = managed_node("running", instance_type="l", cpu="0", slots=0)


def some(count: int, name: str = "pod") -> list[Pod]:
    return pods(count, name, cpu="1", memory="1Gi")


def planned(
    wanted: Sequence[Pod], cost: CostOptions = CHEAPEST, **setting: Unpack[Setting]
) -> Answer:
    setting.setdefault("types", TYPES)
    setting.setdefault("commitments", [PLAN])
    setting["options"] = replace(setting.get("options", Options()), cost=cost)
    return solved(wanted, **setting)


def bought(answer: Answer) -> list[tuple[str, str, float]]:
    """What is launched, how it is paid for, and by how much it raises the bill."""
    launches = [launch_of(claim) for claim in answer.claims]
    return sorted((x.instance_type, x.capacity_type, round(x.marginal_price, 6)) for x in launches)


def use_of(answer: Answer) -> Use:
    (use,) = answer.plan.commitments
    return use


@pytest.mark.case("OPT-48")
def test_what_is_paid_already_is_bought_before_spot() -> None:
    answer = planned(some(16))

    assert [("l", "on-demand", 0.0), ("l", "spot", 0.15)] == bought(answer)
    assert 0.15 == pytest.approx(answer.plan.marginal_cost)
    assert 0.36 == pytest.approx(answer.plan.covered_cost)
    assert answer.plan.lower_bound <= 0.15 + 1e-9


@pytest.mark.case("OPT-48")
def test_machines_that_run_use_a_commitment_before_new_ones() -> None:
    answer = planned(some(16), nodes=[A_RUNNING_L])

    assert [("l", "spot", 0.15)] * 2 == bought(answer)
    assert (0.27, 0.0) == pytest.approx((use_of(answer).used, use_of(answer).wasted))


@pytest.mark.case("OPT-51")
def test_a_machine_covered_in_part_may_cost_more_than_spot() -> None:
    half = savings_plan("plan", "0.27", types=["l"], discount="25%", share="50%")

    answer = planned(some(16), commitments=[half])

    assert [("l", "spot", 0.15)] * 2 == bought(answer)
    assert 0.135 == pytest.approx(use_of(answer).wasted)


@pytest.mark.case("OPT-50")
def test_reserved_units_cover_a_part_of_a_larger_machine() -> None:
    large = priced_type("fam.2xlarge", 8, 0.36)  # 16 units
    eight = reserved_instances("eight", types=["fam.2xlarge"], units="8")

    answer = planned(some(8), types=[large], commitments=[eight])

    assert [("fam.2xlarge", "on-demand", 0.18)] == bought(answer)


@pytest.mark.case("OPT-53")
def test_two_pools_share_one_commitment() -> None:
    blue, green = node_pool("blue"), node_pool("green")
    wanted = [
        *pods(8, "a", cpu="1", memory="1Gi", node_selector={keys.NODEPOOL: "blue"}),
        *pods(8, "b", cpu="1", memory="1Gi", node_selector={keys.NODEPOOL: "green"}),
    ]

    answer = planned(wanted, pools=[blue, green])

    assert [("l", "on-demand", 0.0), ("l", "spot", 0.15)] == bought(answer)
    assert ["blue", "green"] == answer.pools


def test_a_covered_claim_lists_covered_offerings_alone() -> None:
    answer = planned(some(8), replace(CHEAPEST, min_types=3, price_slack=9.0))

    assert ("l",) == answer.only.instance_types
    assert {keys.ON_DEMAND} == set(answer.only.requirements[keys.CAPACITY_TYPE].values)


def test_a_small_claim_does_not_take_what_a_large_one_needs() -> None:
    one = reserved_instances("one", types=["l"], instances=1)

    answer = planned(some(10), types=(S, M, L, X), commitments=[one])

    assert [("l", "on-demand", 0.0), ("s", "on-demand", 0.1)] == bought(answer)
    assert answer.plan.lower_bound <= 0.1 + 1e-9


def test_reserved_instances_of_one_zone_are_used_there() -> None:
    both = [
        priced_type(
            name, cpu, ways=[offering(zone, keys.ON_DEMAND, price) for zone in ("z1", "z2")]
        )
        for name, cpu, price in (("m", 4, 0.19), ("l", 8, 0.36))
    ]
    in_one = reserved_instances("one", types=["l"], instances=1, zone="z2")

    answer = planned(some(8), types=both, commitments=[in_one])

    assert [("l", "on-demand", 0.0)] == bought(answer)
    assert {"z2"} == set(answer.only.requirements[keys.ZONE].values)


def test_pods_with_rules_are_covered_too_but_keep_them() -> None:
    wanted = pods(2, "apart", cpu="5", memory="1Gi", labels=APP_T, anti_affinity=[pod_term()])

    answer = planned(wanted)

    assert [("l", "on-demand", 0.0), ("l", "spot", 0.15)] == bought(answer)


def test_karpenters_order_is_charged_what_it_launches() -> None:
    order = replace(CHEAPEST, packing=PackingMode.KARPENTER)
    wanted = [pod("one", cpu="7", node_selector={keys.CAPACITY_TYPE: keys.ON_DEMAND})]

    answer = planned(wanted, order)

    assert [("l", "on-demand", 0.0)] == bought(answer)
    assert 0.36 == pytest.approx(answer.plan.hourly_cost)
    assert 0.0 == pytest.approx(answer.plan.marginal_cost)


def test_larger_machines_are_bought_when_they_are_paid_already() -> None:
    answer = planned(
        some(16),
        types=(S, M, L, X),
        commitments=[reserved_instances("r", types=["x"], instances=1)],
    )

    assert [("x", "on-demand", 0.0)] == bought(answer)
    assert 0.0 == pytest.approx(answer.plan.lower_bound)


def test_without_commitments_nothing_is_said_of_them() -> None:
    answer = planned(some(16), commitments=[])

    assert () == answer.plan.commitments
    assert answer.plan.marginal_cost == answer.plan.hourly_cost
