"""Which launch of a node class is rehearsed: never one that nobody would make."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.aws_fakes import full_catalogue, node_class
from helpers.builders import node_pool
from karpenter.api.karpenter import NodePool, NodeRequirement
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import AMIStatus, EC2NodeClass, NetworkInterface
from karpenter.cloud.aws.images.families import family_of_spec
from karpenter.cloud.aws.node_class.conditions import with_status
from karpenter.cloud.aws.node_class.typical_launch import NO_POOL, TypicalLaunch, typical_launch
from karpenter.cloud.aws.types.sized_types import incompatibility
from karpenter.cloud.provider import CloudError
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from unit.cloud.aws.aws_types import ZONES, kind, offering

IMAGE = AMIStatus(
    id="ami-1",
    requirements=(NodeRequirement(key=labels.ARCH, operator="In", values=("amd64",)),),
)


def a_class(**spec: Any) -> EC2NodeClass:
    return with_status(node_class(**spec), amis=(IMAGE,))


def pool(name: str, **requirements: Sequence[str]) -> NodePool:
    keys = {
        "tenancy": ec2_labels.INSTANCE_TENANCY,
        "family": ec2_labels.INSTANCE_FAMILY,
        "capacity": labels.CAPACITY_TYPE,
        "zone": labels.ZONE,
    }
    listed = [
        NodeRequirement(key=keys[key], operator="In", values=tuple(values))
        for key, values in requirements.items()
    ]
    return node_pool(name, requirements=listed)


def unpriced(capacity_type: str = "on-demand") -> Offering:
    return offering(capacity_type, price=0.0, available=False)


def chosen(
    types: Iterable[InstanceType], *pools: NodePool, cannot: Sequence[str] = (), **spec: Any
) -> TypicalLaunch:
    return typical_launch(a_class(**spec), tuple(types), pools, lambda name: name not in cannot)


@pytest.mark.parametrize(
    ("pools", "tenancy"),
    [
        pytest.param([], "default", id="no pool"),
        pytest.param([pool("one")], "default", id="a pool that says nothing"),
        pytest.param([pool("one", tenancy=["default"])], "default", id="shared"),
        pytest.param([pool("one", tenancy=["dedicated"])], "dedicated", id="dedicated"),
        pytest.param(
            [pool("one", tenancy=["default", "dedicated"])], "dedicated", id="both are named"
        ),
        pytest.param(
            [
                node_pool(
                    "one",
                    requirements=[
                        NodeRequirement(key=ec2_labels.INSTANCE_TENANCY, operator="Exists")
                    ],
                )
            ],
            "default",
            id="any",
        ),
        pytest.param(
            [
                node_pool(
                    "one",
                    requirements=[
                        NodeRequirement(
                            key=ec2_labels.INSTANCE_TENANCY, operator="NotIn", values=("default",)
                        )
                    ],
                )
            ],
            "dedicated",
            id="not shared",
        ),
        pytest.param(
            [pool("one"), pool("two", tenancy=["dedicated"])], "dedicated", id="one of two"
        ),
    ],
)
def test_dedicated_hardware_is_rehearsed_only_for_pools_that_ask(
    pools: Sequence[NodePool], tenancy: str
) -> None:
    assert tenancy == chosen([kind("m5.large")], *pools).tenancy


def test_the_type_and_the_tenancy_are_those_of_the_same_pool() -> None:
    types = [kind("c5.large", offering(price=0.5)), kind("m5.large", offering(price=1.0))]
    found = chosen(
        types, pool("any", family=["c5"]), pool("own", family=["m5"], tenancy=["dedicated"])
    )

    assert ("m5.large", "own", "dedicated") == (found.kind.name, found.pool, found.tenancy)


def test_a_pool_for_which_nothing_can_be_had_does_not_decide() -> None:
    types = [
        kind("c5.large", offering(price=0.5)),
        kind("m5.large", offering(price=1.0, available=False)),
    ]
    found = chosen(
        types, pool("any", family=["c5"]), pool("own", family=["m5"], tenancy=["dedicated"])
    )

    assert ("c5.large", "any", "default") == (found.kind.name, found.pool, found.tenancy)


def test_a_price_nobody_knows_is_not_the_lowest() -> None:
    types = [
        kind("a1.large", unpriced()),
        kind("c1.medium", unpriced()),
        kind("c5.large", offering(price=0.09)),
        kind("m5.large", offering(price=0.1)),
    ]

    assert "c5.large" == chosen(types, pool("one")).kind.name


@pytest.mark.parametrize("pools", [[], [pool("one")]])
def test_what_is_sold_out_is_not_rehearsed_while_there_is_something_else(
    pools: Sequence[NodePool],
) -> None:
    types = [
        kind("m5.large", offering(price=0.1, available=False)),
        kind("c5.large", offering(price=0.2)),
    ]

    assert "c5.large" == chosen(types, *pools).kind.name


@pytest.mark.parametrize("pools", [[], [pool("one")]])
def test_a_type_the_class_cannot_use_is_not_rehearsed_even_if_all_is_sold_out(
    pools: Sequence[NodePool],
) -> None:
    types = [
        kind("m5.large", offering(price=0.1, available=False)),
        kind("p4d.24xlarge", offering(price=32.0, available=False)),
    ]

    assert "p4d.24xlarge" == chosen(types, *pools, cannot=["m5.large"]).kind.name


def test_a_type_without_an_image_is_not_rehearsed() -> None:
    types = [kind("m6g.large", held={labels.ARCH: "arm64"}), kind("r5.large")]

    assert "r5.large" == chosen(types, pool("one")).kind.name


def test_without_any_image_that_runs_it_says_so() -> None:
    with pytest.raises(CloudError, match="no image of EC2NodeClass default runs on any"):
        chosen([kind("m6g.large", held={labels.ARCH: "arm64"})], pool("one"))


def test_devices_are_rehearsed_only_where_a_pool_has_nothing_else() -> None:
    types = [
        kind("g4dn.xlarge", offering(price=0.1), held={ec2_labels.INSTANCE_GPU_COUNT: "1"}),
        kind("m5.large", offering(price=0.2)),
    ]

    assert "m5.large" == chosen(types, pool("one")).kind.name
    assert "g4dn.xlarge" == chosen(types, pool("one", family=["g4dn"])).kind.name


def test_on_demand_goes_first_and_a_reservation_last() -> None:
    offerings = (
        offering("reserved", price=1e-8, reservation="cr-1"),
        offering("spot", price=0.03),
        offering("on-demand", price=0.1, zone=ZONES[1]),
    )
    found = chosen([kind("m5.large", *offerings)], pool("one"))

    assert ["on-demand"] == [each.capacity_type for each in found.kind.offerings]
    assert set(ZONES) == found.zones
    only_spot = chosen([kind("m5.large", *offerings)], pool("one", capacity=["spot"]))
    assert ["spot"] == [each.capacity_type for each in only_spot.kind.offerings]


def test_a_type_is_taken_from_the_zones_of_the_pool() -> None:
    types = [
        kind("c5.large", offering(price=0.1, zone=ZONES[0])),
        kind("m5.large", offering(price=0.2, zone=ZONES[1])),
    ]

    assert "m5.large" == chosen(types, pool("one", zone=[ZONES[1]])).kind.name


def test_without_pools_a_common_type_is_rehearsed() -> None:
    types = [kind("c5.large", offering(price=0.1)), kind("m5.large", offering(price=0.2))]
    found = chosen(types)

    assert ("m5.large", NO_POOL) == (found.kind.name, found.pool)


def test_a_pool_that_cannot_be_read_is_left_out() -> None:
    odd = node_pool(
        "odd", requirements=[NodeRequirement(key=labels.ARCH, operator="Like", values=("a",))]
    )

    assert "one" == chosen([kind("m5.large")], odd, pool("one")).pool


@st.composite
def _markets(draw: st.DrawFn) -> list[InstanceType]:
    names = draw(st.lists(st.sampled_from(["m5", "c5", "r5", "a1", "c1"]), min_size=1, unique=True))
    offerings = st.builds(
        lambda zone, price, available: offering("on-demand", zone, price, available=available),
        st.sampled_from(ZONES),
        st.sampled_from([0.0, 0.1, 0.2]),
        st.booleans(),
    )
    return [kind(f"{name}.large", *draw(st.lists(offerings, min_size=1))) for name in names]


@given(_markets(), st.randoms(use_true_random=False))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # of a busy machine
def test_it_can_be_had_if_anything_can_and_the_order_does_not_matter(
    types: list[InstanceType], rng: Any
) -> None:
    first = chosen(types, pool("one"), pool("two"))
    shuffled = list(types)
    rng.shuffle(shuffled)
    second = chosen(shuffled, pool("two"), pool("one"))

    assert (first.kind.name, first.pool) == (second.kind.name, second.pool)
    can_be_had = any(each.is_launchable for found in types for each in found.offerings)
    assert can_be_had == any(each.is_launchable for each in first.kind.offerings)


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        pytest.param({}, {"a1.large"}, id="AL2023"),
        pytest.param(
            {
                "network_interfaces": (
                    NetworkInterface(
                        network_card_index=0, device_index=0, interface_type="interface"
                    ),
                    NetworkInterface(
                        network_card_index=1, device_index=1, interface_type="efa-only"
                    ),
                )
            },
            {"a1.large", "c1.medium", "m5.large", "t2.micro"},
            id="EFA",
        ),
    ],
)
def test_what_a_class_cannot_use_of_what_ec2_really_sells(
    spec: Mapping[str, Any], refused: set[str]
) -> None:
    found = full_catalogue(["a1.large", "c1.medium", "m5.large", "t2.micro", "p4d.24xlarge"])
    asked = a_class(**spec).spec
    cannot = {
        name
        for name, entry in found.entries.items()
        if incompatibility(entry.facts, asked, family_of_spec(asked), None) is not None
    }

    assert refused == cannot
