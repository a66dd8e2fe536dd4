"""Pods, and what makes pods."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict, Unpack

from helpers.builders.parts import (
    APP_T,
    NOW,
    UNSCHEDULABLE,
    Amounts,
    Expressions,
    container,
    meta,
    node_selector_of,
    owner,
    selector,
    uid_of,
)
from karpenter.api.meta import Condition, ObjectMeta, OwnerReference
from karpenter.api.pods import (
    Affinity,
    Container,
    ContainerPort,
    ContainerStatus,
    EphemeralVolumeSource,
    NodeAffinity,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from karpenter.api.selectors import NodeSelectorTerm
from karpenter.api.storage import PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate
from karpenter.api.workloads import DaemonSet, DaemonSetSpec, ReplicaSet, ReplicaSetSpec


class PodOptions(TypedDict, total=False):
    """What can be said about a pod beyond its name."""

    namespace: str  # "default"
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owners: Sequence[OwnerReference]
    created: datetime
    deleted: datetime  # its deletion timestamp: the pod is terminating

    cpu: str  # requests of its only container
    memory: str
    requests: Amounts  # of other resources too, such as {"acme/gpu-a": "1"}
    limits: Amounts
    host_ports: Sequence[int | ContainerPort]
    containers: Sequence[Container]  # in place of the only container
    init_containers: Sequence[Container]
    pod_level: Amounts  # requests for the pod as a whole
    overhead: Amounts

    node_name: str  # the pod is bound and runs
    node_selector: Mapping[str, str]
    required: Sequence[Expressions]  # node affinity: alternatives, each a list of expressions
    preferred: Sequence[tuple[int, Expressions]]  # node affinity: (weight, expressions)
    affinity: Sequence[PodAffinityTerm]
    anti_affinity: Sequence[PodAffinityTerm]
    preferred_affinity: Sequence[tuple[int, PodAffinityTerm]]
    preferred_anti_affinity: Sequence[tuple[int, PodAffinityTerm]]
    spread: Sequence[TopologySpreadConstraint]
    tolerations: Sequence[Toleration]
    claims: Sequence[str]  # names of the PersistentVolumeClaims it mounts
    ephemeral: Sequence[str | None]  # storage classes of its generic ephemeral volumes
    resource_claims: Sequence[PodResourceClaim]
    gates: Sequence[str]
    priority: int

    phase: str  # "Pending", or "Running" on a node
    conditions: Sequence[Condition]  # UNSCHEDULABLE, or none on a node
    nominated: str  # the node it waits for by preemption
    started: datetime
    statuses: Sequence[ContainerStatus]


def pod(name: str = "pod", **options: Unpack[PodOptions]) -> Pod:
    """A pod that waits for a node, or runs on ``node_name``."""
    node_name = options.get("node_name", "")
    namespace = options.get("namespace", "default")
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid_of(name, namespace),
            labels=options.get("labels", {}),
            annotations=options.get("annotations", {}),
            owner_references=tuple(options.get("owners", ())),
            creation_timestamp=options.get("created", NOW),
            deletion_timestamp=options.get("deleted"),
        ),
        spec=pod_spec(**options),
        status=PodStatus(
            phase=options.get("phase", "Running" if node_name else "Pending"),
            conditions=tuple(options.get("conditions", () if node_name else (UNSCHEDULABLE,))),
            nominated_node_name=options.get("nominated", ""),
            start_time=options.get("started"),
            container_statuses=tuple(options.get("statuses", ())),
        ),
    )


def pods(count: int, name: str = "pod", **options: Unpack[PodOptions]) -> list[Pod]:
    """As many like pods, named ``pod-0``, ``pod-1`` and so on."""
    return [pod(f"{name}-{number}", **options) for number in range(count)]


def pod_spec(**options: Unpack[PodOptions]) -> PodSpec:
    """The spec of a pod or of a pod template."""
    only = container(
        options.get("cpu"),
        options.get("memory"),
        requests=options.get("requests"),
        limits=options.get("limits"),
        host_ports=options.get("host_ports", ()),
    )
    whole = options.get("pod_level")
    return PodSpec(
        containers=tuple(options.get("containers", (only,))),
        init_containers=tuple(options.get("init_containers", ())),
        resources=ResourceRequirements(requests=whole) if whole else None,
        overhead=options.get("overhead", {}),
        node_name=options.get("node_name", ""),
        node_selector=options.get("node_selector", {}),
        affinity=_affinity(options),
        tolerations=tuple(options.get("tolerations", ())),
        topology_spread_constraints=tuple(options.get("spread", ())),
        volumes=_volumes(options),
        resource_claims=tuple(options.get("resource_claims", ())),
        scheduling_gates=tuple(PodSchedulingGate(name=g) for g in options.get("gates", ())),
        priority=options.get("priority"),
    )


def pod_template(**options: Unpack[PodOptions]) -> PodTemplateSpec:
    """What a controller makes pods from."""
    return PodTemplateSpec(
        metadata=ObjectMeta(
            labels=options.get("labels", {}), annotations=options.get("annotations", {})
        ),
        spec=pod_spec(**options),
    )


def daemon_set(name: str = "daemon", **options: Unpack[PodOptions]) -> DaemonSet:
    """A DaemonSet; ``options`` are those of its pods."""
    labels = {"daemon": name} | dict(options.get("labels", {}))
    options["labels"] = labels
    return DaemonSet(
        metadata=meta(name, options.get("namespace", "default")),
        spec=DaemonSetSpec(selector=selector({"daemon": name}), template=pod_template(**options)),
    )


def daemon_pod(of: DaemonSet, on: str, **options: Unpack[PodOptions]) -> Pod:
    """A pod that ``of`` runs on a node."""
    namespace = of.metadata.namespace
    options["namespace"] = namespace
    options["owners"] = [owner("DaemonSet", of.metadata.name, namespace=namespace)]
    options["labels"] = of.spec.template.metadata.labels
    options["node_name"] = on
    return pod(f"{of.metadata.name}-{on}", **options)


def replica_set(name: str = "web", replicas: int = 1, **options: Unpack[PodOptions]) -> ReplicaSet:
    """A ReplicaSet that selects its pods by the labels it gives them (``app=t`` by default)."""
    options.setdefault("labels", APP_T)
    return ReplicaSet(
        metadata=meta(name, options.get("namespace", "default")),
        spec=ReplicaSetSpec(
            replicas=replicas,
            selector=selector(options["labels"]),
            template=pod_template(**options),
        ),
    )


def _affinity(options: PodOptions) -> Affinity | None:
    required = node_selector_of(options.get("required", ()))
    preferred = tuple(
        PreferredSchedulingTerm(
            weight=weight, preference=NodeSelectorTerm(match_expressions=tuple(expressions))
        )
        for weight, expressions in options.get("preferred", ())
    )
    node = NodeAffinity(required=required, preferred=preferred) if required or preferred else None
    attracted = _pod_affinity(options.get("affinity", ()), options.get("preferred_affinity", ()))
    repelled = _pod_affinity(
        options.get("anti_affinity", ()), options.get("preferred_anti_affinity", ())
    )
    if node is None and attracted is None and repelled is None:
        return None
    return Affinity(node_affinity=node, pod_affinity=attracted, pod_anti_affinity=repelled)


def _pod_affinity(
    required: Sequence[PodAffinityTerm], preferred: Sequence[tuple[int, PodAffinityTerm]]
) -> PodAffinity | None:
    if not required and not preferred:
        return None
    return PodAffinity(
        required=tuple(required),
        preferred=tuple(
            WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term)
            for weight, term in preferred
        ),
    )


def _volumes(options: PodOptions) -> tuple[Volume, ...]:
    mounted = [
        Volume(
            name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name)
        )
        for name in options.get("claims", ())
    ]
    ephemeral = [
        Volume(
            name=f"ephemeral-{number}",
            ephemeral=EphemeralVolumeSource(
                volume_claim_template=PersistentVolumeClaimTemplate(
                    spec=PersistentVolumeClaimSpec(storage_class_name=name)
                )
            ),
        )
        for number, name in enumerate(options.get("ephemeral", ()))
    ]
    return (*mounted, *ephemeral)
