"""The volume claims of a StatefulSet's pods: their names, and who deletes them; pure."""

from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.controllers.pods import controller_reference

_DELETE: Final = "Delete"


def claims_of(owner: JsonObject, ordinal: int) -> dict[str, JsonObject]:
    """The claims of the pod at ``ordinal``, by the name of the volume each is mounted as."""
    claims = {}
    for template in owner["spec"].get("volumeClaimTemplates") or []:
        given = template.get("metadata") or {}
        selector = owner["spec"]["selector"].get("matchLabels") or {}
        labels = {**(given.get("labels") or {}), **selector}
        metadata = {
            "name": f"{given['name']}-{owner['metadata']['name']}-{ordinal}",
            "namespace": owner["metadata"]["namespace"],
            "labels": labels,
        }
        if given.get("annotations"):
            metadata["annotations"] = given["annotations"]
        claims[given["name"]] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": template["spec"],
        }
    return claims


def mounted(volumes: list[JsonObject], claims: dict[str, JsonObject]) -> list[JsonObject]:
    """The volumes of a pod with its claims in place of those of the same names."""
    own = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for name, claim in claims.items()
    ]
    return own + [volume for volume in volumes if volume["name"] not in claims]


def owners_of_claim(
    claim: JsonObject, owner: JsonObject, pod: JsonObject, *, is_condemned: bool
) -> list[JsonObject]:
    """The owner references of a claim: the garbage collector deletes it with these owners.

    A claim with another controller is not changed.
    """
    known = claim["metadata"].get("ownerReferences") or []
    ours = {owner["metadata"]["uid"], pod["metadata"]["uid"]}
    others = [reference for reference in known if reference["uid"] not in ours]
    if any(reference.get("controller") for reference in others):
        return others
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if is_condemned and policy.get("whenScaled") == _DELETE:
        return [*others, controller_reference(pod)]
    if policy.get("whenDeleted") == _DELETE:
        return [*others, controller_reference(owner)]
    return others
