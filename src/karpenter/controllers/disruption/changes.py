"""Whether anything has happened that could make another look worthwhile.

A number that grows with every event that may change what consolidation finds. A search that found
nothing at some number need not be made again while the number stands. It grows by itself after five
minutes, because prices and what is sold out change without an event.
"""

from collections.abc import Callable
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.controllers.lifecycle.claims import INITIALIZED
from karpenter.controllers.world import World
from karpenter.disruption.detection import CONSOLIDATABLE
from karpenter.model import labels
from karpenter.model.conditions import is_true
from karpenter.state.pods import is_active

_LONGEST: Final = 300.0


class Changes:
    """Counts what happens to a cluster."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._count = 0
        self._counted_at = world.clock.monotonic()
        self._ends: list[Callable[[], None]] = [
            world.mirror(Pod).on_change(self._pod),
            world.mirror(Node).on_change(self._node),
            world.mirror(NodeClaim).on_change(self._claim),
            world.mirror(NodePool).on_change(self._pool),
            world.mirror(PodDisruptionBudget).on_change(self._pdb),
        ]

    @property
    def count(self) -> int:
        """How much has happened so far."""
        if self._clock.monotonic() - self._counted_at >= _LONGEST:
            self.note()
        return self._count

    def note(self) -> None:
        """Take note that something has happened."""
        self._count += 1
        self._counted_at = self._clock.monotonic()

    def end(self) -> None:
        """Count no more."""
        while self._ends:
            self._ends.pop()()

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if _weight_of_pod(old) != _weight_of_pod(new):
            self.note()

    def _node(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _weight_of_node(old) != _weight_of_node(new):
            self.note()

    def _claim(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if old is None or new is None or _weight_of_claim(old) != _weight_of_claim(new):
            self.note()

    def _pool(self, old: NodePool | None, new: NodePool | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self.note()

    def _pdb(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        # That a budget opens lets nodes go that it held; otherwise nobody would look in time
        if _is_open(new) and not _is_open(old):
            self.note()


def _weight_of_pod(pod: Pod | None) -> tuple[object, ...] | None:
    """Where a pod takes up room, and whether it would have to move; nothing without a node."""
    if pod is None or not pod.spec.node_name:
        return None
    return pod.spec.node_name, is_active(pod)


def _weight_of_node(node: Node) -> tuple[object, ...]:
    metadata = node.metadata
    protection = metadata.annotations.get(labels.DO_NOT_DISRUPT)
    is_going = metadata.deletion_timestamp is not None
    return metadata.labels.get(labels.INITIALIZED), is_going, protection


def _weight_of_claim(claim: NodeClaim) -> tuple[object, ...]:
    held = claim.status.conditions
    return (
        is_true(held, INITIALIZED),
        # A machine that comes to rest must not wait until something else happens
        is_true(held, CONSOLIDATABLE),
        claim.metadata.deletion_timestamp is not None,
    )


def _is_open(pdb: PodDisruptionBudget | None) -> bool:
    return pdb is not None and pdb.status.disruptions_allowed > 0
