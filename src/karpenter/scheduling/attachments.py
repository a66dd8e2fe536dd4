"""Which volumes are attached through which driver, and how many a machine can take.

A claim counts once per machine, however many pods mount it. Claims that do not exist, and volumes
that are not attached through a CSI driver, do not count. The limit of a machine is what its driver
reports; until the driver has reported, it is what the machine's instance type is known for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.model.labels import INSTANCE_TYPE
from karpenter.model.requirements import Requirements
from karpenter.scheduling.plan import Reason, Unplaced, Why
from karpenter.scheduling.problem import BoundVolumes, PoolCatalogue
from karpenter.scheduling.storage import Storage
from karpenter.scheduling.volume_topology import VolumeError, volume_alternatives
from karpenter.scheduling.volumes import NO_VOLUMES, PodVolumes
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of


@dataclass(frozen=True, slots=True)
class ResolvedVolumes:
    """The volumes of the pods of a pass."""

    by_pod: Mapping[str, PodVolumes] = field(default_factory=dict)  # pod uid -> its volumes
    failures: Mapping[str, Unplaced] = field(default_factory=dict)  # pod uid -> why it fails


def resolve_volumes(pods: Iterable[Pod], storage: Storage) -> ResolvedVolumes:
    """Find out what the volumes of each pod demand; pods without any are left out.

    A pod among the failures fails outright, whatever nodes there are: leave it out of the pass.
    """
    by_pod: dict[str, PodVolumes] = {}
    failures: dict[str, Unplaced] = {}
    shared: dict[Requirements, Requirements] = {}  # one object for equal alternatives
    for pod in pods:
        if not pod.spec.volumes:
            continue
        try:
            alternatives = volume_alternatives(pod, storage)
        except VolumeError as error:
            reason = Reason("", Why.VOLUME_CONFLICT, str(error))
            failures[pod.metadata.uid] = Unplaced(key_of(pod), (reason,))
            continue
        volumes = PodVolumes(
            tuple(shared.setdefault(alternative, alternative) for alternative in alternatives),
            attached_claims((pod,), storage),
        )
        if volumes != NO_VOLUMES:
            by_pod[pod.metadata.uid] = volumes
    return ResolvedVolumes(by_pod, failures)


def attached_claims(pods: Iterable[Pod], storage: Storage) -> dict[str, frozenset[str]]:
    """The claims that running ``pods`` on one machine attaches to it, by CSI driver."""
    attached: dict[str, set[str]] = {}
    for pod in pods:
        for mount in storage.mounts(pod):
            driver = storage.driver_of(mount.claim) if mount.claim is not None else ""
            if driver:
                attached.setdefault(driver, set()).add(mount.key)
    return {driver: frozenset(claims) for driver, claims in attached.items()}


def node_volumes(
    nodes: Iterable[StateNode], pools: Sequence[PoolCatalogue], storage: Storage
) -> dict[str, BoundVolumes]:
    """What is attached to each machine and what it could attach, by the machine's name.

    Machines with nothing attached and no known limit are left out. ``pools`` are those of the
    pass: the type of a machine is looked up in its pool's catalogue.
    """
    types = {
        (pool.node_pool.metadata.name, instance_type.name): instance_type
        for pool in pools
        for instance_type in pool.instance_types
        if instance_type.volume_attachment_limits
    }
    found: dict[str, BoundVolumes] = {}
    for node in nodes:
        limits = _limits(node, types, storage)
        attached = attached_claims(node.pods, storage)
        if limits or attached:
            found[node.name] = BoundVolumes(attached, limits)
    return found


def _limits(
    node: StateNode, types: Mapping[tuple[str, str], InstanceType], storage: Storage
) -> dict[str, int]:
    instance_type = types.get((node.node_pool, node.labels.get(INSTANCE_TYPE, "")))
    limits = dict(instance_type.volume_attachment_limits) if instance_type is not None else {}
    reported = storage.csi_nodes.get(node.node.metadata.name) if node.node is not None else None
    for driver in reported.spec.drivers if reported is not None else ():
        count = driver.allocatable.count if driver.allocatable is not None else None
        if count is None:
            limits.pop(driver.name, None)  # it has reported, and sets no limit
        else:
            limits[driver.name] = count
    return limits
