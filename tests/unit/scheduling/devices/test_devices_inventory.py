"""Slices become pools: the newest generation counts, and what cannot be told is said."""

import pytest

from karpenter.api.devices import ResourceSlice
from karpenter.api.selectors import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from karpenter.model import labels as keys
from karpenter.model.requirements import Requirements
from karpenter.scheduling.devices.inventory import published_pools, template_pools
from karpenter.scheduling.devices.reach import terms_of
from unit.scheduling.devices.device_objects import device, in_zone, named, published


@pytest.mark.parametrize(
    ("slices", "names", "problem"),
    [
        pytest.param(
            [
                published([device("old")], name="a"),
                published([device("new")], name="b", generation=2),
            ],
            ["new"],
            "",
            id="an older generation is gone",
        ),
        pytest.param(
            [published([device("a")], count=2)], ["a"], "being updated", id="a slice is missing"
        ),
        pytest.param(
            [
                published([device("b")], name="2", count=2),
                published([device("a")], name="1", count=2),
            ],
            ["a", "b"],
            "",
            id="slices are read by name, in whatever order they come",
        ),
        pytest.param(
            [published([device("a"), device("a")])],
            [],
            "more than one device named a",
            id="two devices of one name spoil the pool",
        ),
        pytest.param(
            [published([device("a", capacity={"memory": "lots"})])],
            [],
            "cannot be read",
            id="an unreadable amount spoils the pool",
        ),
        pytest.param(
            [published([device("a", draws={"x": "-1"})], counters={"x": "1"})],
            [],
            "cannot be read",
            id="a negative amount spoils the pool",
        ),
    ],
)
def test_pools(slices: list[ResourceSlice], names: list[str], problem: str) -> None:
    (pool,) = published_pools(slices)

    assert names == [found.key.name for found in pool.devices]
    assert problem in pool.problem
    assert bool(problem) == bool(pool.problem)


def test_templates_are_complete_whatever_they_say() -> None:
    (pool,) = template_pools([published([device("a")], count=7)])

    assert "" == pool.problem


def test_names_without_a_domain_are_the_driver_s() -> None:
    (pool,) = published_pools([published([device("a", {"x": 1, "d.test/y": "z"}, {"m": "1"})])])
    (found,) = pool.devices

    assert {"gpu.test/x": ("int", 1), "d.test/y": ("string", "z")} == found.attributes
    assert ["gpu.test/m"] == list(found.capacity)


@pytest.mark.parametrize(
    ("slice_", "reached"),
    [
        pytest.param(published([device()]), ["n1 z1", "n2 z2"], id="every node"),
        pytest.param(published([device()], node="n2"), ["n2 z2"], id="one node"),
        pytest.param(published([device()], zone="z1"), ["n1 z1"], id="the nodes of a selector"),
        pytest.param(
            published([device(zone="z2")], per_device=True), ["n2 z2"], id="the device says it"
        ),
        pytest.param(published([device()], per_device=True), [], id="nobody says it"),
    ],
)
def test_where_a_device_can_be_reached(slice_: ResourceSlice, reached: list[str]) -> None:
    (pool,) = published_pools([slice_])
    (found,) = pool.devices

    nodes = {"n1": "z1", "n2": "z2"}

    assert reached == [
        f"{name} {zone}"
        for name, zone in nodes.items()
        if found.reach.includes(Requirements.from_labels({keys.ZONE: zone}), name)
    ]


def _expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("selector", "means_n1", "means_new"),
    [
        pytest.param(in_zone("z1"), True, True, id="labels"),
        pytest.param(named("n1"), True, False, id="a name"),
        pytest.param(named("n2"), False, False, id="another name"),
        pytest.param(
            NodeSelector(
                node_selector_terms=(
                    NodeSelectorTerm(match_fields=(_expression("metadata.name", "NotIn", "n1"),)),
                )
            ),
            False,
            True,
            id="any name but one",
        ),
        pytest.param(
            NodeSelector(
                node_selector_terms=(
                    NodeSelectorTerm(match_expressions=(_expression(keys.HOSTNAME, "In", "n1"),)),
                )
            ),
            True,
            False,
            id="a hostname is a name that new nodes do not have",
        ),
        pytest.param(
            NodeSelector(node_selector_terms=(NodeSelectorTerm(),)),
            False,
            False,
            id="an empty term means no node",
        ),
        pytest.param(
            NodeSelector(
                node_selector_terms=(
                    NodeSelectorTerm(match_fields=(_expression("spec.unknown", "In", "x"),)),
                    NodeSelectorTerm(match_expressions=(_expression("x", "Gt", "many"),)),
                )
            ),
            False,
            False,
            id="what cannot be judged means no node",
        ),
    ],
)
def test_which_nodes_a_selector_means(
    selector: NodeSelector, means_n1: bool, means_new: bool
) -> None:
    n1 = Requirements.from_labels({keys.ZONE: "z1", keys.HOSTNAME: "n1"})

    terms = terms_of(selector)

    assert means_n1 == any(term.admits(n1, "n1") for term in terms)
    assert means_new == any(term.admits_new_nodes for term in terms)
