"""Protects volumes in use from deletion, and creates the claims of ephemeral volumes."""

from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.owning import recorder
from karpenter_sandbox.controllers.pods import (
    controller_reference,
    is_finished,
    is_leaving,
    node_of,
)
from karpenter_sandbox.controllers.storage.provisioning import PROTECTION
from karpenter_sandbox.runtime.events import WARNING
from karpenter_sandbox.runtime.informer import ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import (
    Controller,
    Runtime,
    controller_of,
    ignoring_missing,
)

_CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
BY_CLAIM: Final = "claims they use"


class ClaimFollower(Controller):
    """Base of the controllers that follow pods, their claims and the volumes of these."""

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._pods = runtime.informer("v1", "pods")
        self._claims = runtime.informer("v1", "persistentvolumeclaims")
        self._volumes = runtime.informer("v1", "persistentvolumes")


class VolumeProtection(ClaimFollower):
    """Keeps claims while pods use them, and volumes while claims do."""

    name = "volume-protection-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._pods.add_index(BY_CLAIM, claims_of)
        self.follow(self._claims)
        self.follow(self._volumes)
        self.follow(self._pods, claims_of)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Add the finalizer of a claim or volume, or remove it when a deletion may proceed."""
        if key[0]:
            claim = self._claims.get(*key)
            if claim is not None:
                is_used = any(_is_using(pod) for pod in self._pods.by_index(BY_CLAIM, key))
                await self._protect(claim, _CLAIM_PROTECTION, is_used=is_used)
            return None
        volume = self._volumes.get(*key)
        if volume is not None:
            is_used = (volume.get("status") or {}).get("phase") == "Bound"
            await self._protect(volume, PROTECTION, is_used=is_used)
        return None

    async def _protect(self, obj: JsonObject, name: str, *, is_used: bool) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if is_leaving(obj) and name in finalizers and not is_used:
            wanted = [finalizer for finalizer in finalizers if finalizer != name]
        elif not is_leaving(obj) and name not in finalizers:
            wanted = [*finalizers, name]
        else:
            return
        changed = {**obj, "metadata": {**obj["metadata"], "finalizers": wanted}}
        await ignoring_missing(self._client.update(changed))


class EphemeralVolumes(ClaimFollower):
    """Creates the claims of pods' ephemeral volumes."""

    name = "ephemeral-volume-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._recorder = recorder(runtime, client, self.name)
        self.follow(self._pods, _keys_with_templates)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Create the claims of a pod that are missing."""
        pod = self._pods.get(*key)
        if pod is None or is_leaving(pod):
            return None
        for volume in pod["spec"].get("volumes") or []:
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            if template is not None:
                await self._create(pod, f"{key[1]}-{volume['name']}", template)
        return None

    async def _create(self, pod: JsonObject, name: str, template: JsonObject) -> None:
        namespace = pod["metadata"]["namespace"]
        known = self._claims.get(namespace, name)
        if known is not None:
            if (controller_of(known) or {}).get("uid") != pod["metadata"]["uid"]:
                text = f'PVC "{namespace}/{name}" was not created for the pod'
                self._recorder.emit(pod, WARNING, "FailedBinding", text)
            return
        given = template.get("metadata") or {}
        metadata = {part: given[part] for part in ("labels", "annotations") if part in given}
        metadata |= {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [controller_reference(pod)],
        }
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        await self._client.create({**claim, "spec": template["spec"]})


def claims_of(pod: JsonObject) -> tuple[ObjectKey, ...]:
    """The claims a pod uses."""
    namespace, name = key_of(pod)
    claims = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            claims.append((namespace, volume["persistentVolumeClaim"]["claimName"]))
        elif "ephemeral" in volume:
            claims.append((namespace, f"{name}-{volume['name']}"))
    return tuple(claims)


def _is_using(pod: JsonObject) -> bool:
    return bool(node_of(pod)) and not is_finished(pod)


def _keys_with_templates(pod: JsonObject) -> tuple[ObjectKey, ...]:
    has_any = any("ephemeral" in volume for volume in pod["spec"].get("volumes") or ())
    return (key_of(pod),) if has_any else ()
