"""``minValues``: how much choice a claim keeps, and what happens when there is too little."""

import pytest

from helpers.builders import (
    APP_T,
    instance_type,
    ladder,
    min_values,
    node_pool,
    offering,
    pod,
    pods,
    spread,
)
from helpers.solver import Setting, claim_value, solved
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.model.min_values import Shortfall
from karpenter.model.requirements import Requirements
from karpenter.scheduling.plan import PlannedClaim, Why
from karpenter.scheduling.problem import Options, PodVolumes

BEST_EFFORT = Options(best_effort_min_values=True)
SMALL_AND_LARGE = (
    instance_type("i1", cpu="1", memory="8Gi", slots=10),
    instance_type("i2", cpu="4", memory="8Gi", slots=10),
)
ON_Z1 = PodVolumes(alternatives=(Requirements.from_labels({keys.ZONE: "z1"}),))


def asking_for(count: int, key: str = keys.INSTANCE_TYPE) -> NodePool:
    return node_pool(requirements=[min_values(count, key)])


def in_zones(name: str, *zones: str) -> InstanceType:
    return instance_type(name, offerings=[offering(zone, keys.ON_DEMAND) for zone in zones])


def is_relaxed(claim: PlannedClaim) -> str:
    return claim.annotations[keys.MIN_VALUES_RELAXED]


@pytest.mark.case("SCH-124")
def test_pods_that_would_use_up_the_choice_get_a_claim_each() -> None:
    answer = solved(pods(2, cpu="0.85"), pools=[asking_for(2)], types=SMALL_AND_LARGE)

    assert [1, 1] == answer.loads
    assert [{"i1", "i2"}] * 2 == [set(claim.instance_types) for claim in answer.claims]


@pytest.mark.case("SCH-125")
def test_a_pool_that_asks_for_more_types_than_there_are_takes_nobody() -> None:
    answer = solved([pod("p")], pools=[asking_for(11)], types=ladder(10))

    assert {"p": {Why.MIN_VALUES}} == answer.unplaced
    assert [("np", Why.MIN_VALUES)] == [(r.node_pool, r.why) for r in answer.plan.empty_pools]


@pytest.mark.case("SCH-126")
@pytest.mark.parametrize(
    ("types", "placed"),
    [
        pytest.param(SMALL_AND_LARGE, ["p"], id="the larger of two minimums can be met"),
        pytest.param(SMALL_AND_LARGE[:1], [], id="the larger of two minimums cannot be met"),
    ],
)
def test_of_two_minimums_for_one_label_the_larger_counts(
    types: tuple[InstanceType, ...], placed: list[str]
) -> None:
    twice = node_pool(
        requirements=[
            min_values(1, keys.INSTANCE_TYPE),
            min_values(2, keys.INSTANCE_TYPE, "In", "i1", "i2"),
        ]
    )

    answer = solved([pod("p")], pools=[twice], types=types)

    assert placed == answer.placed
    assert [2] * len(placed) == [
        claim.requirements[keys.INSTANCE_TYPE].min_values for claim in answer.claims
    ]


@pytest.mark.case("SCH-127")
def test_a_claim_keeps_both_architectures() -> None:
    one_of_each = (
        instance_type("amd", cpu="1", slots=10),
        instance_type("arm", cpu="4", slots=10, arch="arm64"),
    )

    answer = solved(pods(2, cpu="0.85"), pools=[asking_for(2, keys.ARCH)], types=one_of_each)

    assert [1, 1] == answer.loads
    assert [{"amd", "arm"}] * 2 == [set(claim.instance_types) for claim in answer.claims]


@pytest.mark.case("SCH-128")
def test_a_list_cut_short_of_the_minimum_discards_the_claim() -> None:
    answer = solved(
        pods(2, "p"),
        pools=[asking_for(2)],
        types=SMALL_AND_LARGE,
        options=Options(most_instance_types=1),
    )

    assert {"p-0": {Why.MIN_VALUES}, "p-1": {Why.MIN_VALUES}} == answer.unplaced
    assert 0 == answer.plan.hourly_cost


@pytest.mark.case("SCH-128")
def test_best_effort_does_not_mind_a_list_cut_short() -> None:
    answer = solved(
        [pod("p")],
        pools=[asking_for(2)],
        types=SMALL_AND_LARGE,
        options=Options(most_instance_types=1, best_effort_min_values=True),
    )

    assert ["p"] == answer.placed


@pytest.mark.case("SCH-129")
def test_strictly_too_few_types_are_refused() -> None:
    answer = solved([pod("p")], pools=[asking_for(3)], types=SMALL_AND_LARGE)

    assert {"p": {Why.MIN_VALUES}} == answer.unplaced


@pytest.mark.case("SCH-129")
def test_best_effort_lowers_the_minimum_to_what_there_is() -> None:
    answer = solved([pod("p")], pools=[asking_for(3)], types=SMALL_AND_LARGE, options=BEST_EFFORT)

    assert 2 == answer.only.requirements[keys.INSTANCE_TYPE].min_values
    assert "true" == is_relaxed(answer.only)


@pytest.mark.case("SCH-129")
def test_a_claim_with_a_lowered_minimum_keeps_to_it() -> None:
    answer = solved(
        pods(2, cpu="0.85"), pools=[asking_for(3)], types=SMALL_AND_LARGE, options=BEST_EFFORT
    )

    assert [1, 1] == answer.loads
    assert [2, 2] == [c.requirements[keys.INSTANCE_TYPE].min_values for c in answer.claims]


@pytest.mark.case("SCH-130")
def test_zones_stay_listed_when_fewer_are_offered() -> None:
    three_zones = node_pool(requirements=[min_values(3, keys.ZONE, "In", "z1", "z2", "z3")])

    answer = solved(
        [pod("p")], pools=[three_zones], types=[in_zones("i1", "z1", "z2")], options=BEST_EFFORT
    )

    assert "z1|z2|z3" == claim_value(answer.only, keys.ZONE)
    assert 2 == answer.only.requirements[keys.ZONE].min_values
    assert "true" == is_relaxed(answer.only)


@pytest.mark.case("SCH-131")
def test_a_heavier_pool_is_relaxed_rather_than_left() -> None:
    heavy = node_pool("heavy", weight=100, requirements=[min_values(3, keys.INSTANCE_TYPE)])
    light = node_pool("light", weight=10, requirements=[min_values(2, keys.INSTANCE_TYPE)])

    answer = solved([pod()], pools=[heavy, light], types=SMALL_AND_LARGE, options=BEST_EFFORT)

    assert ["heavy"] == answer.pools
    assert "true" == is_relaxed(answer.only)


@pytest.mark.case("SCH-132")
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(Setting(), id="no minimum is asked for"),
        pytest.param(Setting(pools=[asking_for(2)]), id="the minimum is met"),
        pytest.param(
            Setting(pools=[asking_for(2)], options=BEST_EFFORT),
            id="the minimum is met without an effort",
        ),
    ],
)
def test_a_claim_says_that_nothing_was_relaxed(setting: Setting) -> None:
    answer = solved([pod()], **setting)

    assert "false" == is_relaxed(answer.only)


def test_a_strict_minimum_sends_the_pod_to_a_lighter_pool() -> None:
    heavy = node_pool("heavy", weight=100, requirements=[min_values(3, keys.INSTANCE_TYPE)])

    answer = solved([pod()], pools=[heavy, node_pool("light")], types=SMALL_AND_LARGE)

    assert ["light"] == answer.pools


def test_a_label_that_types_lack_offers_no_choice_at_all() -> None:
    pool = node_pool(requirements=[min_values(2, "k", "In", "a", "b")])

    answer = solved([pod("p")], pools=[pool])

    assert {"p": {Why.MIN_VALUES}} == answer.unplaced


@pytest.mark.parametrize(
    ("wanted", "volumes"),
    [
        pytest.param(pod("p"), {"p": ON_Z1}, id="V15-S07 a volume leaves one zone of three"),
        pytest.param(
            pod("p", node_selector={keys.ZONE: "z1"}), {}, id="a selector leaves one zone of three"
        ),
    ],
)
def test_a_pod_bound_to_one_zone_cannot_use_a_pool_that_wants_three(
    wanted: Pod, volumes: dict[str, PodVolumes]
) -> None:
    types = [in_zones("i1", "z1", "z2", "z3")]

    answer = solved([wanted], pools=[asking_for(3, keys.ZONE)], types=types, volumes=volumes)

    assert {"p": {Why.MIN_VALUES}} == answer.unplaced


@pytest.mark.case("V15-S08")
def test_best_effort_follows_the_volume_and_lowers_the_minimum() -> None:
    answer = solved(
        [pod("p")],
        pools=[asking_for(3, keys.ZONE)],
        types=[in_zones("i1", "z1", "z2", "z3")],
        volumes={"p": ON_Z1},
        options=BEST_EFFORT,
    )

    assert "z1" == claim_value(answer.only, keys.ZONE)
    assert 1 == answer.only.requirements[keys.ZONE].min_values
    assert ["z1"] == answer.zones
    assert "true" == is_relaxed(answer.only)


@pytest.mark.case("V15-S08")
def test_the_pool_goes_on_asking_others_for_the_full_choice() -> None:
    answer = solved(
        [pod("p", cpu="2"), pod("q")],
        pools=[asking_for(3, keys.ZONE)],
        types=[instance_type("one", slots=1)],
        volumes={"p": ON_Z1},
        options=BEST_EFFORT,
    )

    assert "true" == is_relaxed(answer.with_pod("p"))
    assert "false" == is_relaxed(answer.with_pod("q"))


@pytest.mark.case("V15-S07")
@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(pod("p", node_selector={keys.ZONE: "z1"}), id="its selector"),
        pytest.param(pod("p", labels=APP_T, spread=[spread()]), id="its spread"),
    ],
)
def test_a_pod_is_told_how_much_choice_it_would_leave(wanted: Pod) -> None:
    asked = [min_values(3, keys.ZONE), min_values(2, keys.INSTANCE_TYPE)]

    answer = solved([wanted], pools=[node_pool(requirements=asked)])

    assert {"p": {Why.MIN_VALUES}} == answer.unplaced
    assert [
        f"too little choice would be left: {Shortfall(keys.ZONE, wanted=3, found=1)}"
    ] == answer.details("p")
