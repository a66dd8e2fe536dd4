"""Initialization: a node counts as complete when it has everything it was promised, and no sooner."""

from typing import Any

import msgspec
import pytest

from helpers.claims import NAME, V1, claim, lifecycle, node
from helpers.clusters import in_virtual_time
from helpers.manifests import condition, taint
from karpenter.api.devices import ResourceSlice
from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.controllers.lifecycle.initialization import requested_drivers, unpublished_drivers
from karpenter.model import labels
from karpenter.settings import Settings

JsonObject = dict[str, Any]
DEVICES_ON = Settings(ignore_dra_requests=False)
GPU = "example.com/gpu"
STARTUP = taint("example.com/s")


def slices(*numbers: tuple[int, int], driver: str = "gpu.example.com") -> list[JsonObject]:
    """Slices of a pool of node-1: generation, and how many the pool is said to have."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"slice-{driver}-{index}"},
            "spec": {
                "driver": driver,
                "nodeName": "node-1",
                "pool": {"name": "pool", "generation": generation, "resourceSliceCount": total},
                "devices": [],
            },
        }
        for index, (generation, total) in enumerate(numbers)
    ]


@pytest.mark.parametrize(
    ("joined", "spec", "reason"),
    [
        pytest.param(node(ready="False"), {}, "NodeNotReady", id="DIS-25 the node is not ready"),
        pytest.param(node(ready="Unknown"), {}, "NodeNotReady", id="DIS-25 nobody knows"),
        pytest.param(
            node(taints=[STARTUP]),
            {"startupTaints": [STARTUP]},
            "StartupTaintsExist",
            id="DIS-26 a startup taint is left",
        ),
        pytest.param(
            node(taints=[taint("example.com/s", value="other")]),
            {"startupTaints": [STARTUP]},
            "StartupTaintsExist",
            id="DIS-27 whatever its value",
        ),
        pytest.param(
            node(taints=[taint(labels.NODE_NOT_READY, "NoExecute")]),
            {},
            "KnownEphemeralTaintsExist",
            id="DIS-28 a taint of the node controller is left",
        ),
        pytest.param(
            node(taints=[taint("readiness.k8s.io/foo")]),
            {},
            "KnownEphemeralTaintsExist",
            id="DIS-29 a readiness taint is left",
        ),
        pytest.param(
            node(amounts={GPU: "0"}),
            {"requests": {GPU: "1"}},
            "ResourceNotRegistered",
            id="DIS-30 a resource is not there yet",
        ),
        pytest.param(
            node(),
            {"requests": {GPU: "1"}},
            "ResourceNotRegistered",
            id="DIS-30 a resource is not even named",
        ),
        pytest.param(
            node(), {"requests": {GPU: "0"}}, "", id="DIS-31 nothing asked for, nothing missing"
        ),
        pytest.param(
            node(amounts={GPU: "2"}),
            {"requests": {GPU: "1", "cpu": "1"}, "startupTaints": [STARTUP]},
            "",
            id="DIS-32 all is there",
        ),
        pytest.param(
            node(taints=[taint("example.com/s", "NoExecute")]),
            {"startupTaints": [STARTUP]},
            "",
            id="DIS-32 a taint with another effect is another taint",
        ),
    ],
)
def test_what_keeps_a_node_from_being_initialized(
    joined: JsonObject, spec: JsonObject, reason: str
) -> None:
    @in_virtual_time
    async def check() -> None:
        async with lifecycle(claim(stage="Registered", **spec), joined) as run:
            await run.reconcile()

            expected = ("Unknown", reason) if reason else ("True", "Initialized")
            assert expected == run.condition("Initialized")
            has_label = labels.INITIALIZED in run.bench.node("node-1").metadata.labels
            assert has_label == (not reason)

    check()


@pytest.mark.case("DIS-29")
@in_virtual_time
async def test_a_node_is_initialized_once_the_taint_is_gone() -> None:
    joined = node(taints=[taint("readiness.k8s.io/foo")])
    async with lifecycle(claim(stage="Registered"), joined) as run:
        await run.reconcile()
        await run.taint("node-1", [])

        await run.reconcile()

        assert ("True", "Initialized") == run.condition("Initialized")


@pytest.mark.case("DIS-32")
@in_virtual_time
async def test_an_initialized_claim_is_ready() -> None:
    async with lifecycle(claim(stage="Registered"), node()) as run:
        again = await run.reconcile()

        assert again is None
        assert ("True", "Ready") == run.condition("Ready")
        assert "true" == run.bench.node("node-1").metadata.labels[labels.INITIALIZED]
        told = [line["message"] for line in run.bench.lines]
        assert 1 == told.count("initialized nodeclaim")


@pytest.mark.case("DIS-33")
@in_virtual_time
async def test_what_was_initialized_stays_so() -> None:
    given = claim(stage="Initialized", startupTaints=[STARTUP])
    async with lifecycle(given, node(ready="False", taints=[STARTUP])) as run:
        await run.reconcile()

        assert ("True", "Initialized") == run.condition("Initialized")


@pytest.mark.case("DIS-34")
@in_virtual_time
async def test_without_registration_nothing_is_initialized() -> None:
    refused = condition("Registered", "False", "MultipleNodesFound")
    async with lifecycle(claim(stage="Launched", conditions=[refused]), node()) as run:
        await run.reconcile()

        assert ("Unknown", "AwaitingReconciliation") == run.condition("Initialized")
        assert labels.INITIALIZED not in run.bench.node("node-1").metadata.labels


@in_virtual_time
async def test_a_registered_claim_whose_node_is_missing_is_not_initialized() -> None:
    async with lifecycle(claim(stage="Registered")) as run:
        await run.reconcile()

        assert ("Unknown", "NodeNotFound") == run.condition("Initialized")


@pytest.mark.parametrize(
    ("published", "is_done"),
    [
        pytest.param(slices((1, 2)), False, id="DIS-35 one of two slices"),
        pytest.param(slices((1, 2), (1, 2)), True, id="DIS-35 both slices"),
        pytest.param(
            slices((1, 1), (2, 2)), False, id="DIS-36 only the old generation is complete"
        ),
        pytest.param(slices((1, 2), (2, 1)), True, id="DIS-36 the new generation is complete"),
        pytest.param([], False, id="DIS-35 no slices"),
        pytest.param(slices((1, 1), driver="other.example.com"), False, id="DIS-35 another driver"),
    ],
)
def test_devices_must_be_published(published: list[JsonObject], is_done: bool) -> None:
    @in_virtual_time
    async def check() -> None:
        given = claim(
            stage="Registered",
            metadata={"annotations": {labels.REQUESTED_DRA_DRIVERS: "gpu.example.com"}},
        )
        async with lifecycle(given, node(), *published, settings=DEVICES_ON) as run:
            await run.reconcile()

            expected = (
                ("True", "Initialized") if is_done else ("Unknown", "DRADriverPoolsNotPublished")
            )
            assert expected == run.condition("Initialized")

    check()


OURS = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "uid-1"}
THEIRS = OURS | {"name": "node-2", "uid": "uid-2"}
CLAIM_OF_OURS = OURS | {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"}


@pytest.mark.case("DIS-35")
@pytest.mark.parametrize(
    ("node_name", "owners", "is_local"),
    [
        pytest.param("node-1", [], True, id="a slice that names the node"),
        pytest.param("node-2", [], False, id="a slice that names another node"),
        pytest.param("node-2", [OURS], False, id="whoever owns it"),
        pytest.param("", [OURS], True, id="a slice that the node owns"),
        pytest.param("", [THEIRS, OURS], True, id="a slice that two nodes own"),
        pytest.param("", [THEIRS], False, id="a slice that another node owns"),
        pytest.param("", [CLAIM_OF_OURS], False, id="an owner that is no node"),
        pytest.param("", [], False, id="a slice of no node"),
    ],
)
def test_whose_devices_a_slice_tells_of(
    node_name: str, owners: list[JsonObject], is_local: bool
) -> None:
    (given,) = slices((1, 1))
    given["spec"]["nodeName"] = node_name
    given["metadata"]["ownerReferences"] = owners
    published = msgspec.convert(given, ResourceSlice)
    ours = msgspec.convert(node(metadata={"uid": "uid-1"}), Node)

    missing = unpublished_drivers(["gpu.example.com"], ours, [published])

    assert ([] if is_local else ["gpu.example.com"]) == missing


@pytest.mark.case("DIS-36")
def test_slices_that_disagree_about_their_number_are_not_complete() -> None:
    published = [msgspec.convert(each, ResourceSlice) for each in slices((1, 2), (1, 3))]

    missing = unpublished_drivers(["gpu.example.com"], msgspec.convert(node(), Node), published)

    assert ["gpu.example.com"] == missing


@pytest.mark.parametrize(
    ("text", "drivers"),
    [
        pytest.param("", [], id="nobody asks for devices"),
        pytest.param("b.io,a.io", ["a.io", "b.io"], id="two drivers, in order"),
        pytest.param(" a.io , ,a.io", ["a.io"], id="spaces, nothing and the same again"),
    ],
)
def test_which_drivers_are_waited_for(text: str, drivers: list[str]) -> None:
    annotations = {labels.REQUESTED_DRA_DRIVERS: text}
    given = msgspec.convert(claim(metadata={"annotations": annotations}), NodeClaim)

    assert drivers == requested_drivers(given)


@in_virtual_time
async def test_devices_are_not_waited_for_when_they_are_ignored() -> None:
    given = claim(
        stage="Registered",
        metadata={"annotations": {labels.REQUESTED_DRA_DRIVERS: "gpu.example.com"}},
    )
    async with lifecycle(given, node()) as run:
        await run.reconcile()

        assert ("True", "Initialized") == run.condition("Initialized")


@in_virtual_time
async def test_a_slice_wakes_the_claim_of_its_node() -> None:
    async with lifecycle(
        claim(stage="Registered"), node(), *slices((1, 1)), settings=DEVICES_ON
    ) as run:
        controller = run.made()

        assert {("", NAME)} == {await controller.queue.get()}
        controller.queue.done(("", NAME))
        await run.bench.change(
            "resource.k8s.io/v1",
            "ResourceSlice",
            "slice-gpu.example.com-0",
            {"metadata": {"labels": {"changed": "1"}}},
        )

        assert 1 == len(controller.queue)


@pytest.mark.parametrize(
    ("node_name", "owners", "woken"),
    [
        pytest.param("", [OURS], 1, id="a slice that the node owns"),
        pytest.param("", [OURS | {"kind": "Pod"}], 0, id="a slice of a pod of that name"),
        pytest.param("", [], 0, id="a slice of no node"),
        pytest.param("lost", [], 0, id="a slice of a node that is not there"),
    ],
)
def test_whom_a_slice_wakes(node_name: str, owners: list[JsonObject], woken: int) -> None:
    @in_virtual_time
    async def check() -> None:
        (given,) = slices((1, 1))
        given["spec"]["nodeName"] = node_name
        given["metadata"]["ownerReferences"] = owners
        async with lifecycle(claim(stage="Registered"), node(), settings=DEVICES_ON) as run:
            controller = run.made()
            await controller.queue.get()
            controller.queue.done(("", NAME))
            await run.bench.put(given)

            assert woken == len(controller.queue)

    check()


@pytest.mark.case("V15-D33")
@in_virtual_time
async def test_after_a_reboot_a_node_is_initialized_anew() -> None:
    given = claim(
        stage="Initialized",
        conditions=[
            condition("Rebooting", "True", "RebootIssued"),
            condition("Initialized", "Unknown", "Rebooting"),
        ],
    )
    async with lifecycle(given, node()) as run:
        await run.reconcile()
        assert ("Unknown", "Rebooting") == run.condition("Initialized")
        assert labels.INITIALIZED not in run.bench.node("node-1").metadata.labels

        over = [
            each if each["type"] != "Rebooting" else condition("Rebooting", "False", "RebootDone")
            for each in (await run.bench.client.get(V1, "NodeClaim", None, NAME))["status"][
                "conditions"
            ]
        ]
        await run.bench.change(
            V1, "NodeClaim", NAME, {"status": {"conditions": over}}, subresource="status"
        )
        await run.reconcile()

        assert ("True", "Initialized") == run.condition("Initialized")
        assert "true" == run.bench.node("node-1").metadata.labels[labels.INITIALIZED]
