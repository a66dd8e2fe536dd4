"""What the volumes of pods require of a node: where they can be reached, and how many fit.

A bound volume lists the nodes that reach it as alternatives; a StorageClass that has yet to
provision the volume lists the allowed topologies. A pod with several volumes needs a node that
reaches all of them, so the alternatives of each are combined and those that contradict one another
are dropped.

A claim counts once per machine, however many pods mount it. Claims that do not exist, and volumes
that are not attached through a CSI driver, do not count. The limit of a machine is what its driver
reports; until the driver has reported, it is the known limit of the machine's instance type.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from karpenter.api.pods import Pod
from karpenter.api.selectors import NodeSelectorTerm
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter.cloud.types import InstanceType
from karpenter.model.labels import HOSTNAME, INSTANCE_TYPE, normalise
from karpenter.model.requirement import Operator, RequirementError, requirement
from karpenter.model.requirements import Requirements
from karpenter.scheduling.inputs.storage import Storage
from karpenter.scheduling.plan import Reason, Unplaced, Why
from karpenter.scheduling.problem import NO_VOLUMES, BoundVolumes, PodVolumes, PoolCatalogue
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of, mounts_claims

MOST_ALTERNATIVES: Final = 4096

_ALTERNATIVES_SHOWN: Final = 3
_ANYWHERE: Final = Requirements()


class VolumeError(ValueError):
    """A pod's volumes cannot be resolved, or no node reaches them; the text gives the reason."""


def volume_alternatives(pod: Pod, storage: Storage) -> tuple[Requirements, ...]:
    """The requirements on a node that reaches all of a pod's volumes; none means any node does.

    Claims that do not exist are skipped. Alternatives are in the order in which they are tried.

    Raises:
        VolumeError: when a volume does not exist or is invalid, or no node reaches all of them.
    """
    combined: list[Requirements] = []
    for mount in storage.mounts(pod):
        if mount.claim is None:
            continue
        alternatives = _of_claim(mount.key, mount.claim, storage)
        if combined and alternatives:
            combined = _combined(key_of(pod), mount.key, combined, alternatives)
        else:
            combined = combined or alternatives
    return tuple(combined) if combined != [_ANYWHERE] else ()


def _of_claim(key: str, claim: PersistentVolumeClaim, storage: Storage) -> list[Requirements]:
    name = claim.spec.volume_name
    if name:
        volume = storage.volumes.get(name)
        if volume is None:
            raise VolumeError(f"persistent volume {name} of claim {key} does not exist")
        return _of_volume(name, volume)
    storage_class = storage.classes.get(storage.class_name_of(claim))
    return _of_class(storage_class) if storage_class is not None else []


def _of_volume(name: str, volume: PersistentVolume) -> list[Requirements]:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return []
    # Data on a host's disk is lost with the host, so the hostname in the affinity is ignored
    moves = volume.spec.local is not None or volume.spec.host_path is not None
    try:
        return _distinct(
            _of_term(term, without_host=moves) for term in affinity.required.node_selector_terms
        )
    except RequirementError as error:
        raise VolumeError(f"node affinity of persistent volume {name}: {error}") from error


def _of_term(term: NodeSelectorTerm, *, without_host: bool) -> Requirements:
    return Requirements.from_wire(
        expression
        for expression in term.match_expressions
        if not (without_host and normalise(expression.key) == HOSTNAME)
    )


def _of_class(storage_class: StorageClass) -> list[Requirements]:
    return _distinct(
        Requirements(
            requirement(expression.key, Operator.IN, expression.values)
            for expression in term.match_label_expressions
        )
        for term in storage_class.allowed_topologies
    )


def _combined(
    pod: str, claim: str, so_far: Sequence[Requirements], more: Sequence[Requirements]
) -> list[Requirements]:
    together = _distinct(
        left & right for left, right in product(so_far, more) if left.intersects(right)
    )
    if not together:
        places, others = _either(more), _either(so_far)
        raise VolumeError(
            f"claim {claim} can only be reached with {places},"
            f" but the other volumes of pod {pod} only with {others}"
        )
    if len(together) > MOST_ALTERNATIVES:
        raise VolumeError(
            f"the volumes of pod {pod} can be reached in more than {MOST_ALTERNATIVES} ways;"
            " use volumes with fewer alternatives"
        )
    return together


def _distinct(alternatives: Iterable[Requirements]) -> list[Requirements]:
    return list(dict.fromkeys(alternatives))


def _either(alternatives: Sequence[Requirements]) -> str:
    shown = [str(alternative) or "any node" for alternative in alternatives[:_ALTERNATIVES_SHOWN]]
    left_out = len(alternatives) - len(shown)
    return " or ".join([*shown, f"{left_out} other ways"] if left_out else shown)


@dataclass(frozen=True, slots=True)
class ResolvedVolumes:
    """The volumes of the pods of a pass."""

    by_pod: Mapping[str, PodVolumes] = field(default_factory=dict)  # pod uid -> its volumes
    failures: Mapping[str, Unplaced] = field(default_factory=dict)  # pod uid -> why it fails


def resolve_volumes(pods: Iterable[Pod], storage: Storage) -> ResolvedVolumes:
    """Resolve the requirements of each pod's volumes; pods without any are omitted.

    A pod among the failures fits on no node at all: omit it from the pass.
    """
    by_pod: dict[str, PodVolumes] = {}
    failures: dict[str, Unplaced] = {}
    shared: dict[Requirements, Requirements] = {}  # one object for equal alternatives
    for pod in pods:
        if not mounts_claims(pod):
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

    Machines with nothing attached and no known limit are omitted. ``pools`` are those of the
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
        attached = attached_claims(node.mounting_pods, storage)
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
            limits.pop(driver.name, None)  # the driver has reported that it has no limit
        else:
            limits[driver.name] = count
    return limits
