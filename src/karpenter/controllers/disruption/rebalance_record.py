"""What rebalancing has moved, noted on the machines that take the pods, and remembered beside that.

The note is an annotation of NodeClaims, so the limit of moves per hour and the cooldown hold across
a restart. It is written just before the old machines are deleted: a command that is given up earlier
has moved nothing. A machine may end within the hour, and its note with it, so this process also
remembers what it has moved.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.times import earlier
from karpenter.controllers.context import Context
from karpenter.controllers.disruption.conflict_retry import GoneError, change
from karpenter.disruption.commands import Command
from karpenter.disruption.rebalance.history import (
    Moves,
    RebalanceHistory,
    owners_of,
    stamp,
    stamps,
)
from karpenter.disruption.rebalance.settings import MOVES_WINDOW
from karpenter.model.labels import MOVED_BY_REBALANCE
from karpenter.state.pods import key_of


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
        notes = list(zip(made, stamps(command, at), strict=True)) or self._on_others(command, at)
        moved = [pod for candidate in command.candidates for pod in candidate.reschedulable]
        ours = RebalanceHistory(
            (Moves(at, len(moved)),),
            {claim.metadata.uid: at for claim, _ in notes},
            dict.fromkeys(owners_of(moved), at),
        )
        self._known = self._known.merged(ours).since(earlier(at, self._kept_for))
        for claim, text in notes:
            await self._write(claim, text)

    async def _write(self, claim: NodeClaim, text: str) -> None:
        def noted(found: NodeClaim) -> Mapping[str, object] | None:
            if found.metadata.annotations.get(MOVED_BY_REBALANCE) == text:
                return None
            return {"metadata": {"annotations": {MOVED_BY_REBALANCE: text}}}

        try:
            await change(self._context, claim, noted)
        except GoneError:
            return  # it ended in the meantime; the memory of this process is left

    def _on_others(self, command: Command, at: datetime) -> list[tuple[NodeClaim, str]]:
        """The notes of a command without replacements: its pods go to machines that exist."""
        snapshot = self._context.state.snapshot()
        moved = {key_of(pod) for each in command.candidates for pod in each.reschedulable}
        found = [
            (machine.node_claim, len(moved.intersection(pods)))
            for name, pods in sorted(command.placements.items())
            if (machine := snapshot.node(name)) is not None and machine.node_claim is not None
        ]
        elsewhere = len(moved) - sum(count for _, count in found)
        return [
            (claim, stamp(Moves(at, count + (0 if number else elsewhere))))
            for number, (claim, count) in enumerate(found)
        ]
