"""The built-in catalogue is that of Karpenter's KWOK provider, type by type and price by price."""

import pytest

from karpenter.api.node_classes import kwok_labels
from karpenter.cloud.kwok.catalogue import FACTS, built_in, facts_about, family_of, size_of
from karpenter.model import labels
from karpenter.model.requirement import Operator
from karpenter.model.resources import Resources

TYPES = {instance_type.name: instance_type for instance_type in built_in()}


@pytest.mark.parametrize(
    ("name", "cpu", "memory", "pods", "left_cpu", "left_memory", "on_demand", "spot"),
    [
        ("c-1x-amd64-linux", 1, "2Gi", 16, "900m", "2038Mi", 0.027147483648, 0.0190032385536),
        ("s-1x-amd64-linux", 1, "4Gi", 16, "900m", "4086Mi", 0.029294967296, 0.0205064771072),
        ("m-1x-arm64-linux", 1, "8Gi", 16, "900m", "8182Mi", 0.033589934592, 0.0235129542144),
        ("c-2x-amd64-linux", 2, "4Gi", 32, "1900m", "4086Mi", 0.054294967296, 0.0380064771072),
        ("s-2x-arm64-linux", 2, "8Gi", 32, "1900m", "8182Mi", 0.058589934592, 0.0410129542144),
        ("m-2x-amd64-windows", 2, "16Gi", 32, "1900m", "16374Mi", 0.067179869184, 0.0470259084288),
        ("c-4x-amd64-linux", 4, "8Gi", 64, "3900m", "8182Mi", 0.108589934592, 0.0760129542144),
        ("m-8x-amd64-linux", 8, "64Gi", 128, "7900m", "65526Mi", 0.268719476736, 0.1881036337152),
        ("c-16x-amd64-linux", 16, "32Gi", 256, "15900m", "32758Mi", 0.434359738368, 0.3040518168576),
        ("s-16x-amd64-linux", 16, "64Gi", 256, "15900m", "65526Mi", 0.468719476736, 0.3281036337152),
        ("s-32x-amd64-linux", 32, "128Gi", 512, "31900m", "131062Mi", 0.937438953472, 0.6562072674304),
        ("m-48x-amd64-linux", 48, "384Gi", 768, "47900m", "393206Mi", 1.612316860416, 1.1286218022912),
        ("c-64x-amd64-linux", 64, "128Gi", 1024, "63900m", "131062Mi", 1.737438953472, 1.2162072674304),
        ("s-96x-amd64-windows", 96, "384Gi", 1024, "95900m", "393206Mi", 2.812316860416, 1.9686218022912),
        ("m-128x-amd64-linux", 128, "1Ti", 1024, "127900m", "1048566Mi", 4.299511627776, 3.0096581394432),
        ("s-192x-arm64-linux", 192, "768Gi", 1024, "191900m", "786422Mi", 5.624633720832, 3.9372436045824),
        ("m-256x-amd64-linux", 256, "2Ti", 1024, "255900m", "2097142Mi", 8.599023255552, 6.0193162788864),
    ],
)  # fmt: skip
def test_sizes_and_prices(
    name: str,
    cpu: int,
    memory: str,
    pods: int,
    left_cpu: str,
    left_memory: str,
    on_demand: float,
    spot: float,
) -> None:
    found = TYPES[name]

    rest = {"pods": pods, "ephemeral-storage": "20Gi"}
    assert Resources.from_wire({"cpu": cpu, "memory": memory, **rest}) == found.capacity
    assert (
        Resources.from_wire({"cpu": left_cpu, "memory": left_memory, **rest}) == found.allocatable
    )
    prices = {labels.SPOT: spot, labels.ON_DEMAND: on_demand}
    for offering in found.offerings:
        assert pytest.approx(prices[offering.capacity_type], rel=1e-12) == offering.price


def test_there_are_144_types_with_8_offerings_each_in_the_published_order() -> None:
    types = built_in()

    assert 144 == len(types) == len(TYPES)
    assert [
        "c-1x-amd64-linux",
        "c-1x-arm64-linux",
        "c-1x-amd64-windows",
        "c-1x-arm64-windows",
        "s-1x-amd64-linux",
    ] == [instance_type.name for instance_type in types[:5]]
    assert "m-256x-arm64-windows" == types[-1].name
    places = [
        (f"test-zone-{zone}", capacity_type)
        for zone in "abcd"
        for capacity_type in ("spot", "on-demand")
    ]
    for instance_type in types:
        assert places == [(way.zone, way.capacity_type) for way in instance_type.offerings]
        assert all(way.is_launchable for way in instance_type.offerings)


def test_a_type_carries_its_nine_labels_and_nothing_about_its_region() -> None:
    requirements = TYPES["m-128x-amd64-linux"].requirements

    expected = {
        labels.INSTANCE_TYPE: {"m-128x-amd64-linux"},
        labels.ARCH: {"amd64"},
        labels.OS: {"linux"},
        labels.ZONE: {f"test-zone-{zone}" for zone in "abcd"},
        labels.CAPACITY_TYPE: {"spot", "on-demand"},
        kwok_labels.INSTANCE_SIZE: {"128"},
        kwok_labels.INSTANCE_FAMILY: {"m"},
        kwok_labels.INSTANCE_CPU: {"128"},
        kwok_labels.INSTANCE_MEMORY: {"1Ti"},
    }
    held = {each.key: set(each.values) for each in requirements if each.operator is Operator.IN}
    assert expected == held
    assert requirements.get(labels.REGION) is None
    assert requirements.get(labels.HOSTNAME) is None


@pytest.mark.parametrize("key", [labels.WINDOWS_BUILD, kwok_labels.RESERVATION_ID])
def test_a_well_known_label_that_no_type_has_is_said_not_to_exist(key: str) -> None:
    for instance_type in built_in():
        assert Operator.DOES_NOT_EXIST is instance_type.requirements[key].operator


@pytest.mark.parametrize(
    ("name", "size", "family"),
    [
        pytest.param("c-16x-arm64-linux", "16", "c", id="a built-in name"),
        pytest.param("g5.4xlarge", "4xlarge", "g5", id="an AWS name"),
        pytest.param("m5.xlarge", "xlarge", "m5", id="an AWS name without a number"),
        pytest.param("t3.nano", "nano", "t3", id="the smallest AWS size"),
        pytest.param("m7i.metal", "metal", "m7i", id="bare metal"),
        pytest.param("u-6tb1.56xlarge", "56xlarge", "u", id="a hyphen before the dot"),
        pytest.param("m7i.metal-24xl", "16", "m7i", id="not a size AWS names look like"),
        pytest.param("m5.huge", "16", "m5", id="not an AWS size"),
        pytest.param("giant", "16", "g", id="neither dot nor hyphen"),
    ],
)
def test_size_and_family_follow_from_the_name(name: str, size: str, family: str) -> None:
    assert (size, family) == (size_of(name, "16"), family_of(name))


def test_the_built_in_catalogue_is_built_once() -> None:
    assert built_in() is built_in()


def test_the_provider_says_what_it_serves() -> None:
    assert "kwok" == FACTS.name
    assert (("karpenter.kwok.sh", "KWOKNodeClass"),) == FACTS.node_classes
    assert "karpenter.kwok.sh/reservation-id" == FACTS.reservation_id_label
    expected = (labels.CORE_WELL_KNOWN | kwok_labels.WELL_KNOWN) | {kwok_labels.RESERVATION_ID}
    assert expected == FACTS.well_known_labels
    assert FACTS == facts_about(built_in())
