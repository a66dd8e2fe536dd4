"""A pool says whether it is valid, whether its node class can be used, and so whether it is ready."""

from dataclasses import replace
from typing import Any

import pytest

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench, kwok_class, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.manifests import condition
from karpenter.api.karpenter import NodePool
from karpenter.cloud.types import ProviderFacts
from karpenter.controllers.context import Controller
from karpenter.controllers.controllers import node_pool_controllers
from karpenter.controllers.node_pools.readiness import ReadinessController
from karpenter.controllers.node_pools.validation import ValidationController
from karpenter.model import labels
from karpenter.model.conditions import find
from karpenter.settings import FeatureGates, Settings

V1 = "karpenter.sh/v1"


def pool_named(at: Bench, name: str = "default") -> NodePool:
    pool = at.world.mirror(NodePool).get(name)
    assert pool is not None
    return pool


def told(at: Bench, kind: str, name: str = "default") -> tuple[str, str]:
    found = find(pool_named(at, name).status.conditions, kind)
    return (found.status, found.reason) if found is not None else ("", "")


def on_class(name: str) -> JsonObject:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name}
    return kwok_pool("default", template={"nodeClassRef": reference})


def class_with(name: str, *conditions: JsonObject) -> JsonObject:
    return {**kwok_class(name), "status": {"conditions": list(conditions)}}


@pytest.mark.case("DIS-274")
@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([on_class("gone")], ("False", "NodeClassNotFound"), id="missing"),
        pytest.param(
            [class_with("c", condition("Ready", "Unknown")), on_class("c")],
            ("False", "NodeClassReadinessUnknown"),
            id="readiness unknown",
        ),
        pytest.param(
            [class_with("c", condition("Ready", "False", "SubnetsNotFound")), on_class("c")],
            ("False", "SubnetsNotFound"),
            id="not ready, in the words of the class",
        ),
        pytest.param([on_class("default")], ("True", "NodeClassReady"), id="ready"),
    ],
)
@in_virtual_time
async def test_the_node_class_decides(objects: list[JsonObject], expected: tuple[str, str]) -> None:
    async with bench(*objects) as at:
        await at.reconcile(ReadinessController(at.world), "default")

        assert expected == told(at, "NodeClassReady")


@pytest.mark.case("DIS-274")
@in_virtual_time
async def test_a_class_that_is_being_deleted_is_not_used() -> None:
    held = {**kwok_class("c"), "metadata": {"name": "c", "finalizers": ["example.com/hold"]}}
    async with bench(held, on_class("c")) as at:
        await at.client.delete("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", None, "c")
        await at.settle()

        await at.reconcile(ReadinessController(at.world), "default")

        assert ("False", "NodeClassTerminating") == told(at, "NodeClassReady")


@in_virtual_time
async def test_a_pool_of_another_cloud_is_left_alone() -> None:
    reference = {"group": "example.com", "kind": "OtherNodeClass", "name": "default"}
    async with bench(kwok_pool("default", template={"nodeClassRef": reference})) as at:
        before = pool_named(at)
        for controller in node_pool_controllers(at.world):
            assert isinstance(controller, Controller)
            assert await at.reconcile(controller, "default") is None

        assert before == pool_named(at)


@in_virtual_time
async def test_a_class_only_its_provider_can_read_is_left_to_the_provider() -> None:
    reference = {"group": "example.com", "kind": "RackNodeClass", "name": "default"}
    facts = ProviderFacts("rack", (("example.com", "RackNodeClass"),), frozenset())
    pool = kwok_pool("default", template={"nodeClassRef": reference})
    async with bench(pool, cloud=FakeCloud(facts=facts)) as at:
        await at.reconcile(ReadinessController(at.world), "default")

        assert ("True", "NodeClassReady") == told(at, "NodeClassReady")


def capacity_types(*values: str) -> JsonObject:
    return {"key": labels.CAPACITY_TYPE, "operator": "In", "values": list(values)}


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        pytest.param(
            kwok_pool("default", capacity_types("bogus")),
            ("False", "NodePoolValidationFailed"),
            id="DIS-275 only unknown capacity types",
        ),
        pytest.param(
            kwok_pool("default", capacity_types("bogus", "spot")),
            ("True", "ValidationSucceeded"),
            id="DIS-275 some known capacity types",
        ),
        pytest.param(
            kwok_pool("default", template={"taints": [TAINT], "startupTaints": [TAINT]}),
            ("False", "NodePoolValidationFailed"),
            id="the same taint twice",
        ),
        pytest.param(kwok_pool(), ("True", "ValidationSucceeded"), id="nothing to object to"),
    ],
)
@in_virtual_time
async def test_the_pool_itself_decides(pool: JsonObject, expected: tuple[str, str]) -> None:
    async with bench(pool) as at:
        await at.reconcile(ValidationController(at.world), "default")

        assert expected == told(at, "ValidationSucceeded")


@in_virtual_time
async def test_doubts_about_a_pool_that_is_used_are_told_once() -> None:
    async with bench(kwok_pool("default", capacity_types("bogus", "spot"))) as at:
        controller = ValidationController(at.world)
        await at.reconcile(controller, "default")
        await at.reconcile(controller, "default")

        lines = [line for line in at.lines if line["message"] == "nodepool is used in part"]
        assert ["bogus" in line["warning"] for line in lines] == [True]


@in_virtual_time
async def test_ready_is_the_sum_and_waits_for_both() -> None:
    async with bench(kwok_pool()) as at:
        seen = []
        for controller in (ReadinessController(at.world), ValidationController(at.world)):
            await at.reconcile(controller, "default")
            seen.append(told(at, "Ready"))

        assert [("Unknown", "ReconcilingDependents"), ("True", "Ready")] == seen
        kinds = [each.type for each in pool_named(at).status.conditions]
        assert sorted(kinds) == kinds


@in_virtual_time
async def test_a_changed_pool_is_not_ready_before_it_was_judged_again() -> None:
    async with bench(kwok_pool()) as at:
        readiness, validation = ReadinessController(at.world), ValidationController(at.world)
        for controller in (readiness, validation):
            await at.reconcile(controller, "default")
        await at.change(V1, "NodePool", "default", {"spec": {"weight": 5}})

        await at.reconcile(readiness, "default")
        between = told(at, "Ready")
        await at.reconcile(validation, "default")

        assert "Unknown" == between[0]
        assert ("True", "Ready") == told(at, "Ready")


@in_virtual_time
async def test_nothing_is_written_when_nothing_changes() -> None:
    async with bench(kwok_pool()) as at:
        controllers = [ReadinessController(at.world), ValidationController(at.world)]
        for controller in controllers:
            await at.reconcile(controller, "default")
        before = pool_named(at).metadata.resource_version

        for controller in controllers:
            await at.reconcile(controller, "default")

        assert before == pool_named(at).metadata.resource_version


@in_virtual_time
async def test_a_changed_node_class_wakes_its_pools_and_no_others() -> None:
    async with bench(kwok_class("c"), on_class("c"), kwok_pool("other")) as at:
        controller = ReadinessController(at.world)
        drained: list[Any] = []
        while len(controller.queue):
            drained.append(await controller.queue.get())
            controller.queue.done(drained[-1])

        await at.change(
            "karpenter.kwok.sh/v1alpha1",
            "KWOKNodeClass",
            "c",
            {"status": {"conditions": [condition("Ready", "False", "Broken")]}},
            subresource="status",
        )

        assert ("", "default") == await controller.queue.get()
        assert 0 == len(controller.queue)


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        pytest.param(False, ("False", "FeatureGateDisabled"), id="off"),
        pytest.param(True, ("", ""), id="on"),
    ],
)
@in_virtual_time
async def test_a_static_pool_says_that_nobody_heeds_it(
    gate: bool, expected: tuple[str, str]
) -> None:
    pool = kwok_pool()
    pool["spec"]["replicas"] = 2
    settings = replace(Settings(), feature_gates=FeatureGates({"StaticCapacity": gate}))
    async with bench(pool, settings=settings) as at:
        await at.reconcile(ValidationController(at.world), "default")

        assert expected == told(at, "StaticCapacity")
