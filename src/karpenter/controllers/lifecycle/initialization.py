"""Initialization: a registered Node is ready and offers all resources its claim requests.

The condition stays true whatever happens to the Node; only a reboot resets it, and it is not
checked while the reboot is under way.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from karpenter.api.devices import ResourceSlice
from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context
from karpenter.controllers.lifecycle.claim_changes import ClaimStep, conditioned
from karpenter.controllers.lookup import nodes_of
from karpenter.model import labels
from karpenter.model.conditions import (
    INITIALIZED,
    READY,
    REBOOTING,
    REGISTERED,
    TRUE,
    UNKNOWN,
    is_true,
    status_of,
)
from karpenter.model.resources import Resources
from karpenter.model.taints import format_taint, is_known_ephemeral, matches

_YES: Final = "true"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a node is not initialized."""

    reason: str
    message: str


class Initialization:
    """The third step of a claim."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._log = context.log.bind(controller="nodeclaim.lifecycle")

    async def take(self, claim: NodeClaim) -> ClaimStep:
        """Initialize a claim that is registered and not initialized."""
        held = claim.status.conditions
        if not is_true(held, REGISTERED) or status_of(held, INITIALIZED) != UNKNOWN:
            return ClaimStep(claim)
        if is_true(held, REBOOTING):
            return ClaimStep(claim)
        nodes = nodes_of(self._context, claim)
        obstacle = self._obstacle(claim, nodes)
        now = self._context.clock.now()
        if obstacle is not None:
            return ClaimStep(
                conditioned(claim, INITIALIZED, UNKNOWN, obstacle.reason, obstacle.message, now=now)
            )
        await self._label(nodes[0])
        return ClaimStep(conditioned(claim, INITIALIZED, TRUE, now=now), afterwards=self._report)

    def _obstacle(self, claim: NodeClaim, nodes: list[Node]) -> Obstacle | None:
        if len(nodes) != 1:
            return Obstacle("NodeNotFound", f"expected one Node for this claim, found {len(nodes)}")
        node = nodes[0]
        return obstacle_on(claim, node) or self._missing_devices(claim, node)

    def _missing_devices(self, claim: NodeClaim, node: Node) -> Obstacle | None:
        if self._context.settings.ignore_dra_requests:
            return None
        drivers = requested_drivers(claim)
        if not drivers:
            return None
        missing = unpublished_drivers(drivers, node, self._context.mirror(ResourceSlice).list())
        if not missing:
            return None
        return Obstacle(
            "DRADriverPoolsNotPublished",
            f"waiting for a complete pool of devices from {', '.join(missing)}",
        )

    async def _label(self, node: Node) -> None:
        if node.metadata.labels.get(labels.INITIALIZED) != _YES:
            await self._context.patch(node, {"metadata": {"labels": {labels.INITIALIZED: _YES}}})

    async def _report(self, claim: NodeClaim) -> None:
        self._context.decide(
            self._log.info,
            "initialized nodeclaim",
            drafts.initialized(claim, self._context.command_of(claim)),
            NodeClaim={"name": claim.metadata.name},
            Node={"name": claim.status.node_name},
            allocatable=dict(claim.status.allocatable),
            **{"provider-id": claim.status.provider_id},
        )


def obstacle_on(claim: NodeClaim, node: Node) -> Obstacle | None:
    """The first obstacle on the Node: not ready, a taint that must go, or a missing resource."""
    if not is_true(node.status.conditions, READY):
        return Obstacle("NodeNotReady", f"Node {node.metadata.name} is not ready")
    for taint in node.spec.taints:
        if any(matches(taint, startup) for startup in claim.spec.startup_taints):
            return Obstacle(
                "StartupTaintsExist", f"startup taint {format_taint(taint)} is still there"
            )
    for taint in node.spec.taints:
        if is_known_ephemeral(taint):
            return Obstacle(
                "KnownEphemeralTaintsExist", f"taint {format_taint(taint)} is still there"
            )
    missing = unregistered_resources(claim, node)
    if missing:
        return Obstacle("ResourceNotRegistered", f"the Node does not offer {', '.join(missing)}")
    return None


def unregistered_resources(claim: NodeClaim, node: Node) -> list[str]:
    """The resources the claim asks for of which the Node offers nothing yet, by name."""
    offered = Resources.from_wire(node.status.allocatable)
    wanted = Resources.from_wire(claim.spec.resources.requests)
    return sorted(name for name, _ in wanted.items() if not offered[name])


def requested_drivers(claim: NodeClaim) -> list[str]:
    """The device drivers whose devices the pods of a claim ask for."""
    text = claim.metadata.annotations.get(labels.REQUESTED_DRA_DRIVERS, "")
    return sorted({name.strip() for name in text.split(",")} - {""})


def unpublished_drivers(
    drivers: Iterable[str], node: Node, slices: Iterable[ResourceSlice]
) -> list[str]:
    """The drivers that have not published one complete pool of the Node's own devices."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for found in slices:
        if _is_local(found, node):
            pools.setdefault((found.spec.driver, found.spec.pool.name), []).append(found)
    published = {driver for (driver, _), held in pools.items() if _is_complete(held)}
    return [driver for driver in drivers if driver not in published]


def _is_local(found: ResourceSlice, node: Node) -> bool:
    if found.spec.node_name:
        return found.spec.node_name == node.metadata.name
    return any(
        owner.kind == node.kind and owner.uid == node.metadata.uid
        for owner in found.metadata.owner_references
    )


def _is_complete(pool: list[ResourceSlice]) -> bool:
    """Whether all slices of the newest generation are there; older ones are being replaced."""
    newest = max(found.spec.pool.generation for found in pool)
    current = [found for found in pool if found.spec.pool.generation == newest]
    return all(found.spec.pool.resource_slice_count == len(current) for found in current)
