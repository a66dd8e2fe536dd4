"""The provisioner: a batch of pending pods becomes a plan, and the plan becomes NodeClaims.

One pass at a time. A pass is delayed while any NodeClaim has no machine, because its capacity is
not known yet: what an earlier pass, or an earlier process, has requested is counted before more is
requested.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.times import later
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context, Loop
from karpenter.controllers.provisioning.batching import Batcher
from karpenter.controllers.provisioning.buffers import report_buffers
from karpenter.controllers.provisioning.claim_bodies import claim_body
from karpenter.controllers.provisioning.creation import ClaimCreator, NotCreatedError
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.planner import CONTROLLER, PlannedPass, ProvisioningPlanner
from karpenter.controllers.provisioning.reporting import Reporter, listed, pods_named
from karpenter.kube.workqueue import Backoff
from karpenter.scheduling.plan import PlannedClaim
from karpenter.state.nodes import nomination_window

# Between two checks whether every claim has a machine
_UNTIL_SYNCED: Final = 0.2
# Concurrent requests to create claims
_AT_A_TIME: Final = 32


class Provisioner(Loop):
    """Makes room for pods that wait."""

    name = CONTROLLER
    # At most the ten seconds after which pending pods trigger again
    backoff = Backoff(0.5, 10.0)

    def __init__(self, context: Context, batcher: Batcher, planned: PlannedPods) -> None:
        super().__init__(context)
        self._batcher = batcher
        self._planned = planned
        self._planner = ProvisioningPlanner(context, self.log)
        self._creator = ClaimCreator(context, self.log)
        self._reporter = Reporter(context, planned, self.log)
        self._window = nomination_window(context.settings.batch_max_duration)
        self._is_due = False  # a batch has closed that no pass has served so far
        self._first: Sequence[str] = ()  # uids of pods the last pass did not try

    async def step(self) -> float:
        if not self._is_due:
            await self._batcher.batch()
            self._is_due = True
        if not self.context.is_synced:
            return _UNTIL_SYNCED
        await self.provision()
        self._is_due = False
        return 0.0

    async def provision(self) -> tuple[NodeClaim, ...]:
        """Do one pass, and return the claims it has made."""
        done = await self._planner.plan(self._first)
        plan = done.outcome.plan
        self._first = [pod.metadata.uid for pod in pods_named(plan.unevaluated, done)]
        await self._reporter.report(done)
        await self._nominate(done)
        try:
            claims = await self._create(done)
        except Exception:
            # Some claims are missing, so the next pass cannot be predicted
            await self._reporter.report_failures(done)
            raise
        await self._reporter.report_failures(await self._planner.after_later_passes(done))
        await self._reporter.report_cost(done)
        if self.context.settings.feature_gates["CapacityBuffer"]:
            await report_buffers(self.context, done.outcome.buffers)
        if any(pod not in plan.costly for pod in plan.unevaluated):
            # Not for costly pods: the trigger of pending pods retries them, so none waits for them
            self._batcher.trigger()
        return claims

    async def _nominate(self, done: PlannedPass) -> None:
        """Nominate the machines that pods are expected on, and publish it on the pods."""
        until = later(self.clock.now(), self._window)
        for name, names in sorted(done.outcome.plan.existing.items()):
            machine = done.snapshot.node(name)
            if machine is None:
                continue
            pods = tuple(pods_named(names, done))
            self.context.state.nominate(name, until)
            claim = machine.node_claim.metadata.name if machine.node_claim is not None else ""
            node = machine.node.metadata.name if machine.node is not None else ""
            await self._reporter.nominate(pods, node=node, claim=claim)
            if claim and (not machine.is_initialized or machine.awaits_pods):
                self._planned.expect(claim, pods)

    async def _create(self, done: PlannedPass) -> tuple[NodeClaim, ...]:
        turns = asyncio.Semaphore(_AT_A_TIME)

        async def created(claim: PlannedClaim) -> NodeClaim | Exception | None:
            try:
                return await self._created(claim, done)
            except Exception as error:  # noqa: BLE001 the others must still be created
                return error
            finally:
                turns.release()

        tasks = []
        async with asyncio.TaskGroup() as group:
            for claim in done.outcome.plan.claims:
                await turns.acquire()
                tasks.append(group.create_task(created(claim)))
                await asyncio.sleep(0)  # a hundred at once would block the event loop
        made = [task.result() for task in tasks]
        for each in made:
            if isinstance(each, Exception):
                # The others exist; the next pass counts them and plans what is missing
                raise each
        return tuple(each for each in made if isinstance(each, NodeClaim))

    async def _created(self, planned: PlannedClaim, done: PlannedPass) -> NodeClaim | None:
        pool = done.snapshot.node_pools[planned.node_pool]
        try:
            claim = await self._creator.create(
                pool,
                lambda name: claim_body(planned, pool, name),
                planned=planned,
                requests=planned.requests.to_wire(),
                **{"instance-types": listed(planned.instance_types)},
            )
        except NotCreatedError as error:
            self.context.decide(
                self.log.warning,
                "creating nodeclaim",
                drafts.claim_not_created(planned.node_pool, str(error), is_limit=error.is_limit),
                NodePool={"name": planned.node_pool},
                error=str(error),
            )
            return None
        pods = tuple(pods_named(planned.pods, done))
        self._planned.expect(claim.metadata.name, pods)
        await self._reporter.nominate(pods, claim=claim.metadata.name)
        return claim
