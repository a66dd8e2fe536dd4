"""The rows of machines: Nodes, and NodeClaims that have no Node yet.

A row keeps its id while a claim becomes a machine and the machine a Node. It is made again when its
objects, its pool, the prices or a flag of its pods change, and when a moment it depends on is over.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from karpenter.api.karpenter import NodePool
from karpenter.cloud.types import InstanceType
from karpenter.dashboard.contract import NODE_FLAGS, NODE_STATES, POD_FLAGS
from karpenter.dashboard.picture import Picture
from karpenter.dashboard.pod_rows import NO_NODE, devices, seconds
from karpenter.dashboard.shown import Shown
from karpenter.dashboard.words import Words
from karpenter.disruption.claim_conditions import patience, quiet_since
from karpenter.disruption.costs import offering_of
from karpenter.disruption.methods.expiration import expires_at
from karpenter.model import labels
from karpenter.model.conditions import (
    AWAITING,
    CONSOLIDATABLE,
    DISRUPTION_REASON,
    DRIFTED,
    INITIALIZED,
    LAUNCHED,
    READY,
    REGISTERED,
    TRUE,
    find,
)
from karpenter.state.departing_pods import is_reschedulable
from karpenter.state.nodes import StateNode
from karpenter.state.object_keys import uid_of
from karpenter.state.snapshot import Snapshot

Row: TypeAlias = tuple[Any, ...]  # the values of all columns, id first

_STATE: Final = {name: place for place, name in enumerate(NODE_STATES)}
_NO_TYPES: Final[Mapping[str, InstanceType]] = {}


@dataclass(slots=True)
class Member:
    """A machine, and what its row was made from."""

    machine: StateNode
    id: int
    pool_name: str
    pool: NodePool | None
    types: Mapping[str, InstanceType]
    until: datetime | None  # when the row has to be made again without any change


class NodeRows:
    """The machines of a cluster as rows, kept from picture to picture."""

    def __init__(
        self,
        shown: Shown,
        words: Mapping[str, Words],
        new_id: Callable[[], int],
    ) -> None:
        """Begin without machines; ``words`` are dictionaries by their names."""
        self.rows: Final[dict[int, Row]] = {}  # by id, in the order of ids
        self.members: dict[int, Member] = {}
        self._shown = shown
        self._words = words
        self._new_id = new_id
        self._ids: dict[str, int] = {}  # uid of a claim or node -> id
        self._nodes: dict[str, int] = {}  # name of a Node -> id
        self._claims: dict[str, int] = {}  # name of a NodeClaim -> id
        self._loose: dict[str, StateNode] = {}  # by uid: claims and nodes that are not matched yet
        self._machines: list[tuple[int, StateNode]] = []
        self._seen: tuple[object, ...] = ()

    def place(self, name: str) -> int:
        """The id of a Node, or else of a NodeClaim, by its name."""
        return self._nodes.get(name, self._claims.get(name, NO_NODE))

    def meet(self, snapshot: Snapshot) -> set[str]:
        """Give every machine its id; return the names that lead to another one by now."""
        seen = (snapshot.nodes, snapshot.unlaunched, snapshot.skipped_nodes)
        if self._seen and all(a is b for a, b in zip(seen, self._seen, strict=True)):
            return set()
        self._seen = seen
        ids: dict[str, int] = {}
        nodes: dict[str, int] = {}
        claims: dict[str, int] = {}
        machines: list[tuple[int, StateNode]] = []
        taken: set[int] = set()
        for machine in self._all(snapshot):
            uids = [uid_of(each) for each in (machine.node_claim, machine.node) if each is not None]
            number = next((i for i in map(self._ids.get, uids) if i and i not in taken), 0)
            number = number or self._new_id()
            taken.add(number)
            ids |= dict.fromkeys(uids, number)
            machines.append((number, machine))
            if machine.node is not None:
                nodes[machine.node.metadata.name] = number
            if machine.node_claim is not None:
                claims[machine.node_claim.metadata.name] = number
        moved = _differing(self._nodes, nodes) | _differing(self._claims, claims)
        self._ids, self._nodes, self._claims = ids, nodes, claims
        self._machines = sorted(machines, key=lambda entry: entry[0])
        for number in self.members.keys() - taken:
            del self.members[number]
            self.rows.pop(number, None)
        return moved

    def update(
        self, picture: Picture, flags_on: Callable[[str], int], affected: Collection[str]
    ) -> None:
        """Make the rows again that may have changed.

        Args:
            picture: the cluster that ``meet`` was given.
            flags_on: the flags of the pods on a node together, by its name.
            affected: names of nodes whose pods have changed.
        """
        now, pools = picture.now, picture.snapshot.node_pools
        for number, machine in self._machines:
            pool_name = pool_of(machine)
            pool, types = pools.get(pool_name), picture.types.get(pool_name, _NO_TYPES)
            known = self.members.get(number)
            if (
                known is not None
                and known.machine is machine
                and known.pool is pool
                and known.types is types
                and (known.until is None or now < known.until)
                and (machine.node is None or machine.node.metadata.name not in affected)
            ):
                continue
            member = Member(machine, number, pool_name, pool, types, _next_moment(machine, now))
            self.members[number] = member
            node = machine.node.metadata.name if machine.node is not None else ""
            self.rows[number] = self._row(member, flags_on(node) if node else 0, now)

    def _all(self, snapshot: Snapshot) -> Iterator[StateNode]:
        """All machines; those that are matched first, so that they keep their ids."""
        yield from snapshot.nodes
        loose: dict[str, StateNode] = {}
        for claim in snapshot.unlaunched:
            known = self._loose.get(uid_of(claim))
            is_known = known is not None and known.node_claim is claim
            loose[uid_of(claim)] = known if known and is_known else StateNode(None, claim)
        for node in snapshot.skipped_nodes:
            known = self._loose.get(uid_of(node))
            is_known = known is not None and known.node is node
            loose[uid_of(node)] = known if known and is_known else StateNode(node, None)
        self._loose = loose
        yield from loose.values()

    def _row(self, member: Member, flags_of_pods: int, now: datetime) -> Row:
        machine, shown, words = member.machine, self._shown, self._words
        claim, node = machine.node_claim, machine.node
        held = machine.labels
        room = machine.allocatable
        offering = offering_of(machine, member.types)
        is_empty = node is not None and not any(map(is_reschedulable, machine.pods))
        state = state_of(machine)
        return (
            member.id,
            shown.name(node.metadata.name if node is not None else machine.name),
            shown.name(claim.metadata.name) if claim is not None else "",
            words["pool"].place(shown.name(member.pool_name)),
            words["zone"].place(held.get(labels.ZONE, "")),
            words["type"].place(held.get(labels.INSTANCE_TYPE, "")),
            words["capacity_type"].place(held.get(labels.CAPACITY_TYPE, "")),
            _STATE[state],
            room.cpu,
            room.memory,
            room.pods,
            devices(room),
            None if offering is None else float(offering.price),
            offering is not None and offering.is_estimate,
            seconds(_created(machine)),
            seconds(expires_at(claim)) if claim is not None else 0,
            _empty_until(member, now) if is_empty else 0,
            _flags(machine, flags_of_pods, now, is_empty=is_empty),
            words["reason"].place(_reason(machine, state)),
        )


def pool_of(machine: StateNode) -> str:
    """The pool of a machine, by the label of old where there is no other."""
    return machine.node_pool or machine.labels.get(labels.PROVISIONER_NAME, "")


def _created(machine: StateNode) -> datetime | None:
    found = machine.node or machine.node_claim
    return found.metadata.creation_timestamp if found is not None else None


def state_of(machine: StateNode) -> str:
    """How far a machine has come."""
    if machine.is_deleting:
        return "Draining"
    if machine.node is None:
        return "Claimed"
    if not machine.is_initialized:
        return "Starting"
    return "Ready" if machine.is_ready else "NotReady"


def _flags(machine: StateNode, of_pods: int, now: datetime, *, is_empty: bool) -> int:
    node, claim, flags = machine.node, machine.node_claim, 0
    expiry = expires_at(claim) if claim is not None else None
    for name, holds in (
        ("managed", claim is not None),
        ("unschedulable", node is not None and node.spec.unschedulable),
        ("empty", is_empty),
        ("drifted", machine.has_condition(DRIFTED)),
        ("consolidatable", machine.has_condition(CONSOLIDATABLE)),
        ("doNotDisrupt", _is_protected(machine) or bool(of_pods & POD_FLAGS["doNotDisrupt"])),
        ("pdb", bool(of_pods & POD_FLAGS["pdb"])),
        ("nominated", machine.is_nominated(now)),
        ("expired", expiry is not None and expiry <= now),
        ("rebooting", machine.is_rebooting),
    ):
        if holds:
            flags |= NODE_FLAGS[name]
    return flags


def _is_protected(machine: StateNode) -> bool:
    keys = (labels.DO_NOT_DISRUPT, labels.DO_NOT_CONSOLIDATE)
    return any(machine.annotations.get(key) == "true" for key in keys)


def _empty_until(member: Member, now: datetime) -> int:
    """When an empty machine may go; nothing if never."""
    claim, pool = member.machine.node_claim, member.pool
    if claim is None or pool is None:
        return 0
    found = patience(claim, pool, now=now, is_initialized=member.machine.is_initialized)
    if found is None:
        return 0
    return seconds(found.until if found.until is not None else quiet_since(claim))


def _reason(machine: StateNode, state: str) -> str:
    """Why a machine goes, is not ready, or has not begun."""
    conditions = machine.node_claim.status.conditions if machine.node_claim is not None else ()
    if state == "Draining":
        found = find(conditions, DISRUPTION_REASON)
        return found.reason if found is not None and found.status == TRUE else ""
    if state == "NotReady" and machine.node is not None:
        found = find(machine.node.status.conditions, READY)
        return found.reason if found is not None else ""
    if state in ("Claimed", "Starting"):
        for kind in (LAUNCHED, REGISTERED, INITIALIZED):
            found = find(conditions, kind)
            if found is not None and found.status != TRUE:
                return "" if found.reason == AWAITING else found.reason
    return ""


def _next_moment(machine: StateNode, now: datetime) -> datetime | None:
    """When the row depends on the time again."""
    expiry = expires_at(machine.node_claim) if machine.node_claim is not None else None
    coming = [each for each in (machine.nominated_until, expiry) if each is not None and each > now]
    return min(coming, default=None)


def _differing(old: Mapping[str, int], new: Mapping[str, int]) -> set[str]:
    if old == new:
        return set()
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
