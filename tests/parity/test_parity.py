"""Our decisions beside Karpenter's own: on random problems, and for the differences that are known."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from parity import differences
from parity.__main__ import differing
from parity.comparing import Difference, compare, normal
from parity.deciding import decide
from parity.mixes import MIXES, problem_of
from parity.peer import Peer, built, obstacle
from parity.problems import Json, Problem
from parity.shrinking import shrunk

PAGE: Final = Path(__file__).parents[2] / "docs" / "differences.md"
SEEDS: Final = range(1, 2001)
# A problem for every difference, so that one which is no longer there is not carried along
EXAMPLES: Final = {
    "forgotten-label": "affinity:1873",
    "impossible-node": "affinity:45",
    "unsold-domain": "spread:139",
    "foreign-zone": "pod-affinity:4",
    "unsold-replacement": "spot-to-spot:523",
    "contradicting-preference": "affinity:3244",
    "shared-count": "spread:3985",
    "waiting-pods": "drift:11",
}


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    reason = obstacle()
    if reason:
        pytest.skip(reason)
    built()
    with Peer() as made:
        yield made


@pytest.mark.slow
def test_random_problems_are_decided_as_karpenter_decides_them(peer: Peer) -> None:
    unexplained = [
        found.problem.name for found in differing("", SEEDS) if differences.explained(found) is None
    ]
    assert unexplained == [], "make parity SEEDS=<seed> shows the smallest problem that differs"


@pytest.mark.slow
@pytest.mark.parametrize("name", [known.name for known in differences.KNOWN])
def test_every_known_difference_is_still_there(name: str, peer: Peer) -> None:
    mix, _, seed = EXAMPLES[name].partition(":")
    found = compare(problem_of(int(seed), mix), peer)
    assert found is not None
    known = differences.explained(found)
    assert known is not None
    assert known.name == name


@pytest.mark.parametrize("known", differences.KNOWN, ids=lambda known: known.name)
def test_users_are_told_about_every_known_difference(known: differences.Known) -> None:
    assert f"`{known.name}`" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("mix", MIXES)
def test_a_seed_always_makes_the_same_problem(mix: str) -> None:
    for seed in range(3):
        first, second = problem_of(seed, mix), problem_of(seed, mix)
        assert json.dumps(first.wire()) == json.dumps(second.wire())
        assert normal(decide(first)) == normal(decide(second))


@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_gives_something_to_decide(mix: str) -> None:
    answers = [decide(problem_of(seed, mix)) for seed in range(12)]
    assert any(a["claims"] or a["existing"] or a.get("commands") for a in answers)


def test_the_order_of_claims_and_commands_is_no_difference() -> None:
    claims = [
        {"pool": "a", "pods": ["default/p1"], "types": ["t"], "zones": ["z1"], "ways": ["spot"]},
        {"pool": "b", "pods": ["default/p2"], "types": ["t"], "zones": ["z1"], "ways": ["spot"]},
    ]
    answer = {"claims": claims, "existing": {}, "failed": {"default/p3": "x"}, "deferred": []}
    turned = {**answer, "claims": claims[::-1], "failed": {"default/p3": "y"}}
    assert normal(answer) == normal(turned)
    assert normal(answer) != normal({**answer, "failed": {}})


def test_a_problem_is_made_smaller_while_it_shows_what_is_looked_for() -> None:
    problem = problem_of(7, "nodes")
    wanted = next(pod["metadata"]["name"] for pod in problem.of_kind("Pod"))

    def still(smaller: Problem) -> bool:
        return any(pod["metadata"]["name"] == wanted for pod in smaller.of_kind("Pod"))

    smallest = shrunk(problem, still, most=5000)
    assert [pod["metadata"]["name"] for pod in smallest.of_kind("Pod")] == [wanted]
    assert len(list(smallest.of_kind("NodePool"))) == 1
    assert [len(t["offerings"]) for t in smallest.instance_types[""]] == [1]


def test_a_difference_that_nothing_explains_is_not_explained() -> None:
    problem = problem_of(3, "plain")
    nothing: Json = {"claims": [], "existing": {}, "failed": {}, "deferred": []}
    pods = [f"default/{pod['metadata']['name']}" for pod in problem.of_kind("Pod")]
    ours = {**nothing, "failed": dict.fromkeys(pods, "no")}
    assert differences.explained(Difference(problem, ours, (nothing,))) is None
