"""The cluster state: updated from watch events, one object at a time, and read as snapshots.

Updates are idempotent and may arrive in any order. The cost of a snapshot is proportional to what
changed since the last one: unchanged machines are the same objects as before, unchanged kinds the
same mappings, and without any change the snapshot itself is the same.

The state is not thread-safe. Snapshots, which never change, are.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Generic, TypeVar, cast

from karpenter.api import cluster, devices, karpenter, policy, storage, workloads
from karpenter.api.karpenter import NodeClaim, NodeClassReference
from karpenter.api.meta import Resource
from karpenter.api.node_classes import NodeClass
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod, PodTemplate
from karpenter.state.expectations import Expectations
from karpenter.state.machines import Machines
from karpenter.state.object_keys import key_of, may_be_same
from karpenter.state.pods import is_bound, is_daemon, is_finished
from karpenter.state.snapshot import Snapshot

R = TypeVar("R", bound=Resource)
K = TypeVar("K")

# The kinds that planners read, besides pods and machines; all others are ignored
KEPT_KINDS: Final[tuple[type[Resource], ...]] = (
    karpenter.NodePool,
    karpenter.NodeOverlay,
    karpenter.CapacityBuffer,
    karpenter.Commitment,
    workloads.DaemonSet,
    workloads.Deployment,
    workloads.ReplicaSet,
    workloads.ReplicationController,
    workloads.StatefulSet,
    workloads.Job,
    PodTemplate,
    cluster.Namespace,
    cluster.Service,
    policy.PodDisruptionBudget,
    storage.PersistentVolumeClaim,
    storage.PersistentVolume,
    storage.StorageClass,
    storage.CSINode,
    storage.VolumeAttachment,
    devices.DeviceClass,
    devices.ResourceClaim,
    devices.ResourceClaimTemplate,
    devices.ResourceSlice,
)


class ClusterState:
    """The state of the cluster as of the latest watch events."""

    def __init__(self) -> None:
        """Begin with an empty cluster."""
        self._machines = Machines()
        self._intentions = Expectations()
        self._launches_held: Mapping[str, datetime] = {}  # pool -> until when
        self._pods: _Shelf[str, Pod] = _Shelf()
        self._unbound: _Shelf[str, Pod] = _Shelf()
        self._daemons: _Shelf[str, Pod] = _Shelf()
        self._node_classes: _Shelf[NodeClassReference, NodeClass] = _Shelf()
        self._kept: dict[type[Resource], _Shelf[str, Resource]] = {k: _Shelf() for k in KEPT_KINDS}
        self._snapshot: Snapshot | None = None

    def apply(self, resource: Resource) -> bool:
        """Store an object, new or changed; return whether the state has changed."""
        match resource:
            case Pod():
                changed = self._put_pod(resource)
            case Node():
                changed = self._machines.put_node(resource)
            case NodeClaim():
                changed = self._put_claim(resource)
            case NodeClass():
                changed = self._node_classes.put(_reference_to(resource), resource)
            case _:
                shelf = self._kept.get(type(resource))
                changed = shelf is not None and shelf.put(key_of(resource), resource)
        return self._note(changed)

    def delete(self, resource: Resource) -> bool:
        """Remove an object; return whether it was there.

        An object with the same name and another uid, its successor, is kept.
        """
        match resource:
            case Pod():
                changed = self._drop_pod(resource)
            case Node():
                changed = self._machines.drop_node(resource)
            case NodeClaim():
                changed = self._drop_claim(resource)
            case NodeClass():
                changed = self._node_classes.drop(_reference_to(resource), resource)
            case _:
                shelf = self._kept.get(type(resource))
                changed = shelf is not None and shelf.drop(key_of(resource), resource)
        return self._note(changed)

    def mark(self, name: str) -> None:
        """Mark the machine of a Node or NodeClaim for deletion; an unknown name is ignored."""
        self._note(self._machines.mark(name))

    def unmark(self, name: str) -> None:
        """Remove the mark from the machine of a Node or NodeClaim."""
        self._note(self._machines.unmark(name))

    def nominate(self, name: str, until: datetime) -> None:
        """Nominate the machine of a Node or NodeClaim; of two nominations the later end holds."""
        self._note(self._machines.nominate(name, until))

    def expect(self, name: str, node_pool: str, *, replaces: str = "") -> None:
        """Count a claim from before it is created until its watch event arrives, or ``settle``."""
        self._note(self._intentions.expect(name, node_pool, replaces))

    def rename(self, old: str, new: str) -> None:
        """Expect the claim under another name."""
        self._note(self._intentions.rename(old, new))

    def doubt(self, name: str, now: datetime) -> None:
        """Keep counting an expected claim for a while; whether it was created is not known."""
        self._note(self._intentions.doubt(name, now))

    def settle(self, name: str) -> None:
        """Stop expecting a claim."""
        self._note(self._intentions.settle(name))

    def is_expected(self, name: str) -> bool:
        """Whether a claim of this name is being created."""
        return self._intentions.is_expected(name)

    def dismiss(self, claim: NodeClaim) -> None:
        """Stop counting a claim that the API server was asked to delete."""
        self._note(self._intentions.dismiss(claim.metadata.uid))

    def hold_launches(self, node_pool: str, until: datetime | None) -> None:
        """Hold the launches of a pool until a time; None releases them."""
        held = {name: at for name, at in self._launches_held.items() if name != node_pool}
        if until is not None:
            held[node_pool] = until
        changed = held != self._launches_held
        self._launches_held = held
        self._note(changed)

    @property
    def is_synced(self) -> bool:
        """Whether every NodeClaim has a machine, so that all requested capacity is known."""
        return not self._machines.unlaunched

    def snapshot(self) -> Snapshot:
        """Return the cluster as it is now."""
        if self._snapshot is None:
            self._snapshot = Snapshot(
                nodes=self._machines.all(),
                unlaunched=self._machines.unlaunched,
                coming=self._intentions.coming,
                dismissed=self._intentions.dismissed,
                launches_held=self._launches_held,
                skipped_nodes=self._machines.skipped_nodes,
                pods=self._pods.share(),
                unbound_pods=self._unbound.share(),
                daemon_pods=self._daemons.share(),
                node_pools=self._all(karpenter.NodePool),
                node_classes=self._node_classes.share(),
                node_overlays=self._all(karpenter.NodeOverlay),
                capacity_buffers=self._all(karpenter.CapacityBuffer),
                commitments=self._all(karpenter.Commitment),
                daemon_sets=self._all(workloads.DaemonSet),
                deployments=self._all(workloads.Deployment),
                replica_sets=self._all(workloads.ReplicaSet),
                replication_controllers=self._all(workloads.ReplicationController),
                stateful_sets=self._all(workloads.StatefulSet),
                jobs=self._all(workloads.Job),
                pod_templates=self._all(PodTemplate),
                namespaces=self._all(cluster.Namespace),
                services=self._all(cluster.Service),
                pdbs=self._all(policy.PodDisruptionBudget),
                pvcs=self._all(storage.PersistentVolumeClaim),
                pvs=self._all(storage.PersistentVolume),
                storage_classes=self._all(storage.StorageClass),
                csi_nodes=self._all(storage.CSINode),
                volume_attachments=self._all(storage.VolumeAttachment),
                device_classes=self._all(devices.DeviceClass),
                resource_claims=self._all(devices.ResourceClaim),
                resource_claim_templates=self._all(devices.ResourceClaimTemplate),
                resource_slices=self._all(devices.ResourceSlice),
            )
        return self._snapshot

    def _put_pod(self, pod: Pod) -> bool:
        key = key_of(pod)
        if not self._pods.put(key, pod):
            return False
        has_node = is_bound(pod)
        self._unbound.keep_if(not has_node, key, pod)
        self._daemons.keep_if(is_daemon(pod), key, pod)
        if has_node and not is_finished(pod):
            self._machines.bind(key, pod)
        else:
            self._machines.unbind(key)
        return True

    def _put_claim(self, claim: NodeClaim) -> bool:
        was_expected = self._intentions.settle(claim.metadata.name)
        return self._machines.put_claim(claim) or was_expected

    def _drop_claim(self, claim: NodeClaim) -> bool:
        self._intentions.forget(claim.metadata.uid)
        return self._machines.drop_claim(claim)

    def _drop_pod(self, pod: Pod) -> bool:
        key = key_of(pod)
        if not self._pods.drop(key, pod):
            return False
        self._unbound.keep_if(False, key, pod)
        self._daemons.keep_if(False, key, pod)
        self._machines.unbind(key)
        return True

    def _all(self, kind: type[R]) -> Mapping[str, R]:
        # The cast is sound, because apply() stores an object under its own type
        return cast(Mapping[str, R], self._kept[kind].share())

    def _note(self, changed: bool) -> bool:
        if changed:
            self._snapshot = None
        return changed


def snapshot_of(resources: Iterable[Resource]) -> Snapshot:
    """Return the cluster that consists of these objects."""
    state = ClusterState()
    for resource in resources:
        state.apply(resource)
    return state.snapshot()


class _Shelf(Generic[K, R]):
    """The objects of one kind by key; copy-on-write once it was shared with a snapshot."""

    __slots__ = ("_items", "_shared")

    def __init__(self) -> None:
        self._items: dict[K, R] = {}
        self._shared = False

    def put(self, key: K, item: R) -> bool:
        """Add or replace an object; return whether anything has changed."""
        if self._items.get(key) == item:
            return False
        self._own()[key] = item
        return True

    def drop(self, key: K, item: R) -> bool:
        """Remove an object, unless its successor has the key by now; return whether it was here."""
        found = self._items.get(key)
        if found is None or not may_be_same(found, item):
            return False
        del self._own()[key]
        return True

    def keep_if(self, belongs: bool, key: K, item: R) -> None:
        """Store the object if it belongs here, else remove what is under its key."""
        if belongs:
            self.put(key, item)
        elif key in self._items:
            del self._own()[key]

    def share(self) -> Mapping[K, R]:
        """All objects; the next change copies the mapping first."""
        self._shared = True
        return self._items

    def _own(self) -> dict[K, R]:
        if self._shared:
            self._items = dict(self._items)
            self._shared = False
        return self._items


def _reference_to(node_class: NodeClass) -> NodeClassReference:
    group = node_class.api_version.partition("/")[0]
    return NodeClassReference(group=group, kind=node_class.kind, name=node_class.metadata.name)
