"""The rows of pods: made again only for pods that changed, or that something changed for.

What a row depends on besides its pod: the node it is on or expected on, the workload above its
ReplicaSet or Job, the PDBs that select it, and the end of a protection by time. Each has an index,
so that a change leads to the rows it concerns.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias, TypeVar

from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.dashboard.contract import POD_FLAGS, POD_STATES, PodColumns
from karpenter.dashboard.picture import Picture
from karpenter.dashboard.shown import Shown
from karpenter.dashboard.words import Words
from karpenter.disruption.candidates import Inspection
from karpenter.model.conditions import FALSE, POD_SCHEDULED, find
from karpenter.model.resources import Resources
from karpenter.model.selectors import selects
from karpenter.scheduling.inputs.legacy_keys import is_protected_as_of_old
from karpenter.state.departing_pods import is_protected, protected_until
from karpenter.state.object_keys import namespace_of, uid_of
from karpenter.state.owners import controller_of, deployment_of
from karpenter.state.pods import (
    is_active,
    is_bound,
    is_critical,
    is_daemon,
    is_finished,
    is_mirror,
    is_terminating,
)
from karpenter.state.requests import pod_requests
from karpenter.state.snapshot import Snapshot

K = TypeVar("K")
Row: TypeAlias = tuple[Any, ...]  # the values of all columns, id first

NO_NODE: Final = -1
_DEVICES: Final = ("gpu", "gaudi", "neuron", "neuroncore", "neurondevice", "tpu", "accelerator")
_STATE: Final = {name: place for place, name in enumerate(POD_STATES)}
_HELD: Final = POD_FLAGS["doNotDisrupt"] | POD_FLAGS["pdb"]
_FLAGS: Final = PodColumns.__struct_fields__.index("flags")

_OwnerKey: TypeAlias = tuple[str, str, str]  # namespace, kind and name of the controller
_LabelSet: TypeAlias = tuple[str, frozenset[tuple[str, str]]]  # namespace and labels


@dataclass(slots=True)
class _Member:
    """A pod, and what its row was made from."""

    pod: Pod
    id: int  # 0: it has finished, so that it has no row
    owner: _OwnerKey | None
    likeness: _LabelSet
    is_hidden: bool
    amounts: tuple[int, int, int]  # cpu, memory, devices


class PodRows:
    """The pods of a cluster as rows, kept from picture to picture."""

    def __init__(
        self,
        shown: Shown,
        namespaces: Words,
        owners: Words,
        reasons: Words,
        new_id: Callable[[], int],
    ) -> None:
        """Begin without pods."""
        self.rows: Final[dict[int, Row]] = {}  # by id, in the order of ids
        self.finished = 0
        self._shown = shown
        self._namespaces, self._owners, self._reasons = namespaces, owners, reasons
        self._new_id = new_id
        self._members: dict[str, _Member] = {}  # by key
        self._seen: Mapping[str, Pod] = {}
        self._on: dict[str, set[str]] = {}  # name of a node -> keys of its pods
        self._alike: dict[_LabelSet, set[str]] = {}  # labels -> keys of the pods that have them
        self._pdbs: Mapping[str, PodDisruptionBudget] = {}
        self._guarded: dict[_LabelSet, bool] = {}  # whether a PDB selects such pods
        self._workloads: tuple[object, object] = (None, None)  # that owners were found among
        self._names_of_owners: dict[_OwnerKey, str] = {}
        self._ends: list[tuple[datetime, str]] = []  # when the protection of a pod ends
        self._targets: Mapping[str, str] = {}
        self._why: Mapping[str, str] = {}

    def update(
        self, picture: Picture, place_of: Callable[[str], int], moved: Collection[str]
    ) -> set[str]:
        """Take over a picture; return the names of nodes whose pods have changed.

        Args:
            picture: the cluster.
            place_of: the id of the row of a Node or NodeClaim by its name.
            moved: names of nodes and claims whose id is another one, or none, by now.
        """
        snapshot = picture.snapshot
        affected: set[str] = set()
        due = self._due(picture, moved)
        due |= self._take_over(snapshot.pods, affected)
        due |= self._of_changed_budgets(snapshot.pdbs)
        due |= self._of_changed_owners(snapshot)
        inspection = Inspection(snapshot, {}, picture.now)
        for key in sorted(due):
            member = self._members.get(key)
            if member is None or not member.id:
                continue
            row = self._row(member, key, picture, place_of, inspection)
            old = self.rows.get(member.id)
            if row != old:
                self.rows[member.id] = row
                if old is None or old[_FLAGS] != row[_FLAGS]:
                    affected.add(member.pod.spec.node_name)
        return affected

    def flags_on(self, node: str) -> int:
        """The flags of all pods on a node together."""
        flags = 0
        for key in self._on.get(node, ()):
            row = self.rows.get(self._members[key].id)
            if row is not None:
                flags |= row[_FLAGS]
        return flags & _HELD

    def _due(self, picture: Picture, moved: Collection[str]) -> set[str]:
        """The pods that have to be looked at for what is not about them."""
        due: set[str] = set()
        while self._ends and self._ends[0][0] <= picture.now:
            due.add(heappop(self._ends)[1])
        for name in moved:
            due |= self._on.get(name, set())
        if moved:
            due.update(key for key, name in picture.targets.items() if name in moved)
        due |= _differing(self._targets, picture.targets)
        due |= _differing(self._why, picture.reasons)
        self._targets, self._why = picture.targets, picture.reasons
        return due

    def _take_over(self, pods: Mapping[str, Pod], affected: set[str]) -> set[str]:
        if pods is self._seen:
            return set()
        members = self._members
        changed = set()
        for key, pod in pods.items():
            member = members.get(key)
            if member is None or member.pod is not pod:
                changed.add(key)
        gone = members.keys() - pods.keys() if len(members) + len(changed) > len(pods) else ()
        for key in sorted(gone):
            self._forget(key, affected)
        for key in sorted(changed):
            pod, member = pods[key], members.get(key)
            known = 0
            if member is not None:
                known = member.id if uid_of(member.pod) == uid_of(pod) else 0
                self._forget(key, affected, keeps_row=bool(known) and not is_finished(pod))
            self._meet(key, pod, known, affected)
        self._seen = pods
        return changed

    def _meet(self, key: str, pod: Pod, known: int, affected: set[str]) -> None:
        namespace, controller = namespace_of(pod), controller_of(pod)
        is_over = is_finished(pod)
        member = _Member(
            pod,
            0 if is_over else known or self._new_id(),
            (namespace, controller.kind, controller.name) if controller is not None else None,
            (namespace, frozenset(pod.metadata.labels.items())),
            not self._shown.shows(namespace),
            (0, 0, 0) if is_over else _amounts(pod_requests(pod)),
        )
        self._members[key] = member
        self.finished += is_over
        if is_over:
            return
        self._alike.setdefault(member.likeness, set()).add(key)
        if is_bound(pod):
            self._on.setdefault(pod.spec.node_name, set()).add(key)
            affected.add(pod.spec.node_name)
        until = protected_until(pod)
        if until is not None:
            heappush(self._ends, (until, key))

    def _forget(self, key: str, affected: set[str], *, keeps_row: bool = False) -> None:
        member = self._members.pop(key)
        if not member.id:
            self.finished -= 1
            return
        if not keeps_row:
            self.rows.pop(member.id, None)
        if _discard(self._alike, member.likeness, key):
            self._guarded.pop(member.likeness, None)
        name = member.pod.spec.node_name
        if name:
            _discard(self._on, name, key)
            affected.add(name)

    def _of_changed_budgets(self, pdbs: Mapping[str, PodDisruptionBudget]) -> set[str]:
        if pdbs is self._pdbs:
            return set()
        changed: dict[str, list[PodDisruptionBudget]] = {}
        for key in self._pdbs.keys() | pdbs.keys():
            old, new = self._pdbs.get(key), pdbs.get(key)
            if old is not new and old != new:
                for pdb in filter(None, (old, new)):
                    changed.setdefault(namespace_of(pdb), []).append(pdb)
        self._pdbs = pdbs
        due: set[str] = set()
        for (namespace, held), keys in self._alike.items():
            among = changed.get(namespace)
            if among and any(selects(pdb.spec.selector, dict(held)) for pdb in among):
                self._guarded.pop((namespace, held), None)
                due |= keys
        return due

    def _of_changed_owners(self, snapshot: Snapshot) -> set[str]:
        workloads = (snapshot.replica_sets, snapshot.jobs)
        if all(a is b for a, b in zip(workloads, self._workloads, strict=True)):
            return set()
        self._workloads = workloads
        known = self._names_of_owners
        used = {member.owner for member in self._members.values() if member.owner is not None}
        self._names_of_owners = {owner: _owner_name(owner, snapshot) for owner in used}
        changed = {
            owner for owner in used & known.keys() if known[owner] != self._names_of_owners[owner]
        }
        if not changed:
            return set()
        return {key for key, member in self._members.items() if member.owner in changed}

    def _owner_of(self, member: _Member, snapshot: Snapshot) -> str:
        if member.owner is None:
            return ""
        name = self._names_of_owners.get(member.owner)
        if name is None:
            name = self._names_of_owners[member.owner] = _owner_name(member.owner, snapshot)
        return name

    def _is_guarded(self, member: _Member, snapshot: Snapshot) -> bool:
        """Whether a PDB selects the pod; the same for all pods of the same labels."""
        known = self._guarded.get(member.likeness)
        if known is None:
            known = self._guarded[member.likeness] = any(
                selects(pdb.spec.selector, member.pod.metadata.labels)
                for pdb in snapshot.pdbs_in(member.likeness[0])
            )
        return known

    def _row(
        self,
        member: _Member,
        key: str,
        picture: Picture,
        place_of: Callable[[str], int],
        inspection: Inspection,
    ) -> Row:
        pod, shown = member.pod, self._shown
        hidden = member.is_hidden
        node = pod.spec.node_name
        target = picture.targets.get(key, "") if not node else ""
        created = pod.metadata.creation_timestamp
        owner = "" if hidden else self._owner_of(member, picture.snapshot)
        return (
            member.id,
            0 if hidden else self._namespaces.place(shown.name(member.likeness[0])),
            "" if hidden else shown.name(pod.metadata.name),
            self._owners.place(shown.reference(owner)),
            place_of(node) if node else NO_NODE,
            place_of(target) if target else NO_NODE,
            *member.amounts,
            _STATE[_state(pod)],
            seconds(created),
            self._flags(member, picture.now, inspection),
            0 if node else self._reasons.place(picture.reasons.get(key) or _why_it_waits(pod)),
        )

    def _flags(self, member: _Member, now: datetime, inspection: Inspection) -> int:
        pod = member.pod
        flags = POD_FLAGS["hidden"] if member.is_hidden else 0
        if is_daemon(pod):
            flags |= POD_FLAGS["daemon"]
        if is_mirror(pod):
            flags |= POD_FLAGS["mirror"]
        if is_critical(pod):
            flags |= POD_FLAGS["critical"]
        is_held = is_protected(pod, now=now) or is_protected_as_of_old(pod)
        if is_held and is_active(pod):
            flags |= POD_FLAGS["doNotDisrupt"]
        if self._is_guarded(member, inspection.snapshot) and inspection.held_by(pod):
            flags |= POD_FLAGS["pdb"]
        return flags


def seconds(moment: datetime | None) -> int:
    """A moment as columns have it."""
    return 0 if moment is None else int(moment.timestamp())


def devices(amounts: Resources) -> int:
    """How many accelerators there are among the amounts of a node or a pod."""
    if not amounts.others:
        return 0
    return sum(
        amount
        for name, amount in amounts.others.items()
        if "/" in name and name.rpartition("/")[2] in _DEVICES
    )


def _amounts(requests: Resources) -> tuple[int, int, int]:
    return requests.cpu, requests.memory, devices(requests)


def _state(pod: Pod) -> str:
    if is_terminating(pod):
        return "Terminating"
    if not is_bound(pod):
        return "Gated" if pod.spec.scheduling_gates else "Waiting"
    return "Running" if pod.status.phase == "Running" else "Starting"


def _why_it_waits(pod: Pod) -> str:
    condition = find(pod.status.conditions, POD_SCHEDULED)
    return condition.reason if condition is not None and condition.status == FALSE else ""


def _owner_name(owner: _OwnerKey, snapshot: Snapshot) -> str:
    """The workload that people know a pod by, such as Deployment/web."""
    namespace, kind, name = owner
    key = f"{namespace}/{name}"
    if kind == "ReplicaSet":
        known = snapshot.replica_sets.get(key)
        above = deployment_of(known) if known is not None else key.rpartition("-")[0]
        if above:
            return f"Deployment/{above.partition('/')[2]}"
    if kind == "Job" and key in snapshot.jobs:
        controller = controller_of(snapshot.jobs[key])
        if controller is not None:
            return f"{controller.kind}/{controller.name}"
    if kind == "Node":
        return ""  # a static pod's, which is named after its node
    return f"{kind}/{name}"


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> set[str]:
    if old is new:
        return set()
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _discard(index: dict[K, set[str]], at: K, key: str) -> bool:
    """Take a key out; return whether it was the last one there."""
    keys = index[at]
    keys.discard(key)
    if keys:
        return False
    del index[at]
    return True
