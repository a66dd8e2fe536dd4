"""The simulated cloud can be sold out, slow and broken, on purpose."""

from datetime import timedelta

import pytest

from helpers.builders import node_pool
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClassReference
from karpenter.api.meta import ObjectMeta
from karpenter.api.node_classes import kwok_labels
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.cloud.kwok.faults import OfferingPattern, PatternError, parse_patterns
from karpenter.cloud.provider import CreateError, InsufficientCapacityError
from karpenter.model import labels
from unit.cloud.kwok.kwok_cloud import KwokCloud, kwok_cloud

SPOT_OF_SMALL = OfferingPattern("c-2x-amd64-linux", capacity_type="spot")


async def available(cloud: KwokCloud, name: str = "c-2x-amd64-linux") -> set[tuple[str, str]]:
    types = await cloud.provider.instance_types(node_pool("any"))
    (kind,) = [kind for kind in types if kind.name == name]
    return {(each.zone[-1], each.capacity_type) for each in kind.offerings if each.available}


@in_virtual_time
async def test_what_is_sold_out_is_shown_as_such_and_not_launched() -> None:
    async with kwok_cloud() as cloud:
        cloud.provider.faults.sell_out(SPOT_OF_SMALL, OfferingPattern(zone="test-zone-a"))
        shown = await available(cloud)
        instance = await cloud.provider.create(await cloud.claim())

    assert {("b", "on-demand"), ("c", "on-demand"), ("d", "on-demand")} == shown
    assert "on-demand" == instance.labels[labels.CAPACITY_TYPE]
    assert "test-zone-a" != instance.labels[labels.ZONE]


@in_virtual_time
async def test_a_cloud_with_nothing_left_has_insufficient_capacity_until_it_is_restocked() -> None:
    async with kwok_cloud() as cloud:
        cloud.provider.faults.sell_out(OfferingPattern())
        claim = await cloud.claim()
        with pytest.raises(InsufficientCapacityError, match="c-2x-amd64-linux"):
            await cloud.provider.create(claim)
        cloud.provider.faults.restock()

        assert (await cloud.provider.create(claim)).provider_id
        assert 8 == len(await available(cloud))


@in_virtual_time
async def test_what_is_sold_out_for_a_time_comes_back() -> None:
    async with kwok_cloud() as cloud:
        cloud.provider.faults.sell_out(SPOT_OF_SMALL, lasts=timedelta(minutes=2))
        await cloud.clock.sleep(119)
        before = len(await available(cloud))
        await cloud.clock.sleep(1)

        assert (4, 8) == (before, len(await available(cloud)))


@in_virtual_time
async def test_what_is_sold_out_for_good_is_not_restocked_by_a_shorter_shortage() -> None:
    async with kwok_cloud() as cloud:
        cloud.provider.faults.sell_out(SPOT_OF_SMALL)
        cloud.provider.faults.sell_out(SPOT_OF_SMALL, lasts=timedelta(minutes=2))
        await cloud.clock.sleep(600)

        assert 4 == len(await available(cloud))


@in_virtual_time
async def test_the_catalogue_is_one_object_while_nothing_changes() -> None:
    async with kwok_cloud() as cloud:
        pool = node_pool("any")
        cloud.provider.faults.sell_out(SPOT_OF_SMALL)
        first = await cloud.provider.instance_types(pool)
        second = await cloud.provider.instance_types(pool)
        untouched = [kind for kind in first if kind.name != "c-2x-amd64-linux"]

    assert first is second
    assert first is not cloud.types
    assert all(any(kind is same for same in cloud.types) for kind in untouched)


@in_virtual_time
async def test_a_node_class_can_declare_offerings_sold_out_which_a_launch_finds_out() -> None:
    async with kwok_cloud() as cloud:
        annotation = {kwok_labels.DOMAIN + "/sold-out": "c-2x-*/*/spot, */test-zone-a/*"}
        await cloud.set_node_class(metadata={"annotations": annotation})
        before = len(await available(cloud))
        instance = await cloud.provider.create(await cloud.claim())
        after = await available(cloud)
        await cloud.set_node_class(metadata={"annotations": None})
        await cloud.clock.sleep(180)

        assert 8 == before
        assert "on-demand" == instance.labels[labels.CAPACITY_TYPE]
        assert {("b", "on-demand"), ("c", "on-demand"), ("d", "on-demand")} == after
        assert 8 == len(await available(cloud))


@in_virtual_time
async def test_whoever_never_launches_can_know_beforehand_what_a_class_declares_sold_out() -> None:
    annotations = {kwok_labels.DOMAIN + "/sold-out": "c-2x-*/*/spot"}
    async with kwok_cloud() as cloud:
        declaring = KWOKNodeClass(metadata=ObjectMeta(name="default", annotations=annotations))
        cloud.provider.exclude_sold_out([declaring])
        mine = await available(cloud)
        other = NodeClassReference(kwok_labels.DOMAIN, "KWOKNodeClass", "other")
        pool = node_pool("theirs", node_class=other)
        theirs = await cloud.provider.instance_types(pool)

    assert {"on-demand"} == {way for _, way in mine}
    assert theirs is cloud.types


@in_virtual_time
async def test_a_class_that_cannot_be_read_keeps_no_other_from_being_known() -> None:
    unreadable = {kwok_labels.DOMAIN + "/sold-out": "spot"}
    annotations = {kwok_labels.DOMAIN + "/sold-out": "*/*/spot"}
    async with kwok_cloud() as cloud:
        classes = [
            KWOKNodeClass(metadata=ObjectMeta(name="broken", annotations=unreadable)),
            KWOKNodeClass(metadata=ObjectMeta(name="default", annotations=annotations)),
        ]
        with pytest.raises(CreateError, match="KWOKNodeClass broken: 'spot' names no"):
            cloud.provider.exclude_sold_out(classes)

        assert {"on-demand"} == {way for _, way in await available(cloud)}


@in_virtual_time
async def test_an_annotation_that_cannot_be_read_is_told_to_whoever_launches() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_node_class(
            metadata={"annotations": {kwok_labels.DOMAIN + "/sold-out": "spot"}}
        )
        with pytest.raises(CreateError, match="sold-out of KWOKNodeClass default: 'spot' names no"):
            await cloud.provider.create(await cloud.claim())


@in_virtual_time
async def test_a_slow_cloud_takes_its_time() -> None:
    async with kwok_cloud() as cloud:
        claim = await cloud.claim()
        cloud.provider.faults.launch_seconds = 45.0
        began = cloud.clock.monotonic()
        await cloud.provider.create(claim)

    assert 45.0 == cloud.clock.monotonic() - began


@in_virtual_time
async def test_launches_fail_as_often_as_they_are_told_to() -> None:
    async with kwok_cloud() as cloud:
        claim = await cloud.claim()
        cloud.provider.faults.fail_launches(lambda: CreateError("Quota", "no quota left"), times=2)
        for _ in range(2):
            with pytest.raises(CreateError, match="no quota left"):
                await cloud.provider.create(claim)

        assert (await cloud.provider.create(claim)).provider_id


def test_patterns_are_read_from_text() -> None:
    assert (
        OfferingPattern("c-*", "test-zone-a", "spot"),
        OfferingPattern("*", "*", "reserved"),
    ) == parse_patterns(" c-*/test-zone-a/spot,,*/*/reserved ")
    assert () == parse_patterns("")


@pytest.mark.parametrize("text", ["spot", "a/b", "a/b/c/d", "a//c", "a/b/c,d"])
def test_text_that_names_no_offerings_is_refused(text: str) -> None:
    with pytest.raises(PatternError, match="write type/zone/capacity-type"):
        parse_patterns(text)
