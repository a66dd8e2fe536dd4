"""Volumes: which one suits a claim, and what one made for it looks like; pure."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter.model.quantity import units
from karpenter_sandbox.matching import read_selector
from karpenter_sandbox.runtime.events import object_reference

PROTECTION: Final = "kubernetes.io/pv-protection"
ZONE: Final = "topology.kubernetes.io/zone"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"


def claim_reference(claim: JsonObject) -> JsonObject:
    """The reference by which a volume names its claim."""
    return object_reference("v1", "PersistentVolumeClaim", claim)


def is_claimed_by(volume: JsonObject, claim: JsonObject) -> bool:
    """Whether a volume is kept for a claim; one without a uid was kept before the claim existed."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return False
    metadata = claim["metadata"]
    place = (reference.get("namespace"), reference.get("name"))
    return (
        place == (metadata["namespace"], metadata["name"])
        and reference.get("uid", metadata["uid"]) == metadata["uid"]
    )


def suitable(claim: JsonObject, volumes: Iterable[JsonObject]) -> JsonObject | None:
    """The smallest free volume that a claim can use."""
    wanted = claim["spec"]
    selector = read_selector(wanted["selector"]) if wanted.get("selector") else None
    request = (wanted.get("resources") or {}).get("requests", {}).get("storage", 0)

    def fits(volume: JsonObject) -> bool:
        offered = volume["spec"]
        is_free = not offered.get("claimRef") and "deletionTimestamp" not in volume["metadata"]
        return bool(
            is_free
            and (offered.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
            and offered.get("volumeMode", "Filesystem") == wanted.get("volumeMode", "Filesystem")
            and set(wanted.get("accessModes") or ()) <= set(offered.get("accessModes") or ())
            and (selector is None or selector.matches(volume["metadata"].get("labels") or {}))
            and _capacity(volume) >= units(request)
        )

    free = [volume for volume in volumes if fits(volume)]
    return min(free, key=lambda v: (_capacity(v), v["metadata"]["name"]), default=None)


def new_volume(claim: JsonObject, storage_class: JsonObject, zone: str | None) -> JsonObject:
    """A volume made for a claim, reachable from one zone."""
    uid, driver = claim["metadata"]["uid"], storage_class["provisioner"]
    name = f"pvc-{uid}"
    wanted = claim["spec"]
    handle = f"vol-{hashlib.sha256(uid.encode()).hexdigest()[:17]}"
    parameters = storage_class.get("parameters") or {}
    csi = {
        "driver": driver,
        "volumeHandle": handle,
        "fsType": parameters.get("csi.storage.k8s.io/fstype", "ext4"),
    }
    spec: JsonObject = {
        "capacity": {"storage": wanted["resources"]["requests"]["storage"]},
        "accessModes": wanted.get("accessModes") or ["ReadWriteOnce"],
        "claimRef": claim_reference(claim),
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "storageClassName": storage_class["metadata"]["name"],
        "volumeMode": wanted.get("volumeMode", "Filesystem"),
        "csi": csi,
    }
    if zone:
        place = {"key": ZONE, "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {_PROVISIONED_BY: driver},
            "finalizers": [PROTECTION],
        },
        "spec": spec,
    }


def zone_for(
    claim: JsonObject, storage_class: JsonObject, nodes: Sequence[JsonObject]
) -> str | None:
    """A zone for a volume without a selected node; claims are spread over the zones."""
    allowed: set[str] = {
        value
        for term in storage_class.get("allowedTopologies") or ()
        for expression in term.get("matchLabelExpressions") or ()
        if expression["key"] == ZONE
        for value in expression.get("values") or ()
    }
    known = {zone for node in nodes if (zone := zone_label(node))}
    zones = sorted(allowed or known)
    if not zones:
        return None
    digest = hashlib.sha256(claim["metadata"]["name"].encode()).digest()
    return zones[int.from_bytes(digest[:4], "big") % len(zones)]


def zone_label(node: JsonObject) -> str | None:
    """The zone a node stands in."""
    zone: str | None = (node["metadata"].get("labels") or {}).get(ZONE)
    return zone


def _capacity(volume: JsonObject) -> int:
    return units((volume["spec"].get("capacity") or {}).get("storage", 0))
