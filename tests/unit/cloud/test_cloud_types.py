"""Offerings and instance types: what can be launched, and what is left for pods."""

import math

import pytest

from helpers.builders import instance_type, node_pool, offering
from karpenter.api.karpenter import NodeClassReference
from karpenter.api.node_classes import NodeClass, node_class_model
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.cloud.kwok.catalogue import FACTS as KWOK_FACTS
from karpenter.cloud.types import Offering, ProviderFacts, allocatable, comparable_price
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.inputs.pools import sort_out_pools
from karpenter.scheduling.plan import Why

GI = 2**30


def test_an_offering_bound_to_no_zone_and_no_capacity_type_names_neither() -> None:
    bare = Offering(Requirements(), 1.0)

    assert ("", "") == (bare.zone, bare.capacity_type)


@pytest.mark.parametrize(
    ("capacity_type", "available", "count", "expected"),
    [
        pytest.param("spot", True, 0, True, id="spot-needs-no-reservation"),
        pytest.param("spot", False, 0, False, id="unhealthy"),
        pytest.param("reserved", True, 1, True, id="a-reservation-with-room"),
        pytest.param("reserved", True, 0, False, id="a-reservation-that-is-used-up"),
    ],
)
def test_what_can_be_launched(
    capacity_type: str, available: bool, count: int, expected: bool
) -> None:
    requirements = Requirements.from_labels({"karpenter.sh/capacity-type": capacity_type})
    made = Offering(requirements, 1.0, available, "r-1", count)

    assert expected == made.is_launchable


def test_huge_pages_come_out_of_memory_and_leave_no_less_than_nothing() -> None:
    capacity = Resources.of({"memory": 20 * GI, "hugepages-2Mi": 5 * GI, "hugepages-1Gi": 10 * GI})

    left = allocatable(capacity, Resources(memory=GI))
    none = allocatable(Resources.of({"memory": GI, "hugepages-2Mi": 2 * GI}), Resources())

    assert (4 * GI, 0) == (left.memory, none.memory)


def test_an_offering_may_replace_capacity_and_overhead() -> None:
    machine = instance_type("m", cpu="4", memory="8Gi")
    base = offering(zone="z1")
    other = Offering(
        base.requirements, 1.0, capacity=Resources(cpu=8000), overhead=Resources(cpu=500)
    )

    assert 7500 == machine.allocatable_of(other).cpu
    assert machine.allocatable.memory <= machine.allocatable_of(other).memory


def test_a_price_that_is_no_number_is_dearer_than_any() -> None:
    assert math.inf == comparable_price(math.nan)


class MachineClass(NodeClass, frozen=True):
    api_version = "machines.example.com/v1"


def test_a_provider_serves_the_node_classes_whose_models_it_brings() -> None:
    facts = ProviderFacts("racks", (), frozenset(), models=(MachineClass,))

    assert (("machines.example.com", "MachineClass"),) == facts.node_classes
    assert (MachineClass,) == facts.readable_node_classes


def test_a_kind_named_twice_is_served_once() -> None:
    pair = ("machines.example.com", "MachineClass")

    assert (pair,) == ProviderFacts(
        "racks", (pair,), frozenset(), models=(MachineClass,)
    ).node_classes


@pytest.mark.parametrize(
    ("facts", "served"),
    [
        pytest.param(
            ProviderFacts("racks", (), frozenset(), models=(MachineClass,)), True, id="own"
        ),
        pytest.param(KWOK_FACTS, False, id="another"),
        pytest.param(ProviderFacts("none", (), frozenset()), False, id="none named, none served"),
        pytest.param(ProviderFacts("any", (), frozenset(), serves_any=True), True, id="any"),
    ],
)
def test_which_node_classes_a_provider_serves(facts: ProviderFacts, served: bool) -> None:
    reference = NodeClassReference("machines.example.com", "MachineClass", "default")
    pool = node_pool("racks", node_class=reference)

    assert served == facts.serves(reference)
    assert (not served) == any(
        reason.why is Why.CLASS_UNSUPPORTED for reason in sort_out_pools([pool], {}, facts).excluded
    )


def test_a_node_class_without_a_model_is_left_to_its_provider() -> None:
    served = (("machines.example.com", "MachineClass"), ("karpenter.kwok.sh", "KWOKNodeClass"))

    assert (KWOKNodeClass,) == ProviderFacts("both", served, frozenset()).readable_node_classes


def test_the_model_of_a_provider_goes_before_one_that_is_known() -> None:
    own = node_class_model("karpenter.kwok.sh/v9", "KWOKNodeClass")

    assert (own,) == ProviderFacts("own", (), frozenset(), models=(own,)).readable_node_classes
