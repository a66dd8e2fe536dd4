"""NodeOverlays say whether they can be used, and what cannot be used changes nothing."""

from typing import Any

import pytest

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench, gates
from helpers.builders import fixture_types, instance_type
from helpers.clusters import in_virtual_time
from helpers.provisioning import FACTS, provisioning, ready_pool, waiting_pod
from karpenter.api.karpenter import NodeOverlay
from karpenter.controllers.provisioning.overlays import OverlayController
from karpenter.model import labels
from karpenter.model.conditions import find
from karpenter.settings import Settings

SETTINGS = Settings(feature_gates=gates(NodeOverlay=True))


def overlay(name: str, *requirements: JsonObject, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": list(requirements), **spec},
    }


def of_type(name: str) -> JsonObject:
    return {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [name]}


def verdicts(at: Bench, name: str) -> dict[str, tuple[str, str]]:
    found = at.world.mirror(NodeOverlay).get(name)
    assert found is not None
    kinds = ("ValidationSucceeded", "Ready")
    conditions = {kind: find(found.status.conditions, kind) for kind in kinds}
    return {kind: (c.status, c.reason) for kind, c in conditions.items() if c is not None}


@pytest.mark.case("SCH-234")
@in_virtual_time
async def test_of_two_that_contradict_each_other_the_later_one_is_refused() -> None:
    cloud = FakeCloud(facts=FACTS, types=fixture_types())
    objects = [overlay(name, of_type("std"), price="0.1", weight=10) for name in ("a", "b")]
    async with bench(ready_pool(), *objects, cloud=cloud, settings=SETTINGS) as at:
        again = await at.reconcile(OverlayController(at.world), "")

        assert 6 * 3600 == again
        assert {
            "ValidationSucceeded": ("True", "ValidationSucceeded"),
            "Ready": ("True", "Ready"),
        } == verdicts(at, "b")
        assert {
            "ValidationSucceeded": ("False", "Conflict"),
            "Ready": ("False", "UnhealthyDependents"),
        } == verdicts(at, "a")


@in_virtual_time
async def test_an_overlay_that_makes_no_sense_is_refused_and_applies_nowhere() -> None:
    too_long = {"key": "tier", "operator": "In", "values": ["x" * 64]}
    dear = overlay("dear", of_type("small"), too_long, price="100")
    async with provisioning(ready_pool(), waiting_pod(), dear, settings=SETTINGS) as run:
        await run.at.reconcile(OverlayController(run.world), "")

        (claim,) = await run.provision()

        assert ("False", "RuntimeValidation") == verdicts(run.at, "dear")["ValidationSucceeded"]
        assert labels.PRICE_OVERLAY_APPLIED not in claim.metadata.annotations


@in_virtual_time
async def test_an_overlay_that_can_be_used_is_used() -> None:
    types = (instance_type("one", cpu="4"), instance_type("two", cpu="4"))
    cheap = overlay("cheap", of_type("two"), price="0.001")
    async with provisioning(
        ready_pool(), waiting_pod(), cheap, types=types, settings=SETTINGS
    ) as run:
        (claim,) = await run.provision()

        assert "true" == claim.metadata.annotations[labels.PRICE_OVERLAY_APPLIED]


@in_virtual_time
async def test_without_overlays_nothing_is_asked_of_the_cloud() -> None:
    cloud = FakeCloud(facts=FACTS)
    async with bench(ready_pool(), cloud=cloud, settings=SETTINGS) as at:
        again = await at.reconcile(OverlayController(at.world), "")

        assert (None, []) == (again, cloud.calls)


@pytest.mark.parametrize(
    ("patch", "subresource", "is_woken"),
    [
        pytest.param({"spec": {"weight": 7}}, "", True, id="with another spec"),
        pytest.param({"status": {"nodes": 7}}, "status", False, id="with another status"),
    ],
)
@in_virtual_time
async def test_overlays_are_judged_again_for_a_pool(
    patch: JsonObject, subresource: str, is_woken: bool
) -> None:
    async with bench(ready_pool(), settings=SETTINGS) as at:
        controller = OverlayController(at.world)
        controller.queue.done(await controller.queue.get())

        await at.change("karpenter.sh/v1", "NodePool", "np", patch, subresource=subresource)

        assert is_woken == bool(len(controller.queue))


@in_virtual_time
async def test_overlays_are_judged_again_when_one_is_gone() -> None:
    async with bench(overlay("a", of_type("std"), price="1"), settings=SETTINGS) as at:
        controller = OverlayController(at.world)
        controller.queue.done(await controller.queue.get())

        await at.client.delete("karpenter.sh/v1alpha1", "NodeOverlay", None, "a")
        await at.settle()

        assert 1 == len(controller.queue)


@in_virtual_time
async def test_pools_that_go_or_belong_to_others_are_not_asked_about() -> None:
    going = ready_pool("going")
    going["metadata"]["finalizers"] = ["example.com/hold"]
    foreign = ready_pool("foreign")
    reference = {"group": "example.com", "kind": "Other", "name": "x"}
    foreign["spec"]["template"]["spec"]["nodeClassRef"] = reference
    cloud = FakeCloud(facts=FACTS, types=fixture_types())
    objects = (ready_pool(), going, foreign, overlay("a", of_type("std"), price="1"))
    async with bench(*objects, cloud=cloud, settings=SETTINGS) as at:
        await at.client.delete("karpenter.sh/v1", "NodePool", None, "going")
        await at.settle()

        await at.reconcile(OverlayController(at.world), "")

        assert ["np"] == cloud.calls_of("instance_types")
