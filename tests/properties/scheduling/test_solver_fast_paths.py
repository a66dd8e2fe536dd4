"""Every mask the solver computes holds exactly what a plain loop over the same things finds."""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.random_clusters import Recipe, random_expressions, recipes
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.taints import first_untolerated
from karpenter.scheduling.compiled.offerings import Levels, OfferingIndex, members
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.joining import Joining, Refusal
from karpenter.scheduling.packing.topology import HostCounts

QUICK = settings(max_examples=50, deadline=None)

amounts = st.integers(-5, 40)


@given(recipes(), st.integers(0, 10**6))
@QUICK
def test_allowed_offerings_are_those_a_plain_filter_leaves(recipe: Recipe, seed: int) -> None:
    universe = OfferingIndex(recipe.question.types)
    wanted = Requirements.from_wire(random_expressions(Random(seed), 3))

    expected = [
        offering
        for index, offering in zip(universe.type_of, universe.offerings, strict=True)
        if all(goes_with(universe.types[index], offering, one) for one in wanted)
    ]

    assert expected == [universe.offerings[bit] for bit in members(universe.allowed(wanted))]


@given(recipes())
@QUICK
def test_every_available_offering_is_a_bit_and_the_lowest_is_the_cheapest(recipe: Recipe) -> None:
    universe = OfferingIndex(recipe.question.types)
    available = [o for t in recipe.question.types for o in t.offerings if o.available]
    prices = [offering.price for offering in available if offering.is_launchable]

    cheapest = universe.cheapest(universe.all_bits)

    assert len(available) == len(universe.offerings)
    assert min(prices, default=None) == (cheapest.price if cheapest is not None else None)


@given(recipes(), st.integers(0, 2**64))
@QUICK
def test_types_come_by_the_price_of_their_cheapest_offering(recipe: Recipe, mask: int) -> None:
    universe = OfferingIndex(recipe.question.types)
    bits = mask & universe.all_bits

    first_bits = {universe.type_of[bit]: bit for bit in reversed(list(members(bits)))}

    assert sorted(first_bits, key=lambda i: first_bits[i]) == list(universe.types_in(bits))


@given(st.lists(amounts, max_size=12), amounts, st.integers(0, 2**12))
@QUICK
def test_levels_equal_a_plain_comparison(held: list[int], least: int, mask: int) -> None:
    by_amount: dict[int, int] = {}
    for bit, amount in enumerate(held):
        by_amount[amount] = by_amount.get(amount, 0) | 1 << bit
    levels = Levels(by_amount)

    among = [amount for bit, amount in enumerate(held) if mask >> bit & 1]

    assert [n for n, a in enumerate(held) if a >= least] == [*members(levels.at_least(least))]
    assert max(among, default=0) == levels.largest(mask)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), max_size=10), st.integers(0, 9))
@QUICK
def test_hosts_above_a_count_equal_a_plain_count(adds: list[tuple[int, int]], pods: int) -> None:
    counts = HostCounts()
    plain: Counter[int] = Counter()
    for host, more in adds:
        counts.add(host, more)
        plain[host] += more

    assert sorted(h for h, n in plain.items() if n > pods) == [*members(counts.above(pods))]
    assert plain == {host: counts.of(host) for host in plain}


@given(recipes())
@QUICK
def test_suitable_machines_are_those_a_plain_filter_leaves(recipe: Recipe) -> None:
    world = CompiledProblem(recipe.question.problem)

    for pod_class in world.classes:
        for stage in pod_class.stages:
            expected = [
                number
                for number, target in enumerate(world.nodes.targets)
                if target.requirements.is_compatible(stage.requirements)
                and first_untolerated(target.taints, stage.tolerations) is None
                and pod_class.requests.fits(target.free)
            ]
            assert expected == [*members(world.nodes.suitable(pod_class, stage))]


@given(recipes(), st.integers(0, 10**6))
@QUICK
def test_machines_with_a_label_are_those_a_plain_filter_leaves(recipe: Recipe, seed: int) -> None:
    nodes = CompiledProblem(recipe.question.problem).nodes
    wanted = Requirements.from_wire(random_expressions(Random(seed), 3))

    for one in wanted:
        expected = [
            number
            for number, target in enumerate(nodes.targets)
            if target.requirements.is_compatible(Requirements([one]))
        ]
        everyone = (1 << len(nodes.targets)) - 1
        assert expected == [*members(nodes.with_label(one) & everyone)]


@given(recipes(topology=False, limits=False, reservations=False))
@QUICK
def test_a_fresh_claim_keeps_the_offerings_a_plain_filter_leaves(recipe: Recipe) -> None:
    question = recipe.question
    world = CompiledProblem(question.problem)
    joining = Joining(world.remaining_limits(), None, best_effort_min_values=True)

    for template in world.templates:
        for pod_class in world.classes:
            stage = pod_class.stages[-1]
            claim = joining.open(template, 0, pod_class, stage)
            left: list[int] = []
            if not isinstance(claim, Refusal):
                outcome = joining.to_claim(template, claim, pod_class, stage, (), is_new=True)
                left = [] if isinstance(outcome, Refusal) else [*members(outcome[1])]
            tolerated = first_untolerated(template.taints, stage.tolerations) is None
            well_known = question.problem.facts.well_known_labels
            goes = template.requirements.is_compatible(stage.requirements, well_known)
            together = template.requirements & stage.requirements
            expected = [
                bit
                for bit in range(len(template.universe.offerings))
                if tolerated and goes and takes(template, bit, together, pod_class)
            ]
            assert expected == left


def goes_with(instance_type: InstanceType, offering: Offering, wanted: Requirement) -> bool:
    held = offering.requirements.get(wanted.key) or instance_type.requirements.get(wanted.key)
    if held is None:
        return True
    return held.has_intersection(wanted) or (held.allows_absence and wanted.allows_absence)


def takes(template: Template, bit: int, together: Requirements, pod_class: PodClass) -> bool:
    universe = template.universe
    instance_type = universe.types[universe.type_of[bit]]
    (group,) = (group for group in template.daemon_groups if group.bits >> bit & 1)
    room = instance_type.allocatable_of(universe.offerings[bit]) - group.overhead
    return (
        pod_class.requests.fits(room)
        and not any(mine.conflicts(other) for mine in pod_class.ports for other in group.ports)
        and all(goes_with(instance_type, universe.offerings[bit], one) for one in together)
    )
