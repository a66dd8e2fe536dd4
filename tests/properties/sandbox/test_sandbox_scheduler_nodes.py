"""Nodes come and go under the sandbox's scheduler, and what it remembers of them stays true.

A class of pods catches up with the nodes that changed since it was last asked. Whatever happened in
between, it must then say the same as a class that has just looked at every node for the first time.
"""

import dataclasses
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.placing import labelled, required, spread, term
from helpers.scheduler_bench import HOSTNAME, ZONE, Bench, node, pod, taint
from karpenter_sandbox.scheduling.classes import PodClass
from karpenter_sandbox.scheduling.placement import Chosen
from karpenter_sandbox.scheduling.rules import Classes
from karpenter_sandbox.scheduling.topology import GroupKey, TopologyCounts

Json = dict[str, Any]

WEB = {"app": "web"}
HOST_SPREAD = [spread(HOSTNAME, selector=labelled(app="web"))]
KINDS: dict[str, Json] = {
    "plain": pod("plain", cpu="100m", labels=WEB),
    "host spread": pod("hosts", cpu="100m", labels=WEB, topologySpreadConstraints=HOST_SPREAD),
    "host and zone spread": pod(
        "both",
        cpu="100m",
        labels=WEB,
        topologySpreadConstraints=[
            *HOST_SPREAD,
            spread(ZONE, selector=labelled(app="web"), hard=False),
        ],
    ),
    "one for each host": pod(
        "alone",
        cpu="100m",
        labels=WEB,
        affinity=required("podAntiAffinity", term(labelled(app="web"))),
    ),
}


def test_a_node_that_is_gone_is_swept_from_what_a_class_remembers() -> None:
    """Enough comings and goings that outdated elements outnumber the others by far."""
    bench = Bench(node("stays"))
    for turn in range(200):
        bench.set_node(node(f"n{turn}"))
        assert isinstance(bench.decision(KINDS["host spread"]), Chosen)
        bench.cluster.remove_node(f"n{turn}")
    assert bench.decide(KINDS["host spread"]) == "stays"


def test_nodes_of_one_hostname_may_go_together() -> None:
    bench = Bench(node("a", labels={HOSTNAME: "h"}), node("b", labels={HOSTNAME: "h"}), node("c"))
    assert isinstance(bench.decision(KINDS["host spread"]), Chosen)
    bench.run(rename(KINDS["host spread"], "one"), on="a")
    bench.cluster.remove_node("b")
    assert bench.decide(KINDS["host spread"]) == "c"


def test_a_node_that_goes_takes_its_pods_from_the_count_of_its_hostname() -> None:
    bench = Bench(node("a", labels={HOSTNAME: "h"}), node("b", labels={HOSTNAME: "h"}), node("c"))
    bench.run(rename(KINDS["one for each host"], "one"), on="a")
    bench.run(rename(KINDS["one for each host"], "two"), on="c")
    assert "0/3 nodes" in bench.decide(KINDS["one for each host"])
    bench.cluster.remove_node("a")
    assert bench.decide(KINDS["one for each host"]) == "b"


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_class_that_caught_up_says_what_a_new_one_says(kind: str, seed: int) -> None:
    random, bench, template = Random(seed), Bench(node("n0")), KINDS[kind]
    placed: list[Json] = []
    for step in range(120):
        for _ in range(random.randint(1, 3)):
            happen(bench, random, placed)
        if not bench.cluster.nodes:
            continue
        obj = rename(template, f"p{step}")
        info = bench.shapes.read(obj)
        old = bench.classes.of(info)
        new = Classes(bench.cluster, bench.storage, bench.services, Random(1)).of(info)
        assert said(old) == said(new)
        decision = bench.decision(obj)
        if isinstance(decision, Chosen):
            assert new.failure_of(decision.node, TopologyCounts(new.rules)) is None
            bench.cluster.set_pod(dataclasses.replace(info, node_name=decision.node))
            placed.append(obj)


def happen(bench: Bench, random: Random, placed: list[Json]) -> None:
    name = f"n{random.randint(0, 5)}"
    event = random.choice(["come", "come", "go", "go", "leave", "leave", "leave"])
    if event == "come":
        bench.set_node(
            node(
                name,
                cpu=random.choice(["1", "4"]),
                zone=random.choice(["z1", "z2", None]),
                labels={HOSTNAME: random.choice([name, "shared"])},
                taints=[taint("t")] if random.random() < 0.2 else [],
            )
        )
    elif event == "go":
        bench.cluster.remove_node(name)
    elif placed:
        bench.remove(placed.pop(random.randrange(len(placed))))


def said(alike: PodClass) -> tuple[dict[GroupKey, int], dict[Any, int], list[dict[str, int]]]:
    """Groups with their sizes, nodes by failure, and every count by domain."""
    return (
        {group.key: group.size for group in alike.groups()},
        alike.failures,
        [tally.sums for tally in alike.rules.tallies()],
    )


def rename(template: Json, name: str) -> Json:
    return {**template, "metadata": {**template["metadata"], "name": name, "uid": name}}
