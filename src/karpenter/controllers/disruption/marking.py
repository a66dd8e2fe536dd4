"""The two marks a machine carries while it is being disrupted, put on and taken off.

The taint keeps new pods away; the condition of the claim says why. Whoever finds them on a machine
that nobody is about to remove takes them off: a process that died has left them there.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node, Taint
from karpenter.controllers.disruption.writing import GoneError, change
from karpenter.controllers.termination.drain import DISRUPTION_REASON
from karpenter.controllers.world import STATUS, World
from karpenter.model.conditions import TRUE, Conditions, to_wire, with_condition, without
from karpenter.model.taints import DISRUPTED, matches
from karpenter.state.nodes import StateNode


class Marker:
    """Puts marks on machines, and takes them off."""

    def __init__(self, world: World, log: Any) -> None:
        self._world = world
        self._log = log

    async def put_on(self, machine: StateNode, reason: str) -> None:
        """Close a machine to new pods, and say on its claim why.

        Raises:
            GoneError: there is nothing left to disrupt.
            KubeError: the marks could not be written.
        """
        if machine.node is None or machine.node_claim is None:
            raise GoneError(f"machine {machine.name} has no Node or no NodeClaim")
        was_open = not is_tainted(machine.node)
        await change(self._world, machine.node, _tainted)
        if was_open:
            self._log.info(
                "tainted node",
                Node={"name": machine.node.metadata.name},
                **{"taint.Key": DISRUPTED.key, "taint.Effect": DISRUPTED.effect},
            )

        def explained(claim: NodeClaim) -> Mapping[str, Any] | None:
            held, now = claim.status.conditions, self._world.clock.now()
            generation = claim.metadata.generation
            return _written(
                held,
                with_condition(
                    held, DISRUPTION_REASON, TRUE, reason, reason, now=now, generation=generation
                ),
            )

        await change(self._world, machine.node_claim, explained, subresource=STATUS)

    async def take_off(self, machine: StateNode) -> None:
        """Open a machine to pods again; one that is on its way out stays as it is.

        Raises:
            KubeError: the marks could not be removed.
        """
        with suppress(GoneError):
            if machine.node is not None:
                await change(self._world, machine.node, _untainted)
            if machine.node_claim is not None:
                await change(self._world, machine.node_claim, _unexplained, subresource=STATUS)


def is_marked(machine: StateNode) -> bool:
    """Whether a machine carries one of the marks."""
    claim, node = machine.node_claim, machine.node
    if claim is not None and any(c.type == DISRUPTION_REASON for c in claim.status.conditions):
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
