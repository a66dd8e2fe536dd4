"""Whether anything has happened since the last search that makes another search worthwhile.

A counter grows with every event that may change what consolidation finds. A search that found
nothing is not repeated while the counter stays the same. It also grows every five minutes, because
prices and sold-out capacity change without an event.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from karpenter.api.karpenter import CapacityBuffer, Commitment, NodeClaim, NodeOverlay, NodePool
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.controllers.context import Context
from karpenter.controllers.disruption.marking import is_tainted
from karpenter.model import labels
from karpenter.model.conditions import CONSOLIDATABLE, INITIALIZED, is_true
from karpenter.state.pods import is_active

_Specified: TypeAlias = NodePool | NodeOverlay | CapacityBuffer | Commitment

_LONGEST: Final = 300.0


class Changes:
    """Counts what happens to a cluster."""

    def __init__(self, context: Context) -> None:
        self._clock = context.clock
        self._count = 0
        self._counted_at = context.clock.monotonic()
        self._ends: list[Callable[[], None]] = [
            context.mirror(Pod).on_change(self._pod),
            context.mirror(Node).on_change(self._node),
            context.mirror(NodeClaim).on_change(self._claim),
            context.mirror(NodePool).on_change(self._spec),
            context.mirror(NodeOverlay).on_change(self._spec),
            context.mirror(CapacityBuffer).on_change(self._spec),
            context.mirror(Commitment).on_change(self._spec),
            context.mirror(PodDisruptionBudget).on_change(self._pdb),
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
        """Stop counting."""
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

    def _spec(self, old: _Specified | None, new: _Specified | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self.note()

    def _pdb(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        # A budget that opens or is deleted may unblock nodes
        if old is None:
            return
        if new is None or old.spec != new.spec or (_is_open(new) and not _is_open(old)):
            self.note()


def _weight_of_pod(pod: Pod | None) -> tuple[object, ...] | None:
    """What consolidation reads of a pod: its node, whether it is active, its protection."""
    if pod is None or not pod.spec.node_name:
        return None
    held = pod.metadata.annotations
    protection = held.get(labels.DO_NOT_DISRUPT), held.get(labels.DO_NOT_EVICT)
    return pod.spec.node_name, is_active(pod), protection


def _weight_of_node(node: Node) -> tuple[object, ...]:
    metadata = node.metadata
    protection = metadata.annotations.get(labels.DO_NOT_DISRUPT)
    is_going = metadata.deletion_timestamp is not None
    # Includes the taint: its removal is the only change that shows that a command was given up
    return metadata.labels.get(labels.INITIALIZED), is_going, protection, is_tainted(node)


def _weight_of_claim(claim: NodeClaim) -> tuple[object, ...]:
    held = claim.status.conditions
    return (
        is_true(held, INITIALIZED),
        # The condition becomes true by time alone, without any other event on the machine
        is_true(held, CONSOLIDATABLE),
        claim.metadata.deletion_timestamp is not None,
        claim.metadata.annotations.get(labels.SPOT_ON_SALE),
    )


def _is_open(pdb: PodDisruptionBudget) -> bool:
    return pdb.status.disruptions_allowed > 0
