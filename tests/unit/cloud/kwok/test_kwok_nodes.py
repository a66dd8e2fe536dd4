"""Nodes of the simulated cloud are found, restarted and removed, and survive the process."""

import pytest

from helpers.builders import node_pool
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.cloud.kwok.provider import REPAIR_POLICIES
from karpenter.cloud.provider import CloudError, InstanceNotFoundError
from karpenter.model import labels
from unit.cloud.kwok.kwok_cloud import KwokCloud, kwok_cloud


async def launched(cloud: KwokCloud, name: str = "general-x7k2p") -> NodeClaim:
    claim = await cloud.write_launched(await cloud.claim(name))
    await cloud.settle()
    return claim


async def hold(cloud: KwokCloud, node: Node) -> None:
    """Put a finalizer on a node, as the controllers do when they register it."""
    body = {"metadata": {"finalizers": [labels.TERMINATION]}}
    await cloud.memory.patch("merge", "v1", "Node", None, node.metadata.name, body)


@in_virtual_time
async def test_delete_answers_gone_at_once_and_the_node_goes() -> None:
    async with kwok_cloud() as cloud:
        claim = await launched(cloud)
        with pytest.raises(InstanceNotFoundError):
            await cloud.provider.delete(claim)

        assert () == await cloud.nodes()


@in_virtual_time
async def test_delete_leaves_the_claim_itself_alone() -> None:
    async with kwok_cloud() as cloud:
        claim = await launched(cloud)
        with pytest.raises(InstanceNotFoundError):
            await cloud.provider.delete(claim)

        found = await cloud.kube.get(NodeClaim, claim.metadata.name)
        assert found.metadata.deletion_timestamp is None


@in_virtual_time
async def test_delete_calls_off_a_node_that_is_on_its_way() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_node_class(spec={"nodeRegistrationDelay": "30s"})
        claim = await cloud.claim()
        await cloud.provider.create(claim)
        await cloud.settle()
        with pytest.raises(InstanceNotFoundError):
            await cloud.provider.delete(claim)
        await cloud.clock.sleep(60)

        assert [] == cloud.transport.posted_at


@in_virtual_time
async def test_a_node_that_is_leaving_is_listed_but_not_found() -> None:
    async with kwok_cloud() as cloud:
        claim = await launched(cloud)
        await hold(cloud, await cloud.only_node())
        with pytest.raises(InstanceNotFoundError):
            await cloud.provider.delete(claim)

        (listed,) = await cloud.provider.list()
        assert (claim.status.provider_id, False) == (listed.provider_id, listed.is_deleting)
        with pytest.raises(InstanceNotFoundError, match="is being terminated"):
            await cloud.provider.get(claim.status.provider_id)


@in_virtual_time
async def test_an_instance_nobody_made_is_not_found() -> None:
    async with kwok_cloud() as cloud:
        with pytest.raises(InstanceNotFoundError, match="there is no instance kwok://nothing"):
            await cloud.provider.get("kwok://nothing")


@in_virtual_time
async def test_nodes_of_others_are_not_listed() -> None:
    async with kwok_cloud() as cloud:
        claim = await launched(cloud)
        for name, provider_id in (("a", "aws:///i-1"), ("b", "")):
            await cloud.kube.create(
                Node, {"metadata": {"name": name}, "spec": {"providerID": provider_id}}
            )

        listed = await cloud.provider.list()
        assert [claim.status.provider_id] == [instance.provider_id for instance in listed]
        assert all(instance.created_at is not None for instance in listed)


@in_virtual_time
async def test_nothing_ever_drifts_and_every_pool_may_buy_the_whole_catalogue() -> None:
    async with kwok_cloud() as cloud:
        claim = await launched(cloud)

        assert "" == await cloud.provider.drift_reason(claim)
        assert cloud.types is await cloud.provider.instance_types(node_pool("any"))
        assert ("kwok", (("karpenter.kwok.sh", "KWOKNodeClass"),)) == (
            cloud.provider.facts.name,
            cloud.provider.facts.node_classes,
        )
        assert () == cloud.provider.registration_hooks


def test_the_repair_policies_are_those_of_karpenter() -> None:
    found = [
        (
            policy.condition_type,
            policy.condition_status,
            policy.reason_regex,
            policy.toleration.total_seconds(),
            policy.termination_grace_period and policy.termination_grace_period.total_seconds(),
            policy.action,
            policy.priority,
        )
        for policy in REPAIR_POLICIES
    ]

    assert [
        ("Ready", "False", "", 600, 0, "ReplaceNode", 0),
        ("Ready", "Unknown", ".*", 600, 0, "ReplaceNode", 0),
        ("KWOKUnhealthy", "True", ".*", 30, 45, "ReplaceNode", 0),
        ("KWOKRebootRequired", "True", ".*", 30, 60, "RebootNode", 0),
    ] == [(*row[:4], row[4] or 0, *row[5:]) for row in found]
    assert all(policy.termination_grace_period is not None for policy in REPAIR_POLICIES)


@pytest.mark.case("V15-S41")
@in_virtual_time
async def test_a_restart_writes_the_boot_id_and_the_same_one_again_nothing() -> None:
    async with kwok_cloud() as cloud:
        claim = await launched(cloud)
        node = await cloud.only_node()
        await cloud.kube.patch(
            NodeClaim,
            claim.metadata.name,
            {"status": {"nodeName": node.metadata.name}},
            subresource="status",
        )
        claim = await cloud.kube.get(NodeClaim, claim.metadata.name)
        found = []
        for operation in ("x", "x", "y"):
            await cloud.provider.reboot(claim, operation)
            restarted = await cloud.only_node()
            found.append((restarted.status.node_info.boot_id, restarted.metadata.resource_version))

    assert ["kwok-x", "kwok-x", "kwok-y"] == [boot for boot, _ in found]
    assert found[0] == found[1]


@pytest.mark.case("V15-S41")
@in_virtual_time
async def test_a_claim_without_a_node_cannot_be_restarted() -> None:
    async with kwok_cloud() as cloud:
        claim = await launched(cloud)

        with pytest.raises(CloudError, match="has no node to restart"):
            await cloud.provider.reboot(claim, "x")


@in_virtual_time
async def test_a_node_that_is_gone_cannot_be_restarted() -> None:
    async with kwok_cloud() as cloud:
        claim = await launched(cloud)
        status = {"status": {"nodeName": "gone"}}
        claim = await cloud.kube.patch(NodeClaim, claim.metadata.name, status, subresource="status")

        with pytest.raises(InstanceNotFoundError, match="there is no node gone"):
            await cloud.provider.reboot(claim, "x")


@in_virtual_time
async def test_a_promised_node_is_created_by_whoever_leads_next() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_node_class(spec={"nodeRegistrationDelay": "60s"})
        claim = await cloud.write_launched(await cloud.claim())
        launched_at = cloud.clock.monotonic()
        await cloud.clock.sleep(20)
        await cloud.crash()
        await cloud.clock.sleep(10)
        cloud.start()
        await cloud.clock.sleep(60)
        node = await cloud.only_node()

    assert claim.status.provider_id == node.spec.provider_id
    assert dict(claim.metadata.labels) == dict(node.metadata.labels)
    assert dict(claim.status.capacity) == dict(node.status.capacity)
    assert dict(claim.status.allocatable) == dict(node.status.allocatable)
    # the delay counts from the launch, not from the restart; the API keeps whole seconds
    assert [60.0] == pytest.approx(
        [moment - launched_at for moment in cloud.transport.posted_at], abs=1.0
    )


@in_virtual_time
async def test_the_same_provider_leading_again_creates_what_was_promised() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_node_class(spec={"nodeRegistrationDelay": "60s"})
        await cloud.write_launched(await cloud.claim())
        await cloud.settle()
        await cloud.stop()
        await cloud.clock.sleep(120)
        while_not_leading = await cloud.nodes()
        cloud.start()
        await cloud.settle()

        assert () == while_not_leading
        assert 1 == len(await cloud.nodes())


@in_virtual_time
async def test_a_promised_node_that_exists_already_is_as_good_as_created() -> None:
    async with kwok_cloud() as cloud:
        await launched(cloud)
        await cloud.crash()
        cloud.start()
        await cloud.clock.sleep(300)

        assert 2 == len(cloud.transport.posted_at)
        assert 1 == len(await cloud.nodes())


@in_virtual_time
async def test_the_node_of_a_registered_claim_is_not_created_again() -> None:
    async with kwok_cloud() as cloud:
        claim = await launched(cloud)
        await cloud.set_condition(claim.metadata.name, "Registered")
        await cloud.memory.delete("v1", "Node", None, (await cloud.only_node()).metadata.name)
        await cloud.crash()
        cloud.start()
        await cloud.clock.sleep(300)

        assert () == await cloud.nodes()


@in_virtual_time
async def test_the_node_of_a_claim_that_is_leaving_is_not_created() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_node_class(spec={"nodeRegistrationDelay": "60s"})
        claim = await cloud.write_launched(await cloud.claim())
        await cloud.crash()
        body = {"metadata": {"finalizers": [labels.TERMINATION]}}
        await cloud.kube.patch(NodeClaim, claim.metadata.name, body)
        await cloud.kube.delete(NodeClaim, claim.metadata.name)
        cloud.start()
        await cloud.clock.sleep(300)

        assert [] == cloud.transport.posted_at


@in_virtual_time
async def test_the_node_of_a_claim_that_died_before_registration_is_removed() -> None:
    async with kwok_cloud() as cloud:
        survivor = await launched(cloud, "survivor")
        claim = await cloud.claim("dies")
        await cloud.provider.create(claim)
        await cloud.settle()
        await cloud.kube.delete(NodeClaim, "dies")
        before = len(await cloud.nodes())
        await cloud.clock.sleep(130)

        assert 2 == before
        node = await cloud.only_node()
        assert survivor.status.provider_id == node.spec.provider_id


@in_virtual_time
async def test_a_node_on_its_way_is_called_off_when_its_claim_dies() -> None:
    async with kwok_cloud() as cloud:
        await cloud.set_node_class(spec={"nodeRegistrationDelay": "30s"})
        await cloud.provider.create(await cloud.claim("dies"))
        await cloud.kube.delete(NodeClaim, "dies")
        await cloud.clock.sleep(300)

        assert [] == cloud.transport.posted_at


@in_virtual_time
async def test_a_node_left_by_a_dead_process_and_a_dead_claim_is_removed() -> None:
    async with kwok_cloud() as cloud:
        await cloud.provider.create(await cloud.claim("dies"))
        await cloud.settle()
        await cloud.crash()
        await cloud.kube.delete(NodeClaim, "dies")
        cloud.start()
        await cloud.settle()

        assert () == await cloud.nodes()


@in_virtual_time
async def test_registered_nodes_and_those_of_others_are_left_alone() -> None:
    async with kwok_cloud() as cloud:
        await launched(cloud, "registered")
        node = await cloud.only_node()
        body = {"metadata": {"labels": {labels.REGISTERED: "true"}}, "spec": {"taints": None}}
        await cloud.memory.patch("merge", "v1", "Node", None, node.metadata.name, body)
        taint = {"key": labels.UNREGISTERED, "effect": "NoExecute"}
        await cloud.kube.create(
            Node,
            {
                "metadata": {"name": "other", "labels": {"kwok-partition": "a"}},
                "spec": {"providerID": "aws:///i-1", "taints": [taint]},
            },
        )
        await cloud.kube.delete(NodeClaim, "registered")
        await cloud.clock.sleep(300)

        assert {"other", node.metadata.name} == {each.metadata.name for each in await cloud.nodes()}


@in_virtual_time
async def test_a_cloud_with_nothing_on_its_way_hardly_asks_anything() -> None:
    async with kwok_cloud() as cloud:
        await cloud.clock.sleep(600)
        cloud.transport.requests.clear()
        await cloud.clock.sleep(600)

    assert ["GET /api/v1/nodes"] * 5 == cloud.transport.requests
