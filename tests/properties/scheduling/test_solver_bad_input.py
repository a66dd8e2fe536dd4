"""Whatever is wrong with the input, the solver answers, and accounts for every pod with a reason."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeAlias, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import expression, node_pool, pod
from helpers.random_clusters import Question, Recipe, recipes
from karpenter.api.karpenter import NodePool, NodeRequirement
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.model.resources import Resources
from karpenter.scheduling.plan import Plan
from karpenter.scheduling.solve import solve
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of

T = TypeVar("T")
Spoiler: TypeAlias = Callable[[Random, T], T]

ODD_AMOUNTS: Final = ("-1", "-5Gi", "0", "1e100", "9" * 40, "1n", "1E", -3, 10**30, 0.5, "1e-30")
ODD_PRICES: Final = (math.nan, math.inf, -math.inf, -1.0, 0.0)
RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "acme/x")

altered = msgspec.structs.replace


def with_odd_amounts(random: Random, given: Pod) -> Pod:
    return altered(
        given,
        spec=altered(
            given.spec,
            containers=pod(
                requests={random.choice(RESOURCES): random.choice(ODD_AMOUNTS)}
            ).spec.containers,
            overhead={"cpu": random.choice(ODD_AMOUNTS)},
        ),
    )


def with_odd_spread(random: Random, given: Pod) -> Pod:
    constraints = tuple(
        altered(
            constraint,
            max_skew=random.choice((0, -1, 10**9)),
            min_domains=random.choice((0, -1, 99)),
            when_unsatisfiable=random.choice(("DoNotSchedule", "", "Nope")),
            topology_key=random.choice((constraint.topology_key, "", "no such label")),
        )
        for constraint in given.spec.topology_spread_constraints
    )
    return altered(given, spec=altered(given.spec, topology_spread_constraints=constraints))


def with_odd_demands(random: Random, given: Pod) -> Pod:
    operator = random.choice(("Gt", "Lte", "In", "Exists", "Nope"))
    values = random.choice(((), ("a",), ("1", "2"), ("-7",), ("9" * 30,)))
    odd = pod(
        required=[[expression("k", operator, *values)], []],
        preferred=[(random.choice((0, -5, 10**30)), [expression("k", "Gt", "z")])],
    )
    return altered(given, spec=altered(given.spec, affinity=odd.spec.affinity))


def with_a_host(random: Random, given: Pod) -> Pod:
    host = {keys.HOSTNAME: random.choice(("n0", "nowhere")), "a b": "ü"}
    return altered(given, spec=altered(given.spec, node_selector=host))


def without_identity(random: Random, given: Pod) -> Pod:
    return altered(given, metadata=altered(given.metadata, uid="", name="twice", namespace=""))


def with_odd_limits(random: Random, given: NodePool) -> NodePool:
    limits = {random.choice((*RESOURCES, "nodes")): random.choice(ODD_AMOUNTS)}
    return altered(given, spec=altered(given.spec, limits=limits, weight=-(10**30)))


def contradicting_itself(random: Random, given: NodePool) -> NodePool:
    wanted = random.choice(
        (
            [expression(keys.ZONE, "In", "z1"), expression(keys.ZONE, "In", "z2")],
            [expression("cores", "Gt", "5"), expression("cores", "Lt", "3")],
            [expression("team", "Exists"), expression("team", "DoesNotExist")],
            [NodeRequirement(key=keys.INSTANCE_TYPE, operator="Exists", min_values=10**30)],
            [NodeRequirement(key=keys.INSTANCE_TYPE, operator="Exists", min_values=-1)],
        )
    )
    return node_pool(given.metadata.name, requirements=wanted, labels={keys.NODEPOOL: "other"})


def named_alike(random: Random, given: NodePool) -> NodePool:
    return altered(given, metadata=altered(given.metadata, name="a"))


def oddly_priced(random: Random, given: InstanceType) -> InstanceType:
    return given.with_offerings(
        tuple(replace(o, price=random.choice(ODD_PRICES)) for o in given.offerings)
    )


def not_for_sale(random: Random, given: InstanceType) -> InstanceType:
    return given.with_offerings(())


def oddly_sized(random: Random, given: InstanceType) -> InstanceType:
    size = Resources.of({"cpu": random.choice((-5, 0, 10**30)), "memory": -(2**70)})
    return replace(given, capacity=size, overhead=Resources(cpu=-1, memory=10**40))


def called_alike(random: Random, given: InstanceType) -> InstanceType:
    return replace(given, name="t0")


def of_odd_size(random: Random, given: StateNode) -> StateNode:
    if given.node is None:
        return given
    size = {name: random.choice(ODD_AMOUNTS) for name in ("cpu", "memory")}
    status = altered(given.node.status, allocatable=size, capacity=size)
    return replace(given, node=altered(given.node, status=status))


def without_labels(random: Random, given: StateNode) -> StateNode:
    if given.node is None:
        return given
    bare = altered(given.node.metadata, labels={}, name="n0")
    return replace(given, node=altered(given.node, metadata=bare))


SPOILED_PODS: Final[Sequence[Spoiler[Pod]]] = (
    with_odd_amounts,
    with_odd_spread,
    with_odd_demands,
    with_a_host,
    without_identity,
)
SPOILED_POOLS: Final[Sequence[Spoiler[NodePool]]] = (
    with_odd_limits,
    contradicting_itself,
    named_alike,
)
SPOILED_TYPES: Final[Sequence[Spoiler[InstanceType]]] = (
    oddly_priced,
    not_for_sale,
    oddly_sized,
    called_alike,
)
SPOILED_NODES: Final[Sequence[Spoiler[StateNode]]] = (of_odd_size, without_labels)


@given(recipes(), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_bad_input_gets_an_answer(recipe: Recipe, seed: int) -> None:
    question = spoiled(recipe.question, Random(seed))

    plan = solve(question.problem)

    assert_accounts_for_every_pod(question, plan)


ORDINARY: Final = Recipe(seed=1, kinds=(2, 3), pools=2, types=3, nodes=2).question


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(replace(ORDINARY, pods=()), id="there are no pods"),
        pytest.param(replace(ORDINARY, pools=()), id="there are no pools"),
        pytest.param(replace(ORDINARY, types=()), id="there are no types"),
    ],
)
def test_nothing_at_all_gets_an_answer(question: Question) -> None:
    plan = solve(question.problem)

    assert_accounts_for_every_pod(question, plan)
    assert () == plan.claims


def test_ten_thousand_pools_get_an_answer() -> None:
    pools = tuple(node_pool(f"pool-{n}", limits={"cpu": "0"}) for n in range(10_000))
    question = replace(ORDINARY, pools=pools)

    plan = solve(question.problem)

    assert_accounts_for_every_pod(question, plan)


def spoiled(question: Question, random: Random) -> Question:
    def some(items: Sequence[T], spoilers: Sequence[Spoiler[T]]) -> tuple[T, ...]:
        return tuple(
            random.choice(spoilers)(random, item) if random.random() < 0.5 else item
            for item in items
        )

    return replace(
        question,
        pods=some(question.pods, SPOILED_PODS),
        pools=some(question.pools, SPOILED_POOLS),
        types=some(question.types, SPOILED_TYPES),
        nodes=some(question.nodes, SPOILED_NODES),
    )


def assert_accounts_for_every_pod(question: Question, plan: Plan) -> None:
    answered = [
        *(pod for claim in plan.claims for pod in claim.pods),
        *(pod for pods in plan.existing.values() for pod in pods),
        *(entry.pod for entry in plan.unplaced),
        *plan.deferred,
        *plan.unevaluated,
    ]
    assert Counter(map(key_of, question.pods)) == Counter(answered)
    assert all(entry.reasons for entry in plan.unplaced)
