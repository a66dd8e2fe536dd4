"""Launches of static pools that fail: after the first the next ones wait, longer each time.

A claim that cannot be launched is removed, and its pool misses one again at once. Nobody asks for
pods here, so nothing else would slow that down: without a wait claims would be made and removed as
fast as the API server allows.
"""

from collections.abc import Callable
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.times import in_seconds, later
from karpenter.controllers.lifecycle.claims import is_deleting
from karpenter.controllers.world import World
from karpenter.kube.workqueue import Backoff
from karpenter.model import labels

_BACKOFF: Final = Backoff(1.0, 60.0)


class FailedLaunches:
    """Watches claims, and holds up the static pools whose claims go before they are launched."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._failures: dict[str, int] = {}  # by pool, in a row
        self.end: Callable[[], None] = world.mirror(NodeClaim).on_change(self._claim_changed)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        pool = self._static_pool(new or old)
        if pool is None or (old is not None and old.status.provider_id):
            return
        if new is not None and new.status.provider_id:
            self._failures.pop(pool, None)
            self._world.state.hold_launches(pool, None)
        elif old is not None and not is_deleting(old) and (new is None or is_deleting(new)):
            self._failed(pool, old)

    def _static_pool(self, claim: NodeClaim | None) -> str | None:
        name = claim.metadata.labels.get(labels.NODEPOOL, "") if claim is not None else ""
        pool = self._world.mirror(NodePool).get(name)
        return name if pool is not None and pool.spec.replicas is not None else None

    def _failed(self, pool: str, claim: NodeClaim) -> None:
        snapshot, now = self._world.state.snapshot(), self._world.clock.now()
        held_until = snapshot.launches_held.get(pool)
        if claim.metadata.uid in snapshot.dismissed or (
            held_until is not None and now < held_until
        ):
            return  # it was too many, or one of several that fail together
        count = self._failures[pool] = self._failures.get(pool, 0) + 1
        if count > 1:
            seconds = _BACKOFF.after(count - 2)
            self._world.state.hold_launches(pool, later(now, in_seconds(seconds)))
