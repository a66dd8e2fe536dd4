"""The nodes of a deleted pool are deleted with it, unless the deletion orphans them."""

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.simulate.invariants import made_nodes

V1 = "karpenter.sh/v1"
QUICK = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


def uids(run: Autoscaler) -> list[str]:
    return sorted(node["metadata"]["uid"] for node in made_nodes(run))


async def started(run: Autoscaler) -> list[str]:
    await run.until(lambda: 3 == len(run.running), seconds=60)
    await run.pass_time(60)
    return uids(run)


@pytest.mark.case("DIS-285")
@in_virtual_time
async def test_with_its_claims_nodes_go_and_pods_are_evicted() -> None:
    async with autoscaler(kwok_pool(disruption=QUICK), deployment("web", 3)) as run:
        await started(run)
        await run.client.delete(V1, "NodePool", None, "default", propagation="Background")
        await run.until(lambda: not run.claims and not run.nodes, seconds=120)

        assert run.cloud is not None
        assert [] == list(await run.cloud.list())
        assert [] == run.running


@pytest.mark.case("DIS-285")
@in_virtual_time
async def test_without_its_claims_nodes_stay_whatever_becomes_of_their_pods() -> None:
    async with autoscaler(kwok_pool(disruption=QUICK), deployment("web", 3)) as run:
        before = await started(run)
        await run.client.delete(V1, "NodePool", None, "default", propagation="Orphan")
        await run.pass_time(60)
        await run.scale("web", 0)
        await run.pass_time(900)

        assert [] == run.objects("karpenter.sh", "nodepools")
        assert before == uids(run)
        assert [] == [claim for claim in run.claims if "deletionTimestamp" in claim["metadata"]]
        told = {message for kind, reason, message in run.events if reason == "DisruptionBlocked"}
        assert "NodePool not found (NodePool=default)" in told
