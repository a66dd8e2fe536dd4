"""What a provider sells, for plans that are made elsewhere: asked seldom, and the same while it is."""

from typing import Any, cast

import pytest

from helpers.autoscaler import FAKE_FACTS, FakeCloud
from helpers.builders import instance_type, node_pool
from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.clock import Clock
from karpenter.cloud.provider import CloudError, CloudProvider
from karpenter.dashboard.answers.selling import LISTED_SECONDS, Seller
from karpenter.dashboard.answers.supply import Supply, supply_of
from karpenter.inquiry.question import CloudOffer


class Steps:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at


def pool(name: str, class_name: str = "default") -> NodePool:
    """A pool with a class of the fake cloud."""
    group, kind = FAKE_FACTS.node_classes[0]
    return node_pool(name, node_class=NodeClassReference(group, kind, class_name))


def selling(*pools: NodePool, **more: Any) -> tuple[Seller, FakeCloud, list[NodePool], Steps]:
    """A seller for a fake cloud with two types."""
    cloud = FakeCloud(types=(instance_type("a"), instance_type("b")))
    known, clock = list(pools), Steps()
    seller = Seller(cast(CloudProvider, cloud), lambda: known, cast(Clock, clock), **more)
    return seller, cloud, known, clock


async def test_a_provider_is_asked_once_while_nothing_changes() -> None:
    seller, cloud, _, clock = selling(pool("x"), pool("y"))

    first = await seller.supply()
    clock.at += LISTED_SECONDS - 1
    second = await seller.supply()

    assert first is second
    assert ["x", "y"] == cloud.calls_of("instance_types")
    assert first.pools["x"] is first.pools["y"]


async def test_a_supply_that_is_still_the_same_is_the_same_object() -> None:
    seller, cloud, _, clock = selling(pool("x"))

    first = await seller.supply()
    clock.at += LISTED_SECONDS
    assert await seller.supply() is first
    cloud.types = (instance_type("c"),)
    clock.at += LISTED_SECONDS

    assert ("c",) == tuple(each.name for each in (await seller.supply()).pools["x"])


async def test_a_new_pool_is_asked_for_at_once() -> None:
    seller, _, known, _ = selling(pool("x"))
    await seller.supply()
    known.append(pool("y"))

    assert {"x", "y"} == (await seller.supply()).pools.keys()


async def test_a_pool_whose_types_cannot_be_listed_has_none() -> None:
    seller, cloud, _, _ = selling(pool("x"))
    cloud.failures["instance_types"] = [CloudError("no")]

    assert () == (await seller.supply()).pools["x"]


@pytest.mark.parametrize(
    ("name", "class_name", "types"),
    [
        pytest.param("x", "default", ("a",), id="as-it-is"),
        pytest.param("x", "other", ("b",), id="of-another-class-now"),
        pytest.param("new", "other", ("b",), id="new"),
        pytest.param("new", "unknown", ("c",), id="new-and-of-a-new-class"),
    ],
)
def test_a_pool_to_be_buys_what_its_class_does(
    name: str, class_name: str, types: tuple[str, ...]
) -> None:
    sold = {"x": (instance_type("a"),), "y": (instance_type("b"),)}
    offer = CloudOffer(lambda pool: sold[pool.metadata.name], FAKE_FACTS)
    supply: Supply = supply_of(offer, [pool("x"), pool("y", "other")], (instance_type("c"),))

    assert types == tuple(each.name for each in supply.of(pool(name, class_name)))


def test_a_pool_of_another_provider_buys_nothing() -> None:
    supply = Supply(FAKE_FACTS, others=(instance_type("c"),))
    foreign = node_pool("x", node_class=NodeClassReference("g", "Foreign", "default"))

    assert () == supply.of(foreign)
