"""The volume binder: claims get volumes, found or made, and volumes follow their claims."""

from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.owning import recorder
from karpenter_sandbox.controllers.pods import is_leaving
from karpenter_sandbox.controllers.storage.provisioning import (
    NO_PROVISIONER,
    claim_reference,
    is_claimed_by,
    new_volume,
    suitable,
    zone_for,
    zone_label,
)
from karpenter_sandbox.runtime.events import NORMAL, WARNING
from karpenter_sandbox.runtime.informer import ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing
from karpenter_sandbox.scheduling.volumes import BIND_COMPLETED, SELECTED_NODE

_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_PROVISIONERS: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
_BY_CLAIM: Final = "claim"
_PROVISIONING_SECONDS: Final = 1.0


class VolumeController(Controller):
    name = "persistentvolume-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._recorder = recorder(runtime, client, self.name)
        self._claims = runtime.informer("v1", "persistentvolumeclaims")
        self._volumes = runtime.informer("v1", "persistentvolumes")
        self._classes = runtime.informer("storage.k8s.io/v1", "storageclasses")
        self._nodes = runtime.informer("v1", "nodes")
        self._volumes.add_index(_BY_CLAIM, _claims_of)
        self._due: dict[str, float] = {}  # uid of a claim -> when its volume is provisioned
        self.follow(self._claims, _keys_of_claim)
        self.follow(self._volumes, _keys_of_volume)
        self._classes.on_change(self._look_at_waiting)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Take the next step for a claim, or for a volume when there is no namespace."""
        if not key[0]:
            await self._follow_volume(key[1])
            return None
        claim = self._claims.get(*key)
        if claim is None or is_leaving(claim):
            return None
        if _is_bound(claim):
            await self._check_bound(claim)
            return None
        volume = self._reserved(claim)
        if volume is None and not claim["spec"].get("volumeName"):
            if not self._waits(claim):
                volume = suitable(claim, self._volumes.list())
            if volume is None:
                return await self._provision(claim)
        if volume is not None:
            await self._bind(claim, volume)
        else:
            await self._set_phase(claim, "persistentvolumeclaims", "Pending")
        return None

    def _reserved(self, claim: JsonObject) -> JsonObject | None:
        """The volume that the claim names, or that is kept for it."""
        name = claim["spec"].get("volumeName")
        if name:
            named = self._volumes.get("", name)
            if named is None or (named["spec"].get("claimRef") and not is_claimed_by(named, claim)):
                return None
            return named
        kept = self._volumes.by_index(_BY_CLAIM, key_of(claim))
        return next((volume for volume in kept if is_claimed_by(volume, claim)), None)

    def _waits(self, claim: JsonObject) -> bool:
        """Whether the claim's storage class binds on first consumer."""
        found = self._class_of(claim)
        return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _class_of(self, claim: JsonObject) -> JsonObject | None:
        name = claim["spec"].get("storageClassName")
        return self._classes.get("", name) if name else None

    async def _provision(self, claim: JsonObject) -> float | None:
        """Provision a volume, once its zone is known."""
        claim = await self._set_phase(claim, "persistentvolumeclaims", "Pending")
        found, name = self._class_of(claim), claim["spec"].get("storageClassName")
        if found is None:
            reason, text = (
                ("ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found')
                if name
                else (
                    "FailedBinding",
                    "no persistent volumes available for this claim and no storage class is set",
                )
            )
            self._recorder.emit(claim, WARNING if name else NORMAL, reason, text)
            return None
        node_name = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if self._waits(claim) and not node_name:
            text = "waiting for first consumer to be created before binding"
            self._recorder.emit(claim, NORMAL, "WaitForFirstConsumer", text)
            return None
        if found["provisioner"] == NO_PROVISIONER:
            text = "no persistent volumes available for this claim"
            self._recorder.emit(claim, NORMAL, "FailedBinding", text)
            return None
        return await self._make(claim, found, node_name)

    async def _make(
        self, claim: JsonObject, storage_class: JsonObject, node_name: str | None
    ) -> float | None:
        uid, now, driver = (
            claim["metadata"]["uid"],
            self.clock.monotonic(),
            storage_class["provisioner"],
        )
        if uid not in self._due:
            self._due[uid] = now + _PROVISIONING_SECONDS
            claim = await self._annotate(claim, dict.fromkeys(_PROVISIONERS, driver))
            text = (
                f'External provisioner is provisioning volume for claim "{"/".join(key_of(claim))}"'
            )
            self._recorder.emit(claim, NORMAL, "Provisioning", text)
        if now < self._due[uid]:
            return self._due[uid] - now
        del self._due[uid]
        node = self._nodes.get("", node_name) if node_name else None
        if node_name and node is None:
            # The scheduler chooses another node once the selected-node annotation is removed
            await self._annotate(claim, {SELECTED_NODE: None})
            return None
        zone = zone_label(node) if node else zone_for(claim, storage_class, self._nodes.list())
        volume = await self._client.create(new_volume(claim, storage_class, zone))
        text = f"Successfully provisioned volume {volume['metadata']['name']}"
        self._recorder.emit(claim, NORMAL, "ProvisioningSucceeded", text)
        return None

    async def _bind(self, claim: JsonObject, volume: JsonObject) -> None:
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid") != claim["metadata"]["uid"]:
            spec = {**volume["spec"], "claimRef": claim_reference(claim)}
            annotations = volume["metadata"].get("annotations") or {}
            if not reference:
                annotations = {**annotations, _BOUND_BY_CONTROLLER: "yes"}
            metadata = {**volume["metadata"], "annotations": annotations}
            volume = await self._client.update({**volume, "metadata": metadata, "spec": spec})
        await self._set_phase(volume, "persistentvolumes", "Bound")
        annotations = {**(claim["metadata"].get("annotations") or {}), BIND_COMPLETED: "yes"}
        if not claim["spec"].get("volumeName"):
            annotations[_BOUND_BY_CONTROLLER] = "yes"
        spec = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
        metadata = {**claim["metadata"], "annotations": annotations}
        claim = await self._client.update({**claim, "metadata": metadata, "spec": spec})
        await self._check_bound(claim)

    async def _check_bound(self, claim: JsonObject) -> None:
        """Let the status of a bound claim follow its volume."""
        volume = self._volumes.get("", claim["spec"]["volumeName"])
        if volume is None or not is_claimed_by(volume, claim):
            if (claim.get("status") or {}).get("phase") != "Lost":
                text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._recorder.emit(claim, WARNING, "ClaimLost", text)
            await self._set_phase(claim, "persistentvolumeclaims", "Lost")
            return
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes") or [],
            "capacity": volume["spec"].get("capacity") or {},
        }
        known = claim.get("status") or {}
        if {**known, **status} != known:
            await self._client.update_status({**claim, "status": {**known, **status}})

    async def _follow_volume(self, name: str) -> None:
        volume = self._volumes.get("", name)
        if volume is None:
            return
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            await self._set_phase(volume, "persistentvolumes", "Available")
            return
        claim = self._claims.get(reference["namespace"], reference["name"])
        if claim is not None and is_claimed_by(volume, claim):
            self.queue.add(key_of(claim))
            return
        volume = await self._set_phase(volume, "persistentvolumes", "Released")
        policy = volume["spec"].get("persistentVolumeReclaimPolicy", "Retain")
        if policy == "Delete" and not is_leaving(volume):
            await ignoring_missing(self._client.delete("v1", "persistentvolumes", None, name))

    async def _annotate(self, obj: JsonObject, annotations: dict[str, str | None]) -> JsonObject:
        namespace, name = key_of(obj)
        patch = {"metadata": {"annotations": annotations}}
        return await self._client.patch(
            "merge", "v1", "persistentvolumeclaims", namespace, name, patch
        )

    async def _set_phase(self, obj: JsonObject, resource: str, phase: str) -> JsonObject:
        if (obj.get("status") or {}).get("phase") == phase:
            return obj
        namespace, name = key_of(obj)
        status = {"phase": phase}
        return await self._client.patch_status("v1", resource, namespace or None, name, status)

    def _look_at_waiting(self, old: JsonObject | None, new: JsonObject | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        for claim in self._claims.list():
            if claim["spec"].get("storageClassName") == name and not _is_bound(claim):
                self.queue.add(key_of(claim))


def _is_bound(claim: JsonObject) -> bool:
    annotations = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations


def _claims_of(volume: JsonObject) -> tuple[ObjectKey, ...]:
    reference = volume["spec"].get("claimRef")
    return ((reference.get("namespace", ""), reference["name"]),) if reference else ()


def _keys_of_claim(claim: JsonObject) -> tuple[ObjectKey, ...]:
    name = claim["spec"].get("volumeName")
    return (key_of(claim), ("", name)) if name else (key_of(claim),)


def _keys_of_volume(volume: JsonObject) -> tuple[ObjectKey, ...]:
    return (key_of(volume), *_claims_of(volume))
