"""Static pools have as many nodes as they say, within their limit and without anybody's pods."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

import pytest

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench
from helpers.builders import fixture_types
from helpers.clusters import in_virtual_time
from helpers.manifests import condition
from helpers.provisioning import FACTS, ready_pool, waiting_pod
from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import kwok_labels
from karpenter.controllers.controllers import provisioning_controllers
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.static_pools import (
    StaticDeprovisioning,
    StaticProvisioning,
)
from karpenter.model import labels
from karpenter.settings import Settings

V1 = "karpenter.sh/v1"


@dataclass
class Static:
    at: Bench

    def __post_init__(self) -> None:
        self.up = StaticProvisioning(self.at.world)
        self.down = StaticDeprovisioning(self.at.world)

    @property
    def claims(self) -> list[NodeClaim]:
        """The claims that stay."""
        found = self.at.world.mirror(NodeClaim).list()
        return [claim for claim in found if claim.metadata.deletion_timestamp is None]

    async def scale_up(self) -> float | None:
        again: float | None = await self.at.reconcile(self.up, "fixed")
        return again

    async def scale_down(self, replicas: int) -> float | None:
        await self.at.change(V1, "NodePool", "fixed", {"spec": {"replicas": replicas}})
        again: float | None = await self.at.reconcile(self.down, "fixed")
        return again

    async def give_up(self, claim: NodeClaim) -> None:
        """Let a claim go that could not be launched."""
        await self.at.client.delete(V1, "NodeClaim", None, claim.metadata.name)
        await self.at.change(V1, "NodeClaim", claim.metadata.name, {"metadata": {"finalizers": []}})
        await self.at.settle()

    async def start(self, claim: NodeClaim, *pods: JsonObject) -> str:
        """Give a claim a node with pods on it."""
        name = claim.metadata.name
        provider_id = f"fake://{name}"
        status = {"providerID": provider_id, "capacity": {"cpu": "4"}, "nodeName": f"node-{name}"}
        await self.at.change(V1, "NodeClaim", name, {"status": status}, subresource="status")
        held = {**claim.metadata.labels, labels.REGISTERED: "true", labels.INITIALIZED: "true"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{name}", "labels": held},
            "spec": {"providerID": provider_id},
            "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
        }
        await self.at.put(node)
        for pod in pods:
            spec = {**pod["spec"], "nodeName": f"node-{name}"}
            await self.at.put({**pod, "spec": spec, "status": {"phase": "Running"}})
        return name


@asynccontextmanager
async def static(**spec: Any) -> AsyncIterator[Static]:
    cloud = FakeCloud(facts=FACTS, types=fixture_types())
    async with bench(ready_pool("fixed", **spec), cloud=cloud) as at:
        yield Static(at)


@pytest.mark.case("DIS-250")
@in_virtual_time
async def test_a_pool_without_nodes_gets_all_of_them() -> None:
    async with static(replicas=5) as run:
        again = await run.scale_up()

        assert (5, 60.0) == (len(run.claims), again)


@pytest.mark.case("DIS-250")
@in_virtual_time
async def test_what_is_on_its_way_is_counted() -> None:
    async with static(replicas=5) as run:
        await run.scale_up()
        await run.scale_up()

        assert 5 == len(run.claims)


@pytest.mark.case("DIS-251")
@in_virtual_time
async def test_the_limit_holds_and_is_tried_again() -> None:
    async with static(replicas=5, limits={"nodes": "3"}) as run:
        again = await run.scale_up()

        assert (3, 30.0) == (len(run.claims), again)


@pytest.mark.case("DIS-252")
@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"conditions": [condition("Ready", "False")]}, id="not ready"),
        pytest.param({"conditions": []}, id="not judged so far"),
    ],
)
@in_virtual_time
async def test_a_pool_that_cannot_be_used_gets_none(status: JsonObject) -> None:
    async with static(replicas=5) as run:
        await run.at.change(V1, "NodePool", "fixed", {"status": status}, subresource="status")

        await run.scale_up()

        assert [] == run.claims


@pytest.mark.case("DIS-252")
@in_virtual_time
async def test_a_pool_that_is_being_deleted_gets_none() -> None:
    async with static(replicas=5) as run:
        finalizers = {"metadata": {"finalizers": ["example.com/hold"]}}
        await run.at.change(V1, "NodePool", "fixed", finalizers)
        await run.at.client.delete(V1, "NodePool", None, "fixed")
        await run.at.settle()

        await run.scale_up()

        assert [] == run.claims


@pytest.mark.case("DIS-252")
@in_virtual_time
async def test_static_controllers_run_only_behind_their_gate() -> None:
    async with bench(settings=Settings()) as at:
        names = [each.name for each in provisioning_controllers(at.world, PlannedPods())]

        assert ["provisioner.trigger.pod", "provisioner.trigger.node", "provisioner"] == names


@pytest.mark.case("DIS-253")
@in_virtual_time
async def test_a_claim_deleted_by_hand_is_replaced() -> None:
    async with static(replicas=2) as run:
        await run.scale_up()
        await run.at.client.delete(V1, "NodeClaim", None, run.claims[0].metadata.name)
        await run.at.settle()

        await run.scale_up()

        assert 2 == len(run.claims)


@pytest.mark.case("DIS-254")
@in_virtual_time
async def test_nodes_with_nothing_but_daemons_go_first() -> None:
    daemon = waiting_pod("daemon")
    daemon["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "1"}
    ]
    async with static(replicas=3) as run:
        await run.scale_up()
        busy, empty, also_busy = run.claims
        await run.start(busy, waiting_pod("a"))
        await run.start(empty, daemon)
        await run.start(also_busy, waiting_pod("b"))

        again = await run.scale_down(2)

        names = {claim.metadata.name for claim in run.claims}
        assert ({busy.metadata.name, also_busy.metadata.name}, 60.0) == (names, again)


@pytest.mark.case("DIS-255")
@in_virtual_time
async def test_claims_without_a_machine_go_first() -> None:
    async with static(replicas=3) as run:
        await run.scale_up()
        started = await run.start(run.claims[1])

        await run.scale_down(1)

        assert [started] == [claim.metadata.name for claim in run.claims]
        # Whoever sees them off says that they are deleted
        told = [line["message"] for line in run.at.lines]
        assert (2, 0) == (told.count("deleting surplus nodeclaim"), told.count("deleted nodeclaim"))


@pytest.mark.case("DIS-256")
@in_virtual_time
async def test_protected_nodes_go_too_when_nothing_else_is_left() -> None:
    protected = waiting_pod("a")
    protected["metadata"]["annotations"] = {labels.DO_NOT_DISRUPT: "true"}
    async with static(replicas=1) as run:
        await run.scale_up()
        await run.start(run.claims[0], protected)

        await run.scale_down(0)

        assert [] == run.claims


@pytest.mark.case("DIS-257")
@in_virtual_time
async def test_budgets_do_not_hold_back_a_smaller_pool() -> None:
    async with static(replicas=2, disruption={"budgets": [{"nodes": "0"}]}) as run:
        await run.scale_up()

        await run.scale_down(1)

        assert 1 == len(run.claims)


@in_virtual_time
async def test_a_node_that_is_being_replaced_is_not_made_up_for() -> None:
    async with static(replicas=2) as run:
        await run.scale_up()
        first, _ = [await run.start(claim) for claim in run.claims]
        run.at.world.state.mark(first)

        await run.scale_up()

        assert 2 == len(run.claims)


@in_virtual_time
async def test_claims_that_cannot_be_launched_are_made_less_and_less_often() -> None:
    async with static(replicas=1) as run:
        waits = []
        for _ in range(4):
            await run.scale_up()
            await run.give_up(run.claims[0])
            waits.append(await run.scale_up() or 0.0)
            if not run.claims:
                await run.at.clock.sleep(waits[-1])

        assert [60, 1, 2, 4] == [*map(ceil, waits)]  # a part of it has passed already

        await run.scale_up()
        await run.start(run.claims[0])
        assert 1 == len(run.claims)
        assert {} == run.at.world.state.snapshot().launches_held


@in_virtual_time
async def test_claims_that_fail_together_are_one_failure() -> None:
    async with static(replicas=5) as run:
        await run.scale_up()
        for claim in run.claims:
            await run.give_up(claim)

        again = await run.scale_up()

        assert (1, []) == (ceil(again or 0.0), run.claims)


@in_virtual_time
async def test_what_is_too_many_has_not_failed() -> None:
    async with static(replicas=5) as run:
        await run.scale_up()
        await run.scale_down(1)
        await run.at.settle()

        await run.at.change(V1, "NodePool", "fixed", {"spec": {"replicas": 3}})
        await run.scale_up()

        assert 3 == len(run.claims)


@in_virtual_time
async def test_one_that_was_asked_to_go_is_not_counted_although_nobody_tells_of_it() -> None:
    async with static(replicas=2) as run:
        await run.scale_up()
        first, second = run.claims
        run.at.world.state.dismiss(first)

        await run.scale_down(1)

        assert [first, second] == run.claims


@in_virtual_time
async def test_the_limit_holds_for_one_that_is_being_created_elsewhere() -> None:
    async with static(replicas=5, limits={"nodes": "3"}) as run:
        run.at.world.state.expect("fixed-other", "fixed")

        assert (30.0, 2) == (await run.scale_up(), len(run.claims))


@in_virtual_time
async def test_a_static_claim_lists_neither_instance_types_nor_capacity_types() -> None:
    async with static(replicas=1, template={"terminationGracePeriod": "30s"}) as run:
        await run.scale_up()

        (claim,) = run.claims
        keys = {entry.key for entry in claim.spec.requirements}
        assert {labels.NODEPOOL, kwok_labels.NODE_CLASS} == keys
        assert "30s" == claim.spec.termination_grace_period
        assert {labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION} == (
            claim.metadata.annotations.keys()
        )
