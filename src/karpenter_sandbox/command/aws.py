"""A simulated AWS beside a sandbox: an account with a network, images and a queue, in this process.

Instances become simulated nodes. Only this process can reach the account, so other processes go
through the cluster's API: ``karpenter sandbox interrupt`` requests an interruption by an annotation
on the node, and ``karpenter sandbox fault`` writes faults into a ConfigMap.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from karpenter.cloud.aws.simulated.account import SimulationMissingError
from karpenter.cloud.aws.simulated.fault_injection import (
    CONFIG_MAP,
    CONFIG_MAP_NAMESPACE,
    InjectedFault,
    Market,
    enact,
    lost_zones,
    read,
)
from karpenter.cloud.aws.simulated.simulated_aws import (
    ANNOUNCEMENTS,
    NoSuchInstanceError,
    SimulatedAws,
    running_simulated_aws,
)
from karpenter.cloud.provider import CloudProvider
from karpenter.cloud.registry import ProviderContext
from karpenter.console import output
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.command.cloud import Account
from karpenter_sandbox.kubelet.faults import PREFIX
from karpenter_sandbox.status import ApiError
from karpenter_sandbox.store.store import Event, Key

INTERRUPT: Final = f"{PREFIX}interrupt"
REGION: Final = f"{PREFIX}region"  # annotation of the ConfigMap: the account's region
ZONES: Final = f"{PREFIX}zones"  # annotation of the ConfigMap: the zones with subnets
_CONFLICT: Final = 409


@asynccontextmanager
async def simulated_aws(
    cluster: Cluster,
    context: ProviderContext,
    account: Account,
    say: Callable[[str], object],
    *,
    has_example: bool,
) -> AsyncIterator[CloudProvider]:
    """The AWS provider on a simulated account, for as long as a block runs.

    Args:
        cluster: the sandbox.
        context: what providers are made from.
        account: how the account looks.
        say: shows what happens in it.
        has_example: whether to create the node class that the example's pool names; otherwise the
            name stays free for the user.
    """
    world_of = partial(
        running_simulated_aws,
        cluster=account.cluster_name,
        region=account.region,
        node_role=account.node_role,
        discovery=account.discovery,
    )
    try:
        async with world_of(cluster.clock, context.kube) as world:
            provider = world.make_provider(context)
            for obj in world.first_objects() if has_example else ():
                await _ensure(cluster, obj)
            asked: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
            cluster.store.on_change(lambda change: _note(change, asked))
            task = asyncio.create_task(_interrupt(cluster, world, asked, say), name="interrupts")
            try:
                async with fault_injection(cluster, world, say):
                    yield provider
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
    except SimulationMissingError as error:
        output.fail(str(error))


@asynccontextmanager
async def fault_injection(
    cluster: Cluster, world: SimulatedAws, say: Callable[[str], object]
) -> AsyncIterator[None]:
    """Apply the faults of the ConfigMap while a block runs; initially there are none."""
    account = world.account
    market = Market(account.region, tuple(account.subnets))
    where = ("v1", "ConfigMap", CONFIG_MAP_NAMESPACE, CONFIG_MAP)
    empty = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": CONFIG_MAP,
            "namespace": CONFIG_MAP_NAMESPACE,
            "annotations": {REGION: market.region, ZONES: ",".join(market.zones)},
        },
    }
    current: dict[InjectedFault, None] = {}  # in the order of the ConfigMap

    def follow(change: Event) -> None:
        if change.stored.key != Key("", "configmaps", CONFIG_MAP_NAMESPACE, CONFIG_MAP):
            return
        data = {} if change.type == "DELETED" else change.obj.get("data") or {}
        wanted, problems = read(data, market)
        enact(wanted, account.faults)
        cluster.machines.lost_zones = lost_zones(wanted)
        now = f"{cluster.clock.now():%H:%M:%S}"
        for trouble in [each for each in wanted if each not in current]:
            say(f"{now} ! {trouble}")
        for trouble in [each for each in current if each not in wanted]:
            say(f"{now}   over: {trouble}")
        for problem in problems:
            say(f"{now} ! ConfigMap {CONFIG_MAP_NAMESPACE}/{CONFIG_MAP}: {problem}")
        current.clear()
        current.update(dict.fromkeys(wanted))

    with contextlib.suppress(ApiError):  # left by a run that was killed
        await cluster.client.delete(*where)
    cluster.store.on_change(follow)
    await cluster.client.create(empty)
    try:
        yield
    finally:
        with contextlib.suppress(ApiError):
            await cluster.client.delete(*where)


async def _ensure(cluster: Cluster, obj: dict[str, object]) -> None:
    try:
        await cluster.client.create(obj)
    except ApiError as error:
        # An object kept from the last run may have been changed on purpose
        if error.status != _CONFLICT:
            raise


def _note(change: Event, asked: "asyncio.Queue[tuple[str, str]]") -> None:
    key = change.stored.key
    if (key.group, key.resource) != ("", "nodes") or change.type == "DELETED":
        return
    event = (change.obj["metadata"].get("annotations") or {}).get(INTERRUPT)
    if event is not None:
        asked.put_nowait((key.name, event))


async def _interrupt(
    cluster: Cluster,
    world: SimulatedAws,
    asked: "asyncio.Queue[tuple[str, str]]",
    say: Callable[[str], object],
) -> None:
    """Send the interruption messages that annotations of nodes request."""
    while True:
        name, event = await asked.get()
        if event not in ANNOUNCEMENTS:
            event = "spot"  # the default for an unknown or empty value
        patch = {"metadata": {"annotations": {INTERRUPT: None}}}
        try:
            await cluster.client.patch("merge", "v1", "Node", None, name, patch)
            await world.interrupt(name, event)
            say(f"{cluster.clock.now():%H:%M:%S} AWS announces {event} of the instance of {name}")
        except NoSuchInstanceError as error:
            say(f"! {error}")
        except ApiError:
            continue  # already deleted, as intended
