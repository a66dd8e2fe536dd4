"""Back-off for consolidation that saves nothing because the scheduler placed pods differently.

A plan shows that pods fit together; the scheduler decides where they go. When moving the pods of a
machine leads to a new machine for the same workloads, nothing was saved, and the same plan would be
made again at once, for ever. After a few such attempts in a row the resulting machines are excluded
from consolidation, each time for twice as long. The first attempt that helps resets the back-off.
Single- and multi-node consolidation win machines; rebalancing may replace few by many, so what it
wins, and what it loses again, is counted in dollars.
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
from karpenter.disruption.commands import MULTI, REBALANCE, SINGLE, Command
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
    won: float  # planned reduction in machines, or in dollars per hour
    is_in_dollars: bool
    at: datetime
    # uids of claims that had to be made for them -> what that loses again, in the unit of ``won``
    caused: dict[str, float] = field(default_factory=dict)

    @property
    def is_fruitless(self) -> bool:
        return sum(self.caused.values()) >= self.won


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
        if command.method not in (MULTI, SINGLE, REBALANCE):
            return
        if self._last is not None and not self._last.is_fruitless:
            self._in_a_row = 0
        moved = [pod for candidate in command.candidates for pod in candidate.reschedulable]
        is_in_dollars = command.method == REBALANCE
        won = command.savings
        if not is_in_dollars:
            won = max(1, len(command.candidates) - len(command.replacements))
        self._last = _Attempt(owners_of(moved), won, is_in_dollars, self._clock.now())

    def needs_price(self, claim: NodeClaim, pods: Iterable[Pod]) -> bool:
        """Whether a claim is judged by what it costs."""
        last = self._attempt_behind(claim, pods)
        return last is not None and last.is_in_dollars

    def judge(self, claim: NodeClaim, pods: Iterable[Pod], price: float | None = None) -> None:
        """Attribute a claim to the last attempt, if it was made for pods that the attempt moved.

        ``price``: what it costs an hour; None as long as that is unknown.
        """
        last, uid, born = self._attempt_behind(claim, pods), claim.metadata.uid, _born(claim)
        if last is None or born is None or (last.is_in_dollars and price is None):
            return
        was_fruitless = last.is_fruitless
        last.caused[uid] = (price or 0.0) if last.is_in_dollars else 1
        if last.is_fruitless:
            self._in_a_row += not was_fruitless
            self._held[uid] = later(born, hold(self._in_a_row))

    def _attempt_behind(self, claim: NodeClaim, pods: Iterable[Pod]) -> _Attempt | None:
        """The last attempt, if a claim that is not judged yet was made for pods that it moved."""
        last, uid, born = self._last, claim.metadata.uid, _born(claim)
        if last is None or born is None or uid in last.caused or uid in self._replacements:
            return None
        is_recent = earlier(last.at, _A_SECOND) <= born <= later(last.at, _ATTRIBUTED_FOR)
        return last if is_recent and not last.owners.isdisjoint(owners_of(pods)) else None

    def held_at(self, now: datetime) -> frozenset[str]:
        """The uids of all claims that are excluded at a time."""
        return frozenset(uid for uid, until in self._held.items() if now < until)

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


def _born(claim: NodeClaim) -> datetime | None:
    return claim.metadata.creation_timestamp
