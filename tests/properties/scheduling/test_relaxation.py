"""Stages that are worked out from one list of rules are those of giving up wishes one by one."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import APP_T, expression, node_pool, pod, pod_term, spread, taint
from helpers.solver import question
from karpenter.api.pods import Pod
from karpenter.model import labels as keys
from karpenter.scheduling.compiled.effort import within_bounds
from karpenter.scheduling.compiled.node_requirements import selector_demands, with_terms
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.relaxation import (
    TOLERATE_PREFERENCES,
    Demands,
    demands_of,
    is_soft_spread,
)
from karpenter.scheduling.compiled.topology_groups import (
    Group,
    GroupKind,
    affinity_group,
    spread_group,
)

zones = st.sampled_from(["z1", "z2", "z3"])
rule_keys = st.sampled_from([keys.ZONE, keys.HOSTNAME, "example.com/rack"])
weights = st.integers(1, 3)
on_zone = st.builds(lambda zone: [expression(keys.ZONE, "In", zone)], zones)
apps = st.sampled_from([APP_T, {"app": "other"}])
terms = st.builds(pod_term, apps, rule_keys)
spreads = st.builds(
    lambda key, skew, soft, taints: spread(key, skew, soft=soft, node_taints_policy=taints),
    rule_keys,
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["Ignore", "Honor"]),
)
pods_with_wishes = st.builds(
    lambda required, preferred, affinity, anti, near, apart, spread: pod(
        labels=APP_T,
        required=required,
        preferred=preferred,
        affinity=affinity,
        anti_affinity=anti,
        preferred_affinity=near,
        preferred_anti_affinity=apart,
        spread=spread,
    ),
    st.lists(on_zone, max_size=3),
    st.lists(st.tuples(weights, on_zone), max_size=4),
    st.lists(terms, max_size=2),
    st.lists(terms, max_size=2),
    st.lists(st.tuples(weights, terms), max_size=4),
    st.lists(st.tuples(weights, terms), max_size=4),
    st.lists(spreads, max_size=5),
)


def one_less(demands: Demands, *, soft_taints: bool) -> Demands | None:
    """The demands with one wish given up, or None when there is nothing left to give up."""
    if len(demands.alternatives) > 1:
        return replace(demands, alternatives=demands.alternatives[1:])
    if demands.preferred_affinity:
        return replace(demands, preferred_affinity=demands.preferred_affinity[1:])
    if demands.preferred_anti_affinity:
        return replace(demands, preferred_anti_affinity=demands.preferred_anti_affinity[1:])
    if demands.preferred_nodes:
        return replace(demands, preferred_nodes=demands.preferred_nodes[1:])
    for number, constraint in enumerate(demands.spread):
        if is_soft_spread(constraint):
            rest = demands.spread[:number] + demands.spread[number + 1 :]
            return replace(demands, spread=rest)
    if soft_taints and TOLERATE_PREFERENCES not in demands.tolerations:
        return replace(demands, tolerations=(*demands.tolerations, TOLERATE_PREFERENCES))
    return None


def one_by_one(demands: Demands | None, *, soft_taints: bool) -> Iterator[Demands]:
    while demands is not None:
        yield demands
        demands = one_less(demands, soft_taints=soft_taints)


def groups_of(wanted: Pod, demands: Demands, whole: Demands, world: CompiledProblem) -> list[Group]:
    filters = tuple(with_terms(selector_demands({}), (term,)) for term in whole.alternatives)
    found = [spread_group(wanted, c, filters, demands.tolerations) for c in demands.spread]
    for kind, required, preferred in (
        (GroupKind.AFFINITY, demands.affinity, demands.preferred_affinity),
        (GroupKind.ANTI_AFFINITY, demands.anti_affinity, demands.preferred_anti_affinity),
    ):
        for term in (*required, *(weighted.pod_affinity_term for weighted in preferred)):
            directory = world.problem.namespaces
            found.append(affinity_group(wanted, term, kind, directory, demands.tolerations))
    return found


@given(pods_with_wishes, st.booleans())
@settings(deadline=None)
def test_stages_are_those_of_giving_up_one_wish_after_the_other(
    wanted: Pod, soft_taints: bool
) -> None:
    taints = [taint("dear=true:PreferNoSchedule")] if soft_taints else []
    world = CompiledProblem(question([wanted], pools=[node_pool(taints=taints)]))
    spec = wanted.spec
    whole = demands_of(spec, spec.topology_spread_constraints, respect_preferences=True)

    (found,) = world.classes
    expected = list(one_by_one(whole, soft_taints=soft_taints))

    assert whole == within_bounds(whole)
    assert len(expected) == len(found.stages)
    for demands, stage in zip(expected, found.stages, strict=True):
        strict = with_terms(selector_demands({}), demands.alternatives[:1])
        preferred = [term.preference for term in demands.preferred_nodes[:1]]
        groups = groups_of(wanted, demands, whole, world)
        held = [world.groups.known[m.number] for m in (*stage.hosts, *stage.domains)]
        assert strict == stage.strict
        assert with_terms(strict, preferred) == stage.requirements
        assert demands.tolerations == stage.tolerations
        assert [g for g in groups if g.key == keys.HOSTNAME] + [
            g for g in groups if g.key != keys.HOSTNAME
        ] == [group for group in held if group.kind is not GroupKind.INVERSE]


@given(pods_with_wishes, st.integers(1, 400), st.integers(0, 1200))
@settings(deadline=None, max_examples=30)
def test_what_is_too_much_goes_in_the_order_in_which_it_would_be_given_up(
    wanted: Pod, times: int, ways: int
) -> None:
    spec = wanted.spec
    demands = demands_of(spec, spec.topology_spread_constraints, respect_preferences=True)
    whole = replace(
        demands,
        preferred_affinity=demands.preferred_affinity * times,
        alternatives=demands.alternatives * ways,
    )

    bounded = within_bounds(whole)

    # every alternative is used with every wish, so those that go are looked for one after the other
    alternatives = whole.alternatives[len(whole.alternatives) - len(bounded.alternatives) :]
    weaker = one_by_one(replace(whole, alternatives=alternatives[-1:]), soft_taints=False)
    assert bounded.alternatives == alternatives
    assert replace(bounded, alternatives=alternatives[-1:]) in weaker
    assert bounded.affinity == whole.affinity
    assert [c for c in bounded.spread if not is_soft_spread(c)] == [
        c for c in whole.spread if not is_soft_spread(c)
    ]
