"""Garbage: claims without an instance and instances without a claim go, and nothing else does."""

from datetime import timedelta
from typing import Any

import pytest

from helpers.autoscaler import FakeCloud, bench
from helpers.claims import (
    NAME,
    PROVIDER_ID,
    V1,
    claim,
    disrupted,
    instance,
    is_going,
    lifecycle,
    node,
)
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.clock import EPOCH
from karpenter.controllers.lifecycle.garbage_collection import (
    ClaimGarbageCollector,
    InstanceGarbageCollector,
)
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.kube.errors import ServerError

JsonObject = dict[str, Any]


@pytest.mark.parametrize(
    ("stage", "nodes", "has_instance", "is_deleted"),
    [
        pytest.param(
            "Registered",
            [node(ready="False")],
            False,
            True,
            id="DIS-41 gone, and not ready: deleted",
        ),
        pytest.param(
            "Registered", [node()], False, False, id="DIS-42 gone, but a kubelet reports: kept"
        ),
        pytest.param("Launched", [], False, False, id="DIS-43 not registered: left to liveness"),
        pytest.param("Registered", [], False, True, id="DIS-44 gone, and no Node: deleted"),
        pytest.param("Registered", [], True, False, id="DIS-45 no Node, but an instance: kept"),
        pytest.param(
            "Registered",
            [node(), node("node-2")],
            False,
            True,
            id="DIS-41 two Nodes are as good as none",
        ),
    ],
)
def test_claims_without_an_instance(
    stage: str, nodes: list[JsonObject], has_instance: bool, is_deleted: bool
) -> None:
    @in_virtual_time
    async def check() -> None:
        cloud = FakeCloud(instances=instance() if has_instance else {})
        async with bench(claim(stage=stage), *nodes, cloud=cloud) as at_work:
            collector = ClaimGarbageCollector(at_work.world, Remover(at_work.world))

            again = await collector.step()
            await at_work.settle()

            assert 120.0 == again
            assert is_deleted == is_going(at_work, NAME)
            assert ({"garbage_collected": 1} if is_deleted else {}) == disrupted(at_work)

    check()


@pytest.mark.case("DIS-41")
@in_virtual_time
async def test_an_instance_on_its_way_out_counts_as_gone() -> None:
    cloud = FakeCloud(instances=instance(deleting=True))
    async with bench(claim(stage="Registered"), node(ready="False"), cloud=cloud) as at_work:
        await ClaimGarbageCollector(at_work.world, Remover(at_work.world)).step()
        await at_work.settle()

        assert is_going(at_work, NAME)


@in_virtual_time
async def test_a_cloud_is_not_asked_about_claims_that_are_none() -> None:
    async with bench(claim(stage="Launched")) as at_work:
        assert 120 == await ClaimGarbageCollector(at_work.world, Remover(at_work.world)).step()

        assert [] == at_work.cloud.calls


@in_virtual_time
async def test_a_cloud_that_does_not_answer_costs_no_claim() -> None:
    cloud = FakeCloud(failures={"list": [RuntimeError("throttled")]})
    async with bench(claim(stage="Registered"), cloud=cloud) as at_work:
        with pytest.raises(RuntimeError):
            await ClaimGarbageCollector(at_work.world, Remover(at_work.world)).step()

        assert not is_going(at_work, NAME)


@pytest.mark.case("DIS-41")
@in_virtual_time
async def test_a_claim_that_cannot_be_deleted_does_not_keep_the_others() -> None:
    names = [f"claim-{number}" for number in range(1, 6)]
    async with lifecycle(*(claim(name, stage="Registered") for name in names)) as run:
        collector = ClaimGarbageCollector(run.bench.world, Remover(run.bench.world))
        run.wire.losing = lambda request: 500 if request.path.endswith("/claim-2") else 0

        with pytest.raises(ServerError):
            await collector.step()
        await run.bench.settle()

        assert ["claim-2"] == [name for name in names if not is_going(run.bench, name)]
        assert {"garbage_collected": 4} == disrupted(run.bench)


@in_virtual_time
async def test_a_claim_registered_while_the_cloud_answers_is_kept() -> None:
    class Slow(FakeCloud):
        async def list(self) -> Any:
            answer = tuple(self.instances.values())
            await self.clock.sleep(5)
            return answer

    async with bench(claim("first", stage="Registered"), cloud=Slow()) as at_work:
        collector = ClaimGarbageCollector(at_work.world, Remover(at_work.world))
        at_work.clock.call_later(1, lambda: at_work.world.mirror(NodeClaim).put(late))
        late = at_work.claim("first").__class__(
            metadata=at_work.claim("first").metadata.__class__(name="late", uid="late"),
            spec=at_work.claim("first").spec,
            status=at_work.claim("first").status,
        )

        await collector.step()
        await at_work.settle()

        assert {"garbage_collected": 1} == disrupted(at_work)
        assert not is_going(at_work, "late")


def _old(seconds: float = -3600.0) -> dict[str, Any]:
    return instance("fake://stray", created_at=EPOCH + timedelta(seconds=seconds))


@in_virtual_time
async def test_an_instance_without_a_claim_is_terminated_and_its_node_deleted() -> None:
    stray = node("stray", provider_id="fake://stray")
    async with bench(stray, cloud=FakeCloud(instances=_old())) as at_work:
        await InstanceGarbageCollector(at_work.world).step()
        await at_work.settle()

        assert {} == at_work.cloud.instances
        assert not at_work.has(Node, "stray")


@in_virtual_time
async def test_an_instance_that_cannot_be_terminated_does_not_keep_the_others() -> None:
    class Protective(FakeCloud):
        async def delete(self, claim: NodeClaim) -> None:
            if claim.status.provider_id == "fake://protected":
                raise RuntimeError("protected against termination")
            await super().delete(claim)

    long_ago = EPOCH - timedelta(hours=1)
    strays = instance("fake://protected", created_at=long_ago)
    strays |= instance("fake://stray", created_at=long_ago)
    async with bench(cloud=Protective(instances=strays)) as at_work:
        with pytest.raises(RuntimeError, match="protected"):
            await InstanceGarbageCollector(at_work.world).step()

        assert {"fake://protected"} == set(at_work.cloud.instances)


@in_virtual_time
async def test_a_claim_for_another_cloud_keeps_no_instance_of_ours() -> None:
    other = claim(node_class=("example.com", "OtherNodeClass"))
    async with bench(other, cloud=FakeCloud(instances=_old(0))) as at_work:
        await at_work.clock.sleep(40)

        await InstanceGarbageCollector(at_work.world).step()

        assert {} == at_work.cloud.instances


@in_virtual_time
async def test_an_instance_on_its_way_out_is_not_told_again() -> None:
    cloud = FakeCloud(instances=instance(created_at=EPOCH - timedelta(hours=1), deleting=True))
    async with bench(cloud=cloud) as at_work:
        await InstanceGarbageCollector(at_work.world).step()

        assert [] == cloud.calls_of("delete")


@in_virtual_time
async def test_an_instance_of_a_claim_is_kept() -> None:
    cloud = FakeCloud(instances=instance(created_at=EPOCH - timedelta(hours=1)))
    async with bench(claim(stage="Launched"), cloud=cloud) as at_work:
        await InstanceGarbageCollector(at_work.world).step()

        assert {PROVIDER_ID} == set(at_work.cloud.instances)


@in_virtual_time
async def test_a_young_instance_is_left_alone_for_thirty_seconds() -> None:
    async with bench(cloud=FakeCloud(instances=_old(0))) as at_work:
        collector = InstanceGarbageCollector(at_work.world)
        await at_work.clock.sleep(29 - at_work.clock.monotonic())
        await collector.step()
        assert {"fake://stray"} == set(at_work.cloud.instances)

        await at_work.clock.sleep(1)
        await collector.step()

        assert {} == at_work.cloud.instances


@in_virtual_time
async def test_an_instance_of_unknown_age_counts_from_when_it_was_first_seen() -> None:
    async with bench(cloud=FakeCloud(instances=instance("fake://stray"))) as at_work:
        collector = InstanceGarbageCollector(at_work.world)
        await at_work.clock.sleep(100)
        await collector.step()
        assert {"fake://stray"} == set(at_work.cloud.instances)

        await at_work.clock.sleep(30)
        await collector.step()

        assert {} == at_work.cloud.instances


@in_virtual_time
async def test_an_instance_that_a_claim_may_turn_out_to_have_is_kept() -> None:
    async with bench(claim(), cloud=FakeCloud(instances=_old(0))) as at_work:
        collector = InstanceGarbageCollector(at_work.world)
        await at_work.clock.sleep(40)
        await collector.step()
        assert {"fake://stray"} == set(at_work.cloud.instances)

        launched = {"status": {"providerID": "fake://another"}}
        await at_work.change(V1, "NodeClaim", NAME, launched, subresource="status")
        await collector.step()

        assert {} == at_work.cloud.instances


@in_virtual_time
async def test_a_claim_made_long_after_an_instance_cannot_have_it() -> None:
    async with bench(cloud=FakeCloud(instances=_old(-3600))) as at_work:
        await at_work.put(claim())

        await InstanceGarbageCollector(at_work.world).step()

        assert {} == at_work.cloud.instances


@in_virtual_time
async def test_a_claim_the_mirror_does_not_know_yet_protects_its_instance() -> None:
    cloud = FakeCloud(instances=instance(created_at=EPOCH - timedelta(hours=1)))
    async with bench(claim(stage="Launched"), cloud=cloud) as at_work:
        at_work.world.mirror(NodeClaim).replace_all([], "999999999")
        assert not at_work.has(NodeClaim, NAME)

        await InstanceGarbageCollector(at_work.world).step()

        assert {PROVIDER_ID} == set(at_work.cloud.instances)


@in_virtual_time
async def test_an_api_server_that_does_not_answer_costs_no_instance() -> None:
    async with lifecycle(cloud=FakeCloud(instances=_old())) as run:
        kube = run.bench.world.kube

        async def fail(*args: object, **options: object) -> Any:
            raise ServerError(500, "down")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(kube, "list", fail)
            with pytest.raises(ServerError):
                await InstanceGarbageCollector(run.bench.world).step()

        assert {"fake://stray"} == set(run.cloud.instances)


@in_virtual_time
async def test_instances_are_looked_at_often_at_first() -> None:
    async with bench() as at_work:
        collector = InstanceGarbageCollector(at_work.world)

        waits = [await collector.step() for _ in range(22)]

        assert [10.0] * 19 + [120.0] * 3 == waits
