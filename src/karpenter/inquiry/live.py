"""A running cluster, read and never written: everything that planners depend on.

Kinds are listed in pages, several at a time. A kind that the cluster does not serve, or that the
user may not read, is omitted with a warning; without pods, nodes, claims and pools there is
nothing to plan for, so not being allowed to read those ends the command. There is no warning about
kinds that many clusters do not serve.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol, TypeVar, runtime_checkable

import msgspec

from karpenter import __version__
from karpenter.api import devices, karpenter
from karpenter.api.codec import KINDS, Unreadable, unreadable_in
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.legacy import Provisioner
from karpenter.api.meta import Condition, Resource, kind_of
from karpenter.api.node_classes import NodeClass
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.clock import Clock, SystemClock
from karpenter.cloud.provider import (
    CloudError,
    CloudProvider,
    CommittedProvider,
    RepairPolicy,
)
from karpenter.cloud.registry import ProviderContext, ProviderError, load_provider
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.console import output
from karpenter.console.quiet import run_quietly
from karpenter.inquiry import offline
from karpenter.inquiry.overlay import Overlay
from karpenter.inquiry.snapshots import snapshot_of_cluster, with_judged_budgets
from karpenter.kube.access.config import ClusterConfig, load_config
from karpenter.kube.client import Client, Limiter
from karpenter.kube.errors import (
    ApiError,
    ConfigError,
    ForbiddenError,
    GoneError,
    KubeError,
    NoApiServerError,
    NotFoundError,
    UnreadableAnswerError,
)
from karpenter.kube.http import HttpTransport
from karpenter.kube.kinds import resource_of
from karpenter.kube.transport import Request, Transport
from karpenter.model.conditions import DRIFTED, LAUNCHED, TRUE
from karpenter.settings import Settings
from karpenter.state.cluster import KEPT_KINDS
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot

R = TypeVar("R", bound=Resource)

NEEDED: Final[tuple[type[Resource], ...]] = (NodePool, NodeClaim, Node, Pod)
_NODE_CLASSES: Final = tuple(kind for kind in KINDS if issubclass(kind, NodeClass))
# Kinds that many clusters do not serve, so no warning is printed: other clouds, old versions, DRA
_RARE: Final[frozenset[type[Resource]]] = frozenset(
    {
        *_NODE_CLASSES,
        Provisioner,
        karpenter.NodeOverlay,
        karpenter.CapacityBuffer,
        karpenter.Commitment,
        devices.DeviceClass,
        devices.ResourceClaim,
        devices.ResourceClaimTemplate,
        devices.ResourceSlice,
    }
)
BY_NODE_CLASSES: Final = ""  # in place of the name of a provider
_SANDBOX: Final = "+sandbox"
_AT_ONCE: Final = 6
_PAGE: Final = 500
_MOST_NAMED: Final = 10
_replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A running cluster, with what its provider sells."""

    snapshot: Snapshot
    types: Mapping[str, tuple[InstanceType, ...]]  # pool -> what it can buy
    facts: ProviderFacts
    repair_policies: Sequence[RepairPolicy]
    now: datetime | None = None  # by the Date header of the API server, if it sends one
    is_simulated: bool = False  # its cloud exists only in the process of a sandbox
    fault_injection: Mapping[str, str] = field(default_factory=dict)  # the faults of that cloud
    changed: "LiveCluster | None" = None  # with what is to be laid over it
    namespace: str = ""  # the one that the context of the kubeconfig names
    not_asked: str = ""  # why its provider could not be asked, where built-in estimates will do


def read_cluster(
    environment: Mapping[str, str],
    *,
    context: str,
    provider: str | None,
    settings: Settings,
    overlay: Callable[[Sequence[Resource]], Overlay] | None = None,
    takes_estimates: bool = False,
) -> LiveCluster:
    """Read the cluster of the kubeconfig, or end the command with one sentence.

    Args:
        environment: the environment variables of the process.
        context: the context of the kubeconfig; its current one when empty.
        provider: whose machines to list, or ``BY_NODE_CLASSES``; None for none.
        settings: those of the provider.
        overlay: lays something over the objects, for a plan with it beside the one without.
        takes_estimates: a provider with built-in estimates need not be there to be asked.
    """
    try:
        config = load_config(environment, context=context)
        read = run_quietly(_read(config, environment, provider, settings, overlay, takes_estimates))
        return replace(read, namespace=config.namespace)
    except ConfigError as error:
        is_said = context or environment.get("KUBECONFIG")
        output.fail(f"{error}{'' if is_said else '; or name files with the manifests of one'}")
    except ProviderError as error:
        output.fail(str(error))
    except (KubeError, CloudError) as error:
        output.fail(f"the cluster cannot be read: {error}", output.EXIT_FAILED)


async def _read(
    config: ClusterConfig,
    environment: Mapping[str, str],
    provider: str | None,
    settings: Settings,
    overlay: Callable[[Sequence[Resource]], Overlay] | None,
    takes_estimates: bool,
) -> LiveCluster:
    clock = SystemClock()
    transport = HttpTransport(
        config, clock, user_agent=f"karpenter-plan/{__version__}", environment=environment
    )
    try:
        kube = Client(transport, clock, may_write=lambda: False)
        rng = random.Random()  # noqa: S311 nothing secret hangs on it
        given = ProviderContext(kube, clock, settings, environment, rng, only_reads=True)
        cloud = None
        if provider:
            make = load_provider(provider)  # which may be unknown, and nothing is read then
            if not offline.is_known(provider):  # and neither are the kinds of its node classes
                cloud = make(given)
        reading = _Reading(kube, cloud.facts.readable_node_classes if cloud is not None else ())
        snapshot, changed = await reading.snapshots(overlay)
        reading.say_what_is_missing()
        if provider == BY_NODE_CLASSES:
            provider = offline.provider_of(snapshot.node_pools.values())
        is_simulated = (
            provider is not None and offline.may_be_simulated(provider) and await is_sandbox(kube)
        )
        now = await _time_there(transport)
        fault_injection = await offline.faults_there(kube) if is_simulated else {}
        alone = LiveCluster(
            snapshot, {}, ProviderFacts("", (), frozenset()), (), now, is_simulated, fault_injection
        )
        if changed is not None:
            alone = replace(alone, changed=replace(alone, snapshot=changed))
        try:
            if cloud is None and provider is not None and not is_simulated:
                cloud = load_provider(provider)(given)
            return await _sold_to(alone, cloud) if cloud is not None else alone
        except (CloudError, ProviderError) as error:
            if not (takes_estimates and provider and offline.has_estimates(provider)):
                raise
            return replace(alone, not_asked=str(error))
    finally:
        await transport.close()


async def _sold_to(live: LiveCluster, cloud: CloudProvider) -> LiveCluster:
    """A cluster, and what is laid over it, with what its provider sells."""
    await _ask_for_prices(cloud)
    snapshot = await with_commitments(live.snapshot, cloud)
    changed = live.changed
    laid_over = await with_commitments(changed.snapshot, cloud) if changed is not None else None
    _compare(cloud, snapshot)
    found = await _supplied(snapshot, cloud, live.now)
    if laid_over is None:
        return found
    return replace(found, changed=await _supplied(laid_over, cloud, live.now))


async def _supplied(snapshot: Snapshot, cloud: CloudProvider, now: datetime | None) -> LiveCluster:
    """A cluster with what only its provider knows."""
    _exclude_sold_out(cloud, snapshot)
    snapshot = await _with_provider_drift(snapshot, cloud)
    types = await types_of(snapshot.node_pools.values(), cloud, output.warning)
    return LiveCluster(snapshot, types, cloud.facts, tuple(cloud.repair_policies), now)


async def is_sandbox(kube: Client) -> bool:
    """Whether a cluster is one of ``karpenter sandbox``, by its version."""
    # Without a version it counts as a real cluster
    with suppress(ApiError, UnreadableAnswerError):
        return (await kube.version()).endswith(_SANDBOX)
    return False


async def asked_again(
    transport: Transport,
    clock: Clock,
    *,
    provider: str,
    pools: Iterable[NodePool],
    settings: Settings,
    environment: Mapping[str, str],
    limiter: Limiter | None = None,
) -> LiveCluster | None:
    """What a provider sells now at prices it is asked for; None where they never change.

    Args:
        transport: the way to the cluster, of which only what reads is used.
        clock: the clock of the provider.
        provider: its name.
        pools: those of the cluster now.
        settings: those of the provider.
        environment: the environment variables of the process.
        limiter: limits the requests to the cluster.

    Raises:
        CloudError, KubeError, ProviderError: the provider cannot be asked, or not for all prices.
    """
    kube = Client(transport, clock, may_write=lambda: False, limiter=limiter)
    if offline.may_be_simulated(provider) and await is_sandbox(kube):
        return None
    rng = random.Random()  # noqa: S311 nothing secret hangs on it
    given = ProviderContext(kube, clock, settings, environment, rng, only_reads=True)
    cloud = load_provider(provider)(given)
    if not isinstance(cloud, KnowsPrices):
        return None
    await cloud.refresh_prices()
    missing: list[str] = []
    types = await types_of(pools, cloud, missing.append)
    if missing:
        raise CloudError("; ".join(missing))
    return LiveCluster(Snapshot(), types, cloud.facts, tuple(cloud.repair_policies))


async def _time_there(transport: Transport) -> datetime | None:
    """The time of the API server, by its Date header; in a sandbox it may run faster than here."""
    with suppress(KubeError, KeyError, ValueError):
        answer = await transport.send(Request("GET", "/version"))
        return parsedate_to_datetime(answer.headers["date"]).astimezone(UTC)
    return None


class _Reading:
    """One read of a cluster, with what could not be read."""

    def __init__(self, kube: Client, node_classes: Iterable[type[NodeClass]]) -> None:
        """Begin to read; ``node_classes`` are kinds that the provider brings."""
        self._kube = kube
        self._node_classes = tuple(node_classes)
        self._unserved: list[str] = []
        self._forbidden: list[str] = []
        self._unreadable: list[tuple[str, Unreadable]] = []
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def snapshots(
        self, overlay: Callable[[Sequence[Resource]], Overlay] | None
    ) -> tuple[Snapshot, Snapshot | None]:
        """Read everything; the second is what ``overlay`` makes of it."""
        pools = await self._list(NodePool)  # alone and first: it shows whether the server answers
        if self._unserved:
            await self._require_nodes()
        others = dict.fromkeys((*NEEDED, *KEPT_KINDS, *_NODE_CLASSES, *self._node_classes))
        del others[NodePool]
        old, *found = await self._lists([Provisioner, *others])
        read = [*pools, *(each for items in found for each in items)]
        before = snapshot_of_cluster(read, has_old_keys=bool(old))
        if overlay is None:
            return before, None
        changed = with_judged_budgets(overlay(read))
        return before, snapshot_of_cluster(changed, has_old_keys=bool(old))

    async def _require_nodes(self) -> None:
        """Distinguish a cluster without Karpenter from what is no cluster at all."""
        try:
            await self._kube.page(Node, limit=1)
        except NotFoundError as error:
            raise NoApiServerError(resource_of(Node).path()) from error

    def say_what_is_missing(self) -> None:
        """Warn in one line about kinds that were left out."""
        said = []
        if self._unserved:
            said.append(f"the cluster does not serve {', '.join(sorted(self._unserved))}")
        if self._forbidden:
            said.append(f"you may not list {', '.join(sorted(self._forbidden))}")
        if said:
            output.warning(f"planned as if there were none: {'; '.join(said)}")
        for kind, obj in self._unreadable[:_MOST_NAMED]:
            place = f"{obj.namespace}/{obj.name}" if obj.namespace else obj.name
            output.warning(f"planned without {kind} {place}, which cannot be read: {obj.problem}")
        if len(self._unreadable) > _MOST_NAMED:
            more = len(self._unreadable) - _MOST_NAMED
            output.warning(f"planned without {more} more objects, which cannot be read")

    async def _lists(self, kinds: Iterable[type[Resource]]) -> list[list[Resource]]:
        tasks = [asyncio.ensure_future(self._list(kind)) for kind in kinds]
        try:
            return await asyncio.gather(*tasks)
        finally:  # once one was refused, the results of the others are not needed
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _list(self, kind: type[R]) -> list[R]:
        async with self._turns:
            try:
                return await self._all_of(kind)
            except NotFoundError:
                if kind not in _RARE:
                    self._unserved.append(kind_of(kind))
            except ForbiddenError:
                if kind in NEEDED:
                    raise
                self._forbidden.append(kind_of(kind))
            except UnreadableAnswerError as error:
                if not error.problem.path:
                    raise  # such an answer does not come from an API server
                what = f"the cluster has a {kind_of(kind)} that cannot be read"
                output.fail(f"{what}: {error.problem}")
            return []

    async def _all_of(self, kind: type[R]) -> list[R]:
        items: list[R] = []
        token = ""
        while True:
            try:
                page = await self._kube.page(kind, limit=_PAGE, continue_token=token)
            except GoneError:  # the continue token has expired
                items, page = [], await self._kube.page(kind)
            items += page.items
            self._unreadable += [(kind_of(kind), each) for each in unreadable_in(page)]
            token = page.metadata.continue_token
            if not token:
                return items


@runtime_checkable
class KnowsPrices(Protocol):
    """A provider whose prices have to be fetched."""

    async def refresh_prices(self) -> None:
        """Fetch them now.

        Raises:
            CloudError: some could not be fetched.
        """


@runtime_checkable
class ExcludesSoldOut(Protocol):
    """A provider that discovers sold-out offerings by failed launches, but can list them before."""

    def exclude_sold_out(self, node_classes: Iterable[object]) -> None:
        """Mark what is sold out with these node classes.

        Raises:
            CloudError: that cannot be read for one of them.
        """


def _exclude_sold_out(cloud: CloudProvider, snapshot: Snapshot) -> None:
    """Exclude from plans what the first launch would find sold out."""
    if not isinstance(cloud, ExcludesSoldOut):
        return
    try:
        cloud.exclude_sold_out(snapshot.node_classes.values())
    except CloudError as error:
        output.warning(f"no node can be launched with a node class: {error}")


@runtime_checkable
class ComparesCatalogue(Protocol):
    """A provider that detects when the controller of a cluster has another catalogue."""

    def catalogue_difference(self, node_classes: Iterable[object]) -> str:
        """What is sold with these node classes instead, in one sentence; nothing if the same is."""


def _compare(cloud: CloudProvider, snapshot: Snapshot) -> None:
    """Warn where the controller has another catalogue, so that its plan would differ."""
    if isinstance(cloud, ComparesCatalogue) and (
        difference := cloud.catalogue_difference(snapshot.node_classes.values())
    ):
        output.warning(difference)


async def _ask_for_prices(cloud: CloudProvider) -> None:
    """Fetch current prices, which a provider refreshes by itself only while it leads."""
    if not isinstance(cloud, KnowsPrices):
        return
    try:
        await cloud.refresh_prices()
    except CloudError as error:
        output.warning(f"some prices are estimates, as they could not be asked for: {error}")


async def with_commitments(snapshot: Snapshot, cloud: CloudProvider) -> Snapshot:
    """Add what the account of the cloud has committed to, where it is to be read."""
    if not isinstance(cloud, CommittedProvider):
        return snapshot
    await cloud.refresh_commitments()
    reported = cloud.commitments()
    if not reported:
        return snapshot
    from karpenter.scheduling.inputs.commitments import declared_over

    return replace(snapshot, commitments=declared_over(snapshot.commitments, reported))


async def types_of(
    pools: Iterable[NodePool], cloud: CloudProvider, told: Callable[[str], None]
) -> dict[str, tuple[InstanceType, ...]]:
    """The instance types of pools; where the provider cannot list them, none, and why is told."""
    from karpenter.controllers.pool_types import PoolTypes

    def complain(pool: str, why: str) -> None:
        told(f"NodePool {pool}: its instance types cannot be listed: {why}")

    facts = cloud.facts
    asked = [pool for pool in pools if facts.serves(pool.spec.template.spec.node_class_ref)]
    found: dict[str, tuple[InstanceType, ...]] = {}
    for name, types in (await PoolTypes(cloud, complain, may_be_empty=True).of(asked)).items():
        # planners compile a catalogue once for all pools that share it
        found[name] = next((known for known in found.values() if known == types), types)
    return found


async def _with_provider_drift(snapshot: Snapshot, cloud: CloudProvider) -> Snapshot:
    """Add the provider's drift to claims without a ``Drifted`` condition."""
    nodes = [await _judged(machine, cloud) for machine in snapshot.nodes]
    return replace(snapshot, nodes=tuple(nodes))


async def _judged(machine: StateNode, cloud: CloudProvider) -> StateNode:
    claim = machine.node_claim
    known = {each.type for each in claim.status.conditions} if claim is not None else set()
    if claim is None or DRIFTED in known or LAUNCHED not in known:
        return machine
    try:
        reason = await cloud.drift_reason(claim)
    except CloudError:
        return machine  # an instance that is gone has not drifted
    if not reason:
        return machine
    drifted = Condition(type=DRIFTED, status=TRUE, reason=reason)
    status = _replace(claim.status, conditions=(*claim.status.conditions, drifted))
    return replace(machine, node_claim=_replace(claim, status=status))
