"""What earlier rebalances did: how many pods they moved, and what is left in peace for a while.

Every replacement, or every machine that took pods where there is none, carries an annotation with the
time of the command and the number of all pods it moved; the NodePool that pods left carries those of
the last hour. Machines may end within the hour, so with the NodePool the limit of moves holds across a
restart even if none of them is left. What has no annotation is remembered by the caller.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from karpenter.api.pods import Pod
from karpenter.model.conditions import timestamp
from karpenter.model.labels import MOVED_BY_REBALANCE
from karpenter.state.departing_pods import is_reschedulable
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot

if TYPE_CHECKING:
    from karpenter.disruption.commands import Command

_SEPARATOR: Final = ", "


@dataclass(frozen=True, slots=True)
class Moves:
    """Pods that one rebalance moved."""

    at: datetime
    pods: int


@dataclass(frozen=True, slots=True)
class RebalanceHistory:
    """What is known of earlier rebalances."""

    moves: tuple[Moves, ...] = ()
    claims: Mapping[str, datetime] = field(
        default_factory=dict
    )  # uid of one that took pods -> when
    owners: Mapping[str, datetime] = field(default_factory=dict)  # uid of a controller -> when
    regretted: frozenset[str] = frozenset()  # uids of claims made after moves that saved nothing
    is_busy: bool = False  # one is being carried out

    def merged(self, other: "RebalanceHistory") -> "RebalanceHistory":
        """Everything that either knows; of what both know the later time counts."""
        moved: dict[datetime, int] = {}
        for each in (*self.moves, *other.moves):
            moved[each.at] = max(each.pods, moved.get(each.at, 0))
        return RebalanceHistory(
            tuple(Moves(at, moved[at]) for at in sorted(moved)),
            _latest(self.claims, other.claims),
            _latest(self.owners, other.owners),
            self.regretted | other.regretted,
            self.is_busy or other.is_busy,
        )

    def since(self, moment: datetime) -> "RebalanceHistory":
        """Without what lies before a moment."""
        return replace(
            self,
            moves=tuple(each for each in self.moves if each.at >= moment),
            claims={uid: at for uid, at in self.claims.items() if at >= moment},
            owners={uid: at for uid, at in self.owners.items() if at >= moment},
        )

    def moved_since(self, moment: datetime) -> int:
        """How many pods have been moved after a moment."""
        return sum(each.pods for each in self.moves if each.at > moment)


def history_of(snapshot: Snapshot) -> RebalanceHistory:
    """What the annotations of NodeClaims and NodePools tell; what cannot be read counts as absent.

    The controllers of pods that now run on such machines count as those whose pods were moved.
    """
    moved: dict[datetime, int] = {}
    for pool in snapshot.node_pools.values():
        for each in _listed(pool.metadata.annotations.get(MOVED_BY_REBALANCE, "")):
            moved[each.at] = max(each.pods, moved.get(each.at, 0))
    claims: dict[str, datetime] = {}
    owners: dict[str, datetime] = {}
    for machine in snapshot.nodes:
        claim = machine.node_claim
        text = claim.metadata.annotations.get(MOVED_BY_REBALANCE) if claim is not None else None
        found = None if text is None else _read(text)
        if found is None or claim is None:
            continue
        moved[found.at] = max(found.pods, moved.get(found.at, 0))
        claims[claim.metadata.uid] = found.at
        for uid in owners_of(filter(is_reschedulable, machine.pods)):
            owners[uid] = max(found.at, owners.get(uid, found.at))
    moves = tuple(Moves(at, moved[at]) for at in sorted(moved))
    return RebalanceHistory(moves, claims, owners)


def note_of(command: "Command", at: datetime) -> str:
    """The annotation of every machine that takes pods of a command."""
    moved = {key_of(pod) for candidate in command.candidates for pod in candidate.reschedulable}
    return stamp(Moves(at, len(moved)))


def listed(text: str, moves: Moves, since: datetime) -> str:
    """The annotation of a NodePool with further moves, without those before a moment."""
    others = [each for each in _listed(text) if since < each.at != moves.at]
    return _SEPARATOR.join(stamp(each) for each in (*others, moves))


def stamp(moves: Moves) -> str:
    """Moves as the annotation of a machine that pods were moved to."""
    return f"{timestamp(moves.at)} {moves.pods}"


def owners_of(pods: Iterable[Pod]) -> frozenset[str]:
    """The uids of the controllers of pods, by their owner references."""
    return frozenset(
        owner.uid for pod in pods for owner in pod.metadata.owner_references if owner.controller
    )


def _listed(text: str) -> list[Moves]:
    return [each for part in text.split(_SEPARATOR) if (each := _read(part)) is not None]


def _read(text: str) -> Moves | None:
    moment, _, count = text.partition(" ")
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        return None
    if at.tzinfo is None or not count.isdecimal():
        return None
    return Moves(at, int(count))


def _latest(one: Mapping[str, datetime], other: Mapping[str, datetime]) -> dict[str, datetime]:
    found = dict(one)
    for key, at in other.items():
        found[key] = max(at, found.get(key, at))
    return found
