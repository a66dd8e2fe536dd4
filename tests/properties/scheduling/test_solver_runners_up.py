"""To insist on the best domain of a spread places no pod less than to take what is at hand.

The clusters here have little but what this is about: types that are sold in few zones, pods that
spread over zones or name their types, and limits on the number of nodes.
"""

from random import Random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import (
    APP_T,
    expression,
    instance_type,
    node_pool,
    offering,
    pod,
    spread,
    unmanaged_node,
)
from helpers.random_clusters import Question
from helpers.solver import solved
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.checker.check import check_plan
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.scheduling.attempt import pack
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.solve import solve
from karpenter.state.nodes import StateNode

ZONES: Final = ("z1", "z2", "z3")
WAYS: Final = (keys.SPOT, keys.ON_DEMAND)
TYPES: Final = 5
seeds = st.integers(0, 2**32)


def cluster(seed: int) -> Question:
    random = Random(seed)
    return Question(
        pods=tuple(_pod(random, f"p{n}") for n in range(random.randint(2, 10))),
        pools=tuple(_pool(random, name) for name in "ab"[: random.randint(1, 2)]),
        types=tuple(_type(random, f"t{n}") for n in range(TYPES)),
    )


@given(seeds)
@settings(max_examples=200, deadline=None)
def test_no_pod_less_is_placed_than_by_taking_runners_up_at_once(seed: int) -> None:
    question = cluster(seed)
    at_once = pack(CompiledProblem(question.problem), insists=False).packing

    plan = solve(question.problem)

    assert plan.left_out <= len(at_once.failed) + len(at_once.deferred)


@given(seeds)
@settings(max_examples=200, deadline=None)
def test_no_rule_is_broken_either_way(seed: int) -> None:
    question = cluster(seed)

    plan = solve(question.problem)

    assert [] == check_plan(question.cluster, plan)


@given(seeds)
@settings(max_examples=200, deadline=None)
def test_a_zone_with_fewer_pods_is_taken_wherever_something_is_sold_there(seed: int) -> None:
    """One pod spreads; it comes last, so all other claims are open, and none has a zone yet."""
    random = Random(seed)
    types = tuple(_type(random, f"t{n}") for n in range(TYPES))
    others = [_naming_types(random, f"p{n}") for n in range(random.randint(0, 6))]
    counts = {zone: random.randint(0, 2) for zone in ZONES}
    last = pod("last", cpu="10m", labels=APP_T, spread=[spread(keys.ZONE, random.randint(1, 3))])
    skew = last.spec.topology_spread_constraints[0].max_skew

    answer = solved([*others, last], types=types, nodes=[_full(*each) for each in counts.items()])

    sold = {way.zone for each in types for way in each.offerings}
    allowed = {zone for zone in sold if counts[zone] + 1 - min(counts.values()) <= skew}
    best = {z for z in allowed if counts[z] == min(counts[each] for each in allowed)}
    if best:
        (zone,) = answer.with_pod("last").requirements[keys.ZONE].values
        assert zone in best
    else:
        assert "last" in answer.unplaced


def _full(zone: str, count: int) -> StateNode:
    """A machine with so many pods that count, and no room for more."""
    held = [pod(f"{zone}-{n}", labels=APP_T, node_name=zone) for n in range(count)]
    return unmanaged_node(zone, zone=zone, cpu="0", slots=count, pods=held)


def _type(random: Random, name: str) -> InstanceType:
    places = [(zone, way) for zone in ZONES for way in WAYS if random.random() < 0.25]
    return instance_type(
        name,
        cpu=random.choice(("2", "4", "8")),
        slots=random.choice((2, 5)),
        offerings=[offering(*place, random.choice((0.1, 0.2, 0.5, 1.0))) for place in places],
    )


def _pool(random: Random, name: str) -> NodePool:
    limits = {"nodes": str(random.randint(2, 3))} if random.random() < 0.9 else None
    return node_pool(name, limits=limits, weight=random.choice((None, 10)))


def _pod(random: Random, name: str) -> Pod:
    cpu = random.choice(("500m", "1", "1500m", "3"))
    if random.random() < 0.5:
        spreads = [spread(keys.ZONE, random.randint(1, 3))]
        if random.random() < 0.3:
            spreads.append(spread(keys.CAPACITY_TYPE, random.randint(1, 3)))
        return pod(name, cpu=cpu, labels=APP_T, spread=spreads)
    return _naming_types(random, name, cpu)


def _naming_types(random: Random, name: str, cpu: str = "1") -> Pod:
    types = random.sample([f"t{n}" for n in range(TYPES)], random.randint(1, 3))
    wanted = [[expression(keys.INSTANCE_TYPE, "In", *types)]] if random.random() < 0.7 else []
    return pod(name, cpu=cpu, required=wanted)
