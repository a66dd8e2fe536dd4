"""Creating NodeClaims: within the limits of their pool, once each, and known from then on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.controllers.node_pools.usage import exceeded_limit, usage_of
from karpenter.controllers.provisioning.bodies import draw_name
from karpenter.controllers.world import World
from karpenter.kube.errors import AlreadyExistsError, ConnectionLostError, ServerError
from karpenter.model import labels
from karpenter.model.resources import NO_RESOURCES, Resources
from karpenter.state.nodes import StateNode

PROVISIONED: Final = "provisioned"
BodyOf: TypeAlias = Callable[[str], Mapping[str, Any]]  # the body of a claim of this name

_ATTEMPTS: Final = 3
_PAUSE: Final = 0.5


class NotCreatedError(Exception):
    """A claim that must not be created now; the text is one sentence."""


class ClaimCreator:
    """Creates claims for pools."""

    def __init__(self, world: World, log: Any) -> None:
        self._world = world
        self._log = log
        self._used: tuple[Sequence[StateNode], Resources] = ((), NO_RESOURCES)

    def objection(self, pool: NodePool) -> str | None:
        """Why a pool may have no more nodes as things stand now, or None when it may."""
        now = self._world.mirror(NodePool).get(pool.metadata.name)
        if now is None or now.metadata.uid != pool.metadata.uid:
            return f"nodepool {pool.metadata.name} is gone"
        if now.metadata.deletion_timestamp is not None:
            return f"nodepool {pool.metadata.name} is being deleted"
        exceeded = exceeded_limit(now, self._usage(pool.metadata.name)) if now.spec.limits else None
        return f"nodepool {pool.metadata.name}: {exceeded}" if exceeded else None

    async def create(
        self, pool: NodePool, body_of: BodyOf, *, reason: str = PROVISIONED, **facts: Any
    ) -> NodeClaim:
        """Create a claim; ``facts`` go into the log.

        Raises:
            NotCreatedError: the pool may have no more nodes.
        """
        objection = self.objection(pool)
        if objection is not None:
            raise NotCreatedError(objection)
        claim = await self._created(pool.metadata.name, body_of)
        relaxed = claim.metadata.annotations.get(labels.MIN_VALUES_RELAXED, "false")
        self._world.metrics.nodeclaims_created_total.labels(
            reason=reason, nodepool=pool.metadata.name, min_values_relaxed=relaxed
        ).inc()
        self._log.info(
            "created nodeclaim",
            NodePool={"name": pool.metadata.name},
            NodeClaim={"name": claim.metadata.name},
            **facts,
        )
        return claim

    def _usage(self, pool: str) -> Resources:
        """What a pool has; many claims are made at once, so it is added up only when it changes."""
        machines = self._world.state.snapshot().nodes_of(pool)
        if self._used[0] is not machines:
            self._used = machines, usage_of(machines)
        return self._used[1]

    async def _created(self, pool: str, body_of: BodyOf) -> NodeClaim:
        """Create a claim under a name nobody has.

        When no answer comes the claim may be there or not, so it is asked for again by its name.
        """
        name = self._free_name(pool)
        may_be_ours = False
        for attempt in range(_ATTEMPTS):
            try:
                return await self._world.create(NodeClaim, body_of(name))
            except AlreadyExistsError:
                if may_be_ours:
                    return await self._found(name)
                name = self._free_name(pool)
            except (ConnectionLostError, ServerError):
                if attempt == _ATTEMPTS - 1:
                    raise
                may_be_ours = True
                await self._world.clock.sleep(_PAUSE)
        raise NotCreatedError(f"no free name was found for a claim of nodepool {pool}")

    async def _found(self, name: str) -> NodeClaim:
        claim = await self._world.kube.get(NodeClaim, name)
        self._world.mirrors.absorb(claim)
        return claim

    def _free_name(self, pool: str) -> str:
        known = self._world.mirror(NodeClaim)
        while True:
            name = draw_name(pool, self._world.rng)
            if known.get(name) is None:
                return name
