"""The catalogue of any cloud is written as an instance-types file, and read back as it was."""

import json
from dataclasses import replace
from typing import Any

import pytest

from helpers.builders import instance_type, offering, reserved
from karpenter.cloud.kwok import catalogue
from karpenter.cloud.kwok.entries import CatalogueError
from karpenter.cloud.kwok.written import as_file, is_told
from karpenter.cloud.types import InstanceType
from karpenter.model import labels


def read_back(*types: InstanceType) -> dict[str, InstanceType]:
    """The types as they come out of the file that they were written to."""
    return {kind.name: kind for kind in catalogue.load(as_file(types).encode(), "types.json")}


def ways(kind: InstanceType) -> set[tuple[Any, ...]]:
    """What there is to buy."""
    return {
        (
            way.zone,
            way.capacity_type,
            way.price,
            way.available,
            way.is_estimate,
            way.reservation_id,
            way.reservation_capacity,
        )
        for way in kind.offerings
    }


def test_sizes_prices_and_labels_are_read_back() -> None:
    small = instance_type(
        "small",
        labels={"team/own": "a"},
        attach_limits={"ebs.csi.aws.com": 25},
        offerings=(
            offering("z1", labels.SPOT, 0.123456789),
            offering("z2", labels.ON_DEMAND, 0.4, available=False),
            replace(offering("z2", labels.SPOT, 0.2), is_estimate=True),
        ),
    )
    large = instance_type(
        "large",
        cpu="64",
        memory="250Gi",
        slots=200,
        resources={"nvidia.com/gpu": "8"},
        arch="arm64",
        reservations=(reserved("cr-1", 3),),
    )
    found = read_back(small, large)

    assert list(found) == ["small", "large"]
    for kind in (small, large):
        read = found[kind.name]
        assert read.capacity == kind.capacity
        assert read.allocatable == kind.allocatable
        assert read.volume_attachment_limits == kind.volume_attachment_limits
        assert ways(read) == ways(kind)
        for held in kind.requirements:
            if held.values:
                assert read.requirements[held.key] == held
    # What only the other type has is a label that this one lacks, not one with any value
    missing = found["large"].requirements["team/own"]
    assert not missing.complement
    assert not missing.values


def test_a_machine_without_room_for_pods_stays_one() -> None:
    full = instance_type("full", slots=0)
    assert read_back(full)["full"].capacity.pods == 0


def test_what_nobody_can_buy_is_omitted() -> None:
    unknown = instance_type("unknown", offerings=[offering("z1", labels.SPOT, float("nan"))])
    nowhere = instance_type("nowhere", offerings=[offering("", labels.SPOT, 1.0)])
    unsold = instance_type("unsold", offerings=[offering("z1", price=0.0, available=False)])
    free = instance_type("free", offerings=[offering("z1", price=0.0)])

    assert [is_told(kind) for kind in (unknown, nowhere, unsold, free)] == [False] * 3 + [True]
    assert list(read_back(unknown, nowhere, unsold, free)) == ["free"]


def test_a_zone_that_a_type_does_not_have_is_not_added_to_it() -> None:
    kind = instance_type("a", offerings=[offering("z1")])
    stray = kind.with_offerings((*kind.offerings, offering("z9", available=False)))
    assert read_back(stray)["a"].requirements[labels.ZONE].values == {"z1"}


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("overhead", {"cpu": "much"}, "overhead.cpu is wrong"),
        ("overhead", [], "overhead must map resource names to quantities"),
        ("overhead", {"cpu": "-1"}, "overhead.cpu must not be negative"),
        ("volumeAttachmentLimits", {"ebs": -1}, "volumeAttachmentLimits must map storage drivers"),
        ("volumeAttachmentLimits", 3, "volumeAttachmentLimits must map storage drivers"),
        ("requirements", [{"key": "a b", "operator": "Exists"}], "requirements[0]: key"),
        ("requirements", [{"key": "a", "operator": "Near"}], "requirements[0]: operator is wrong"),
    ],
)
def test_a_property_that_cannot_be_right_is_named(field: str, value: object, why: str) -> None:
    (machine,) = json.loads(as_file([instance_type("a")]))
    machine[field] = value
    with pytest.raises(CatalogueError) as caught:
        catalogue.load(json.dumps([machine]).encode(), "types.json")
    assert "types.json: instance type a" in str(caught.value)
    assert why in str(caught.value)


def test_an_estimate_is_true_or_false() -> None:
    (machine,) = json.loads(as_file([instance_type("a")]))
    machine["offerings"][0]["isEstimate"] = "yes"
    with pytest.raises(CatalogueError, match="isEstimate must be true or false, not text"):
        catalogue.load(json.dumps([machine]).encode(), "types.json")


def test_the_built_in_catalogue_is_read_back() -> None:
    built_in = catalogue.built_in()
    found = read_back(*built_in)
    for kind in built_in:
        read = found[kind.name]
        assert (read.capacity, read.overhead, ways(read)) == (
            kind.capacity,
            kind.overhead,
            ways(kind),
        )
        assert set(read.requirements) == set(kind.requirements)
