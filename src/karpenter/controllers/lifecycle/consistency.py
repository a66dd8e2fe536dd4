"""Consistency: is a node as large as its claim was told it would be?

It only tells: an event and the condition ``ConsistentStateFound``. A node is judged once it is
initialized, because before that it has not said all it has.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.times import later
from karpenter.controllers.lifecycle.claims import (
    INITIALIZED,
    claims_of,
    conditioned,
    differences,
    is_deleting,
    nodes_of,
)
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import STATUS, World
from karpenter.kube.events import WARNING, Event
from karpenter.kube.mirror import Key, key_of
from karpenter.model.conditions import FALSE, TRUE, is_true
from karpenter.model.resources import Resources, format_amount

_CONSISTENT: Final = "ConsistentStateFound"
_PERIOD: Final = timedelta(minutes=10)
_LEAST_PERCENT: Final = 90


class ConsistencyController(Controller):
    """Judges each claim every ten minutes."""

    name = "nodeclaim.consistency"
    kind = NodeClaim

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._judged: dict[str, tuple[str, datetime]] = {}  # claim name -> uid, when
        self.follow(world.mirror(NodeClaim))
        self.follow(world.mirror(Node), self._keys_of_node)

    async def reconcile(self, key: Key) -> float | None:
        """Judge a claim if it has not been judged for a while."""
        claim = self.world.mirror(NodeClaim).get(key[1])
        if claim is None:
            self._judged.pop(key[1], None)
            return None
        nodes = nodes_of(self.world, claim)
        if len(nodes) != 1 or not self._is_to_be_judged(claim):
            return None
        uid, last = self._judged.get(key[1], ("", self.clock.now()))
        due = later(last, _PERIOD)
        if uid == claim.metadata.uid and self.clock.now() < due:
            return (due - self.clock.now()).total_seconds()
        await self._judge(claim, nodes[0])
        self._judged[key[1]] = (claim.metadata.uid, self.clock.now())
        return _PERIOD.total_seconds()

    def _is_to_be_judged(self, claim: NodeClaim) -> bool:
        is_initialized = is_true(claim.status.conditions, INITIALIZED)
        return self.world.is_managed(claim) and not is_deleting(claim) and is_initialized

    async def _judge(self, claim: NodeClaim, node: Node) -> None:
        issues = shortfalls(claim, node)
        for issue in issues:
            self.log.error(
                "consistency check failed", NodeClaim={"name": claim.metadata.name}, error=issue
            )
            self.world.recorder.publish(
                Event(
                    claim,
                    WARNING,
                    "FailedConsistencyCheck",
                    issue,
                    dedupe=(claim.metadata.uid, issue),
                )
            )
        now = self.clock.now()
        if issues:
            reason, message = (
                "ConsistencyCheckFailed",
                f"Consistency Check Failed: {'; '.join(issues)}",
            )
            changed = conditioned(claim, _CONSISTENT, FALSE, reason, message, now=now)
        else:
            changed = conditioned(claim, _CONSISTENT, TRUE, now=now)
        status = differences(claim, changed).status
        if status:
            await self.world.patch(claim, {"status": status}, locked=True, subresource=STATUS)

    def _keys_of_node(self, node: Node) -> Iterable[Key]:
        return [key_of(claim) for claim in claims_of(self.world, node)]


def shortfalls(claim: NodeClaim, node: Node) -> list[str]:
    """One sentence for each requested resource of which the Node has too little, by name."""
    expected = Resources.from_wire(claim.status.capacity)
    found = Resources.from_wire(node.status.capacity)
    wanted = Resources.from_wire(claim.spec.resources.requests)
    return [
        f"expected {format_amount(name, expected[name])} of resource {name}, but found"
        f" {format_amount(name, found[name])} ({found[name] / expected[name]:.1%} of expected)"
        for name, _ in wanted.items()
        if found[name] * 100 < expected[name] * _LEAST_PERCENT
    ]
