"""Labels that a claim has only because a pod spoke of them, and pods that seek such labels."""

from itertools import permutations
from typing import Final

import pytest

from helpers.builders import expression, managed_node, node_pool, pod
from helpers.solver import question, solved
from karpenter.api.pods import Pod
from karpenter.model.requirements import Requirements
from karpenter.scheduling.compiled.custom_labels import custom_labels
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.plan import Why
from karpenter.scheduling.problem import PodVolumes

TEAM: Final = "example.com/team"
SEEKS_Y: Final = {TEAM: "y"}


def telling(name: str = "telling", cpu: str = "100m", *avoided: str) -> Pod:
    """A pod that only says which teams it is not for."""
    return pod(name, cpu=cpu, required=[[expression(TEAM, "NotIn", *avoided or ("x",))]])


def seeking(name: str = "seeking", cpu: str = "1", team: str = "y") -> Pod:
    return pod(name, cpu=cpu, node_selector={TEAM: team})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(telling(cpu="1"), seeking(cpu="100m"), id="the one that tells comes first"),
        pytest.param(seeking(cpu="1"), telling(cpu="100m"), id="the one that seeks comes first"),
    ],
)
def test_a_pod_joins_the_claim_that_another_tells_about_its_label(first: Pod, second: Pod) -> None:
    answer = solved([first, second])

    assert ["seeking", "telling"] == answer.placed
    assert "y" == answer.only.labels[TEAM]


def test_a_claim_that_refused_a_pod_may_take_it_once_it_was_told() -> None:
    answer = solved([pod("plain", cpu="2"), seeking(), telling()])

    assert ["plain", "seeking", "telling"] == answer.placed
    assert "y" == answer.only.labels[TEAM]


@pytest.mark.parametrize("sought", ["Exists", "Gt"])
def test_whatever_asks_for_the_label_to_be_there(sought: str) -> None:
    values = ("5",) if sought == "Gt" else ()
    seeker = pod("seeking", cpu="1", required=[[expression(TEAM, sought, *values)]])

    answer = solved([seeker, telling()])

    assert ["seeking", "telling"] == answer.placed


def test_a_volume_may_seek_a_label_too() -> None:
    place = Requirements.from_labels(SEEKS_Y)

    answer = solved(
        [pod("mounting", cpu="1"), telling()],
        volumes={"mounting": PodVolumes(alternatives=(place,))},
    )

    assert ["mounting", "telling"] == answer.placed
    assert "y" == answer.only.labels[TEAM]


def test_two_labels_may_be_told_by_two_pods() -> None:
    seeker = pod("seeking", cpu="1", node_selector={TEAM: "y", "example.com/tier": "web"})
    tier = pod("tier", cpu="50m", required=[[expression("example.com/tier", "NotIn", "db")]])

    answer = solved([seeker, telling(), tier])

    assert ["seeking", "telling", "tier"] == answer.placed
    assert ("y", "web") == (answer.only.labels[TEAM], answer.only.labels["example.com/tier"])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(telling("other", "100m", "y"), id="that avoids its value"),
        pytest.param(
            pod("other", cpu="100m", required=[[expression(TEAM, "DoesNotExist")]]),
            id="that wants no such label",
        ),
        pytest.param(pod("other", cpu="100m"), id="that says nothing about it"),
    ],
)
def test_a_pod_is_not_helped_by_one(other: Pod) -> None:
    answer = solved([seeking(), other])

    assert {"seeking": {Why.UNDEFINED_LABEL}} == answer.unplaced
    assert ["other"] == answer.placed


def test_the_first_to_seek_decides_and_the_others_are_told_why() -> None:
    answer = solved([seeking("a", team="y"), seeking("b", team="z"), telling()])

    assert ["a", "telling"] == answer.placed
    assert {"b": {Why.UNDEFINED_LABEL}} == answer.unplaced


def test_a_machine_that_exists_has_the_labels_it_has() -> None:
    answer = solved([seeking(), telling()], nodes=[managed_node("n")], pools=[node_pool("np")])

    assert {"n": ["telling"]} == answer.existing
    assert ["seeking"] == list(answer.unplaced)


def test_nobody_is_left_behind_in_whatever_order_they_come() -> None:
    sizes = ("2", "1", "500m")
    for order in permutations(range(3)):
        cpu = [sizes[place] for place in order]

        answer = solved([pod("plain", cpu=cpu[0]), seeking(cpu=cpu[1]), telling(cpu=cpu[2])])

        assert ["plain", "seeking", "telling"] == answer.placed


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        pytest.param([seeking(), telling()], {TEAM}, id="told and sought"),
        pytest.param([telling()], set(), id="told, but nobody seeks it"),
        pytest.param([seeking()], set(), id="sought, but nobody tells"),
        pytest.param(
            [
                pod("a", node_selector={"topology.kubernetes.io/zone": "z1"}),
                pod("b", required=[[expression("topology.kubernetes.io/zone", "NotIn", "z2")]]),
            ],
            set(),
            id="nodes have it anyway",
        ),
    ],
)
def test_which_labels_matter(pods: list[Pod], found: set[str]) -> None:
    world = CompiledProblem(question(pods))

    assert found == world.custom_labels
    assert found == custom_labels(world.classes, world.problem.facts.well_known_labels)
