"""Kubelet settings that a pool of v1beta1 brought along.

They were part of pools then and are part of node classes now. What conversion found on a pool, or
on a claim, it keeps in an annotation, and while that is there it overrules the node class.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from karpenter.api.ec2 import EC2NodeClass
from karpenter.cloud.aws.kubelet import KubeletError
from karpenter.model.labels import KEPT_KUBELET


def overruled(node_class: EC2NodeClass, *annotations: Mapping[str, str]) -> EC2NodeClass:
    """The node class with the settings that were kept; those in the first ``annotations`` count.

    Raises:
        KubeletError: what was kept cannot be read.
    """
    kept = next((each[KEPT_KUBELET] for each in annotations if each.get(KEPT_KUBELET)), "")
    if not kept:
        return node_class
    try:
        kubelet = msgspec.json.decode(kept, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise KubeletError(
            f"the annotation {KEPT_KUBELET} holds no kubelet configuration: {error}; correct it,"
            " or move the settings to spec.kubelet of the EC2NodeClass"
        ) from error
    metadata = node_class.metadata
    # another class as far as caches are concerned
    digest = hashlib.sha256(kept.encode()).hexdigest()[:16]
    return msgspec.structs.replace(
        node_class,
        metadata=msgspec.structs.replace(metadata, uid=f"{metadata.uid}/{digest}"),
        spec=msgspec.structs.replace(node_class.spec, kubelet=kubelet),
    )
