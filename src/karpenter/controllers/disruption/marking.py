"""The taint and the condition a machine carries while it is being disrupted, set and removed.

The taint keeps new pods away; the condition of the claim holds the reason. On a machine that no
command is about to remove they are left over from a process that died, and are removed.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node, Taint
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import STATUS, Context
from karpenter.controllers.disruption.conflict_retry import GoneError, change
from karpenter.model.conditions import (
    DISRUPTION_REASON,
    TRUE,
    Conditions,
    find,
    to_wire,
    with_condition,
    without,
)
from karpenter.model.taints import DISRUPTED, matches
from karpenter.state.nodes import StateNode


class Marker:
    """Puts marks on machines, and takes them off."""

    def __init__(self, context: Context, log: Any) -> None:
        self._context = context
        self._log = log

    async def put_on(self, machine: StateNode, reason: str) -> None:
        """Taint a machine against new pods, and set the reason as a condition of its claim.

        Raises:
            GoneError: there is nothing left to disrupt.
            KubeError: the marks could not be written.
        """
        if machine.node is None or machine.node_claim is None:
            raise GoneError(f"machine {machine.name} has no Node or no NodeClaim")
        was_open = not is_tainted(machine.node)
        await change(self._context, machine.node, _tainted)
        if was_open:
            self._context.decide(
                self._log.info,
                "tainted node",
                drafts.tainted(
                    machine.node,
                    machine.node_claim,
                    reason,
                    self._context.command_of(machine.node_claim),
                ),
                Node={"name": machine.node.metadata.name},
                **{"taint.Key": DISRUPTED.key, "taint.Effect": DISRUPTED.effect},
            )

        def explained(claim: NodeClaim) -> Mapping[str, Any] | None:
            held, now = claim.status.conditions, self._context.clock.now()
            generation = claim.metadata.generation
            return _written(
                held,
                with_condition(
                    held, DISRUPTION_REASON, TRUE, reason, reason, now=now, generation=generation
                ),
            )

        await change(self._context, machine.node_claim, explained, subresource=STATUS)

    async def take_off(self, machine: StateNode) -> None:
        """Remove the taint and the condition; a machine that is being deleted keeps them.

        Raises:
            KubeError: the marks could not be removed.
        """
        with suppress(GoneError):
            if machine.node is not None:
                await change(self._context, machine.node, _untainted)
            if machine.node_claim is not None:
                await change(self._context, machine.node_claim, _unexplained, subresource=STATUS)


def is_marked(machine: StateNode) -> bool:
    """Whether a machine carries one of the marks."""
    claim, node = machine.node_claim, machine.node
    if claim is not None and find(claim.status.conditions, DISRUPTION_REASON) is not None:
        return True
    return node is not None and is_tainted(node)


def is_tainted(node: Node) -> bool:
    """Whether a node is closed to new pods because it is being disrupted."""
    return any(matches(taint, DISRUPTED) for taint in node.spec.taints)


def _tainted(node: Node) -> Mapping[str, Any] | None:
    if is_tainted(node):
        return None
    return _with_taints((*_others(node), DISRUPTED))


def _untainted(node: Node) -> Mapping[str, Any] | None:
    return _with_taints(_others(node)) if is_tainted(node) else None


def _unexplained(claim: NodeClaim) -> Mapping[str, Any] | None:
    held = claim.status.conditions
    return _written(held, without(held, DISRUPTION_REASON))


def _others(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.key != DISRUPTED.key]


def _with_taints(taints: Iterable[Taint]) -> Mapping[str, Any]:
    return {"spec": {"taints": [msgspec.to_builtins(taint) for taint in taints]}}


def _written(before: Conditions, after: Conditions) -> Mapping[str, Any] | None:
    return {"status": {"conditions": to_wire(after)}} if after != before else None
