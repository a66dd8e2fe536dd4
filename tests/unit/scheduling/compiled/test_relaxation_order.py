"""Wishes: which a pod gives up, in which order, and what it never gives up."""

import pytest

from helpers.builders import (
    APP_T,
    PodOptions,
    expression,
    managed_node,
    node_pool,
    pod,
    pod_term,
    pods,
    spread,
    taint,
    toleration,
    unmanaged_node,
)
from helpers.solver import claim_value, solved
from karpenter.api.pods import Pod
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.model import labels as keys
from karpenter.scheduling.plan import Why
from karpenter.scheduling.problem import Options

IGNORE = Options(respect_preferences=False)
SOFT_TAINT = taint("reluctant:PreferNoSchedule")
NOWHERE = [expression("unknown", "In", "x")]


def zone(*names: str) -> list[NodeSelectorRequirement]:
    return [expression(keys.ZONE, "In", *names)]


def away_from(*names: str) -> list[NodeSelectorRequirement]:
    return [expression(keys.ZONE, "NotIn", *names)]


@pytest.mark.parametrize(
    ("wanted", "ends_in"),
    [
        pytest.param(
            pod(required=[zone("bad"), zone("worse"), zone("z1"), zone("z2")]),
            "z1",
            id="SCH-141 the first of four alternatives that exists",
        ),
        pytest.param(
            pod(preferred=[(1, zone("z1")), (100, NOWHERE), (50, zone("z2"))]),
            "z2",
            id="SCH-143 the heaviest preference that can be met",
        ),
        pytest.param(
            pod(preferred=[(1, away_from("z3"))], required=[zone("z3")]),
            "z3",
            id="SCH-144 a preference against the only zone allowed",
        ),
        pytest.param(
            pod(preferred=[(1, zone("z1") + away_from("z1"))], required=[zone("z2")]),
            "z2",
            id="SCH-145 a preference that contradicts itself",
        ),
        pytest.param(
            pod(required=[zone("z1"), zone("z2")], preferred=[(1, NOWHERE)]),
            "z2",
            id="an impossible preference burns the alternatives before it is given up",
        ),
        pytest.param(
            pod(
                required=[zone("z1", "z2", "z3")],
                preferred=[(9, zone("z1", "z2")), (1, zone("z2"))],
            ),
            "z1|z2",
            id="of two preferences that can be met only the heaviest counts",
        ),
    ],
)
def test_a_pod_ends_in_the_best_zone_it_can_have(wanted: Pod, ends_in: str) -> None:
    answer = solved([wanted])

    assert ends_in == claim_value(answer.only, keys.ZONE)


@pytest.mark.case("SCH-142")
@pytest.mark.parametrize(
    ("required", "why"),
    [
        pytest.param([zone("bad")], Why.NO_OFFERING, id="the only alternative is a bad zone"),
        pytest.param([NOWHERE], Why.UNDEFINED_LABEL, id="the only alternative is undefined"),
        pytest.param([NOWHERE, zone("bad")], Why.NO_OFFERING, id="the last alternative is kept"),
    ],
)
def test_the_last_alternative_is_never_given_up(
    required: list[list[NodeSelectorRequirement]], why: Why
) -> None:
    answer = solved([pod("p", required=required)])

    assert {"p": {why}} == answer.unplaced


@pytest.mark.case("SCH-145")
def test_a_preference_that_contradicts_itself_is_given_up() -> None:
    answer = solved([pod(preferred=[(1, zone("z1") + away_from("z1"))])])

    assert "" == claim_value(answer.only, keys.ZONE)


@pytest.mark.case("SCH-146")
def test_a_pool_that_would_rather_not_is_avoided() -> None:
    reluctant = node_pool("reluctant", weight=100, taints=[SOFT_TAINT])

    answer = solved([pod()], pools=[reluctant, node_pool("willing")])

    assert ["willing"] == answer.pools


@pytest.mark.case("SCH-147")
@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(pod(preferred=[(1, NOWHERE)]), id="after an impossible preference"),
        pytest.param(
            pod(preferred_affinity=[(1, pod_term({"app": "nobody"}))]),
            id="after an impossible pod affinity",
        ),
        pytest.param(
            pod(labels=APP_T, spread=[spread("unknown", soft=True)]),
            id="after a spread over an unknown label",
        ),
        pytest.param(pod(), id="without any other wish"),
    ],
)
def test_the_only_pool_is_used_though_it_would_rather_not(wanted: Pod) -> None:
    answer = solved([wanted], pools=[node_pool(taints=[SOFT_TAINT])])

    assert (SOFT_TAINT,) == answer.only.taints


def test_a_hard_taint_is_not_tolerated_along_with_the_soft_one() -> None:
    pool = node_pool(taints=[SOFT_TAINT, taint("strict:NoSchedule")])

    answer = solved([pod("p")], pools=[pool])

    assert {"p": {Why.UNTOLERATED_TAINT}} == answer.unplaced


def test_a_machine_that_would_rather_not_is_out_of_reach_when_no_pool_is_like_it() -> None:
    answer = solved([pod()], nodes=[unmanaged_node("reluctant", taints=[SOFT_TAINT])])

    assert {} == answer.existing
    assert 1 == len(answer.claims)


def test_a_machine_that_would_rather_not_is_used_before_a_pool_that_would_not() -> None:
    answer = solved(
        [pod("p")],
        nodes=[managed_node("n", taints=[SOFT_TAINT])],
        pools=[node_pool(taints=[SOFT_TAINT])],
    )

    assert {"n": ["p"]} == answer.existing


def test_a_pod_that_tolerates_the_wish_does_not_need_to_give_up_anything() -> None:
    reluctant = node_pool("reluctant", weight=100, taints=[SOFT_TAINT])

    answer = solved(
        [pod(tolerations=[toleration("reluctant")], preferred=[(1, zone("z2"))])],
        pools=[reluctant, node_pool("willing")],
    )

    assert ["reluctant"] == answer.pools
    assert "z2" == claim_value(answer.only, keys.ZONE)


@pytest.mark.case("SCH-148")
@pytest.mark.parametrize(
    ("options", "beside"),
    [
        pytest.param(Options(), "b1", id="respected, the preference decides"),
        pytest.param(IGNORE, "a", id="ignored, the claim with the fewest pods does"),
    ],
)
def test_a_preferred_zone(options: Options, beside: str) -> None:
    waiting = [
        pod("a", cpu="2", node_selector={keys.ZONE: "z1"}),
        pod("b1", cpu="3", node_selector={keys.ZONE: "z2"}),
        pod("b2", cpu="3", node_selector={keys.ZONE: "z2"}),
        pod("q", cpu="1", preferred=[(1, zone("z2"))]),
    ]

    answer = solved(waiting, options=options)

    assert answer.with_pod(beside) is answer.with_pod("q")


SPREAD_OVER_ZONES: PodOptions = {"labels": APP_T, "spread": [spread(soft=True)]}
SPREAD_OVER_HOSTS: PodOptions = {"labels": APP_T, "spread": [spread(keys.HOSTNAME, soft=True)]}
APART_IF_POSSIBLE: PodOptions = {"labels": APP_T, "preferred_anti_affinity": [(1, pod_term())]}


@pytest.mark.parametrize(
    ("wishes", "options", "loads"),
    [
        pytest.param(SPREAD_OVER_ZONES, IGNORE, [5], id="SCH-149 soft zone spread, ignored"),
        pytest.param(SPREAD_OVER_HOSTS, IGNORE, [5], id="SCH-149 soft hostname spread, ignored"),
        pytest.param(
            SPREAD_OVER_HOSTS, Options(), [1] * 5, id="SCH-149 soft hostname spread, respected"
        ),
        pytest.param(
            SPREAD_OVER_ZONES, Options(), [2, 2, 1], id="SCH-149 soft zone spread, respected"
        ),
        pytest.param(
            APART_IF_POSSIBLE, Options(), [1] * 5, id="SCH-150 soft anti-affinity, respected"
        ),
        pytest.param(APART_IF_POSSIBLE, IGNORE, [5], id="SCH-150 soft anti-affinity, ignored"),
    ],
)
def test_five_pods_that_would_rather_be_apart(
    wishes: PodOptions, options: Options, loads: list[int]
) -> None:
    answer = solved(pods(5, **wishes), options=options)

    assert loads == answer.loads


def test_soft_zonal_anti_affinity_among_a_batch_collapses_onto_one_claim() -> None:
    waiting = pods(3, labels=APP_T, preferred_anti_affinity=[(1, pod_term(key=keys.ZONE))])

    answer = solved(waiting)

    assert [3] == answer.loads


def test_ignoring_preferences_still_tries_every_alternative_and_soft_taints() -> None:
    waiting = pod(required=[zone("bad"), zone("z3")], preferred=[(1, zone("z1"))])

    answer = solved([waiting], pools=[node_pool(taints=[SOFT_TAINT])], options=IGNORE)

    assert "z3" == claim_value(answer.only, keys.ZONE)


def test_a_pod_keeps_its_wishes_for_every_new_attempt() -> None:
    """The follower fails first, giving up its wish; once its friend stands, it has it again."""
    follower = pod("follower", cpu="3", affinity=[pod_term()], preferred=[(1, zone("z2"))])
    friend = pod("friend", cpu="1", labels=APP_T, node_selector={keys.ARCH: "arm64"})

    answer = solved([follower, friend])

    assert answer.with_pod("follower") is answer.with_pod("friend")
    assert "z2" == claim_value(answer.only, keys.ZONE)
