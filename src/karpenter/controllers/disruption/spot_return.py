"""Follows what is on sale on spot for machines that fell back to on-demand.

Every minute, for each such machine of a pool that asks for a return to spot, the types that would
hold its pods and can be bought on spot are compared with those noted before on its NodeClaim. Types
that are sold out drop off the note; a note with too few types left begins anew. Being kept in the
API, it survives this process. What was sold out and back on sale between two looks, or while no
process ran, is not seen; a provider remembers what was sold out for longer than a minute.
"""

from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.controllers.context import Context, Loop
from karpenter.controllers.disruption.conflict_retry import GoneError, change
from karpenter.controllers.pool_types import PoolTypes
from karpenter.kube.errors import KubeError
from karpenter.model import labels
from karpenter.scheduling.compiled.templates import template_requirements
from karpenter.scheduling.spot.fallback import (
    followed,
    on_sale_of,
    return_of,
    return_wait,
    types_on_sale,
)
from karpenter.state.nodes import StateNode

LOOK_SECONDS: Final = 60.0
_UNSYNCED: Final = 1.0


class SpotReturn(Loop):
    """Notes since when spot has been on sale for machines that fell back."""

    name = "disruption.spot-return"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._types = PoolTypes(
            context.cloud, lambda pool, why: None, may_fail=lambda pool: True, may_be_empty=True
        )

    async def step(self) -> float:
        """Look at all machines once; return seconds until the next look."""
        if not self.context.is_synced:
            return _UNSYNCED
        snapshot = self.context.state.snapshot()
        waiting = [m for m in snapshot.nodes if _waits(m, snapshot.node_pools.get(m.node_pool))]
        if not waiting:
            return LOOK_SECONDS
        names = sorted({machine.node_pool for machine in waiting})
        types = await self._types.of(snapshot.node_pools[name] for name in names)
        for machine in waiting:
            pool = snapshot.node_pools[machine.node_pool]
            if types[machine.node_pool]:
                wanted = template_requirements(pool)
                on_sale = types_on_sale(types[machine.node_pool], wanted, machine.requested)
                await self._note(machine, on_sale)
        return LOOK_SECONDS

    async def _note(self, machine: StateNode, on_sale: list[str]) -> None:
        claim = machine.node_claim
        assert claim is not None
        before = on_sale_of(claim.metadata.annotations)
        after = followed(before, on_sale, self.clock.now())
        text = after.text() if after is not None else None
        if text == claim.metadata.annotations.get(labels.SPOT_ON_SALE):
            return
        body = {"metadata": {"annotations": {labels.SPOT_ON_SALE: text}}}
        try:
            await change(self.context, claim, lambda _: body)
        except GoneError:
            return
        except KubeError as error:
            name = claim.metadata.name
            self.log.warning("noting spot on sale", NodeClaim={"name": name}, error=str(error))


def _waits(machine: StateNode, pool: NodePool | None) -> bool:
    """Whether a machine fell back, and its pool asks for a return."""
    claim = machine.node_claim
    if claim is None or pool is None or machine.is_deleting or return_wait(pool) is None:
        return False
    return return_of(claim, pool) is not None
