"""Volumes on nodes: what each node can attach, and what is attached to it."""

import hashlib
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.nodes.taints import readiness
from karpenter_sandbox.controllers.owning import recorder
from karpenter_sandbox.controllers.pods import is_finished, node_of, nodes_of
from karpenter_sandbox.controllers.storage.protection import BY_CLAIM, ClaimFollower, claims_of
from karpenter_sandbox.controllers.storage.provisioning import NO_PROVISIONER, ZONE
from karpenter_sandbox.runtime.events import NORMAL
from karpenter_sandbox.runtime.informer import ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing

VOLUME_LIMIT: Final = "sandbox.karpenter.sh/volume-limit"
# The attachment limit of a common cloud instance, without its own disks
_DEFAULT_LIMIT: Final = 25
_BY_NODE: Final = "node"
_API: Final = "storage.k8s.io/v1"


class AttachmentController(ClaimFollower):
    """Attaches the volumes of a node's pods, and detaches what no pod there uses any more."""

    name = "attachdetach-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._recorder = recorder(runtime, client, self.name)
        self._drivers = runtime.informer(_API, "csidrivers")
        self._attachments = runtime.informer(_API, "volumeattachments")
        self._pods.add_index(_BY_NODE, nodes_of)
        self._pods.add_index(BY_CLAIM, claims_of)
        self._attachments.add_index(_BY_NODE, _node_of_attachment)
        self.follow(self._pods, _node_with_volumes)
        self.follow(self._claims, self._nodes_of_claim)
        self.follow(self._attachments, lambda found: [("", found["spec"]["nodeName"])])

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Let the attachments of a node follow its pods."""
        wanted = self._wanted(key[1])
        for attachment in self._attachments.by_index(_BY_NODE, key[1]):
            name = attachment["metadata"]["name"]
            if wanted.pop(name, None) is None:
                await ignoring_missing(self._client.delete(_API, "volumeattachments", None, name))
        for name, (volume, pod) in wanted.items():
            await self._attach(name, key[1], volume, pod)
        return None

    def _wanted(self, node: str) -> dict[str, tuple[JsonObject, JsonObject]]:
        """The attachments a node needs by name, each with its volume and a pod that needs it."""
        wanted: dict[str, tuple[JsonObject, JsonObject]] = {}
        for pod in self._pods.by_index(_BY_NODE, node):
            if is_finished(pod):
                continue
            for place in claims_of(pod):
                volume = self._volume(place)
                if volume is not None and self._is_attached(volume):
                    wanted.setdefault(_attachment_name(volume, node), (volume, pod))
        return wanted

    def _volume(self, claim: ObjectKey) -> JsonObject | None:
        found = self._claims.get(*claim)
        name = found["spec"].get("volumeName") if found is not None else None
        return self._volumes.get("", name) if name else None

    def _is_attached(self, volume: JsonObject) -> bool:
        driver = (volume["spec"].get("csi") or {}).get("driver")
        if not driver:
            return False
        known = self._drivers.get("", driver)
        return known is None or bool(known["spec"].get("attachRequired", True))

    async def _attach(self, name: str, node: str, volume: JsonObject, pod: JsonObject) -> None:
        volume_name = volume["metadata"]["name"]
        await self._client.create(
            {
                "apiVersion": _API,
                "kind": "VolumeAttachment",
                "metadata": {"name": name},
                "spec": {
                    "attacher": volume["spec"]["csi"]["driver"],
                    "nodeName": node,
                    "source": {"persistentVolumeName": volume_name},
                },
            }
        )
        await self._client.patch_status(_API, "volumeattachments", None, name, {"attached": True})
        text = f'AttachVolume.Attach succeeded for volume "{volume_name}"'
        self._recorder.emit(pod, NORMAL, "SuccessfulAttachVolume", text)

    def _nodes_of_claim(self, claim: JsonObject) -> tuple[ObjectKey, ...]:
        pods = self._pods.by_index(BY_CLAIM, key_of(claim))
        return tuple(("", node_of(pod)) for pod in pods if node_of(pod))


class CsiNodeController(Controller):
    """Writes each node's CSINode: its drivers, and how many volumes each can attach."""

    name = "csinode-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._nodes = runtime.informer("v1", "nodes")
        self._classes = runtime.informer(_API, "storageclasses")
        self._csi_nodes = runtime.informer(_API, "csinodes")
        self._nodes.on_change(self._follow_node)
        self._classes.on_change(self._follow_class)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Create or complete the CSINode of a node."""
        node = self._nodes.get(*key)
        # A node that has not reported yet has no drivers either
        if node is None or readiness(node) is None:
            return None
        drivers = [_driver(node, name) for name in self._driver_names()]
        known = self._csi_nodes.get(*key)
        if known is None:
            metadata = {"name": key[1], "ownerReferences": [_owner(node)]}
            body = {"apiVersion": _API, "kind": "CSINode", "metadata": metadata}
            await self._client.create({**body, "spec": {"drivers": drivers}})
            return None
        present = known["spec"].get("drivers") or []
        names = {driver["name"] for driver in present}
        missing = [driver for driver in drivers if driver["name"] not in names]
        if missing:
            await self._client.update({**known, "spec": {"drivers": [*present, *missing]}})
        return None

    def _driver_names(self) -> list[str]:
        names = {found["provisioner"] for found in self._classes.list()}
        return sorted(names - {NO_PROVISIONER})

    def _follow_node(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None and (old is None or readiness(old) is None):
            self.queue.add(key_of(new))

    def _follow_class(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is None and new is not None:
            for node in self._nodes.list():
                self.queue.add(key_of(node))


def _driver(node: JsonObject, name: str) -> JsonObject:
    text = (node["metadata"].get("annotations") or {}).get(VOLUME_LIMIT, "")
    limit = int(text) if text.isascii() and text.isdigit() else _DEFAULT_LIMIT
    return {
        "name": name,
        "nodeID": node["metadata"]["name"],
        "topologyKeys": [ZONE],
        "allocatable": {"count": limit},
    }


def _owner(node: JsonObject) -> JsonObject:
    metadata = node["metadata"]
    return {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}


def _attachment_name(volume: JsonObject, node: str) -> str:
    csi = volume["spec"]["csi"]
    text = f"{csi['volumeHandle']}{csi['driver']}{node}"
    return f"csi-{hashlib.sha256(text.encode()).hexdigest()}"


def _node_of_attachment(attachment: JsonObject) -> tuple[str, ...]:
    return (attachment["spec"]["nodeName"],)


def _node_with_volumes(pod: JsonObject) -> tuple[ObjectKey, ...]:
    node = node_of(pod)
    return (("", node),) if node and claims_of(pod) else ()
