"""Back-off for consolidation that saves nothing because the scheduler placed pods differently.

A plan shows that pods fit together; the scheduler decides where they go. When moving the pods of a
machine leads to a new machine for the same workloads, nothing was saved, and the same plan would be
made again at once, for ever. After a few such attempts in a row the resulting machines are excluded
from consolidation, each time for twice as long. The first attempt that helps resets the back-off.
The record is kept in memory only: a restart clears it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.pods import Pod
from karpenter.api.times import earlier, later
from karpenter.clock import Clock
from karpenter.disruption.commands import MULTI, SINGLE, Command
from karpenter.disruption.rebalance.history import owners_of

# A machine created longer than this after an attempt is not attributed to it
_ATTRIBUTED_FOR: Final = timedelta(minutes=5)
_A_SECOND: Final = timedelta(seconds=1)  # to which times of objects are rounded
_FREE_ATTEMPTS: Final = 2
_FIRST_HOLD: Final = timedelta(minutes=1)
_LONGEST_HOLD: Final = timedelta(hours=1)


@dataclass(slots=True)
class _Attempt:
    owners: frozenset[str]  # uids of the controllers of the moved pods
    won: int  # planned reduction in machines
    at: datetime
    caused: set[str] = field(default_factory=set)  # uids of claims that had to be made for them

    @property
    def is_fruitless(self) -> bool:
        return len(self.caused) >= self.won


class IneffectiveMoves:
    """Records attempts, and the machines that had to be made after those that saved nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: _Attempt | None = None
        self._in_a_row = 0
        self._held: dict[str, datetime] = {}  # claim uid -> until when it is excluded
        self._replacements: set[str] = set()  # uids of claims that were part of a command

    def begun(self, replacements: Iterable[NodeClaim]) -> None:
        """Record the replacements of an attempt, which are no sign that it failed."""
        self._replacements |= {claim.metadata.uid for claim in replacements}

    def attempted(self, command: Command) -> None:
        """Take note that pods are being moved to save money."""
        if command.method not in (MULTI, SINGLE):
            return
        if self._last is not None and not self._last.is_fruitless:
            self._in_a_row = 0
        moved = [pod for candidate in command.candidates for pod in candidate.reschedulable]
        won = max(1, len(command.candidates) - len(command.replacements))
        self._last = _Attempt(owners_of(moved), won, self._clock.now())

    def judge(self, claim: NodeClaim, pods: Iterable[Pod]) -> None:
        """Attribute a claim to the last attempt, if it was made for pods that the attempt moved."""
        last, uid, born = self._last, claim.metadata.uid, claim.metadata.creation_timestamp
        if last is None or born is None or uid in last.caused or uid in self._replacements:
            return
        is_recent = earlier(last.at, _A_SECOND) <= born <= later(last.at, _ATTRIBUTED_FOR)
        if not is_recent or last.owners.isdisjoint(owners_of(pods)):
            return
        was_fruitless = last.is_fruitless
        last.caused.add(uid)
        if last.is_fruitless:
            self._in_a_row += not was_fruitless
            self._held[uid] = later(born, hold(self._in_a_row))

    def held_until(self, claim: NodeClaim) -> datetime | None:
        """Until when a machine is excluded from consolidation, if it is."""
        return self._held.get(claim.metadata.uid)

    def forget(self, claim: NodeClaim) -> None:
        """Take note that a claim is gone."""
        self._held.pop(claim.metadata.uid, None)
        self._replacements.discard(claim.metadata.uid)


def hold(attempts: int) -> timedelta:
    """How long a machine is excluded after so many attempts in a row that saved nothing."""
    if attempts <= _FREE_ATTEMPTS:
        return timedelta(0)
    doublings = min(attempts - _FREE_ATTEMPTS - 1, 10)
    return min(_FIRST_HOLD * (1 << doublings), _LONGEST_HOLD)
