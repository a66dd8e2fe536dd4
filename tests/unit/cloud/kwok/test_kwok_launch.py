"""A claim becomes a Node: the right machine, the right object, at the right time, only once."""

import asyncio
import json
import re
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from helpers.builders import node_pool
from helpers.clusters import in_virtual_time
from karpenter.api.node_classes import kwok_labels
from karpenter.cloud.kwok.catalogue import load
from karpenter.cloud.kwok.faults import OfferingPattern
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import (
    CreateError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from karpenter.model import labels
from unit.cloud.kwok.kwok_cloud import KwokCloud, kwok_cloud


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


SPOT = expression(labels.CAPACITY_TYPE, "In", "spot")
ON_DEMAND = expression(labels.CAPACITY_TYPE, "In", "on-demand")
ZONE_B = expression(labels.ZONE, "In", "test-zone-b")


@in_virtual_time
async def test_the_node_is_exactly_the_one_karpenter_would_make() -> None:
    async with kwok_cloud() as cloud:
        claim = await cloud.claim(
            "general-x7k2p",
            types=["c-16x-amd64-linux"],
            requirements=[ON_DEMAND, ZONE_B, expression("team", "In", "blue")],
            requests={"cpu": "3", "memory": "1Gi", "pods": "5"},
            pool_labels={"testing/cluster": "unspecified"},
            annotations={"karpenter.sh/nodepool-hash": "7"},
        )
        instance = await cloud.provider.create(claim)
        await cloud.settle()
        name = (await cloud.only_node()).metadata.name
        node = await cloud.stored(name)

    wanted_labels = {
        "karpenter.sh/nodepool": "general",
        "karpenter.kwok.sh/kwoknodeclass": "default",
        "testing/cluster": "unspecified",
        "team": "blue",
        "node.kubernetes.io/instance-type": "c-16x-amd64-linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.kwok.sh/instance-size": "16",
        "karpenter.kwok.sh/instance-family": "c",
        "karpenter.kwok.sh/instance-cpu": "16",
        "karpenter.kwok.sh/instance-memory": "32Gi",
        "topology.kubernetes.io/zone": "test-zone-b",
        "karpenter.sh/capacity-type": "on-demand",
        "eks-node-viewer/instance-price": "0.434360",
        "kwok-partition": "a",
        "kubernetes.io/hostname": "general-x7k2p",
        "kwok.x-k8s.io/node": "fake",
    }
    annotations = {"karpenter.sh/nodepool-hash": "7", "kwok.x-k8s.io/node": "fake"}
    capacity = {"cpu": "16", "memory": "32Gi", "pods": "256", "ephemeral-storage": "20Gi"}
    allocatable = capacity | {"cpu": "15900m", "memory": "32758Mi"}
    assert re.fullmatch(r"kwok-general-x7k2p-[a-z]+-[a-z]+-[0-9]+-[a-z0-9]{10}-[0-9]{1,10}", name)
    assert wanted_labels == node["metadata"]["labels"]
    assert annotations == node["metadata"]["annotations"]
    assert not node["metadata"].get("finalizers")
    assert not node["metadata"].get("ownerReferences")
    assert f"kwok://{name}" == node["spec"]["providerID"]
    # the second one is the API server's, as every new node gets it
    assert {"key": "karpenter.sh/unregistered", "effect": "NoExecute"} in node["spec"]["taints"]
    assert {"karpenter.sh/unregistered", "node.kubernetes.io/not-ready"} >= {
        taint["key"] for taint in node["spec"]["taints"]
    }
    assert capacity == node["status"]["capacity"]
    assert allocatable == node["status"]["allocatable"]
    assert "Pending" == node["status"]["phase"]
    assert (f"kwok://{name}", wanted_labels, annotations, capacity, allocatable) == (
        instance.provider_id,
        dict(instance.labels),
        dict(instance.annotations),
        dict(instance.capacity),
        dict(instance.allocatable),
    )


@in_virtual_time
async def test_a_resource_only_an_overlay_knows_is_there_as_it_was_asked_for() -> None:
    async with kwok_cloud() as cloud:
        claim = await cloud.claim(requests={"cpu": "1", "example.com/gizmo": "3"})
        instance = await cloud.provider.create(claim)

    assert ("2", "3") == (instance.capacity["cpu"], instance.capacity["example.com/gizmo"])
    assert ("1900m", "3") == (
        instance.allocatable["cpu"],
        instance.allocatable["example.com/gizmo"],
    )


@pytest.mark.parametrize(
    ("types", "requirements", "chosen"),
    [
        pytest.param(
            ["m-8x-amd64-linux", "c-4x-amd64-linux"],
            [],
            ("c-4x-amd64-linux", "spot"),
            id="the cheapest offering of all listed types wins",
        ),
        pytest.param(
            ["c-2x-arm64-linux", "c-2x-amd64-linux"],
            [],
            ("c-2x-arm64-linux", "spot"),
            id="the type listed first wins a tie",
        ),
        pytest.param(
            ["c-2x-amd64-linux"],
            [ON_DEMAND],
            ("c-2x-amd64-linux", "on-demand"),
            id="only offerings that meet the requirements count",
        ),
        pytest.param(
            ["c-1x-amd64-linux", "c-2x-arm64-linux"],
            [expression(labels.ARCH, "In", "arm64")],
            ("c-2x-arm64-linux", "spot"),
            id="a type that conflicts with the requirements is passed over",
        ),
        pytest.param(
            ["c-1x-amd64-linux", "c-2x-amd64-linux"],
            [expression(labels.CAPACITY_TYPE, "NotIn", "spot")],
            ("c-1x-amd64-linux", "on-demand"),
            id="a requirement may exclude values",
        ),
    ],
)
def test_choice(types: list[str], requirements: list[Any], chosen: tuple[str, str]) -> None:
    @in_virtual_time
    async def run() -> None:
        async with kwok_cloud() as cloud:
            claim = await cloud.claim(
                types=types, requirements=requirements, requests={"cpu": "500m"}
            )
            instance = await cloud.provider.create(claim)

        found = instance.labels
        assert chosen == (found[labels.INSTANCE_TYPE], found[labels.CAPACITY_TYPE])

    run()


@in_virtual_time
async def test_a_type_too_small_for_the_requests_is_passed_over() -> None:
    async with kwok_cloud() as cloud:
        claim = await cloud.claim(
            types=["c-1x-amd64-linux", "c-4x-amd64-linux"], requests={"cpu": "1"}
        )
        instance = await cloud.provider.create(claim)

    assert "c-4x-amd64-linux" == instance.labels[labels.INSTANCE_TYPE]


@in_virtual_time
async def test_equally_cheap_zones_are_drawn_by_lot() -> None:
    async with kwok_cloud() as cloud:
        zones = Counter[str]()
        for number in range(40):
            instance = await cloud.provider.create(await cloud.claim(f"general-{number}"))
            zones[instance.labels[labels.ZONE]] += 1

    assert {"test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"} == set(zones)


def types_file(*ways: dict[str, Any]) -> bytes:
    entry = {
        "name": "c-2x-amd64-linux",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "2", "memory": "4Gi"},
        "offerings": list(ways),
    }
    return json.dumps([entry]).encode()


@in_virtual_time
async def test_a_full_reservation_and_an_unavailable_offering_are_passed_over() -> None:
    types = load(
        types_file(
            {"zone": "z1", "capacityType": "reserved", "price": 0.0, "reservationCapacity": 0},
            {"zone": "z1", "capacityType": "spot", "price": 0.1, "available": False},
            {"zone": "z1", "capacityType": "on-demand", "price": 0.2},
        ),
        "types.json",
    )
    async with kwok_cloud(types) as cloud:
        instance = await cloud.provider.create(await cloud.claim())

    assert "on-demand" == instance.labels[labels.CAPACITY_TYPE]
    assert kwok_labels.RESERVATION_ID not in instance.labels


@pytest.mark.parametrize(
    ("types", "requirements", "message"),
    [
        pytest.param(
            None, [], "instance type requirement not found", id="a claim that lists no type"
        ),
        pytest.param(
            None,
            [expression(labels.INSTANCE_TYPE, "NotIn", "c-2x-amd64-linux")],
            "instance type requirement not found",
            id="a claim that only excludes types",
        ),
        pytest.param(
            ["c-2x-amd64-linux", "c-3x-amd64-linux"],
            [],
            "instance type c-3x-amd64-linux not found",
            id="a claim that lists a type nobody sells",
        ),
    ],
)
def test_an_ordinary_error(types: list[str] | None, requirements: list[Any], message: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with kwok_cloud() as cloud:
            claim = await cloud.claim(types=types, requirements=requirements)
            with pytest.raises(CreateError, match=message) as raised:
                await cloud.provider.create(claim)
            await cloud.settle()
            nodes = await cloud.nodes()

        assert "LaunchFailed" == raised.value.reason
        assert () == nodes

    run()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            {"requirements": [expression(labels.ZONE, "In", "nowhere")]},
            id="no offering meets the requirements",
        ),
        pytest.param({"requests": {"cpu": "64"}}, id="no listed type is large enough"),
        pytest.param({"node_class": "missing"}, id="the node class does not exist"),
    ],
)
def test_insufficient_capacity(options: dict[str, Any]) -> None:
    @in_virtual_time
    async def run() -> None:
        async with kwok_cloud() as cloud:
            claim = await cloud.claim(**options)
            with pytest.raises(InsufficientCapacityError):
                await cloud.provider.create(claim)
            await cloud.settle()

            assert () == await cloud.nodes()

    run()


@in_virtual_time
async def test_a_node_class_that_says_it_is_not_ready_launches_nothing() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_ready("False")
        with pytest.raises(NodeClassNotReadyError, match="default is not ready: out of paint"):
            await cloud.provider.create(await cloud.claim())
        await cloud.settle()

        assert () == await cloud.nodes()


@in_virtual_time
async def test_a_node_class_that_does_not_know_whether_it_is_ready_is_good_enough() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_ready("Unknown")
        await cloud.provider.create(await cloud.claim())
        await cloud.settle()

        assert 1 == len(await cloud.nodes())


@in_virtual_time
async def test_the_launch_answers_before_there_is_a_node() -> None:
    async with kwok_cloud() as cloud:
        await cloud.provider.create(await cloud.claim())

        assert () == await cloud.nodes()


@in_virtual_time
async def test_the_node_comes_after_the_delay_of_its_node_class() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_node_class(spec={"nodeRegistrationDelay": "1m30s"})
        launched = cloud.clock.monotonic()
        await cloud.provider.create(await cloud.claim())
        await cloud.clock.sleep(89)
        too_early = await cloud.nodes()
        await cloud.clock.sleep(2)

        assert () == too_early
        assert 1 == len(await cloud.nodes())
    assert [90.0] == [moment - launched for moment in cloud.transport.posted_at]


@in_virtual_time
async def test_a_refused_node_is_tried_four_times_in_quick_succession() -> None:
    async with kwok_cloud() as cloud:
        cloud.transport.refusals = 3
        await cloud.provider.create(await cloud.claim())
        await cloud.settle()
        nodes = await cloud.nodes()

    moments = cloud.transport.posted_at
    assert 1 == len(nodes)
    assert [0.01, 0.05, 0.25] == pytest.approx(
        [later - earlier for earlier, later in pairwise(moments)]
    )


@in_virtual_time
async def test_a_node_that_is_refused_for_a_while_comes_later() -> None:
    async with kwok_cloud() as cloud:
        cloud.transport.refusals = 4
        await cloud.provider.create(await cloud.claim())
        await cloud.settle()
        after_a_second = await cloud.nodes()
        attempts = len(cloud.transport.posted_at)
        await cloud.clock.sleep(60)

        assert (4, ()) == (attempts, after_a_second)
        assert 1 == len(await cloud.nodes())


@in_virtual_time
async def test_the_same_claim_has_the_same_machine_in_any_process() -> None:
    async with kwok_cloud(is_leading=False) as cloud:
        claim = await cloud.claim(types=["c-2x-amd64-linux", "s-2x-amd64-linux"])
        processes = [KwokProvider(cloud.kube, cloud.clock, cloud.types) for _ in range(5)]
        found = [await provider.create(claim) for provider in processes]

    assert 1 == len({instance.provider_id for instance in found})
    assert 1 == len({instance.labels[labels.ZONE] for instance in found})


@in_virtual_time
async def test_a_repeated_launch_is_told_of_the_node_that_exists_whatever_is_sold_since() -> None:
    async with kwok_cloud() as cloud:
        claim = await cloud.claim()
        first = await cloud.provider.create(claim)
        await cloud.settle()
        await cloud.crash()
        await cloud.set_node_class(
            metadata={"annotations": {"karpenter.kwok.sh/sold-out": "*/*/*"}}
        )
        cloud.start()
        again = await cloud.provider.create(claim)
        await cloud.settle()

        assert (first.provider_id, dict(first.labels)) == (again.provider_id, dict(again.labels))
        assert 1 == len(await cloud.nodes())


@in_virtual_time
async def test_a_repeated_launch_is_told_of_the_node_that_is_on_its_way() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_node_class(spec={"nodeRegistrationDelay": "30s"})
        claim = await cloud.claim()
        first = await cloud.provider.create(claim)
        cloud.provider.faults.sell_out(OfferingPattern())
        again = await cloud.provider.create(claim)

    assert (first.provider_id, dict(first.labels)) == (again.provider_id, dict(again.labels))


@in_virtual_time
async def test_a_claim_whose_node_is_leaving_is_not_launched_again_yet() -> None:
    async with kwok_cloud() as cloud:
        claim = await cloud.claim()
        await cloud.provider.create(claim)
        await cloud.settle()
        name = (await cloud.only_node()).metadata.name
        finalizers = {"metadata": {"finalizers": ["example.com/stay"]}}
        await cloud.memory.patch("merge", "v1", "Node", None, name, finalizers)
        await cloud.memory.delete("v1", "Node", None, name)

        with pytest.raises(CreateError, match="is being deleted"):
            await cloud.provider.create(claim)


@in_virtual_time
async def test_a_claim_with_the_longest_name_gets_a_node_the_api_accepts() -> None:
    async with kwok_cloud() as cloud:
        await cloud.provider.create(await cloud.claim("a" * 62 + "." + "b" * 190))
        await cloud.settle()
        node = await cloud.only_node()

    assert 253 >= len(node.metadata.name)
    assert "a" * 62 == node.metadata.labels[labels.HOSTNAME]


RESERVED = {"zone": "z1", "capacityType": "reserved", "price": 0.01, "reservationCapacity": 2}
DEARER = {"zone": "z1", "capacityType": "on-demand", "price": 0.2}


async def left(cloud: KwokCloud) -> int:
    (kind,) = await cloud.provider.instance_types(node_pool("any"))
    (offering,) = [each for each in kind.offerings if each.is_reserved]
    assert offering.available
    return offering.reservation_capacity


@in_virtual_time
async def test_a_reservation_is_used_up_by_the_nodes_that_draw_on_it() -> None:
    async with kwok_cloud(load(types_file(RESERVED, DEARER), "types.json")) as cloud:
        found = []
        for number in range(3):
            instance = await cloud.provider.create(await cloud.claim(f"general-{number}"))
            found.append((instance.labels[labels.CAPACITY_TYPE], await left(cloud)))
        await cloud.settle()
        settled = await left(cloud)
        await cloud.crash()
        after_a_crash = await left(cloud)

    assert [("reserved", 1), ("reserved", 0), ("on-demand", 0)] == found
    assert (0, 0) == (settled, after_a_crash)


@in_virtual_time
async def test_two_launches_at_once_do_not_take_the_same_last_place() -> None:
    last = RESERVED | {"reservationCapacity": 1}
    async with kwok_cloud(load(types_file(last, DEARER), "types.json")) as cloud:
        claims = [await cloud.claim(f"general-{number}") for number in range(4)]
        instances = await asyncio.gather(*map(cloud.provider.create, claims))

    kinds = Counter(instance.labels[labels.CAPACITY_TYPE] for instance in instances)
    assert {"reserved": 1, "on-demand": 3} == kinds


@in_virtual_time
async def test_a_place_in_a_reservation_is_free_again_once_its_node_is_gone() -> None:
    async with kwok_cloud(load(types_file(RESERVED, DEARER), "types.json")) as cloud:
        claim = await cloud.claim()
        await cloud.provider.create(claim)
        await cloud.settle()
        while_used = await left(cloud)
        with pytest.raises(InstanceNotFoundError):
            await cloud.provider.delete(claim)

        assert (1, 2) == (while_used, await left(cloud))


async def launched_below(cloud: KwokCloud, ceiling: str) -> str:
    """The type of a machine whose claim says what its launch may cost; it costs $0.434."""
    at_most, types = {labels.PRICE_CEILING: ceiling}, ["c-16x-amd64-linux"]
    claim = await cloud.claim(types=types, requirements=[ON_DEMAND], annotations=at_most)
    instance = await cloud.provider.create(claim)
    return instance.labels[labels.INSTANCE_TYPE]


@pytest.mark.case("OPT-27")
@in_virtual_time
async def test_nothing_is_launched_above_the_price_that_was_planned() -> None:
    message = r"price ceiling of \$0.3 per hour; .* costs \$0.434"
    async with kwok_cloud() as cloud:
        with pytest.raises(InsufficientCapacityError, match=message):
            await launched_below(cloud, "0.3")


@pytest.mark.parametrize("ceiling", ["0.43436", "inf", "nan", "cheap"])
@in_virtual_time
async def test_a_ceiling_that_is_reached_or_cannot_be_read_holds_nothing_back(ceiling: str) -> None:
    async with kwok_cloud() as cloud:
        assert "c-16x-amd64-linux" == await launched_below(cloud, ceiling)
