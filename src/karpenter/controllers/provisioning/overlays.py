"""NodeOverlays: whether each can be used, reported in its status.

Every pass applies the overlays to prices and capacity itself; no pool waits for this controller.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from karpenter.api.karpenter import NodeOverlay, NodePool
from karpenter.api.meta import Resource
from karpenter.cloud.provider import CloudError
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.node_pools.managed import can_be_asked_for, is_served
from karpenter.model.conditions import (
    FALSE,
    TRUE,
    VALIDATION_SUCCEEDED,
    summed_up,
    to_wire,
    with_condition,
)
from karpenter.scheduling.inputs.cluster import overlay_problem, usable_overlays
from karpenter.scheduling.inputs.overlays import RefusedOverlay, apply_overlays
from karpenter.scheduling.problem import PoolCatalogue

_AGAIN: Final = 6 * 3600.0
_ALL: Final = ("", "")  # overlays are judged together


class OverlayController(Controller):
    """Judges all overlays whenever one of them, or a pool, changes."""

    name = "nodeoverlay.controller"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._overlays = context.mirror(NodeOverlay)
        self._pools = context.mirror(NodePool)
        for kind in (NodeOverlay, NodePool):
            self._ends.append(context.mirror(kind).on_change(self._on_change))

    async def reconcile(self, key: object) -> float | None:
        overlays = {overlay.metadata.name: overlay for overlay in self._overlays.list()}
        if not overlays:
            return None
        catalogues = await self._catalogues()
        provider = self.context.cloud.facts.name
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
            if not is_served(self.context, pool) or pool.metadata.deletion_timestamp is not None:
                continue
            try:
                found.append(PoolCatalogue(pool, await self.context.cloud.instance_types(pool)))
            except CloudError as error:
                if can_be_asked_for(pool):
                    name = {"name": pool.metadata.name}
                    self.log.warning(
                        "overlays are judged without nodepool", NodePool=name, error=error
                    )
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
            await self.context.patch(overlay, body, locked=True, subresource="status")


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
