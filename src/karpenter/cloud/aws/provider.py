"""The ``CloudProvider`` of EC2.

A claim's launch continues when its caller is cancelled, and the next ``create`` of the claim finds
it again: in memory, by the name tag on the instance, or by the client token (EC2's idempotency
token).

The token alone is not enough: it covers all claims of a fleet and their request, and a restarted
process may batch other claims, or see other prices. So instances are searched for by the name of
their claim wherever an earlier attempt may have launched one: after a failure, and for claims that
existed before this process led.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog

from karpenter.api.karpenter import Commitment, NodeClaim, NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.assembly import Foundation, Parts, assemble
from karpenter.cloud.aws.ec2.calls import Calls, Observer, check_connection, open_calls
from karpenter.cloud.aws.ec2.errors import AwsError, AwsUnauthorizedError
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.instances.described import instance_of
from karpenter.cloud.aws.instances.drift import Drifting
from karpenter.cloud.aws.instances.instances import PartitionHook
from karpenter.cloud.aws.instances.record import InstanceRecord
from karpenter.cloud.aws.interruption.repair_policies import REPAIR_POLICIES
from karpenter.cloud.aws.launch.design import Candidates
from karpenter.cloud.aws.launch.errors import check_ready
from karpenter.cloud.aws.launch.filters import Wanted
from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.cloud.aws.network.versions import version_source
from karpenter.cloud.aws.settings import AwsSettings, read_settings
from karpenter.cloud.aws.types.kubelet import KubeletError, overruled
from karpenter.cloud.aws.types.labels import FACTS
from karpenter.cloud.aws.workers import workers
from karpenter.cloud.provider import (
    CloudError,
    CreateError,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    RebootFailedError,
    RegistrationHook,
    RepairPolicy,
)
from karpenter.cloud.registry import ProviderContext, ProviderError
from karpenter.cloud.types import InstanceType, ProviderFacts, price_ceiling
from karpenter.decision_log.log import DecisionLog
from karpenter.kube.errors import KubeError
from karpenter.kube.events import WARNING, Event
from karpenter.model import labels
from karpenter.model.requirement import RequirementError
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.runtime import kept_running
from karpenter.telemetry import Metrics

_MOST_REMEMBERED: Final = 10_000

log = structlog.get_logger(__name__)


class AwsProvider:
    """The ``CloudProvider`` of EC2."""

    def __init__(self, parts: Parts) -> None:
        self.parts: Final = parts
        self._drifting = Drifting(parts)
        self._hooks = (PartitionHook(parts.instances),)
        self._starting = asyncio.Lock()
        self._is_started = False
        self._launches: dict[str, asyncio.Task[InstanceRecord]] = {}  # by the uid of the claim
        self._reboots: dict[str, None] = {}  # operations that were carried out

    @property
    def facts(self) -> ProviderFacts:
        return FACTS

    @property
    def repair_policies(self) -> Sequence[RepairPolicy]:
        return REPAIR_POLICIES

    @property
    def registration_hooks(self) -> Sequence[RegistrationHook]:
        return self._hooks

    async def start(self) -> None:
        """Discover what every launch needs; idempotent.

        Raises:
            ProviderError: the provider cannot work as it is set up.
        """
        async with self._starting:
            if self._is_started:
                return
            parts = self.parts
            await check_connection(parts.base.calls)
            await parts.cluster.load()
            if parts.shifts.is_enabled:
                await parts.shifts.check()
            try:
                await parts.version.get()
                await parts.types.refresh()
            except (CloudError, KubeError) as error:
                raise ProviderError(f"provider aws cannot start: {error}") from error
            self._is_started = True

    async def run(self) -> None:
        await self.start()
        base = self.parts.base
        async with asyncio.TaskGroup() as group:
            for worker in workers(self.parts):
                kept = kept_running(worker, base.clock, log, base.telemetry)
                group.create_task(kept, name=worker.name)

    async def create(self, claim: NodeClaim) -> Instance:
        await self._started()
        uid = claim.metadata.uid
        launch = self._launches.get(uid)
        if launch is None or _has_failed(launch):
            is_first = launch is None and self.parts.view.is_of_this_term(claim)
            launch = asyncio.get_running_loop().create_task(self._launch(claim, is_first=is_first))
            self._remember(uid, launch)
        record = await asyncio.shield(launch)
        return await self._instance(record)

    async def delete(self, claim: NodeClaim) -> None:
        await self._started()
        instance_id = await self._instance_id(claim)
        try:
            await self.parts.instances.terminate(instance_id)
        except InstanceNotFoundError:
            self._forget(claim)
            raise
        except AwsError:
            held = claim.metadata.labels
            zone, zone_id = held.get(labels.ZONE, ""), held.get(ec2_labels.ZONE_ID, "")
            self.parts.base.metrics.termination_failures.labels(zone, zone_id).inc()
            raise

    async def get(self, provider_id: str) -> Instance:
        await self._started()
        record = await self.parts.instances.get(_id_in(provider_id))
        if record.is_leaving:
            raise InstanceNotFoundError(f"instance {record.id} is being terminated")
        return await self._instance(record)

    async def list(self) -> Sequence[Instance]:
        await self._started()
        return [await self._instance(each) for each in await self.parts.instances.all()]

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        await self._started()
        name = pool.spec.template.spec.node_class_ref.name
        node_class = await self.parts.view.node_class(name)
        if node_class is None:
            raise CloudError(f"there is no EC2NodeClass {name}")
        try:
            node_class = overruled(node_class, pool.metadata.annotations)
        except KubeletError as error:
            raise CloudError(f"NodePool {pool.metadata.name}: {error}") from error
        return await self.parts.types.list(node_class)

    def commitments(self) -> Sequence[Commitment]:
        """The Savings Plans and reserved instances of the account, if they are to be read."""
        return self.parts.commitments.current

    async def refresh_commitments(self) -> None:
        """Read them now; what cannot be read counts as none."""
        await self.parts.commitments.refresh()

    async def refresh_prices(self) -> None:
        """Fetch prices from AWS now; only a leader does so by itself.

        Raises:
            CloudError: some prices are missing.
        """
        await self._started()
        await self.parts.pricing.refresh()

    async def drift_reason(self, claim: NodeClaim) -> str:
        await self._started()
        return await self._drifting.reason(claim)

    async def reboot(self, claim: NodeClaim, operation: str) -> None:
        await self._started()
        if operation in self._reboots:
            return
        instance_id = _id_in(claim.status.provider_id)
        try:
            await self.parts.base.calls.call("ec2", "RebootInstances", InstanceIds=[instance_id])
        except AwsUnauthorizedError as error:
            raise RebootFailedError(
                f"instance {instance_id} may not be restarted: {error}"
            ) from error
        self._reboots[operation] = None
        _shrink(self._reboots)

    async def _started(self) -> None:
        """Make sure that ``start`` has been done, in a process that does not lead as well."""
        if self._is_started:
            return
        try:
            await self.start()
        except ProviderError as error:
            raise CloudError(str(error)) from error

    async def _launch(self, claim: NodeClaim, *, is_first: bool) -> InstanceRecord:
        instances = self.parts.instances
        found = None if is_first else await instances.of_claim(claim.metadata.name)
        if found is None:
            found = await self._launch_new(claim)
        instances.remember(found)
        return found

    async def _launch_new(self, claim: NodeClaim) -> InstanceRecord:
        parts = self.parts
        node_class = await self._node_class(claim)
        check_ready(node_class)
        try:
            kept = (claim.metadata.annotations, self._annotations_of(claim.metadata.labels))
            node_class = overruled(node_class, *kept)
            types = await parts.types.list(node_class)
            group = await parts.groups.resolve(node_class)
        except (CloudError, KubeletError) as error:
            raise CreateError("InstanceTypeResolutionFailed", str(error)) from error
        candidates = Candidates(types, lambda name: parts.types.kubelet_on(node_class, name), group)
        subnets = [
            subnet
            for subnet in node_class.status.subnets
            if not parts.shifts.is_shifted(subnet.zone_id)
        ]
        try:
            return await parts.launcher.launch(
                claim, node_class, candidates, self._wanted(claim), subnets
            )
        except KubeletError as error:
            raise CreateError("InstanceTypeResolutionFailed", str(error)) from error

    def _wanted(self, claim: NodeClaim) -> Wanted:
        try:
            requirements = Requirements.from_wire(claim.spec.requirements)
        except RequirementError as error:
            raise CreateError("LaunchFailed", str(error)) from error
        return Wanted(
            requirements,
            Resources.from_wire(claim.spec.resources.requests),
            FACTS.well_known_labels,
            is_best_effort=self.parts.base.core.min_values_policy == "BestEffort",
            ceiling=price_ceiling(claim.metadata.annotations),
        )

    async def _node_class(self, claim: NodeClaim) -> EC2NodeClass:
        name = claim.spec.node_class_ref.name
        node_class = await self.parts.view.node_class(name)
        if node_class is None:
            message = f"Failed resolving NodeClass: there is no EC2NodeClass {name}"
            event = Event(
                claim, WARNING, "FailedResolvingNodeClass", message, (claim.metadata.name,)
            )
            self.parts.recorder.publish(event)
            raise InsufficientCapacityError(f"there is no EC2NodeClass {name}")
        return node_class

    async def _instance(self, record: InstanceRecord) -> Instance:
        """An instance with the labels, sizes and annotations of its node class and type."""
        name = record.tags.get(ec2_labels.NODE_CLASS, "")
        node_class = await self.parts.view.node_class(name) if name else None
        if node_class is None:
            return instance_of(record, None, None)
        try:
            own = overruled(node_class, self._annotations_of(record.tags))
            types = await self.parts.types.list(own)
        except (CloudError, KubeletError):
            return instance_of(record, None, node_class)
        kind = next((each for each in types if each.name == record.instance_type), None)
        return instance_of(record, kind, node_class)

    def _annotations_of(self, held: Mapping[str, str]) -> Mapping[str, str]:
        """The annotations of the pool that labels or tags name."""
        pool = self.parts.view.pools.get(held.get(labels.NODEPOOL, ""))
        return {} if pool is None else pool.metadata.annotations

    async def _instance_id(self, claim: NodeClaim) -> str:
        """The instance of a claim, also of one whose launch is under way."""
        launch = self._launches.get(claim.metadata.uid)
        if launch is not None:
            with suppress(CloudError):  # then there is none
                return (await asyncio.shield(launch)).id
        if claim.status.provider_id:
            return _id_in(claim.status.provider_id)
        found = await self.parts.instances.of_claim(claim.metadata.name)
        if found is None:
            raise InstanceNotFoundError(f"claim {claim.metadata.name} has no instance")
        self.parts.instances.remember(found)
        return found.id

    def _remember(self, uid: str, launch: asyncio.Task[InstanceRecord]) -> None:
        self._launches[uid] = launch
        # mark the exception as retrieved: without a caller left, asyncio would log it
        launch.add_done_callback(lambda task: task.cancelled() or task.exception())
        _shrink(self._launches)

    def _forget(self, claim: NodeClaim) -> None:
        self._launches.pop(claim.metadata.uid, None)
        reservation = claim.metadata.labels.get(ec2_labels.CAPACITY_RESERVATION_ID, "")
        is_reserved = claim.metadata.labels.get(labels.CAPACITY_TYPE) == labels.RESERVED
        if is_reserved and reservation:
            self.parts.reservations.terminated(reservation)


def _id_in(provider_id: str) -> str:
    found = instance_id_of(provider_id)
    if not found:
        raise InstanceNotFoundError(f"{provider_id!r} names no EC2 instance")
    return found


def _has_failed(launch: asyncio.Task[InstanceRecord]) -> bool:
    return launch.done() and (launch.cancelled() or launch.exception() is not None)


def _shrink(remembered: dict[str, None] | dict[str, asyncio.Task[InstanceRecord]]) -> None:
    while len(remembered) > _MOST_REMEMBERED:
        del remembered[next(iter(remembered))]


def make_provider(context: ProviderContext) -> AwsProvider:
    """Make the provider from the settings of the environment.

    Raises:
        ProviderError: a setting is missing or wrong, or AWS cannot be used at all.
    """
    return connected(
        context,
        read_settings(context.environment),
        lambda observe: open_calls(
            context.environment,
            context.clock,
            context.rng,
            observe=observe,
            only_reads=context.only_reads,
        ),
    )


def connected(
    context: ProviderContext,
    settings: AwsSettings,
    connect: Callable[[Observer], Calls],
    *,
    is_simulated: bool = False,
) -> AwsProvider:
    """A provider on the calls that ``connect`` opens, which are counted in its metrics."""
    telemetry = context.metrics or Metrics()
    metrics = AwsMetrics(telemetry.registry, telemetry.detail)
    calls = connect(metrics.observe_call)
    return AwsProvider(
        assemble(
            Foundation(
                calls=calls,
                kube=context.kube,
                clock=context.clock,
                rng=context.rng,
                core=context.settings,
                settings=settings,
                metrics=metrics,
                version_source=version_source(context.kube, calls, settings),
                telemetry=telemetry,
                # an empty log is false, and the one of the process is empty at first
                decisions=DecisionLog() if context.decisions is None else context.decisions,
                is_simulated=is_simulated,
            )
        )
    )
