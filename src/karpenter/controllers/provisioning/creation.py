"""Creating NodeClaims: within the limits of their pool, once each, and counted from then on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context
from karpenter.controllers.node_pools.usage import exceeded_limit, usage_of
from karpenter.controllers.provisioning.claim_bodies import draw_name
from karpenter.kube.errors import AlreadyExistsError, ConnectionLostError, ServerError
from karpenter.model import labels
from karpenter.model.resources import NO_RESOURCES, Resources
from karpenter.scheduling.plan import PlannedClaim
from karpenter.state.nodes import StateNode
from karpenter.state.static_node_counts import count_static

PROVISIONED: Final = "provisioned"
BodyOf: TypeAlias = Callable[[str], Mapping[str, Any]]  # the body of a claim of this name

_ATTEMPTS: Final = 3
_PAUSE: Final = 0.5


class NotCreatedError(Exception):
    """A claim that must not be created now; the text is one sentence."""

    def __init__(self, text: str, *, is_limit: bool = False) -> None:
        super().__init__(text)
        self.is_limit: Final = is_limit  # because of a limit of the pool


class _NameTakenError(Exception):
    """Another claim has the generated name."""


class ClaimCreator:
    """Creates claims for pools."""

    def __init__(self, context: Context, log: Any) -> None:
        self._context = context
        self._log = log
        self._used: tuple[Sequence[StateNode], Resources] = ((), NO_RESOURCES)

    def objection(self, pool: NodePool, *, slots: int = 1) -> NotCreatedError | None:
        """Why a pool may not have so many more nodes as things stand now, or None when it may."""
        name = pool.metadata.name
        now = self._context.mirror(NodePool).get(name)
        if now is None or now.metadata.uid != pool.metadata.uid:
            return NotCreatedError(f"nodepool {name} is gone")
        if now.metadata.deletion_timestamp is not None:
            return NotCreatedError(f"nodepool {name} is being deleted")
        if now.spec.replicas is not None:
            return self._static_objection(now, slots)
        exceeded = exceeded_limit(now, self._usage(name)) if now.spec.limits else None
        return NotCreatedError(f"nodepool {name}: {exceeded}", is_limit=True) if exceeded else None

    def _static_objection(self, pool: NodePool, slots: int) -> NotCreatedError | None:
        snapshot, now = self._context.state.snapshot(), self._context.clock.now()
        count = count_static(pool, snapshot, now=now)
        if count.surplus:
            return NotCreatedError(f"nodepool {pool.metadata.name} has more nodes than replicas")
        if count.slots(slots) < slots:
            text = f"nodepool {pool.metadata.name} has as many nodes as limits.nodes allows"
            return NotCreatedError(text, is_limit=True)
        return None

    def reserve(self, pool: NodePool, *, replaces: str = "") -> str:
        """Generate the name of a claim, and count that claim from now on.

        The claims of the pool include it at once, so that all controllers that create claims keep
        to the same limit. It must be created or given up.

        Args:
            pool: whose claim it is.
            replaces: name of the claim whose place it takes, if it takes one.

        Raises:
            NotCreatedError: the pool may have no more nodes.
        """
        objection = self.objection(pool)
        if objection is not None:
            raise objection
        name = self._free_name(pool.metadata.name)
        self._context.state.expect(name, pool.metadata.name, replaces=replaces)
        return name

    def give_up(self, name: str) -> None:
        """Stop expecting a claim that was reserved and not created."""
        self._context.state.settle(name)

    async def create(
        self,
        pool: NodePool,
        body_of: BodyOf,
        *,
        name: str = "",
        reason: str = PROVISIONED,
        planned: PlannedClaim | None = None,
        command: str = "",
        **facts: Any,
    ) -> NodeClaim:
        """Create a claim, under a reserved name if there is one; ``facts`` go into the log.

        Args:
            pool: whose claim it is.
            body_of: makes its body for a name.
            name: the one that was reserved, if one was.
            reason: why it is made, as metrics have it.
            planned: the plan it comes from; none for a static pool.
            command: the disruption command it is part of, if it is part of one.
            facts: what the log line says besides.

        Raises:
            NotCreatedError: the pool may have no more nodes.
        """
        claim = await self._created(self._still_wanted(pool, name), pool, body_of)
        relaxed = claim.metadata.annotations.get(labels.MIN_VALUES_RELAXED, "false")
        self._context.metrics.nodeclaims_created_total.labels(
            reason=reason, nodepool=pool.metadata.name, min_values_relaxed=relaxed
        ).inc()
        if command:
            self._context.decisions.tie(command, (claim.metadata.uid,))
        self._context.decide(
            self._log.info,
            "created nodeclaim",
            drafts.claim_created(claim, reason, planned, command),
            NodePool={"name": pool.metadata.name},
            NodeClaim={"name": claim.metadata.name},
            **facts,
        )
        return claim

    def _still_wanted(self, pool: NodePool, name: str) -> str:
        """The reserved name, or a new one; raises if the pool no longer admits the claim."""
        if not name:
            return self.reserve(pool)
        objection = self.objection(pool, slots=0)
        if objection is None:
            return name
        self.give_up(name)
        raise objection

    def _usage(self, pool: str) -> Resources:
        """The usage of a pool, cached while its machines are the same: claims come in batches."""
        machines = self._context.state.snapshot().nodes_of(pool)
        if self._used[0] is not machines:
            self._used = machines, usage_of(machines)
        return self._used[1]

    async def _created(self, name: str, pool: NodePool, body_of: BodyOf) -> NodeClaim:
        """Create a claim that is expected, under another name if its own is taken."""
        for _ in range(_ATTEMPTS):
            try:
                return await self._sent(name, body_of)
            except _NameTakenError:
                taken, name = name, self._free_name(pool.metadata.name)
                self._context.state.rename(taken, name)
        self._context.state.settle(name)
        raise NotCreatedError(
            f"no free name was found for a claim of nodepool {pool.metadata.name}"
        )

    async def _sent(self, name: str, body_of: BodyOf) -> NodeClaim:
        """Create a claim; afterwards it exists, is in doubt, or is not expected any more.

        After a lost answer the claim may or may not exist. The creation is repeated under the same
        name, which is idempotent, and the claim counts as expected for a while in either case.
        """
        is_in_doubt = False
        for left in reversed(range(_ATTEMPTS)):
            try:
                return await self._context.create(NodeClaim, body_of(name))
            except AlreadyExistsError as error:
                if is_in_doubt:
                    break
                raise _NameTakenError from error
            except (ConnectionLostError, ServerError):
                is_in_doubt = True
                self._context.state.doubt(name, self._context.clock.now())
                if not left:
                    raise
                await self._context.clock.sleep(_PAUSE)
            except BaseException:
                if not is_in_doubt:
                    self._context.state.settle(name)
                raise
        return await self._found(name)

    async def _found(self, name: str) -> NodeClaim:
        claim = await self._context.kube.get(NodeClaim, name)
        self._context.mirrors.absorb(claim)
        return claim

    def _free_name(self, pool: str) -> str:
        known = self._context.mirror(NodeClaim)
        while True:
            name = draw_name(pool, self._context.rng)
            if known.get(name) is None and not self._context.state.is_expected(name):
                return name
