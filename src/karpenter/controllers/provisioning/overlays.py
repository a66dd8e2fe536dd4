"""NodeOverlays: whether each can be used, told in its status.

What overlays do to prices and capacity is worked out anew in every pass, from the same overlays;
no pool ever waits for this controller.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from karpenter.api.karpenter import NodeOverlay, NodePool
from karpenter.api.meta import Resource
from karpenter.cloud.provider import CloudError
from karpenter.controllers.node_pools.served import is_served
from karpenter.controllers.provisioning.passes import overlay_problem, usable_overlays
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World
from karpenter.model.conditions import FALSE, TRUE, summed_up, to_wire, with_condition
from karpenter.scheduling.overlays import RefusedOverlay, apply_overlays
from karpenter.scheduling.problem import PoolCatalogue

VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"

_AGAIN: Final = 6 * 3600.0
_ALL: Final = ("", "")  # overlays are judged together


class OverlayController(Controller):
    """Judges all overlays whenever one of them, or a pool, changes."""

    name = "nodeoverlay.controller"
    workers = 1

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._overlays = world.mirror(NodeOverlay)
        self._pools = world.mirror(NodePool)
        for kind in (NodeOverlay, NodePool):
            self._ends.append(world.mirror(kind).on_change(self._on_change))

    async def reconcile(self, key: object) -> float | None:
        overlays = {overlay.metadata.name: overlay for overlay in self._overlays.list()}
        if not overlays:
            return None
        catalogues = await self._catalogues()
        provider = self.world.cloud.facts.name
        refused = await asyncio.to_thread(_refused, overlays, catalogues, provider)
        for name in sorted(overlays):
            await self._write(overlays[name], refused.get(name))
        return _AGAIN

    def _on_change(self, old: Resource | None, new: Resource | None) -> None:
        if old and new and old.metadata.generation == new.metadata.generation:
            return  # only its status is different
        self.queue.add(_ALL)

    async def _catalogues(self) -> list[PoolCatalogue]:
        found = []
        for pool in sorted(self._pools.list(), key=lambda pool: pool.metadata.name):
            if not is_served(self.world, pool) or pool.metadata.deletion_timestamp is not None:
                continue
            try:
                found.append(PoolCatalogue(pool, await self.world.cloud.instance_types(pool)))
            except CloudError as error:
                name = {"name": pool.metadata.name}
                self.log.warning("overlays are judged without nodepool", NodePool=name, error=error)
        return found

    async def _write(self, overlay: NodeOverlay, refused: RefusedOverlay | None) -> None:
        verdict = (FALSE, refused.reason, refused.detail) if refused else (TRUE, "", "")
        now, metadata = self.clock.now(), overlay.metadata
        conditions = with_condition(
            overlay.status.conditions,
            VALIDATION_SUCCEEDED,
            *verdict,
            now=now,
            generation=metadata.generation,
        )
        conditions = summed_up(conditions, (VALIDATION_SUCCEEDED,), metadata, now=now)
        if conditions != overlay.status.conditions:
            body = {"status": {"conditions": to_wire(conditions)}}
            await self.world.patch(overlay, body, locked=True, subresource="status")


def _refused(
    overlays: Mapping[str, NodeOverlay], catalogues: Sequence[PoolCatalogue], provider: str
) -> dict[str, RefusedOverlay]:
    refused = {
        name: RefusedOverlay(name, "RuntimeValidation", problem)
        for name, overlay in overlays.items()
        if (problem := overlay_problem(overlay, provider))
    }
    usable = usable_overlays(overlays, provider)
    judged = apply_overlays(usable.values(), catalogues).refused
    return refused | {each.name: each for each in judged}
