"""A cluster that serves Karpenter's kinds as v1beta1 only is followed as one that serves v1."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from helpers.clusters import in_virtual_time
from karpenter.api.codec import WatchEvent, convert, unreadable_in
from karpenter.api.karpenter import NodeClaim, NodeClaimV1Beta1, NodePool, NodePoolV1Beta1
from karpenter.api.meta import ListMeta, ObjectList, ObjectMeta, Resource
from karpenter.api.nodes import Node
from karpenter.clock import running_clock
from karpenter.dashboard.older_versions import ConvertingReads
from karpenter.dashboard.sources import FollowedCluster
from karpenter.kube.errors import NotFoundError

KUBELET = {"maxPods": 20}
REFERENCE = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "shop"}


def old(kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> Resource:
    """An object of v1beta1."""
    return convert(
        {
            "apiVersion": "karpenter.sh/v1beta1",
            "kind": kind,
            "metadata": {"name": name, "uid": name, "resourceVersion": "7", **metadata},
            "spec": spec,
        }
    )


POOL = old(
    "NodePool",
    "general",
    {
        "template": {"spec": {"nodeClassRef": REFERENCE, "kubelet": KUBELET}},
        "disruption": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "48h"},
    },
)
CLAIM = old(
    "NodeClaim",
    "general-x",
    {"nodeClassRef": REFERENCE},
    labels={"karpenter.sh/nodepool": "general"},
)


class Served:
    """What an API server serves: a list for each version of a kind, and changes to it."""

    def __init__(self, *versions: tuple[type[Resource], tuple[Resource, ...]]) -> None:
        self.versions: dict[type[Resource], tuple[Resource, ...]] = dict(versions)
        self.changes: dict[type[Resource], list[WatchEvent[Any]]] = {}
        self.asked: list[str] = []

    async def page(self, kind: type[Any], namespace: str = "", **options: Any) -> ObjectList[Any]:
        self.asked.append(kind.__name__)
        if kind not in self.versions:
            raise NotFoundError(404, "there is no such kind")
        return ObjectList(metadata=ListMeta(resource_version="9"), items=self.versions[kind])

    @asynccontextmanager
    async def watch(
        self, kind: type[Any], namespace: str = "", **options: Any
    ) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        async def changes() -> AsyncIterator[WatchEvent[Any]]:
            for each in self.changes.pop(kind, []):
                yield each
            await asyncio.Event().wait()

        yield changes()


@in_virtual_time
async def test_pools_and_claims_of_v1beta1_are_shown_as_v1() -> None:
    reads = ConvertingReads(Served((NodePoolV1Beta1, (POOL,)), (NodeClaimV1Beta1, (CLAIM,))))
    (pool,) = (await reads.page(NodePool)).items
    (claim,) = (await reads.page(NodeClaim)).items

    assert isinstance(pool, NodePool)
    assert pool.metadata == POOL.metadata
    assert pool.spec.disruption.consolidation_policy == "WhenEmptyOrUnderutilized"
    assert pool.spec.template.spec.expire_after == "48h"
    reference = pool.spec.template.spec.node_class_ref
    assert (reference.group, reference.kind) == ("karpenter.k8s.aws", "EC2NodeClass")
    assert isinstance(claim, NodeClaim)
    assert claim.spec.expire_after == "48h"


@in_virtual_time
async def test_v1_is_read_where_it_is_served_and_asked_for_again_with_every_list() -> None:
    served = Served((NodePoolV1Beta1, (POOL,)), (Node, ()))
    reads = ConvertingReads(served)
    await reads.page(NodePool)
    await reads.page(Node)
    assert served.asked == ["NodePool", "NodePoolV1Beta1", "Node"]

    new = convert({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}})
    served.versions = {NodePool: (new,)}
    assert (await reads.page(NodePool)).items == (new,)


@in_virtual_time
async def test_a_kind_that_is_not_served_at_all_is_named_as_v1() -> None:
    served = Served()
    try:
        await ConvertingReads(served).page(NodePool)
    except NotFoundError:
        assert served.asked == ["NodePool", "NodePoolV1Beta1"]
    else:
        raise AssertionError("nothing is served")


@in_virtual_time
async def test_what_cannot_be_converted_is_named_and_the_others_are_shown() -> None:
    assert isinstance(POOL, NodePoolV1Beta1)
    spec: Any = replace(POOL.spec, weight="heavy")
    broken = replace(POOL, metadata=ObjectMeta(name="broken"), spec=spec)
    page = await ConvertingReads(Served((NodePoolV1Beta1, (POOL, broken)))).page(NodePool)

    assert [each.metadata.name for each in page.items] == ["general"]
    assert [each.name for each in unreadable_in(page)] == ["broken"]


@in_virtual_time
async def test_changes_are_followed() -> None:
    served = Served((NodePoolV1Beta1, ()), (NodeClaimV1Beta1, ()))
    mark = NodePoolV1Beta1(metadata=ObjectMeta(resource_version="20"))
    served.changes = {
        NodePoolV1Beta1: [WatchEvent("ADDED", POOL), WatchEvent("BOOKMARK", mark)],
        NodeClaimV1Beta1: [WatchEvent("ADDED", CLAIM), WatchEvent("DELETED", CLAIM)],
    }
    clock = running_clock()
    followed = FollowedCluster(
        served, clock, rng=random.Random(1), kinds=(NodePool, NodeClaim, Node)
    )
    seen: list[tuple[bool, bool]] = []
    followed.of(NodeClaim).on_change(lambda a, b: seen.append((a is None, b is None)))
    running = asyncio.ensure_future(followed.run())
    await followed.reached()
    await clock.sleep(5)

    assert [each.metadata.name for each in followed.of(NodePool).list()] == ["general"]
    assert seen == [(True, False), (False, True)]
    assert followed.refused() == [Node]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
