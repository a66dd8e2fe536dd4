"""How many claims a static pool has: the one count that all controllers of static pools use.

Scaling up, scaling down and replacing drifted or unhealthy nodes run concurrently. With different
counts each would undo what another does, so this is the only place where claims are counted.

    standing    neither deleted nor about to be; being created counts from the first moment
    couple      a claim that is being replaced and its replacement: in the end one of them stays
    staying     what is left when each couple has become one and all marked claims are gone
    slots       how many more claims ``limits.nodes`` allows; every claim that exists takes one

An annotation on the replacement names the claim it replaces, so the next leader counts the same.
Commands are not persisted, though: a couple without a command counts as one until the replacement
is initialized, and then the other claim is the first to be deleted.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.model.conditions import DRIFTED, INITIALIZED, INSTANCE_TERMINATING, is_true
from karpenter.model.labels import NODEPOOL, REPLACES
from karpenter.model.quantity import units
from karpenter.model.resources import NODES
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot

# A replacement without a command has as long to initialize as a claim has to register
PATIENCE: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class StaticCount:
    """The claims of a static pool, counted."""

    replicas: int
    standing: int
    slots_left: int | None  # None without a limit
    couples: Mapping[str, str] = field(default_factory=dict)  # a claim -> its replacement
    superseded: frozenset[str] = frozenset()  # claims whose replacements are initialized, or late
    coming: frozenset[str] = frozenset()  # standing, but without a watch event so far
    held_until: datetime | None = None  # launches have failed, and none is tried before then
    alone: int = 0  # standing, but removed before their replacements are created

    @property
    def staying(self) -> int:
        """How many there are in the end if nothing more is done."""
        return self.standing - len(self.couples) - self.alone

    @property
    def missing(self) -> int:
        """How many to create; a claim that is deleted first is replaced only after that."""
        return max(0, self.replicas - self.staying - self.alone)

    @property
    def surplus(self) -> int:
        """How many to delete."""
        return max(0, self.staying - self.replicas)

    @property
    def has_too_many(self) -> bool:
        """Whether scaling down, or replacements in progress, have to finish first."""
        return self.standing > self.replicas

    def slots(self, wanted: int) -> int:
        """How many of ``wanted`` more claims the limit allows."""
        return wanted if self.slots_left is None else max(0, min(wanted, self.slots_left))


def count_static(pool: NodePool, snapshot: Snapshot, *, now: datetime) -> StaticCount:
    """Count the claims of a static pool."""
    name = pool.metadata.name
    everything = _claims(name, snapshot)
    standing = standing_claims(name, snapshot)
    coming = {
        key: claim
        for key, claim in snapshot.coming.items()
        if claim.node_pool == name and key not in everything and claim.may_come(now)
    }
    marked = {key for key, machine in standing.items() if machine.is_marked}
    superseded: set[str] = set()
    under_way = [(k, each.replaces) for k, each in coming.items() if each.replaces in standing]
    for key, replaced in _replacements(standing):
        if replaced in marked or _may_yet_stand(standing[key], now):
            under_way.append((key, replaced))
        elif not standing[key].has_condition(DRIFTED):
            superseded.add(replaced)
    couples = _couples(under_way)
    limit, held_until = pool.spec.limits.get(NODES), snapshot.launches_held.get(name)
    return StaticCount(
        replicas=pool.spec.replicas or 0,
        standing=len(standing) + len(coming),
        slots_left=None if limit is None else units(limit) - len(everything) - len(coming),
        couples=couples,
        superseded=frozenset(superseded - couples.keys()),
        coming=frozenset(coming),
        held_until=held_until if held_until is not None and now < held_until else None,
        alone=len(marked - couples.keys() - set(couples.values())),
    )


def standing_claims(pool: str, snapshot: Snapshot) -> dict[str, StateNode]:
    """The claims of a pool that are neither deleted nor about to be, by name."""
    found = _claims(pool, snapshot)
    return {key: machine for key, machine in found.items() if not _is_going(machine, snapshot)}


def _claims(pool: str, snapshot: Snapshot) -> dict[str, StateNode]:
    """Every claim of a pool, as a machine, by name."""
    found = {_claim(machine).metadata.name: machine for machine in snapshot.claimed_for(pool)}
    for claim in snapshot.unlaunched:
        if claim.metadata.labels.get(NODEPOOL) == pool:
            found[claim.metadata.name] = StateNode(node=None, node_claim=claim)
    return found


def _is_going(machine: StateNode, snapshot: Snapshot) -> bool:
    claim = _claim(machine)
    if claim.metadata.deletion_timestamp is not None or claim.metadata.uid in snapshot.dismissed:
        return True
    return machine.has_condition(INSTANCE_TERMINATING)


def _replacements(standing: Mapping[str, StateNode]) -> Iterator[tuple[str, str]]:
    """The claims whose annotation names a standing claim, each with that claim."""
    for key, machine in sorted(standing.items()):
        replaced = standing.get(_annotated(machine))
        if replaced is None or replaced is machine:
            continue
        if _created(replaced) <= _created(machine):
            yield key, _annotated(machine)


def _couples(under_way: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Claims with their replacements; each is in one couple at most, whatever the annotations."""
    couples: dict[str, str] = {}
    for replacement, replaced in under_way:
        taken = couples.keys() | set(couples.values())
        if replacement not in taken and replaced not in taken:
            couples[replaced] = replacement
    return couples


def _may_yet_stand(machine: StateNode, now: datetime) -> bool:
    claim = _claim(machine)
    if is_true(claim.status.conditions, INITIALIZED):
        return False
    created = claim.metadata.creation_timestamp
    return created is not None and now - created < PATIENCE


def _annotated(machine: StateNode) -> str:
    return _claim(machine).metadata.annotations.get(REPLACES, "")


def _created(machine: StateNode) -> float:
    created = _claim(machine).metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0


def _claim(machine: StateNode) -> NodeClaim:
    assert machine.node_claim is not None
    return machine.node_claim
