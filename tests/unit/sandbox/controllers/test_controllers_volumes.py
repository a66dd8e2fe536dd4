"""Claims get volumes, found or made where they are needed; nodes get what their pods use."""

from typing import Any

import pytest

from helpers.clusters import (
    ClusterHandle,
    in_virtual_time,
    names,
    pod_template,
    running_controllers,
)
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.controllers.storage.attachments import (
    AttachmentController,
    CsiNodeController,
)
from karpenter_sandbox.controllers.storage.binder import VolumeController
from karpenter_sandbox.controllers.storage.protection import EphemeralVolumes, VolumeProtection
from karpenter_sandbox.controllers.storage.provisioning import suitable, zone_for

JsonObject = dict[str, Any]
SELECTED = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"


def storage_class(name: str, mode: str, **fields: Any) -> JsonObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "csi.example.com",
        "volumeBindingMode": mode,
        **fields,
    }


WAITING = storage_class("waiting", "WaitForFirstConsumer")
IMMEDIATE = storage_class("immediate", "Immediate")


def claim(name: str, class_name: str, size: str = "1Gi", **spec: Any) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "storageClassName": class_name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }


def volume(name: str, size: str, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/data"},
            "storageClassName": "immediate",
            **spec,
        },
    }


def node(name: str, zone: str) -> JsonObject:
    labels = {ZONE: zone}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def pod(name: str, *claims: str) -> JsonObject:
    volumes = [{"name": entry, "persistentVolumeClaim": {"claimName": entry}} for entry in claims]
    made: JsonObject = {"apiVersion": "v1", "kind": "Pod", **pod_template({}, volumes=volumes)}
    made["metadata"] |= {"name": name, "namespace": "default"}
    return made


async def claim_of(cluster: ClusterHandle, name: str) -> Any:
    return await cluster.get("v1", "PersistentVolumeClaim", name)


async def volumes_of(cluster: ClusterHandle) -> list[JsonObject]:
    return await cluster.objects("v1", "PersistentVolume")


@in_virtual_time
async def test_a_claim_that_waits_gets_its_volume_in_the_zone_of_the_chosen_node() -> None:
    async with running_controllers(VolumeController) as cluster:
        await cluster.create(WAITING, node("a", "zone-1"), node("b", "zone-2"))
        await cluster.create(claim("data", "waiting", "5Gi"))
        await cluster.settle()
        waiting = await claim_of(cluster, "data")
        annotations = {SELECTED: "b"}
        await cluster.change(
            "v1", "PersistentVolumeClaim", "data", {"metadata": {"annotations": annotations}}
        )
        await cluster.pass_time(3)

        bound = await claim_of(cluster, "data")
        (made,) = await volumes_of(cluster)
        reasons = [reason for reason, _ in await cluster.events("data")]

    assert "Pending" == waiting["status"]["phase"]
    assert ("Bound", {"storage": "5Gi"}) == (
        bound["status"]["phase"],
        bound["status"]["capacity"],
    )
    assert f"pvc-{bound['metadata']['uid']}" == made["metadata"]["name"]
    assert made["metadata"]["name"] == bound["spec"]["volumeName"]
    terms = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    place = {"key": ZONE, "operator": "In", "values": ["zone-2"]}
    assert [{"matchExpressions": [place]}] == terms
    assert ("Bound", "csi.example.com") == (
        made["status"]["phase"],
        made["spec"]["csi"]["driver"],
    )
    assert ["WaitForFirstConsumer", "Provisioning", "ProvisioningSucceeded"] == reasons


@in_virtual_time
async def test_a_claim_that_does_not_wait_is_served_at_once() -> None:
    async with running_controllers(VolumeController) as cluster:
        await cluster.create(IMMEDIATE, node("a", "zone-1"), claim("data", "immediate"))
        await cluster.pass_time(3)

        bound = await claim_of(cluster, "data")

    assert "Bound" == bound["status"]["phase"]
    assert "yes" == bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"]


@in_virtual_time
async def test_an_existing_volume_that_suits_is_used_before_one_is_made() -> None:
    async with running_controllers(VolumeController) as cluster:
        await cluster.create(
            IMMEDIATE, volume("large", "100Gi"), volume("small", "1Gi"), volume("fit", "5Gi")
        )
        await cluster.create(claim("data", "immediate", "2Gi"))
        await cluster.pass_time(3)

        bound = await claim_of(cluster, "data")
        phases = {v["metadata"]["name"]: v["status"]["phase"] for v in await volumes_of(cluster)}

    assert ("fit", {"storage": "5Gi"}) == (bound["spec"]["volumeName"], bound["status"]["capacity"])
    assert {"fit": "Bound", "large": "Available", "small": "Available"} == phases


@in_virtual_time
async def test_a_volume_kept_for_a_claim_is_bound_to_it() -> None:
    async with running_controllers(VolumeController) as cluster:
        reference = {"namespace": "default", "name": "data"}
        kept = volume("kept", "1Gi", claimRef=reference, storageClassName="waiting")
        await cluster.create(WAITING, kept, claim("data", "waiting"))
        await cluster.pass_time(3)

        bound = await claim_of(cluster, "data")
        (found,) = await volumes_of(cluster)

    assert "kept" == bound["spec"]["volumeName"]
    assert bound["metadata"]["uid"] == found["spec"]["claimRef"]["uid"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("Delete", [], id="a volume to delete goes with its claim"),
        pytest.param("Retain", ["Released"], id="a volume to retain is released"),
    ],
)
@in_virtual_time
async def test_what_becomes_of_a_volume_without_its_claim(policy: str, expected: list[str]) -> None:
    async with running_controllers(VolumeController, VolumeProtection) as cluster:
        await cluster.create(storage_class("immediate", "Immediate", reclaimPolicy=policy))
        await cluster.create(claim("data", "immediate"))
        await cluster.pass_time(3)
        await cluster.client.delete("v1", "PersistentVolumeClaim", "default", "data")
        await cluster.pass_time(3)

        phases = [found["status"]["phase"] for found in await volumes_of(cluster)]
        claims = await cluster.objects("v1", "PersistentVolumeClaim")

    assert (expected, []) == (phases, claims)


@in_virtual_time
async def test_a_claim_that_loses_its_volume_is_lost() -> None:
    async with running_controllers(VolumeController) as cluster:
        await cluster.create(IMMEDIATE, volume("only", "1Gi"), claim("data", "immediate"))
        await cluster.pass_time(3)
        await cluster.client.delete("v1", "PersistentVolume", None, "only")
        # Somebody insists although the volume is in use
        await cluster.change("v1", "PersistentVolume", "only", {"metadata": {"finalizers": None}})
        await cluster.settle()

        lost = await claim_of(cluster, "data")
        reasons = {reason for reason, _ in await cluster.events("data")}

    assert "Lost" == lost["status"]["phase"]
    assert "ClaimLost" in reasons


@pytest.mark.parametrize(
    ("class_name", "reason"),
    [
        pytest.param("absent", "ProvisioningFailed", id="of a class that does not exist"),
        pytest.param("", "FailedBinding", id="of no class and without a volume"),
    ],
)
@in_virtual_time
async def test_a_claim_that_cannot_be_served_says_why(class_name: str, reason: str) -> None:
    async with running_controllers(VolumeController) as cluster:
        await cluster.create(claim("data", class_name))
        await cluster.settle()

        events = await cluster.events("data")

    assert [reason] == [found for found, _ in events]


@in_virtual_time
async def test_a_claim_in_use_stays_until_its_pod_is_gone() -> None:
    async with running_controllers(VolumeController, VolumeProtection) as cluster:
        await cluster.create(IMMEDIATE, claim("data", "immediate"))
        created = await cluster.create(pod("user", "data"))
        await cluster.run([created])
        await cluster.pass_time(3)
        await cluster.client.delete("v1", "PersistentVolumeClaim", "default", "data")
        await cluster.settle()
        during = names(await cluster.objects("v1", "PersistentVolumeClaim"))
        await cluster.client.delete("v1", "Pod", "default", "user", grace_period=0)
        await cluster.settle()

        after = names(await cluster.objects("v1", "PersistentVolumeClaim"))

    assert (["data"], []) == (during, after)


@in_virtual_time
async def test_volumes_are_attached_where_their_pods_are_and_only_there() -> None:
    async with running_controllers(VolumeController, AttachmentController) as cluster:
        await cluster.create(IMMEDIATE, claim("data", "immediate"))
        created = await cluster.create(pod("user", "data"))
        await cluster.pass_time(3)
        before = await cluster.objects("storage.k8s.io/v1", "VolumeAttachment")
        await cluster.run([created], node="a")
        await cluster.settle()
        during = await cluster.objects("storage.k8s.io/v1", "VolumeAttachment")
        await cluster.client.delete("v1", "Pod", "default", "user", grace_period=0)
        await cluster.settle()

        after = await cluster.objects("storage.k8s.io/v1", "VolumeAttachment")
        reasons = [reason for reason, _ in await cluster.events("user")]

    assert ([], []) == (before, after)
    (attachment,) = during
    assert ("a", "csi.example.com", True) == (
        attachment["spec"]["nodeName"],
        attachment["spec"]["attacher"],
        attachment["status"]["attached"],
    )
    assert ["SuccessfulAttachVolume"] == reasons


@in_virtual_time
async def test_two_pods_on_a_node_share_one_attachment() -> None:
    async with running_controllers(VolumeController, AttachmentController) as cluster:
        await cluster.create(IMMEDIATE, claim("data", "immediate"))
        for name in ("one", "two"):
            await cluster.create(pod(name, "data"))
        await cluster.pass_time(3)
        await cluster.run(node="a")
        await cluster.settle()
        await cluster.client.delete("v1", "Pod", "default", "one", grace_period=0)
        await cluster.settle()

        attachments = await cluster.objects("storage.k8s.io/v1", "VolumeAttachment")

    assert 1 == len(attachments)


@in_virtual_time
async def test_a_node_that_reports_has_the_drivers_of_all_classes() -> None:
    async with running_controllers(CsiNodeController) as cluster:
        limited = node("a", "zone-1")
        limited["metadata"]["annotations"] = {"sandbox.karpenter.sh/volume-limit": "3"}
        await cluster.create(IMMEDIATE, limited, node("silent", "zone-1"))
        now = timestamp(cluster.clock.now())
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": now}]
        await cluster.client.patch_status("v1", "Node", None, "a", {"conditions": conditions})
        await cluster.settle()
        other = storage_class("other", "Immediate", provisioner="other.example.com")
        await cluster.create(other)
        await cluster.settle()

        found = await cluster.objects("storage.k8s.io/v1", "CSINode")

    assert ["a"] == names(found)
    drivers = found[0]["spec"]["drivers"]
    assert [("csi.example.com", 3), ("other.example.com", 3)] == [
        (driver["name"], driver["allocatable"]["count"]) for driver in drivers
    ]


@in_virtual_time
async def test_a_pod_gets_the_claims_it_describes_itself() -> None:
    async with running_controllers(EphemeralVolumes) as cluster:
        template = {"metadata": {"labels": {"k": "v"}}, "spec": claim("x", "immediate")["spec"]}
        made = pod("user")
        made["spec"]["volumes"] = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]
        created = await cluster.create(made)
        await cluster.settle()

        found = await claim_of(cluster, "user-tmp")

    assert {"k": "v"} == found["metadata"]["labels"]
    assert created["metadata"]["uid"] == found["metadata"]["ownerReferences"][0]["uid"]


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        pytest.param(volume("v", "1Gi"), "v", id="one that fits"),
        pytest.param(volume("v", "500Mi"), None, id="not one that is too small"),
        pytest.param(volume("v", "1Gi", storageClassName="x"), None, id="not of another class"),
        pytest.param(
            volume("v", "1Gi", accessModes=["ReadOnlyMany"]), None, id="not for other access"
        ),
        pytest.param(volume("v", "1Gi", volumeMode="Block"), None, id="not of another mode"),
        pytest.param(
            volume("v", "1Gi", claimRef={"namespace": "default", "name": "else"}),
            None,
            id="not one that is taken",
        ),
    ],
)
def test_which_volume_suits_a_claim(offered: JsonObject, expected: str | None) -> None:
    found = suitable(claim("data", "immediate"), [offered])

    assert expected == (found["metadata"]["name"] if found else None)


def test_claims_without_a_node_spread_over_the_zones_that_are_allowed() -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1", "z2"]}]}]
    limited = storage_class("x", "Immediate", allowedTopologies=allowed)
    nodes = [node("a", "z1"), node("b", "z2"), node("c", "z3")]

    zones = {zone_for(claim(f"data-{n}", "x"), limited, nodes) for n in range(20)}

    assert {"z1", "z2"} == zones
