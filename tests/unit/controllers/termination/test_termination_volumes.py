"""Which volumes have to leave a node before its machine does: the decision alone."""

from datetime import timedelta

import msgspec
import pytest

from helpers.builders import NOW, pod, pvc, toleration
from karpenter.api.pods import EphemeralVolumeSource, Pod, Volume
from karpenter.api.storage import (
    PersistentVolumeClaim,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from karpenter.controllers.termination.volumes import awaited_attachments


class Claims:
    """Volume claims by name."""

    def __init__(self, *claims: PersistentVolumeClaim) -> None:
        self._claims = {(c.metadata.namespace, c.metadata.name): c for c in claims}

    def get(self, name: str, namespace: str = "") -> PersistentVolumeClaim | None:
        return self._claims.get((namespace, name))


def attachment(name: str, volume: str | None) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistent_volume_name=volume)
    made = VolumeAttachment(spec=VolumeAttachmentSpec(node_name="n", source=source))
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, name=name))


STAYS = [toleration("", "Exists")]
CLAIMS = Claims(pvc("data", volume="pv-1"), pvc("user-scratch", volume="pv-2"))
SCRATCH = Volume(name="scratch", ephemeral=EphemeralVolumeSource())


def with_volume(given: Pod, volume: Volume) -> Pod:
    return msgspec.structs.replace(
        given, spec=msgspec.structs.replace(given.spec, volumes=(volume,))
    )


@pytest.mark.parametrize(
    ("attachments", "pods", "awaited"),
    [
        pytest.param(
            [attachment("b", "pv-2"), attachment("a", "pv-1")],
            [],
            ["a", "b"],
            id="DIS-92 volumes of pods that have gone",
        ),
        pytest.param(
            [attachment("a", "pv-1")],
            [pod("user", node_name="n", claims=["data"])],
            ["a"],
            id="DIS-92 the volume of a pod that goes",
        ),
        pytest.param(
            [attachment("a", "pv-1"), attachment("b", "pv-2")],
            [pod("user", node_name="n", claims=["data"], tolerations=STAYS)],
            ["b"],
            id="DIS-93 the volume of a pod that stays",
        ),
        pytest.param(
            [attachment("b", "pv-2")],
            [with_volume(pod("user", node_name="n", tolerations=STAYS), SCRATCH)],
            [],
            id="DIS-93 a volume that was made for a pod that stays",
        ),
        pytest.param(
            [attachment("a", "pv-1")],
            [pod("user", node_name="n", claims=["data"], deleted=NOW - timedelta(seconds=61))],
            [],
            id="the volume of a pod that is stuck",
        ),
        pytest.param(
            [attachment("a", "pv-1")],
            [pod("user", node_name="n", claims=["lost"], tolerations=STAYS)],
            ["a"],
            id="a pod that stays whose claim is gone",
        ),
        pytest.param(
            [attachment("a", "pv-2")],
            [with_volume(pod("user", node_name="n", tolerations=STAYS), Volume(name="scratch"))],
            ["a"],
            id="a volume that only has the name of one that was made for a pod",
        ),
        pytest.param([attachment("a", None)], [], [], id="an attachment of no volume"),
    ],
)
def test_awaited_attachments(
    attachments: list[VolumeAttachment], pods: list[Pod], awaited: list[str]
) -> None:
    found = awaited_attachments(attachments, pods, CLAIMS, now=NOW)

    assert awaited == [each.metadata.name for each in found]
