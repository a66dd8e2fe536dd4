"""The controller that takes every claim from creation to an initialized node.

One reconcile of a claim: finalizer, launch, registration, initialization, liveness. All steps run
every time, each on the claim as the previous one changed it, and the claim is written once at the
end, if anything changed; a launch that takes long also writes the first conditions meanwhile. A
restart loses nothing: the finalizer is stored before anything is launched, the provider launches
only once per claim, and what was written to a Node is recognised on the Node.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from karpenter.api.devices import ResourceSlice
from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.controllers.context import STATUS, Context, Controller
from karpenter.controllers.lifecycle.claim_changes import (
    ClaimStep,
    differences,
    is_deleting,
    is_news,
    summed_up,
)
from karpenter.controllers.lifecycle.first_status import FirstStatus
from karpenter.controllers.lifecycle.initialization import Initialization
from karpenter.controllers.lifecycle.launch import Launch, PlannedPods
from karpenter.controllers.lifecycle.liveness import Liveness
from karpenter.controllers.lifecycle.registration import Registration, RegistrationHealth
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.controllers.lookup import claims_of
from karpenter.kube.mirror import Key, key_of
from karpenter.kube.workqueue import Backoff
from karpenter.model import labels
from karpenter.runtime import is_race

_Take = Callable[[NodeClaim], Awaitable[ClaimStep]]


class Finalizer(Protocol):
    """The controller part that finalizes a deleted claim."""

    async def finalize(self, claim: NodeClaim) -> float | None:
        """Take one step; return seconds until the next, if there is one."""


class LifecycleController(Controller):
    """Reconciles one claim per key; claims never wait for each other's launches."""

    name = "nodeclaim.lifecycle"
    kind = NodeClaim
    workers = 1000
    backoff = Backoff(1.0, 60.0)

    def __init__(
        self,
        context: Context,
        finalizer: Finalizer,
        health: RegistrationHealth,
        planned: PlannedPods,
        remover: Remover | None = None,
    ) -> None:
        super().__init__(context)
        self._finalizer = finalizer
        self._remover = remover or Remover(context)
        self._launch = Launch(context, self._remover, planned)
        self._steps: Final[tuple[_Take, ...]] = (
            self._launch.take,  # an instance is on its way
            Registration(context, health).take,  # its Node has joined and is ours
            Initialization(context).take,  # the Node has what was promised
            Liveness(
                context, self._remover, health, self._launch.failed
            ).take,  # or it takes too long
        )
        self._ends.append(context.mirror(NodeClaim).on_change(self._claim_changed))
        self.follow(context.mirror(Node), self._keys_of_node)
        if not context.settings.ignore_dra_requests:
            self.follow(context.mirror(ResourceSlice), self._keys_of_slice)

    async def reconcile(self, key: Key) -> float | None:
        """Take a claim as far as it can be taken now."""
        claim = self.context.mirror(NodeClaim).get(key[1])
        if claim is None or not self.context.is_managed(claim):
            return None
        if is_deleting(claim):
            # A launch that ended after the deletion: the claim must name the instance to terminate
            recalled = self._launch.recall(claim)
            if recalled is not claim:
                claim = await self._write(claim, summed_up(recalled, now=self.clock.now()))
            return await self._finalizer.finalize(claim)
        if self._remover.has_removed(claim):
            return None
        claim = await self._with_finalizer(claim)
        return await self._advance(key, claim)

    async def _with_finalizer(self, claim: NodeClaim) -> NodeClaim:
        finalizers = claim.metadata.finalizers
        if labels.TERMINATION in finalizers:
            return claim
        wanted = [*finalizers, labels.TERMINATION]
        return await self.context.patch(claim, {"metadata": {"finalizers": wanted}}, locked=True)

    async def _advance(self, key: Key, stored: NodeClaim) -> float | None:
        claim = summed_up(stored, now=self.clock.now())
        taken: list[ClaimStep] = []
        errors: list[Exception] = []
        async with FirstStatus(self.context, stored, claim) as first:
            for take in self._steps:
                try:
                    step = await take(claim)
                except Exception as error:  # noqa: BLE001 the other steps must still run
                    errors.append(error)
                    continue
                if step.is_over:
                    return None
                claim = step.claim
                taken.append(step)
        written = await self._write(first.stored, summed_up(claim, now=self.clock.now()))
        errors += [step.error for step in taken if step.error is not None]
        errors += await _report_errors(taken, written)
        again = min((step.again for step in taken if step.again is not None), default=None)
        if errors:
            # The back-off after the error may be longer than the time a step asked for
            if again is not None:
                self.queue.add_after(key, again)
            raise _worst(errors)
        return again

    async def _write(self, old: NodeClaim, new: NodeClaim) -> NodeClaim:
        changed = differences(old, new)
        if changed.metadata:
            old = await self.context.patch(old, {"metadata": changed.metadata}, locked=True)
        if changed.status:
            old = await self.context.patch(
                old, {"status": changed.status}, locked=True, subresource=STATUS
            )
        return old

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        claim = new or old
        # A failed launch writes its reason to the claim; that event must not bypass the back-off
        if claim is not None and (old is None or new is None or is_news(old, new)):
            self.queue.add(key_of(claim))

    def _keys_of_node(self, node: Node) -> Iterable[Key]:
        return [key_of(claim) for claim in claims_of(self.context, node)]

    def _keys_of_slice(self, found: ResourceSlice) -> Iterable[Key]:
        owners = [o.name for o in found.metadata.owner_references if o.kind == "Node"]
        for name in {found.spec.node_name or "", *owners}:
            node = self.context.mirror(Node).get(name)
            if node is not None:
                yield from self._keys_of_node(node)


async def _report_errors(taken: Iterable[ClaimStep], written: NodeClaim) -> list[Exception]:
    """Let every step report what was written; return the errors of the reports."""
    errors: list[Exception] = []
    for step in taken:
        if step.afterwards is not None:
            try:
                await step.afterwards(written)
            except Exception as error:  # noqa: BLE001 the other steps still report
                errors.append(error)
    return errors


def _worst(errors: list[Exception]) -> Exception:
    """The error to raise: a race only if all are races; the others are added as notes."""
    worst = min(errors, key=is_race)
    for other in errors:
        if other is not worst:
            worst.add_note(f"and also: {other}")
    return worst
