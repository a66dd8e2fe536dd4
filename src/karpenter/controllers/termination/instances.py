"""Machines on their way out: the cloud is asked again and again, but not too often."""

from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.provider import InstanceNotFoundError
from karpenter.controllers.world import World

INSTANCE_TERMINATING: Final = "InstanceTerminating"
_POLL_SECONDS: Final = 5.0
# Less than this is no time: sums of seconds are not exact
_INSTANT: Final = 0.001


class Instances:
    """Ends the machines of claims.

    Whatever wakes a controller in between, a cloud is asked about one machine once in five
    seconds.
    """

    def __init__(self, world: World) -> None:
        self._cloud = world.cloud
        self._clock = world.clock
        self._next_question: dict[str, float] = {}  # uid of a claim -> when the cloud is asked

    async def end(self, claim: NodeClaim) -> float | None:
        """Ask for a machine to be ended.

        Returns:
            Seconds until the next question; None when the machine is gone.
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
        # Claims whose finalizer somebody else has taken away are never asked about again
        current = {key: due for key, due in self._next_question.items() if due > now}
        self._next_question = {**current, uid: now + _POLL_SECONDS}
        return _POLL_SECONDS
