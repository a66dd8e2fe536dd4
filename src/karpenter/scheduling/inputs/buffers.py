"""CapacityBuffers: room kept ready for pods that do not exist yet.

A buffer stands for some number of virtual pods. They are planned like any other, so that nodes are
created and kept for them, but they never nominate a node, never get an event and are never printed.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from karpenter.api.karpenter import CapacityBuffer
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.pods import Pod, PodStatus, PodTemplateSpec
from karpenter.model import labels
from karpenter.model.conditions import FALSE, POD_SCHEDULED
from karpenter.model.resources import Resources
from karpenter.state.requests import template_requests

ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"
SCALABLE_KINDS: Final = ("Deployment", "StatefulSet", "ReplicaSet")
MOST_VIRTUAL_PODS: Final = 20_000  # of one buffer; protects a pass from a mistyped number
_LOWEST_PRIORITY: Final = -(2**31)
_WAITING: Final = PodStatus(
    conditions=(Condition(type=POD_SCHEDULED, status=FALSE, reason="Unschedulable"),)
)


class Resolution(StrEnum):
    """Whether a buffer could be turned into pods: the reason of ``ReadyForProvisioning``."""

    RESOLVED = "Resolved"
    POD_TEMPLATE_NOT_FOUND = "PodTemplateNotFound"
    SCALABLE_NOT_FOUND = "ScalableRefNotFound"
    FAILED = "ResolutionFailed"


@dataclass(frozen=True, slots=True)
class Scalable:
    """A workload a buffer may refer to: what its pods look like and how many it wants."""

    template: PodTemplateSpec
    replicas: int


@dataclass(frozen=True, slots=True)
class ResolvedBuffer:
    """A buffer and its virtual pods; none when it could not be resolved."""

    name: str  # "namespace/name"
    resolution: Resolution
    detail: str = ""
    pods: tuple[Pod, ...] = ()


def resolve_buffer(
    buffer: CapacityBuffer,
    pod_templates: Mapping[str, PodTemplateSpec],
    scalables: Mapping[tuple[str, str], Scalable],
) -> ResolvedBuffer | None:
    """Turn a buffer into virtual pods; None for a strategy of another provisioner.

    Args:
        pod_templates: by ``namespace/name``.
        scalables: by kind and ``namespace/name``.
    """
    spec = buffer.spec
    if (spec.provisioning_strategy or ACTIVE_CAPACITY) != ACTIVE_CAPACITY:
        return None
    namespace = buffer.metadata.namespace or "default"
    name = f"{namespace}/{buffer.metadata.name}"
    if spec.pod_template_ref is not None:
        template = pod_templates.get(f"{namespace}/{spec.pod_template_ref.name}")
        if template is None:
            missing = f"there is no PodTemplate {spec.pod_template_ref.name}"
            return ResolvedBuffer(name, Resolution.POD_TEMPLATE_NOT_FOUND, missing)
        return _resolved(buffer, name, template, None)
    if spec.scalable_ref is None:
        neither = "neither podTemplateRef nor scalableRef is set"
        return ResolvedBuffer(name, Resolution.FAILED, neither)
    reference = spec.scalable_ref
    if reference.kind not in SCALABLE_KINDS or reference.api_group not in ("", "apps"):
        unknown = f"kind {reference.kind} is not supported; use one of {', '.join(SCALABLE_KINDS)}"
        return ResolvedBuffer(name, Resolution.FAILED, unknown)
    scalable = scalables.get((reference.kind, f"{namespace}/{reference.name}"))
    if scalable is None:
        missing = f"there is no {reference.kind} {reference.name}"
        return ResolvedBuffer(name, Resolution.SCALABLE_NOT_FOUND, missing)
    return _resolved(buffer, name, scalable.template, scalable.replicas)


def buffer_replicas(
    buffer: CapacityBuffer, template: PodTemplateSpec, workload_replicas: int | None
) -> int:
    """How many pods a buffer stands for: the larger of its two settings, within its limits."""
    spec = buffer.spec
    counts = []
    if spec.replicas is not None:
        counts.append(spec.replicas)
    if spec.percentage is not None and workload_replicas is not None:
        share = math.ceil(spec.percentage * workload_replicas / 100)
        counts.append(max(1, share) if spec.percentage > 0 and workload_replicas > 0 else 0)
    most = _within_limits(buffer, template)
    if not counts:
        return most or 0
    return max(counts) if most is None else min(max(counts), most)


def is_virtual(pod: Pod) -> bool:
    """Whether a pod stands for buffered room."""
    return pod.metadata.annotations.get(labels.BUFFER_FAKE_POD) == "true"


def buffer_of(pod: Pod) -> str:
    """The buffer, as ``namespace/name``, that a virtual pod belongs to."""
    annotations = pod.metadata.annotations
    return f"{annotations[labels.BUFFER_NAMESPACE]}/{annotations[labels.BUFFER_NAME]}"


def _within_limits(buffer: CapacityBuffer, template: PodTemplateSpec) -> int | None:
    if not buffer.spec.limits:
        return None
    limits = Resources.from_wire(buffer.spec.limits)
    requests = template_requests(template.spec)
    counts = [
        limits[name] // amount
        for name, amount in requests.items()
        if name in buffer.spec.limits and amount > 0
    ]
    return min(counts, default=None)


def _resolved(
    buffer: CapacityBuffer, name: str, template: PodTemplateSpec, replicas: int | None
) -> ResolvedBuffer:
    count = buffer_replicas(buffer, template, replicas)
    if count > MOST_VIRTUAL_PODS:
        many = f"it stands for {count} pods; at most {MOST_VIRTUAL_PODS} can be kept room for"
        return ResolvedBuffer(name, Resolution.FAILED, many)
    pods = tuple(_virtual_pod(buffer, template, number) for number in range(count))
    return ResolvedBuffer(name, Resolution.RESOLVED, pods=pods)


def _virtual_pod(buffer: CapacityBuffer, template: PodTemplateSpec, number: int) -> Pod:
    namespace = buffer.metadata.namespace or "default"
    name = f"capacity-buffer-{buffer.metadata.name}-{number}"
    spec = template.spec
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:32],
            labels=template.metadata.labels,
            annotations={
                **template.metadata.annotations,
                labels.BUFFER_FAKE_POD: "true",
                labels.BUFFER_NAME: buffer.metadata.name,
                labels.BUFFER_NAMESPACE: namespace,
            },
        ),
        spec=msgspec.structs.replace(
            spec,
            node_name="",
            priority=_LOWEST_PRIORITY,
            volumes=tuple(
                v for v in spec.volumes if not (v.persistent_volume_claim or v.ephemeral)
            ),
        ),
        status=_WAITING,
    )
