"""Terminating instances: the cloud is polled until they are gone, at a limited rate."""

from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.provider import InstanceNotFoundError
from karpenter.controllers.context import Context

_POLL_SECONDS: Final = 5.0
# Tolerance for rounding: sums of seconds are not exact
_INSTANT: Final = 0.001


class Instances:
    """Terminates the instances of claims.

    The cloud is called for one instance at most every five seconds, however often its claim
    is reconciled.
    """

    def __init__(self, context: Context) -> None:
        self._cloud = context.cloud
        self._clock = context.clock
        self._next_question: dict[
            str, float
        ] = {}  # uid of a claim -> when the cloud may be called again

    async def end(self, claim: NodeClaim) -> float | None:
        """Request the termination of an instance.

        Returns:
            Seconds until the next call; None when the instance is gone.
        """
        now = self._clock.monotonic()
        uid = claim.metadata.uid
        due = self._next_question.get(uid, now)
        if due - now > _INSTANT:
            return due - now
        try:
            await self._cloud.delete(claim)
        except InstanceNotFoundError:
            self._next_question.pop(uid, None)
            return None
        now = self._clock.monotonic()
        # Drops claims whose finalizer was removed elsewhere: they are never polled again
        current = {key: due for key, due in self._next_question.items() if due > now}
        self._next_question = {**current, uid: now + _POLL_SECONDS}
        return _POLL_SECONDS
