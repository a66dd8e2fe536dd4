"""The simulated cloud changes under its machines: prices, images, and notices of interruption."""

from helpers.builders import node_pool
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.kwok.machine import IMAGE
from karpenter.cloud.kwok.provider import IMAGE_DRIFT, KwokProvider
from karpenter.decision_log.log import DecisionLog
from karpenter.model import labels
from unit.cloud.kwok.kwok_cloud import KwokCloud, kwok_cloud

SMALL = "c-2x-amd64-linux"
LARGE = "c-4x-amd64-linux"


async def cheapest(cloud: KwokCloud, name: str) -> float:
    types = await cloud.provider.instance_types(node_pool("any"))
    (kind,) = [kind for kind in types if kind.name == name]
    return min(each.price for each in kind.offerings)


@in_virtual_time
async def test_a_price_that_moves_is_shown_and_decides_what_is_launched() -> None:
    async with kwok_cloud() as cloud:
        listed = await cheapest(cloud, SMALL)
        same = await cloud.provider.instance_types(node_pool("any"))
        cloud.provider.prices.set({(SMALL, "test-zone-b", "spot"): listed / 2})
        moved = await cheapest(cloud, SMALL)
        instance = await cloud.provider.create(await cloud.claim(types=(SMALL, LARGE)))
        cloud.provider.prices.set({(SMALL, "test-zone-b", "spot"): listed})
        back = await cheapest(cloud, SMALL)

    assert cloud.types is same  # nothing is copied while nothing has moved
    assert (listed / 2, listed) == (moved, back)
    assert ("test-zone-b", "spot") == (
        instance.labels[labels.ZONE],
        instance.labels[labels.CAPACITY_TYPE],
    )


@in_virtual_time
async def test_types_stay_the_same_object_until_a_price_moves_again() -> None:
    async with kwok_cloud() as cloud:
        prices = cloud.provider.prices
        prices.set({(SMALL, "test-zone-b", "spot"): 1.0})
        first = await cloud.provider.instance_types(node_pool("any"))
        prices.set({(SMALL, "test-zone-b", "spot"): 1.0})
        again = await cloud.provider.instance_types(node_pool("any"))
        prices.set({(SMALL, "test-zone-b", "spot"): 2.0})
        moved = await cloud.provider.instance_types(node_pool("any"))

    assert first is again
    assert moved is not again


@in_virtual_time
async def test_a_notice_deletes_the_claim_and_is_recorded() -> None:
    async with kwok_cloud(is_leading=False) as cloud:
        decisions = DecisionLog()
        cloud.provider = KwokProvider(cloud.kube, cloud.clock, cloud.types, decisions=decisions)
        cloud.start()
        launched = await cloud.write_launched(await cloud.claim())
        await cloud.settle()
        (node,) = await cloud.nodes()
        cloud.provider.interruptions.notice("another-node", node.metadata.name)
        await cloud.settle()
        claims = await cloud.kube.list(NodeClaim)

    assert () == tuple(claims)
    (record,) = decisions.newest()
    assert ("Interrupt", "SpotInterrupted") == (record.kind, record.reason)
    assert f"NodeClaim/{launched.metadata.name}" == record.subject


@in_virtual_time
async def test_a_notice_given_before_the_provider_leads_is_not_lost() -> None:
    async with kwok_cloud() as cloud:
        await cloud.write_launched(await cloud.claim())
        await cloud.settle()
        (node,) = await cloud.nodes()
        await cloud.crash()
        cloud.provider.interruptions.notice(node.metadata.name)
        cloud.start()
        await cloud.settle()

        assert () == tuple(await cloud.kube.list(NodeClaim))


@in_virtual_time
async def test_machines_drift_when_their_node_class_names_another_image() -> None:
    async with kwok_cloud() as cloud:
        before = await cloud.write_launched(await cloud.claim("before"))
        assert "" == await cloud.provider.drift_reason(before)
        await cloud.set_node_class(metadata={"annotations": {IMAGE: "v2"}})
        await cloud.clock.sleep(60)
        after = await cloud.write_launched(await cloud.claim("after"))

        assert IMAGE_DRIFT == await cloud.provider.drift_reason(before)
        assert "" == await cloud.provider.drift_reason(after)
        assert "v2" == after.metadata.annotations[IMAGE]
