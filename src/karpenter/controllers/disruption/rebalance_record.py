"""What rebalancing has moved, noted on the machines that take the pods, and remembered beside that.

The note is an annotation of NodeClaims, so the limit of moves per hour and the cooldown hold across
a restart. It is written just before the old machines are deleted: a command that is given up earlier
has moved nothing. A machine may end within the hour, and its note with it, so a NodePool that pods
leave is told as well, and this process remembers what it has moved.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.times import earlier
from karpenter.controllers.context import Context
from karpenter.controllers.disruption.conflict_retry import GoneError, change
from karpenter.disruption.commands import Command
from karpenter.disruption.rebalance.history import (
    Moves,
    RebalanceHistory,
    listed,
    note_of,
    owners_of,
)
from karpenter.disruption.rebalance.settings import MOVES_WINDOW
from karpenter.model.labels import MOVED_BY_REBALANCE


class RebalanceRecord:
    """The moves of this process."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept_for: Final = max(MOVES_WINDOW, context.settings.rebalance_cooldown)
        self._known = RebalanceHistory()

    def known(self) -> RebalanceHistory:
        """What is remembered."""
        return self._known

    async def note(self, command: Command, made: Iterable[NodeClaim], at: datetime) -> None:
        """Note that a command moves pods now, on its replacements or on machines that take them.

        Writing the same note again changes nothing, so it may be repeated after a failure.

        Raises:
            KubeError: a note could not be written.
        """
        takers = list(made) or self._takers(command)
        moved = [pod for candidate in command.candidates for pod in candidate.reschedulable]
        ours = RebalanceHistory(
            (Moves(at, len(moved)),),
            {claim.metadata.uid: at for claim in takers},
            dict.fromkeys(owners_of(moved), at),
        )
        self._known = self._known.merged(ours).since(earlier(at, self._kept_for))
        text = note_of(command, at)
        for claim in takers:
            await self._write(claim, lambda _: text)
        pool = self._context.mirror(NodePool).get(min(each.pool for each in command.candidates))
        if pool is not None:
            moves, since = Moves(at, len(moved)), earlier(at, MOVES_WINDOW)
            await self._write(pool, lambda before: listed(before, moves, since))

    async def _write(self, obj: NodeClaim | NodePool, note: Callable[[str], str]) -> None:
        """Write the note made of the one that is there."""

        def noted(found: NodeClaim | NodePool) -> Mapping[str, object] | None:
            before = found.metadata.annotations.get(MOVED_BY_REBALANCE, "")
            after = note(before)
            if after == before:
                return None
            return {"metadata": {"annotations": {MOVED_BY_REBALANCE: after}}}

        try:
            await change(self._context, obj, noted)
        except GoneError:
            return  # it ended in the meantime; the other notes are left

    def _takers(self, command: Command) -> list[NodeClaim]:
        """The machines that take the pods of a command without replacements."""
        snapshot = self._context.state.snapshot()
        found = (snapshot.node(name) for name in sorted(command.placements))
        return [machine.node_claim for machine in found if machine and machine.node_claim]
