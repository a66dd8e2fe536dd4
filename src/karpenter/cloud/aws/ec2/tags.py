"""Tags that mark the resources of a cluster, and selector terms as filters of EC2."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import (
    EC2NodeClass,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.model import labels

Filter: TypeAlias = dict[str, str | list[str]]
Term: TypeAlias = SubnetSelectorTerm | SecurityGroupSelectorTerm

_ANY_VALUE = "*"


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


def equals(name: str, values: Iterable[str]) -> Filter:
    """A filter that lets through what has one of ``values``."""
    return {"Name": name, "Values": list(values)}


def tag_filters(tags: Mapping[str, str]) -> list[Filter]:
    """Filters for tags; ``*`` matches by the key alone, EC2 evaluates other wildcards."""
    return [
        equals("tag-key", [key]) if value == _ANY_VALUE else equals(f"tag:{key}", [value])
        for key, value in tags.items()
    ]


def queries(id_filter: str, terms: Sequence[Term]) -> list[list[Filter]]:
    """The queries of a list of terms: one for all ids together, one for each map of tags."""
    ids = [term.id for term in terms if term.id]
    found = [tag_filters(term.tags) for term in terms if term.tags and not term.id]
    if ids:
        found.append([equals(id_filter, ids)])
    return found
