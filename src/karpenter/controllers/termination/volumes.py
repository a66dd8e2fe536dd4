"""Volumes that must be detached from a node before its instance is terminated; pure.

Volumes of pods that stay to the end (those that tolerate the drain, mirror pods and stuck pods)
stay attached as long as the pods run, so they are not waited for.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Protocol

from karpenter.api.pods import Pod
from karpenter.api.storage import PersistentVolumeClaim, VolumeAttachment
from karpenter.state.pods import is_drainable


class VolumeClaims(Protocol):
    """Where volume claims are looked up."""

    def get(self, name: str, namespace: str = "") -> PersistentVolumeClaim | None: ...


def awaited_attachments(
    attachments: Iterable[VolumeAttachment],
    pods: Iterable[Pod],
    claims: VolumeClaims,
    *,
    now: datetime,
) -> tuple[VolumeAttachment, ...]:
    """The attachments of a node that have to go, in order of their names."""
    kept = {
        claim.spec.volume_name
        for pod in pods
        if not is_drainable(pod, now=now)
        for name in _claim_names(pod)
        if (claim := claims.get(name, pod.metadata.namespace)) is not None
    }
    return tuple(
        sorted(
            (
                attachment
                for attachment in attachments
                if (volume := attachment.spec.source.persistent_volume_name) and volume not in kept
            ),
            key=lambda attachment: attachment.metadata.name,
        )
    )


def _claim_names(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            # The PersistentVolumeClaim of an ephemeral volume is named after the pod and the volume
            yield f"{pod.metadata.name}-{volume.name}"
