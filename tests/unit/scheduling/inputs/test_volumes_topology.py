"""A pod goes only where all of its volumes can be reached, by any of their alternatives."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.builders import (
    APP_T,
    Expressions,
    expression,
    managed_node,
    pod,
    pod_term,
    pv,
    pvc,
    spread,
    storage_class,
)
from helpers.solver import solved
from helpers.storage import DRIVER, bound_claim, local_volume, solved_with, stored
from karpenter.api.storage import PersistentVolume
from karpenter.model import labels as keys
from karpenter.model.requirements import Requirements
from karpenter.scheduling.inputs.storage import Storage
from karpenter.scheduling.inputs.volumes import (
    MOST_ALTERNATIVES,
    VolumeError,
    resolve_volumes,
    volume_alternatives,
)
from karpenter.scheduling.plan import Why
from karpenter.scheduling.problem import PodVolumes


def zone(*values: str) -> Expressions:
    return [expression(keys.ZONE, "In", *values)]


def host(name: str) -> Expressions:
    return [expression(keys.HOSTNAME, "In", name)]


def holding(*volumes: PersistentVolume) -> Storage:
    names = [volume.metadata.name for volume in volumes]
    return stored([bound_claim(f"c-{name}", name) for name in names], volumes)


# Where pods end up

Z2_OR_Z3 = stored([pvc("data")], classes=[storage_class(zones=["z2", "z3"])])


@pytest.mark.case("SCH-199")
def test_class_and_pod_agree_on_a_zone() -> None:
    answer = solved_with(Z2_OR_Z3, [pod("p", claims=["data"], required=[zone("z1", "z3")])])

    assert ["z3"] == answer.zones


@pytest.mark.case("SCH-200")
def test_class_and_pod_contradict_each_other() -> None:
    answer = solved_with(Z2_OR_Z3, [pod("p", claims=["data"], required=[zone("z1")])])

    assert {"p": {Why.VOLUME_CONFLICT}} == answer.unplaced


@pytest.mark.case("SCH-201")
@pytest.mark.parametrize(
    "terms",
    [
        pytest.param((), id="the pod has no wish"),
        pytest.param((zone("z1"), zone("z3")), id="the pod has alternatives"),
    ],
)
def test_a_pod_goes_to_the_zone_of_its_volume(terms: Sequence[Expressions]) -> None:
    storage = holding(pv("v", driver=DRIVER, terms=[zone("z3")]))

    answer = solved_with(storage, [pod("p", claims=["c-v"], required=terms)])

    assert ["z3"] == answer.zones


def test_a_zone_may_be_spelt_as_storage_drivers_spell_it() -> None:
    terms = [[expression("topology.ebs.csi.aws.com/zone", "In", "z2")]]

    answer = solved_with(holding(pv("v", driver=DRIVER, terms=terms)), [pod("p", claims=["c-v"])])

    assert ["z2"] == answer.zones


@pytest.mark.parametrize(
    ("volume", "unplaced"),
    [
        pytest.param(
            pv("v", driver=DRIVER, terms=[host("h1")]),
            {"p": {Why.VOLUME_CONFLICT}},
            id="SCH-202 of a CSI driver: nowhere",
        ),
        pytest.param(local_volume("v", [host("h1")]), {}, id="SCH-202 local: anywhere"),
        pytest.param(
            local_volume("v", [host("h1"), zone("nope")]),
            {},
            id="SCH-203 local, or in a zone that does not exist",
        ),
        pytest.param(
            local_volume("v", [zone("nope")]),
            {"p": {Why.VOLUME_CONFLICT}},
            id="SCH-203 local, but in a zone that does not exist",
        ),
    ],
)
def test_a_volume_that_names_a_host(
    volume: PersistentVolume, unplaced: dict[str, set[Why]]
) -> None:
    answer = solved_with(holding(volume), [pod("p", claims=["c-v"])])

    assert unplaced == answer.unplaced


@pytest.mark.case("SCH-204")
def test_pods_that_repel_each_other_take_different_alternatives() -> None:
    storage = holding(*(pv(v, driver=DRIVER, terms=[zone("z1"), zone("z2")]) for v in "ab"))
    repelling = [
        pod(f"p-{v}", claims=[f"c-{v}"], labels=APP_T, anti_affinity=[pod_term(key=keys.ZONE)])
        for v in "ab"
    ]

    answer = solved_with(storage, repelling)

    assert {"z1": 1, "z2": 1} == answer.pods_in_zones


def test_an_existing_node_must_reach_the_volume() -> None:
    storage = holding(pv("v", driver=DRIVER, terms=[zone("z2")]))
    nodes = [managed_node("n1", zone="z1"), managed_node("n2", zone="z2")]

    answer = solved_with(storage, [pod("p", claims=["c-v"])], nodes=nodes)

    assert {"n2": ["p"]} == answer.existing


def test_a_volume_does_not_shrink_the_domains_of_a_spread() -> None:
    """Were only z1 a domain, its two pods would be even; with three, one more is too many."""
    storage = holding(pv("v", driver=DRIVER, terms=[zone("z1")]))
    running = [pod(f"r-{i}", node_name="n1", labels=APP_T) for i in range(2)]
    node = managed_node("n1", zone="z1", pods=running)

    answer = solved_with(
        storage, [pod("p", claims=["c-v"], labels=APP_T, spread=[spread()])], nodes=[node]
    )

    assert {"p": {Why.TOPOLOGY}} == answer.unplaced


# What the alternatives are


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        pytest.param([pv("a")], (), id="a volume without affinity is everywhere"),
        pytest.param(
            [local_volume("a", [host("h1")])], (), id="a local volume that only names its host"
        ),
        pytest.param(
            [local_volume("a", [[*host("h1"), *zone("z1")]])],
            (zone("z1"),),
            id="a local volume keeps its zone",
        ),
        pytest.param(
            [pv("a", terms=[zone("z2"), zone("z1"), zone("z2")])],
            (zone("z2"), zone("z1")),
            id="terms keep their order and are told once",
        ),
        pytest.param(
            [pv("a", terms=[zone("z1"), zone("z2")]), pv("b", terms=[zone("z2"), zone("z3")])],
            (zone("z2"),),
            id="several volumes meet where both can be reached",
        ),
        pytest.param(
            [pv("a", terms=[zone("z1"), zone("z2")]), pv("b", terms=[[expression("k", "Exists")]])],
            (
                [*zone("z1"), expression("k", "Exists")],
                [*zone("z2"), expression("k", "Exists")],
            ),
            id="several volumes that constrain different labels",
        ),
        pytest.param(
            [pv("a", terms=[zone("z1")]), local_volume("b", [host("h1"), zone("z3")])],
            (zone("z1"),),
            id="one that may be anywhere goes along with the other",
        ),
    ],
)
def test_alternatives(volumes: list[PersistentVolume], expected: tuple[Expressions, ...]) -> None:
    claims = [f"c-{volume.metadata.name}" for volume in volumes]

    found = volume_alternatives(pod(claims=claims), holding(*volumes))

    assert tuple(Requirements.from_wire(term) for term in expected) == found


def test_a_claim_that_does_not_exist_is_passed_over() -> None:
    storage = holding(pv("v", terms=[zone("z1")]))

    found = volume_alternatives(pod(claims=["gone", "c-v"]), storage)

    assert (Requirements.from_wire(zone("z1")),) == found


@pytest.mark.parametrize(
    ("storage", "claims", "detail"),
    [
        pytest.param(
            stored([bound_claim("data", "gone")]),
            ["data"],
            "persistent volume gone of claim default/data does not exist",
            id="a volume that does not exist",
        ),
        pytest.param(
            holding(pv("v", terms=[[expression("k", "Gt", "many")]])),
            ["c-v"],
            "node affinity of persistent volume v: k Gt needs exactly one integer, not ['many']",
            id="an affinity that makes no sense",
        ),
        pytest.param(
            holding(pv("a", terms=[zone("z1")]), pv("b", terms=[zone("z2"), zone("z3")])),
            ["c-a", "c-b"],
            f"claim default/c-b can only be reached with {keys.ZONE} In [z2] or {keys.ZONE} In [z3],"
            f" but the other volumes of pod default/p only with {keys.ZONE} In [z1]",
            id="volumes that no node reaches together",
        ),
    ],
)
def test_a_pod_whose_volumes_cannot_be_resolved_fails_outright(
    storage: Storage, claims: list[str], detail: str
) -> None:
    failing = pod("p", claims=claims)

    resolved = resolve_volumes([failing, pod("other")], storage)

    assert [failing.metadata.uid] == list(resolved.failures)
    unplaced = resolved.failures[failing.metadata.uid]
    assert "default/p" == unplaced.pod
    assert [(Why.VOLUME_CONFLICT, detail)] == [(r.why, r.detail) for r in unplaced.reasons]


def test_a_pod_with_too_many_ways_fails_rather_than_taking_forever() -> None:
    volumes = [
        pv(f"v{i}", terms=[[expression(f"k{i}", "In", "a")], [expression(f"k{i}", "In", "b")]])
        for i in range(40)
    ]

    with pytest.raises(VolumeError, match=f"more than {MOST_ALTERNATIVES} ways"):
        volume_alternatives(pod(claims=[f"c-v{i}" for i in range(40)]), holding(*volumes))


def test_equal_alternatives_are_one_object_so_that_the_solver_sees_them_once() -> None:
    storage = holding(pv("a", terms=[zone("z1")]), pv("b", terms=[zone("z1")]))
    wanted = [pod("p", claims=["c-a"]), pod("q", claims=["c-b"])]

    resolved = resolve_volumes(wanted, storage)

    left, right = (resolved.by_pod[p.metadata.uid] for p in wanted)
    assert left.alternatives[0] is right.alternatives[0]


def test_the_first_alternative_that_works_is_taken() -> None:
    alternatives = tuple(Requirements.from_wire(zone(z)) for z in ("z9", "z3", "z1"))

    answer = solved([pod("p")], volumes={"p": PodVolumes(alternatives)})

    assert ["z3"] == answer.zones


PLACES = [{keys.ZONE: z, "k": k} for z, k in product(("z1", "z2"), ("a", "b", "c"))]
terms_of_volumes = st.lists(
    st.lists(
        st.lists(
            st.one_of(
                st.lists(st.sampled_from(("z1", "z2")), min_size=1).map(
                    lambda values: expression(keys.ZONE, "In", *values)
                ),
                st.lists(st.sampled_from("abc"), min_size=1).map(
                    lambda values: expression("k", "NotIn", *values)
                ),
            ),
            min_size=1,
            max_size=2,
        ),
        max_size=3,
    ),
    min_size=1,
    max_size=4,
)


@given(terms_of_volumes)
def test_a_place_suits_all_alternatives_together_when_it_suits_each_volume(
    terms: list[list[Expressions]],
) -> None:
    volumes = [pv(f"v{i}", terms=alternatives) for i, alternatives in enumerate(terms)]
    wanted = pod(claims=[f"c-{volume.metadata.name}" for volume in volumes])

    def suits(place: dict[str, str], alternatives: Sequence[Requirements]) -> bool:
        there = Requirements.from_labels(place)
        return not alternatives or any(there.is_compatible(a) for a in alternatives)

    expected = [
        place
        for place in PLACES
        if all(suits(place, [Requirements.from_wire(t) for t in each]) for each in terms)
    ]
    try:
        together = volume_alternatives(wanted, holding(*volumes))
    except VolumeError:
        assert [] == expected
    else:
        assert expected == [place for place in PLACES if suits(place, together)]
