"""Consistency: whether a node is as large as its instance type promised its claim.

The controller only reports: an event and the condition ``ConsistentStateFound``. A node is compared
once it is initialized, because before that it may not have reported all its capacity.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.times import later
from karpenter.controllers.context import STATUS, Context, Controller
from karpenter.controllers.lifecycle.claim_changes import conditioned, differences, is_deleting
from karpenter.controllers.lookup import claims_of, nodes_of
from karpenter.kube.events import WARNING, Event
from karpenter.kube.mirror import Key, key_of
from karpenter.model.conditions import CONSISTENT_STATE_FOUND, FALSE, INITIALIZED, TRUE, is_true
from karpenter.model.resources import Resources, format_amount

_PERIOD: Final = timedelta(minutes=10)
_LEAST_PERCENT: Final = 90


class ConsistencyController(Controller):
    """Judges each claim every ten minutes."""

    name = "nodeclaim.consistency"
    kind = NodeClaim

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._judged: dict[str, tuple[str, datetime]] = {}  # claim name -> uid, when
        self.follow(context.mirror(NodeClaim))
        self.follow(context.mirror(Node), self._keys_of_node)

    async def reconcile(self, key: Key) -> float | None:
        """Judge a claim if it has not been judged for a while."""
        claim = self.context.mirror(NodeClaim).get(key[1])
        if claim is None:
            self._judged.pop(key[1], None)
            return None
        nodes = nodes_of(self.context, claim)
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
        return self.context.is_managed(claim) and not is_deleting(claim) and is_initialized

    async def _judge(self, claim: NodeClaim, node: Node) -> None:
        issues = shortfalls(claim, node)
        for issue in issues:
            self.log.error(
                "consistency check failed", NodeClaim={"name": claim.metadata.name}, error=issue
            )
            self.context.recorder.publish(
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
            changed = conditioned(claim, CONSISTENT_STATE_FOUND, FALSE, reason, message, now=now)
        else:
            changed = conditioned(claim, CONSISTENT_STATE_FOUND, TRUE, now=now)
        status = differences(claim, changed).status
        if status:
            await self.context.patch(claim, {"status": status}, locked=True, subresource=STATUS)

    def _keys_of_node(self, node: Node) -> Iterable[Key]:
        return [key_of(claim) for claim in claims_of(self.context, node)]


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
