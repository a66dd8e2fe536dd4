"""A pod is left out only when every claim refuses it in the end, whatever happened on the way."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.builders import expression, instance_type, pod
from helpers.random_clusters import TEAM, Question, Recipe, recipes
from helpers.solver import solved
from karpenter.api.pods import Pod
from karpenter.checker.check import check_plan
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.packing.joining import Refusal
from karpenter.scheduling.packing.topology import Closed, open_domains, open_hosts
from karpenter.scheduling.reasons.pod_verdicts import SolveCapture
from karpenter.scheduling.solve import solve

ROOMY: Final = (instance_type("roomy", cpu="64", memory="256Gi", slots=100),)
seeds = st.integers(0, 10**6)


# told of a label, a reserved machine is cheaper than any of the pool that defines it
CHEAPER_WHERE_TOLD: Final = Recipe(
    seed=1451, kinds=(3, 4), pools=2, types=3, topology=True, limits=True, reservations=True
)


@given(recipes(), seeds)
@example(CHEAPER_WHERE_TOLD, 1)
@settings(max_examples=150, deadline=None)
def test_no_claim_would_take_a_pod_that_was_left_out(recipe: Recipe, seed: int) -> None:
    question = speaking_of_teams(recipe.question, Random(seed))
    seen = SolveCapture()

    plan = solve(question.problem, witness=seen)

    assert [] == check_plan(question.cluster, plan)
    assert [] == list(places_left(seen))


@given(st.lists(st.sampled_from(("plain", "seeks", "tells")), min_size=1, max_size=8), seeds)
@settings(max_examples=60, deadline=None)
def test_who_seeks_a_label_finds_it_whenever_anybody_tells_it(kinds: list[str], seed: int) -> None:
    random = Random(seed)
    given = [one_of(kind, f"{kind}-{n}", random) for n, kind in enumerate(kinds)]

    answer = solved(given, types=ROOMY)

    seekers = {each.metadata.name for each in given if each.spec.node_selector}
    assert (set() if "tells" in kinds else seekers) == set(answer.unplaced)


def one_of(kind: str, name: str, random: Random) -> Pod:
    cpu = random.choice(("100m", "200m", "500m", "1"))
    if kind == "tells":
        return pod(name, cpu=cpu, required=[[expression(TEAM, "NotIn", "x")]])
    return pod(name, cpu=cpu, node_selector={TEAM: "y"} if kind == "seeks" else {})


def speaking_of_teams(question: Question, random: Random) -> Question:
    """The same question, in which many pods speak of a label that few pools define."""

    def altered(given: Pod) -> Pod:
        if random.random() < 0.5:
            return given
        operator = random.choice(("NotIn", "NotIn", "In", "In", "Exists"))
        values = (random.choice("ab"),) if "In" in operator else ()
        odd = pod(required=[[expression(TEAM, operator, *values)]])
        spec = msgspec.structs.replace(
            given.spec, affinity=odd.spec.affinity, node_selector={}, volumes=()
        )
        return msgspec.structs.replace(given, spec=spec)

    return replace(question, pods=tuple(map(altered, question.pods)))


def places_left(seen: SolveCapture) -> Iterator[tuple[str, int]]:
    """Pods that were left out, each with a claim that would take it as things are."""
    assert seen.compiled is not None
    assert seen.attempt is not None
    for position in seen.attempt.packing.failed:
        for claim in seen.attempt.packing.claims:
            if would_take(seen, claim, position):
                yield seen.compiled.problem.pods[position].metadata.name, claim.index


def would_take(seen: SolveCapture, claim: OpenClaim, position: int) -> bool:
    assert seen.compiled is not None
    assert seen.attempt is not None
    pod_class = seen.compiled.class_of[position]
    joining, states = seen.attempt.diagnosis.joining, seen.attempt.diagnosis.states
    if pod_class.uses_devices and joining.devices.refusal(pod_class):
        return False
    template = seen.compiled.templates[claim.template]
    for stage in pod_class.stages:
        hosts = open_hosts(states, stage.hosts)
        choices = open_domains(states, stage.domains)
        if isinstance(hosts, Closed) or isinstance(choices, Closed):
            continue
        if not hosts.claims >> claim.index & 1:
            continue
        if not isinstance(joining.to_claim(template, claim, pod_class, stage, choices), Refusal):
            return True
    return False
