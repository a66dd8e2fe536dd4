"""Which template a ReplicaSet carries, and its place in the history of its Deployment; pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter_sandbox.controllers.workloads.rollout import DESIRED, MAXIMUM, max_surge, size

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
_HISTORY: Final = "deployment.kubernetes.io/revision-history"
_LONGEST_HISTORY: Final = 2000
# Annotations of the Deployment that its sets do not inherit
_OWN: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        _HISTORY,
        DESIRED,
        MAXIMUM,
    }
)
# No vowels and no look-alikes, as in generated names
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_OFFSET, _PRIME, _MASK = 2166136261, 16777619, 0xFFFFFFFF
_encoder = msgspec.json.Encoder(order="deterministic")


def revision(obj: JsonObject) -> int:
    """The number of an object in the history, 0 when it has none."""
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def same_template(replica_set: JsonObject, deployment: JsonObject) -> bool:
    """Whether a set has the template of the Deployment."""
    return _without_hash(replica_set["spec"]["template"]) == _without_hash(
        deployment["spec"]["template"]
    )


def template_hash(owner: JsonObject) -> str:
    """A short hash of a template; the collision count is hashed with it."""
    data = _encoder.encode(owner["spec"]["template"])
    count = (owner.get("status") or {}).get("collisionCount")
    return code_of(data if count is None else data + str(count).encode())


def code_of(data: bytes) -> str:
    """A short hash of some bytes, safe in names."""
    digest = _OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _PRIME) & _MASK
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(digest))


def renewed_annotations(
    deployment: JsonObject, new: JsonObject, old: Sequence[JsonObject]
) -> dict[str, str]:
    """The annotations of the new set: the Deployment's, and the next revision.

    A set that becomes the new one again, after a rollback, records its former revisions.
    """
    inherited = {
        key: value
        for key, value in (deployment["metadata"].get("annotations") or {}).items()
        if key not in _OWN
    }
    annotations = {**(new["metadata"].get("annotations") or {}), **inherited}
    following = max((revision(rs) for rs in old), default=0) + 1
    before = annotations.get(REVISION)
    if revision(new) < following:
        annotations[REVISION] = str(following)
        if before is not None:
            past = [*filter(None, annotations.get(_HISTORY, "").split(",")), before]
            while past and len(",".join(past)) > _LONGEST_HISTORY:
                del past[0]
            annotations[_HISTORY] = ",".join(past)
    return annotations


def resized_annotations(deployment: JsonObject, replica_set: JsonObject) -> dict[str, str]:
    """The annotations of a set with the Deployment's size; a difference shows a resize."""
    wanted = size(deployment)
    return {
        **(replica_set["metadata"].get("annotations") or {}),
        DESIRED: str(wanted),
        MAXIMUM: str(wanted + max_surge(deployment)),
    }


def unfit_for_history(deployment: JsonObject, old: Sequence[JsonObject]) -> list[JsonObject]:
    """The old sets to delete: empty, and beyond ``revisionHistoryLimit``."""
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    kept = [rs for rs in old if "deletionTimestamp" not in rs["metadata"]]
    surplus = max(0, len(kept) - limit)
    ordered = sorted(kept, key=lambda rs: (revision(rs), rs["metadata"]["creationTimestamp"]))
    return [rs for rs in ordered[:surplus] if _is_empty(rs)]


def _is_empty(replica_set: JsonObject) -> bool:
    status = replica_set.get("status") or {}
    generation = replica_set["metadata"].get("generation", 0)
    is_observed = generation <= status.get("observedGeneration", 0)
    return is_observed and not size(replica_set) and not status.get("replicas", 0)


def _without_hash(template: JsonObject) -> JsonObject:
    metadata = template.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if HASH_LABEL in labels:
        labels = {key: value for key, value in labels.items() if key != HASH_LABEL}
        metadata = {**metadata, "labels": labels}
    return {**template, "metadata": metadata}
