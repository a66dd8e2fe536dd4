"""Storage for tests: claims that are ready, and plans for pods that mount them."""

from collections.abc import Iterable, Sequence
from typing import Final, Unpack

import msgspec

from helpers.builders import Expressions, pv, pvc
from helpers.solver import Answer, Setting, question, solved
from karpenter.api.pods import Pod
from karpenter.api.storage import (
    CSINode,
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from karpenter.scheduling.inputs.storage import Storage
from karpenter.scheduling.inputs.volumes import node_volumes, resolve_volumes
from karpenter.state.cluster import ClusterState

BOUND: Final = {"pv.kubernetes.io/bind-completed": "yes"}
DRIVER: Final = "csi.example.com"


def stored(
    claims: Iterable[PersistentVolumeClaim] = (),
    volumes: Iterable[PersistentVolume] = (),
    classes: Iterable[StorageClass] = (),
    csi_nodes: Iterable[CSINode] = (),
) -> Storage:
    """A cluster's storage objects."""
    state = ClusterState()
    for resource in (*claims, *volumes, *classes, *csi_nodes):
        state.apply(resource)
    return Storage.of(state.snapshot())


def bound_claim(
    name: str, volume: str, storage_class: str | None = "standard"
) -> PersistentVolumeClaim:
    """A claim whose binding to a volume is complete."""
    return pvc(name, volume=volume, storage_class=storage_class, annotations=BOUND)


def unbound_claims(
    names: Iterable[str], storage_class: str = "standard"
) -> list[PersistentVolumeClaim]:
    """Claims that wait for their first consumer."""
    return [pvc(name, storage_class=storage_class) for name in names]


def local_volume(name: str, terms: Sequence[Expressions]) -> PersistentVolume:
    """A volume on the disk of a host."""
    volume = pv(name, terms=terms)
    spec = msgspec.structs.replace(volume.spec, local=LocalVolumeSource(path="/mnt"))
    return msgspec.structs.replace(volume, spec=spec)


def solved_with(storage: Storage, wanted: Sequence[Pod], **setting: Unpack[Setting]) -> Answer:
    """Ask where pods go whose volumes, like those of running pods, are found in ``storage``."""
    resolved = resolve_volumes(wanted, storage)
    assert {} == resolved.failures
    problem = question(wanted, **setting)
    setting["volumes"] = {
        pod.metadata.name: resolved.by_pod[pod.metadata.uid]
        for pod in wanted
        if pod.metadata.uid in resolved.by_pod
    }
    setting["node_volumes"] = node_volumes(problem.nodes, problem.pools, storage)
    return solved(wanted, **setting)
