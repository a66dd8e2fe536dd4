"""The hash of a pool's template; a node with another hash has drifted.

It equals the hash that Karpenter computes, so that either controller can take over from the other
without stamping or replacing a node. Lists are compared as sets and durations by their length
(``60m`` is ``1h``). An empty list or map that is written in the manifest counts, an absent one does
not. Requirements are not hashed; whether a node still meets them is checked on its labels.
"""

from collections.abc import Mapping
from typing import Final

from karpenter.api.karpenter import NodeClaimTemplateSpec, NodeClassReference, NodePool
from karpenter.api.meta import Time, is_stated
from karpenter.api.nodes import Taint
from karpenter.model.durations import nanoseconds
from karpenter.model.hashstructure import (
    Field,
    list_of,
    long_hash,
    mapping_hash,
    struct_hash,
    text_hash,
    time_hash,
)

# Nodes whose hash has another version get the new hash and version once, without drift
NODEPOOL_HASH_VERSION: Final = "v3"


def node_pool_hash(node_pool: NodePool) -> str:
    """Hash what makes a node of the pool drift when it changes."""
    template = node_pool.spec.template
    labels, annotations = template.metadata.labels, template.metadata.annotations
    has_metadata = is_stated(labels) or is_stated(annotations)
    parts = (
        Field("ObjectMeta", (labels, annotations) if has_metadata else None, _metadata),
        Field("Spec", template.spec, _spec),
    )
    return str(struct_hash("NodeClaimTemplate", parts))


def _metadata(maps: tuple[Mapping[str, str], Mapping[str, str]]) -> int:
    labels, annotations = maps
    parts = (
        Field("Labels", labels if is_stated(labels) else None, mapping_hash),
        Field("Annotations", annotations if is_stated(annotations) else None, mapping_hash),
    )
    return struct_hash("ObjectMeta", parts)


def _spec(spec: NodeClaimTemplateSpec) -> int:
    taints = list_of(_taint)
    reference = spec.node_class_ref
    grace = spec.termination_grace_period
    parts = (
        Field("Taints", spec.taints if is_stated(spec.taints) else None, taints),
        Field(
            "StartupTaints", spec.startup_taints if is_stated(spec.startup_taints) else None, taints
        ),
        Field("NodeClassRef", reference if reference != _NO_CLASS else None, _reference),
        Field("TerminationGracePeriod", nanoseconds(grace) if grace else None, _duration),
        Field("ExpireAfter", nanoseconds(spec.expire_after), _nillable_duration),  # None if never
    )
    return struct_hash("NodeClaimTemplateSpec", parts)


_NO_CLASS: Final = NodeClassReference()


def _taint(taint: Taint) -> int:
    parts = (
        Field("Key", taint.key, text_hash, is_pointer=False),
        Field("Value", taint.value, text_hash, is_pointer=False),
        Field("Effect", taint.effect, text_hash, is_pointer=False),
        Field("TimeAdded", taint.time_added, _time),
    )
    return struct_hash("Taint", parts)


def _reference(reference: NodeClassReference) -> int:
    parts = (
        Field("Kind", reference.kind, text_hash, is_pointer=False),
        Field("Name", reference.name, text_hash, is_pointer=False),
        Field("Group", reference.group, text_hash, is_pointer=False),
    )
    return struct_hash("NodeClassReference", parts)


def _duration(nanoseconds: int) -> int:
    parts = (Field("Duration", nanoseconds, long_hash, is_pointer=False),)
    return struct_hash("Duration", parts)


def _nillable_duration(nanoseconds: int) -> int:
    return struct_hash("NillableDuration", (Field("Duration", nanoseconds, long_hash),))


def _time(moment: Time) -> int:
    return struct_hash("Time", (Field("Time", moment, time_hash),))
