"""Machines that exist: whether Node or NodeClaim is authoritative, and the daemons they run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node, Taint
from karpenter.api.pods import Pod, PodSpec, Toleration
from karpenter.checker.amounts import Amounts, amounts, daemon_amounts, pod_amounts
from karpenter.checker.inputs import Cluster, Machine
from karpenter.checker.labels import HOSTNAME, NODEPOOL, Demand, demand, node_alternatives
from karpenter.model.conditions import INSTANCE_TERMINATING, REBOOTING

_PASSING = (
    ("node.kubernetes.io/not-ready", "NoSchedule"),
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoSchedule"),
    ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
    ("karpenter.sh/unregistered", "NoExecute"),
)
# Keeps the scheduler, not the planner, off a node that pods of a rebalance are bound to
_AWAITING = ("cost.karpenter.sh/awaits-pods", "NoSchedule")


def is_registered(machine: Machine) -> bool:
    """Whether the Node is authoritative for labels and taints."""
    return machine.node_claim is None or _node_says(machine, "karpenter.sh/registered")


def is_initialized(machine: Machine) -> bool:
    """Whether the Node is authoritative for its resources too."""
    return machine.node_claim is None or _node_says(machine, "karpenter.sh/initialized")


def is_leaving(machine: Machine) -> bool:
    """Whether the machine is being deleted, or marked for it."""
    claim = machine.node_claim
    if claim is None:
        node = machine.node
        return machine.is_marked or (
            node is not None and node.metadata.deletion_timestamp is not None
        )
    return (
        machine.is_marked
        or claim.metadata.deletion_timestamp is not None
        or _claim_says(claim, INSTANCE_TERMINATING)
    )


def name_of(machine: Machine) -> str:
    """The name plans use for a machine."""
    return _speaker(machine).metadata.name


def labels_of(machine: Machine) -> Mapping[str, str]:
    """The labels of the authoritative object, always with a hostname."""
    labels = _speaker(machine).metadata.labels
    return {HOSTNAME: name_of(machine)} | {k: v for k, v in labels.items() if v or k != HOSTNAME}


def pool_of(machine: Machine) -> str:
    """The pool the machine belongs to, or nothing."""
    return _speaker(machine).metadata.labels.get(NODEPOOL, "")


def taints_of(machine: Machine) -> tuple[Taint, ...]:
    """The taints that stay, without those of a machine that starts or awaits pods."""
    claim = machine.node_claim
    if is_registered(machine) and machine.node is not None:
        held = machine.node.spec.taints
    else:
        held = claim.spec.taints if claim is not None else ()
    if claim is None:
        return held
    rebooting = _claim_says(claim, REBOOTING)
    if is_initialized(machine) and not rebooting:
        return tuple(taint for taint in held if (taint.key, taint.effect) != _AWAITING)
    passing = {_AWAITING, *_PASSING, *((t.key, t.effect) for t in claim.spec.startup_taints)}
    if rebooting:
        passing.add(("karpenter.sh/rebooting", "NoSchedule"))
    return tuple(
        taint
        for taint in held
        if (taint.key, taint.effect) not in passing
        and not taint.key.startswith("readiness.k8s.io/")
    )


def allocatable_of(machine: Machine) -> Amounts:
    """What the machine has for pods."""
    return _fused(
        machine,
        amounts(machine.node.status.allocatable if machine.node else {}),
        amounts(machine.node_claim.status.allocatable if machine.node_claim else {}),
    )


def capacity_of(machine: Machine) -> Amounts:
    """How large the machine is."""
    return _fused(
        machine,
        amounts(machine.node.status.capacity if machine.node else {}),
        amounts(machine.node_claim.status.capacity if machine.node_claim else {}),
    )


def is_daemon(pod: Pod) -> bool:
    """Whether a DaemonSet owns a pod."""
    return any(
        o.kind == "DaemonSet" and o.api_version == "apps/v1" for o in pod.metadata.owner_references
    )


@dataclass(frozen=True)
class Daemon:
    """A DaemonSet, which every suitable machine will run a pod of."""

    name: str
    amounts: Amounts
    tolerations: tuple[Toleration, ...]
    alternatives: list[list[Demand]]
    spec: PodSpec  # for its ports


def daemons_of(cluster: Cluster) -> list[Daemon]:
    """The daemons of a cluster, each represented by the newest of its pods."""
    found = []
    for daemon_set in cluster.daemon_sets:
        template = daemon_set.spec.template.spec
        if cluster.policies.ignore_device_claims and template.resource_claims:
            continue
        newest = _newest(
            pod
            for pod in cluster.daemon_pods
            if any(
                o.controller and o.kind == "DaemonSet" and o.uid == daemon_set.metadata.uid
                for o in pod.metadata.owner_references
            )
        )
        spec = newest.spec if newest is not None else template
        own = template.affinity.node_affinity if template.affinity is not None else None
        if newest is None or (own is not None and own.required is not None):
            alternatives = node_alternatives(template)
        else:  # the DaemonSet controller sets each pod's affinity to its node
            alternatives = [[demand(k, "In", (v,)) for k, v in spec.node_selector.items()]]
        found.append(
            Daemon(
                daemon_set.metadata.name,
                pod_amounts(newest) if newest is not None else daemon_amounts(template),
                spec.tolerations,
                alternatives,
                spec,
            )
        )
    return found


def _newest(pods: Iterable[Pod]) -> Pod | None:
    def age(pod: Pod) -> tuple[float, str]:
        created = pod.metadata.creation_timestamp
        return (created.timestamp() if created else 0.0, pod.metadata.name)

    return max(pods, key=age, default=None)


def _fused(machine: Machine, real: Amounts, promised: Amounts) -> Amounts:
    if is_initialized(machine):
        return real
    return promised | {name: amount for name, amount in real.items() if amount}


def _speaker(machine: Machine) -> Node | NodeClaim:
    if machine.node is not None and is_registered(machine):
        return machine.node
    if machine.node_claim is None:
        raise ValueError("a machine needs a Node or a NodeClaim")
    return machine.node_claim


def _node_says(machine: Machine, label: str) -> bool:
    return machine.node is not None and machine.node.metadata.labels.get(label) == "true"


def _claim_says(claim: NodeClaim, condition: str) -> bool:
    return any(c.type == condition and c.status == "True" for c in claim.status.conditions)
