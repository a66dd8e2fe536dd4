"""Spot ratios of pools, by the cases of docs/spec/optimize.md, section 6."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import msgspec
import pytest

from helpers.builders import (
    expression,
    launching_node,
    managed_node,
    min_values,
    node_pool,
    offering,
    pods,
    priced_type,
)
from helpers.solver import CHEAPEST, Answer, Setting, solved
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.scheduling.plan import RatioOutcome
from karpenter.scheduling.problem import CostOptions, Options, PackingMode
from karpenter.scheduling.spot.annotations import (
    ON_DEMAND_BASE,
    SPOT_PERCENTAGE,
    ignored_ratio,
    invalid_ratio,
    pool_ratio,
)

KARPENTER = replace(CHEAPEST, packing=PackingMode.KARPENTER)
MODES = pytest.mark.parametrize("cost", [KARPENTER, CHEAPEST], ids=["karpenter", "cheapest"])


def sold(name: str, cpu: int, price: float) -> InstanceType:
    """A type on-demand, and on spot at 30 %."""
    ways = [offering("z1", keys.ON_DEMAND, price), offering("z1", keys.SPOT, 0.3 * price)]
    return priced_type(name, cpu, ways=ways)


S, M, L = sold("s", 2, 0.10), sold("m", 4, 0.19), sold("l", 8, 0.36)
TYPES = (S, M, L)


def pool(base: str = "", percent: str = "", **options: object) -> NodePool:
    stated = {ON_DEMAND_BASE: base, SPOT_PERCENTAGE: percent}
    made = node_pool("np", **options)  # type: ignore[arg-type]
    annotations = {key: text for key, text in stated.items() if text}
    metadata = msgspec.structs.replace(made.metadata, annotations=annotations)
    return msgspec.structs.replace(made, metadata=metadata)


def asked(wanted: Sequence[Pod], cost: CostOptions, **setting: Unpack[Setting]) -> Answer:
    setting.setdefault("types", TYPES)
    setting["options"] = Options(cost=cost)
    return solved(wanted, **setting)


def ratio(answer: Answer) -> RatioOutcome:
    (found,) = answer.plan.ratios
    return found


def large(count: int) -> list[Pod]:
    """Pods of which each takes a machine of 8 cpu."""
    return pods(count, cpu="8", memory="1Gi")


@pytest.mark.case("OPT-54")
@MODES
def test_spot_stays_within_its_share_of_the_cpu_beyond_the_base(cost: CostOptions) -> None:
    answer = asked(large(6), cost, pools=[pool("8", "70")])

    assert (48.0, 24.0) == (ratio(answer).total_cpu, ratio(answer).spot_cpu)
    assert [keys.ON_DEMAND] * 3 + [keys.SPOT] * 3 == answer.capacity_types
    assert (3, True) == (ratio(answer).pinned, ratio(answer).is_met)


@MODES
def test_the_largest_claims_stay_on_spot(cost: CostOptions) -> None:
    types = [sold("s", 2, 0.10), sold("l", 8, 9.0)]
    small = [expression(keys.INSTANCE_TYPE, "In", "s")]
    wanted = [*large(2), *pods(2, "small", cpu="2", memory="1Gi", required=[small])]

    answer = asked(wanted, cost, types=types, pools=[pool(percent="80")])

    by_type = {(c.launch.instance_type, c.launch.capacity_type) for c in answer.claims if c.launch}
    assert {("l", keys.SPOT), ("s", keys.ON_DEMAND)} == by_type


def test_a_claim_pinned_in_vain_is_released() -> None:
    small = [expression(keys.INSTANCE_TYPE, "In", "s")]
    wanted = [*large(2), *pods(1, "small", cpu="2", memory="1Gi", required=[small])]

    answer = asked(wanted, KARPENTER, pools=[pool(percent="60")])

    # 16 of 18 cpu are too much, and so they are without the small one; with a large one pinned
    # 10 of 18 are spot, the small one among them
    assert (10.0, 1) == (ratio(answer).spot_cpu, ratio(answer).pinned)


@MODES
def test_machines_that_run_or_launch_count(cost: CostOptions) -> None:
    running = managed_node("a", capacity_type=keys.ON_DEMAND, cpu="8", memory="1Mi")
    launching = launching_node("b", capacity_type=keys.ON_DEMAND, cpu="8", memory="1Mi")

    answer = asked(large(2), cost, pools=[pool(percent="50")], nodes=[running, launching])

    assert [keys.SPOT] * 2 == answer.capacity_types
    leaving = managed_node("a", capacity_type=keys.ON_DEMAND, cpu="8", memory="1Mi", marked=True)
    answer = asked(large(2), cost, pools=[pool(percent="50")], nodes=[leaving])
    assert [keys.ON_DEMAND, keys.SPOT] == answer.capacity_types


@MODES
def test_pods_that_state_a_capacity_type_keep_it(cost: CostOptions) -> None:
    on_spot = pods(2, cpu="8", memory="1Gi", node_selector={keys.CAPACITY_TYPE: keys.SPOT})

    answer = asked(on_spot, cost, pools=[pool(percent="50")])

    assert [keys.SPOT] * 2 == answer.capacity_types
    assert (100.0, 50.0, False) == (
        ratio(answer).percent,
        ratio(answer).asked,
        ratio(answer).is_met,
    )


@MODES
def test_min_values_are_not_given_up_for_a_ratio(cost: CostOptions) -> None:
    both = min_values(2, keys.CAPACITY_TYPE, "In", keys.ON_DEMAND, keys.SPOT)

    answer = asked(large(1), cost, pools=[pool(percent="0", requirements=[both])])

    assert not ratio(answer).is_met
    assert [] == list(answer.plan.unplaced)


def test_packing_by_price_buys_a_part_on_spot_where_whole_nodes_are_too_large() -> None:
    """One large node is spot as a whole or not at all; several smaller ones are a mix."""
    types = [sold("l", 8, 0.36), sold("x", 32, 1.60)]
    wanted = pods(32, cpu="1", memory="1Gi")

    whole = asked(wanted, KARPENTER, types=types, pools=[pool(percent="50")])
    mixed = asked(wanted, CHEAPEST, types=types, pools=[pool(percent="50")])

    assert (["x"], 0.0) == (whole.types, ratio(whole).spot_cpu)
    assert (["l"] * 4, 16.0) == (mixed.types, ratio(mixed).spot_cpu)
    assert 2 * 0.36 + 2 * 0.3 * 0.36 == pytest.approx(mixed.plan.hourly_cost)


def test_what_runs_counts_for_what_may_be_bought_on_spot() -> None:
    types = [sold("l", 8, 0.36), sold("x", 32, 1.60)]
    busy = managed_node("a", capacity_type=keys.SPOT, cpu="16", memory="1Mi")

    answer = asked(
        pods(32, cpu="1", memory="1Gi"),
        CHEAPEST,
        types=types,
        pools=[pool(percent="50")],
        nodes=[busy],
    )

    # 24 of the 48 cpu may be spot, and 16 are
    assert (24.0, True) == (ratio(answer).spot_cpu, ratio(answer).is_met)


@pytest.mark.case("OPT-59")
@MODES
def test_a_pool_for_spot_alone_is_all_spot(cost: CostOptions) -> None:
    only = [expression(keys.CAPACITY_TYPE, "In", keys.SPOT)]
    made = pool("8", "70", requirements=only)

    answer = asked(large(2), cost, pools=[made])

    assert [keys.SPOT] * 2 == answer.capacity_types
    assert () == answer.plan.ratios


@MODES
def test_without_annotations_nothing_differs(cost: CostOptions) -> None:
    with_all = asked(large(6), cost, pools=[pool(percent="100")])
    without = asked(large(6), cost, pools=[pool()])

    assert () == without.plan.ratios
    assert with_all.claims == without.claims
    assert not any(claim.annotations.get(SPOT_PERCENTAGE) for claim in without.claims)


@pytest.mark.parametrize(
    ("base", "percent", "said"),
    [
        ("eight", "70", ["'eight' is not an amount of cpu, such as 8 or 500m"]),
        ("-1", "70", ["'-1' is not an amount of cpu, such as 8 or 500m"]),
        ("8", "lots", ["'lots' is not a percentage from 0 to 100, such as 70"]),
        ("8", "101", ["'101' is not a percentage from 0 to 100, such as 70"]),
        ("8", "nan", ["'nan' is not a percentage from 0 to 100, such as 70"]),
        ("500m", " 70% ", []),
    ],
)
def test_what_cannot_be_read_is_named(base: str, percent: str, said: list[str]) -> None:
    made = pool(base, percent)

    invalid = invalid_ratio(made.metadata.annotations, is_pod=False)

    assert said == [
        text.split(": ", 1)[1].removesuffix("; it counts as absent") for text in invalid
    ]


def test_one_that_can_be_read_holds_beside_one_that_cannot() -> None:
    found = pool_ratio(pool("eight", "70"))
    assert found is not None
    assert (0, 70.0) == (found.base, found.percent)
    assert pool_ratio(pool("eight")) is None


def test_a_ratio_without_effect_is_told_once() -> None:
    from karpenter.scheduling.compiled.templates import template_requirements

    spot = pool(percent="70", requirements=[expression(keys.CAPACITY_TYPE, "In", keys.SPOT)])
    both = pool(percent="70")
    other = pool(percent="70", requirements=[expression(keys.CAPACITY_TYPE, "In", keys.ON_DEMAND)])

    assert 1 == len(list(ignored_ratio(spot, template_requirements(spot))))
    assert 1 == len(list(ignored_ratio(other, template_requirements(other))))
    assert [] == list(ignored_ratio(both, template_requirements(both)))
