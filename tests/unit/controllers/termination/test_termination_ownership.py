"""Whose a deleted node is decides who sees it off; what is ours is closed before anything else."""

from dataclasses import replace

import pytest

from helpers.autoscaler import JsonObject
from helpers.clusters import in_virtual_time
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.termination.nodes import NodeTermination
from unit.controllers.termination.termination_bench import leaving, refusal
from unit.controllers.termination.termination_objects import (
    DISRUPTED,
    budget,
    claim,
    node,
    pod,
    provider_id,
    taints_of,
)

TAINT = {"key": DISRUPTED, "effect": "NoSchedule"}


@pytest.mark.case("DIS-60")
@in_virtual_time
async def test_a_node_of_no_claim_is_emptied_and_let_go() -> None:
    async with leaving(node(), pod()) as run:
        await run.delete("Node")
        await run.pass_time(0.5)
        assert ["a"] == run.evictions
        assert run.has_node()

        await run.reap()
        waited = await run.until(lambda: not run.has_node())

        assert [] == run.cloud.calls
        assert waited < 1  # there is nobody to write down since when it is empty
        assert 1 == run.counted("nodes_terminated_total", nodepool="np", zone="z1")
        assert 1 == run.counted("nodes_termination_duration_seconds_count", nodepool="np")
        assert 1 == run.counted("nodes_lifetime_duration_seconds_count", nodepool="np")
        assert 1 == run.counted("pods_drained_total", reason="")


@pytest.mark.case("DIS-61")
@in_virtual_time
async def test_a_node_of_two_claims_is_a_node_of_none() -> None:
    second = claim("n2", machine=provider_id("n"))
    async with leaving(claim(), second, node()) as run:
        await run.delete("Node")
        await run.until(lambda: not run.has_node())

        assert run.bench.claim("n").metadata.deletion_timestamp is None
        assert run.bench.claim("n2").metadata.deletion_timestamp is None
        assert [] == run.cloud.calls_of("delete")


@pytest.mark.case("DIS-61")
@in_virtual_time
async def test_a_claim_of_another_cloud_is_no_second_claim() -> None:
    foreign = claim("foreign", machine=provider_id("n"))
    foreign["spec"]["nodeClassRef"] |= {"group": "example.com", "kind": "OtherClass"}
    async with leaving(claim(), foreign, node()) as run:
        await run.delete("Node")
        await run.until(lambda: not run.has_node() and not run.has_claim())

        assert {} == run.cloud.instances
        assert run.bench.claim("foreign").metadata.deletion_timestamp is None


@pytest.mark.case("DIS-61")
@in_virtual_time
async def test_a_node_of_no_machine_is_not_that_of_a_claim_without_one() -> None:
    async with leaving(claim("unlaunched", machine=""), node(machine="")) as run:
        await run.delete("Node")
        await run.until(lambda: not run.has_node())

        assert run.bench.claim("unlaunched").metadata.deletion_timestamp is None


@pytest.mark.case("DIS-62")
@in_virtual_time
async def test_a_node_has_one_class_of_all_that_a_cloud_knows() -> None:
    async with leaving(claim(), node()) as run:
        known = run.cloud.facts.node_classes
        run.cloud.facts = replace(
            run.cloud.facts, node_classes=(*known, ("example.com", "OtherClass"))
        )
        await run.delete("Node")
        await run.until(lambda: not run.has_node())


@pytest.mark.case("DIS-62")
@in_virtual_time
async def test_a_node_that_waits_for_others_only_is_left_to_them() -> None:
    theirs = node(finalizers=["example.com/audit"])
    async with leaving(claim(), theirs, pod(), pod("b", on="lost")) as run:
        await run.delete("Node")
        await run.pass_time(60)

        assert [] == run.transport.writes


@pytest.mark.case("DIS-62")
@in_virtual_time
async def test_a_node_that_was_not_deleted_is_left_as_it_is() -> None:
    async with leaving(claim(), node(), pod()) as run:
        termination = NodeTermination(run.world, EvictionQueue(run.world))

        assert await termination.reconcile(("", "n")) is None
        assert await termination.reconcile(("", "never-was")) is None

        assert [] == run.transport.writes


@pytest.mark.case("DIS-62")
@in_virtual_time
async def test_a_node_of_somebody_else_is_ignored() -> None:
    async with leaving(node(labels={"karpenter.sh/nodepool": "np"}), pod()) as run:
        await run.delete("Node")
        await run.pass_time(60)

        assert [] == run.evictions
        assert [] == taints_of(await run.bench.client.get("v1", "Node", None, "n"))
        assert run.has_node()


@pytest.mark.case("DIS-63")
@in_virtual_time
async def test_a_node_whose_machine_is_gone_is_let_go_at_once() -> None:
    async with leaving(claim(), node(ready=False), pod(), budget()) as run:
        run.cloud.instances.clear()
        await run.delete("Node")
        await run.pass_time(1)

        assert not run.has_node()
        assert [] == run.evictions


@pytest.mark.case("DIS-63")
@in_virtual_time
async def test_a_node_whose_end_somebody_else_has_seen_to_is_not_counted() -> None:
    gone = {"/nodes/n": [refusal(404, reason="NotFound")]}
    async with leaving(node(ready=False), answers=gone) as run:
        await run.delete("Node")
        await run.pass_time(1)

        assert 0 == run.counted("nodes_terminated_total", nodepool="np", zone="z1")
        assert [] == run.errors


@pytest.mark.case("DIS-63")
@in_virtual_time
async def test_a_node_that_only_seems_lost_is_emptied() -> None:
    async with leaving(claim(), node(ready=False), pod()) as run:
        await run.delete("Node")
        await run.pass_time(1)

        assert ["a"] == run.evictions
        assert [provider_id("n")] == list(dict.fromkeys(run.cloud.calls_of("get")))


@pytest.mark.case("DIS-63")
@in_virtual_time
async def test_a_node_that_names_no_machine_has_lost_none() -> None:
    async with leaving(node(machine="", ready=False), pod()) as run:
        await run.delete("Node")
        await run.pass_time(1)

        assert ["a"] == run.evictions
        assert run.has_node()
        assert [] == run.cloud.calls


@pytest.mark.case("DIS-64")
@in_virtual_time
async def test_a_ready_node_is_emptied_whatever_the_cloud_says() -> None:
    async with leaving(claim(), node(), pod()) as run:
        run.cloud.instances.clear()
        await run.delete("Node")
        await run.pass_time(1)

        assert ["a"] == run.evictions
        assert [] == run.cloud.calls_of("get")


@pytest.mark.case("DIS-65")
@pytest.mark.parametrize(
    ("taints", "after"),
    [
        pytest.param([], [TAINT], id="an ordinary node"),
        pytest.param([TAINT], [TAINT], id="a node that is tainted already"),
        pytest.param(
            [{"key": DISRUPTED, "effect": "NoExecute"}],
            [TAINT],
            id="another effect is replaced",
        ),
        pytest.param(
            [{"key": DISRUPTED, "effect": "NoExecute"}, TAINT],
            [TAINT],
            id="another effect beside ours goes",
        ),
        pytest.param(
            [{"key": "a", "value": "b", "effect": "NoExecute"}],
            [{"key": "a", "value": "b", "effect": "NoExecute"}, TAINT],
            id="other taints stay",
        ),
    ],
)
@pytest.mark.parametrize(
    ("excluded", "cordoned"),
    [
        pytest.param(False, False, id="in use"),
        pytest.param(False, True, id="cordoned by a user"),
        pytest.param(True, False, id="out of the load balancers"),
        pytest.param(True, True, id="closed before"),
    ],
)
def test_a_node_is_closed_first(
    taints: list[JsonObject], after: list[JsonObject], excluded: bool, cordoned: bool
) -> None:
    @in_virtual_time
    async def run_it() -> None:
        label = "node.kubernetes.io/exclude-from-external-load-balancers"
        given = node(taints=taints)
        given["spec"]["unschedulable"] = cordoned
        if excluded:
            given["metadata"]["labels"] = {**given["metadata"]["labels"], label: "karpenter"}
        async with leaving(claim(), given, pod(held="true")) as run:
            await run.delete("Node")
            await run.pass_time(1)

            stored = await run.bench.client.get("v1", "Node", None, "n")
            assert after == taints_of(stored)
            assert "karpenter" == stored["metadata"]["labels"][label]
            assert stored["spec"]["unschedulable"]
            told = [line for line in run.bench.lines if line["message"] == "tainted node"]
            assert (0 if TAINT in taints else 1) == len(told)
            writes = [path for _, path, _ in run.transport.writes if path.endswith("/nodes/n")]
            assert (0 if excluded and cordoned and taints == after else 1) == len(writes)

    run_it()
