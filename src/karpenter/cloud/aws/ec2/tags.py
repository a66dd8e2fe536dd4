"""The tags that mark the resources of a cluster."""

from collections.abc import Iterable, Mapping
from typing import Any

from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.model import labels


def cluster_tag(cluster: str) -> str:
    """The key of the tag that makes something part of a cluster; its value is ``owned``."""
    return f"{ec2_labels.CLUSTER_TAG_PREFIX}{cluster}"


def launch_tags(node_class: EC2NodeClass, *, cluster: str, pool: str) -> dict[str, str]:
    """The tags of everything that comes with an instance; ours win over the user's."""
    return {
        **node_class.spec.tags,
        cluster_tag(cluster): "owned",
        labels.NODEPOOL: pool,
        ec2_labels.EKS_CLUSTER_NAME_TAG: cluster,
        ec2_labels.NODE_CLASS: node_class.metadata.name,
    }


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags the way EC2 takes them."""
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def tags_of(entries: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """Tags the way EC2 gives them."""
    return {entry["Key"]: entry.get("Value", "") for entry in entries or ()}
