"""Whether a node class can be launched with now, and what to say if not."""

import re
from typing import Final

from karpenter.api.ec2 import EC2NodeClass
from karpenter.cloud.provider import CreateError, NodeClassNotReadyError
from karpenter.model import labels

_RESTRICTED_TAGS: Final = re.compile(
    "|".join(
        (
            f"{re.escape(labels.CLUSTER_TAG_PREFIX.rstrip('/'))}.*",
            re.escape(labels.NODEPOOL),
            re.escape(labels.NODECLAIM_TAG),
            re.escape(labels.EC2_NODE_CLASS),
            re.escape(labels.EKS_CLUSTER_NAME_TAG),
        )
    )
)


def check_ready(node_class: EC2NodeClass) -> None:
    """Make sure that a node class is ready, as it is now.

    Raises:
        NodeClassNotReadyError: it is not, or was before it was changed.
        CreateError: nobody knows yet.
    """
    name = node_class.metadata.name
    ready = next((each for each in node_class.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status not in ("True", "False"):
        raise CreateError(
            "NodeClassReadinessUnknown", f"EC2NodeClass {name} has not been looked at yet"
        )
    if ready.status == "False":
        why = f": {ready.message}" if ready.message else ""
        raise NodeClassNotReadyError(f"EC2NodeClass {name} is not ready{why}")
    if ready.observed_generation != node_class.metadata.generation:
        raise NodeClassNotReadyError(
            f"EC2NodeClass {name} was changed and has not been looked at since"
        )
    restricted = [key for key in node_class.spec.tags if _RESTRICTED_TAGS.fullmatch(key)]
    if restricted:
        raise NodeClassNotReadyError(
            f"EC2NodeClass {name} sets the tag {restricted[0]}, which is Karpenter's own"
        )
