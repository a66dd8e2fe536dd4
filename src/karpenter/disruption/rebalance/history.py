"""What earlier rebalances did: how many pods they moved, and what is left in peace for a while.

Every replacement, or a machine that took pods where there is none, carries an annotation with the
time of the command and a number of pods; over all of them these numbers add up to the pods it moved. So the limit of moves and the
cooldown hold across a restart. What has no annotation is remembered by the caller.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from karpenter.api.pods import Pod
from karpenter.model.conditions import timestamp
from karpenter.model.labels import MOVED_BY_REBALANCE
from karpenter.state.departing_pods import is_reschedulable
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot

if TYPE_CHECKING:
    from karpenter.disruption.commands import Command


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
    """What the annotations of NodeClaims tell; one that cannot be read counts as absent.

    The controllers of pods that now run on such machines count as those whose pods were moved.
    """
    moved: dict[datetime, int] = {}
    claims: dict[str, datetime] = {}
    owners: dict[str, datetime] = {}
    for machine in snapshot.nodes:
        claim = machine.node_claim
        text = claim.metadata.annotations.get(MOVED_BY_REBALANCE) if claim is not None else None
        found = None if text is None else _read(text)
        if found is None or claim is None:
            continue
        moved[found.at] = moved.get(found.at, 0) + found.pods
        claims[claim.metadata.uid] = found.at
        for uid in owners_of(filter(is_reschedulable, machine.pods)):
            owners[uid] = max(found.at, owners.get(uid, found.at))
    moves = tuple(Moves(at, moved[at]) for at in sorted(moved))
    return RebalanceHistory(moves, claims, owners)


def stamps(command: "Command", at: datetime) -> tuple[str, ...]:
    """The annotation of each replacement of a command, in their order.

    The first one also stands for the pods that move to machines which exist.
    """
    moved = {key_of(pod) for candidate in command.candidates for pod in candidate.reschedulable}
    on_each = [len(moved.intersection(planned.pods)) for planned in command.replacements]
    elsewhere = len(moved) - sum(on_each)
    return tuple(
        stamp(Moves(at, count + (elsewhere if number == 0 else 0)))
        for number, count in enumerate(on_each)
    )


def stamp(moves: Moves) -> str:
    """Moves as the annotation of a machine that pods were moved to."""
    return f"{timestamp(moves.at)} {moves.pods}"


def owners_of(pods: Iterable[Pod]) -> frozenset[str]:
    """The uids of the controllers of pods, by their owner references."""
    return frozenset(
        owner.uid for pod in pods for owner in pod.metadata.owner_references if owner.controller
    )


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
