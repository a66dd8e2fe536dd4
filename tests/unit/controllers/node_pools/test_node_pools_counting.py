"""A pool's hash and counters are in step with it and with its nodes."""

from typing import Any

import pytest

from helpers.autoscaler import Bench, JsonObject, bench, kwok_pool
from helpers.builders import launching_node, managed_node, node_pool
from helpers.cluster_texts import class_ref
from helpers.clusters import in_virtual_time
from helpers.manifests import condition
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.controllers.node_pools.hashing import HashController
from karpenter.controllers.node_pools.usage import CounterController, exceeded_limit, usage_of
from karpenter.model import labels
from karpenter.model.conditions import find
from karpenter.model.resources import Resources
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash

V1 = "karpenter.sh/v1"


def claim(name: str, *conditions: JsonObject, provider_id: str = "", **annotations: str) -> Any:
    return {
        "apiVersion": V1,
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": {labels.NODEPOOL: "default"},
            "annotations": {key.replace("_", "-"): value for key, value in annotations.items()},
        },
        "spec": {
            "nodeClassRef": class_ref(),
            "requirements": [],
        },
        "status": {
            "providerID": provider_id or f"fake://{name}",
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "1"},
            "conditions": list(conditions),
        },
    }


def pool_of(at: Bench) -> NodePool:
    pool = at.world.mirror(NodePool).get("default")
    assert pool is not None
    return pool


def stamps(obj: NodeClaim | NodePool) -> tuple[str, str]:
    held = obj.metadata.annotations
    return held.get(labels.NODEPOOL_HASH, ""), held.get(labels.NODEPOOL_HASH_VERSION, "")


@pytest.mark.case("DIS-276")
@in_virtual_time
async def test_a_pool_without_nodes_shows_the_usual_resources_as_zero() -> None:
    async with bench(kwok_pool()) as at:
        again = await at.reconcile(CounterController(at.world), "default")

        zero = dict.fromkeys(("cpu", "memory", "pods", "ephemeral-storage", "nodes"), "0")
        assert (zero, 0, 5.0) == (
            dict(pool_of(at).status.resources),
            pool_of(at).status.nodes,
            again,
        )


@in_virtual_time
async def test_a_pool_that_is_counted_before_it_is_judged_says_that_nothing_is_known() -> None:
    async with bench(kwok_pool()) as at:
        await at.reconcile(CounterController(at.world), "default")

        ready = find(pool_of(at).status.conditions, "Ready")
        assert ready is not None
        assert ("Unknown", "ReconcilingDependents") == (ready.status, ready.reason)


@pytest.mark.row("S0-21")
@in_virtual_time
async def test_what_a_pool_has_is_added_up() -> None:
    async with bench(kwok_pool(), claim("a"), claim("b")) as at:
        await at.reconcile(CounterController(at.world), "default")

        status = pool_of(at).status
        assert 2 == status.nodes
        assert ("8", "16Gi", "20", "2", "2") == tuple(
            status.resources[name] for name in ("cpu", "memory", "pods", "nodes", "example.com/gpu")
        )


@pytest.mark.case("DIS-277")
@in_virtual_time
async def test_what_is_on_its_way_out_is_not_counted() -> None:
    async with bench(kwok_pool(), claim("a"), claim("b")) as at:
        controller = CounterController(at.world)
        await at.reconcile(controller, "default")
        at.world.state.mark("a")

        await at.reconcile(controller, "default")

        assert (1, "4") == (pool_of(at).status.nodes, pool_of(at).status.resources["cpu"])


@in_virtual_time
async def test_a_resource_that_is_gone_is_no_longer_shown() -> None:
    async with bench(kwok_pool(), claim("a")) as at:
        controller = CounterController(at.world)
        await at.reconcile(controller, "default")
        at.world.state.mark("a")

        await at.reconcile(controller, "default")

        assert "example.com/gpu" not in pool_of(at).status.resources


@pytest.mark.case("DIS-282")
@in_virtual_time
async def test_nothing_is_counted_while_a_claim_has_no_machine() -> None:
    unlaunched = {**claim("a"), "status": {}}
    async with bench(kwok_pool(), unlaunched) as at:
        again = await at.reconcile(CounterController(at.world), "default")

        assert (1.0, {}) == (again, pool_of(at).status.resources)


@in_virtual_time
async def test_nothing_is_written_while_the_count_stays() -> None:
    async with bench(kwok_pool(), claim("a")) as at:
        controller = CounterController(at.world)
        await at.reconcile(controller, "default")
        before = pool_of(at).metadata.resource_version

        await at.reconcile(controller, "default")

        assert before == pool_of(at).metadata.resource_version


@in_virtual_time
async def test_a_pool_is_stamped_with_the_hash_of_its_template() -> None:
    async with bench(kwok_pool()) as at:
        controller = HashController(at.world)
        await at.reconcile(controller, "default")
        before = stamps(pool_of(at))
        changed = {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}
        await at.change(V1, "NodePool", "default", changed)

        await at.reconcile(controller, "default")

        after = stamps(pool_of(at))
        assert (node_pool_hash(pool_of(at)), NODEPOOL_HASH_VERSION) == after
        assert before[0] != after[0]


@in_virtual_time
async def test_a_changed_pool_leaves_the_hash_of_its_claims() -> None:
    stamped = {labels.NODEPOOL_HASH_VERSION: NODEPOOL_HASH_VERSION, labels.NODEPOOL_HASH: "1"}
    mine = claim("a")
    mine["metadata"]["annotations"] = stamped
    async with bench(kwok_pool(), mine) as at:
        await at.reconcile(HashController(at.world), "default")

        assert ("1", NODEPOOL_HASH_VERSION) == stamps(at.claim("a"))


@in_virtual_time
async def test_a_pool_that_is_stamped_is_not_written_again_nor_are_its_claims() -> None:
    mine = claim("a")
    mine["metadata"]["annotations"] = {
        labels.NODEPOOL_HASH_VERSION: "v0",
        labels.NODEPOOL_HASH: "1",
    }
    async with bench(kwok_pool()) as at:
        controller = HashController(at.world)
        await at.reconcile(controller, "default")
        await at.put(mine)
        before = (pool_of(at), at.claim("a"))

        await at.reconcile(controller, "default")

        assert before == (pool_of(at), at.claim("a"))


@pytest.mark.case("DIS-249")
@pytest.mark.parametrize("version", ["v0", "v3-py1"])  # the latter was our own
@in_virtual_time
async def test_a_new_hash_version_restamps_claims_that_have_not_drifted(version: str) -> None:
    old = {labels.NODEPOOL_HASH_VERSION: version, labels.NODEPOOL_HASH: "1"}
    sound, drifted = claim("sound"), claim("drifted", condition("Drifted"))
    for each in (sound, drifted):
        each["metadata"]["annotations"] = dict(old)
    pool = kwok_pool()
    pool["metadata"]["annotations"] = dict(old)
    async with bench(pool, sound, drifted) as at:
        await at.reconcile(HashController(at.world), "default")

        digest = node_pool_hash(pool_of(at))
        assert (digest, NODEPOOL_HASH_VERSION) == stamps(at.claim("sound"))
        assert ("1", NODEPOOL_HASH_VERSION) == stamps(at.claim("drifted"))
        assert (digest, NODEPOOL_HASH_VERSION) == stamps(pool_of(at))


@pytest.mark.parametrize(
    ("limits", "used", "problem"),
    [
        pytest.param({"cpu": "4"}, {"cpu": 4000}, None, id="a limit that is just reached"),
        pytest.param(
            {"cpu": "4"},
            {"cpu": 4001},
            "cpu of 4001m is over the limit of 4",
            id="a limit that is passed",
        ),
        pytest.param(
            {"nodes": "2"}, {"nodes": 3}, "nodes of 3 is over the limit of 2", id="too many nodes"
        ),
        pytest.param({}, {"cpu": 10**9}, None, id="no limit at all"),
    ],
)
def test_limits(limits: dict[str, str], used: dict[str, int], problem: str | None) -> None:
    pool = node_pool("np", limits=limits)

    assert problem == exceeded_limit(pool, Resources.of(used))


def test_a_machine_that_starts_counts_with_what_its_claim_promises() -> None:
    machines = [managed_node("a", cpu="4"), launching_node("b", cpu="2")]

    used = usage_of(machines)

    assert (6000, 2) == (used.cpu, used["nodes"])
