"""The dashboard of a sandbox: it reads the cluster without a socket, and shows the decisions of all time."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from karpenter import __version__
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod
from karpenter.clock import SystemClock
from karpenter.console import output
from karpenter.controllers.manager import Process
from karpenter.dashboard.assets import load_assets
from karpenter.dashboard.contract import About, HistoryKept
from karpenter.dashboard.feed import Feed, Identity
from karpenter.dashboard.scene import FollowedScene, Machines
from karpenter.dashboard.server.serving import Address, Place, ServingError, serving
from karpenter.dashboard.server.unanswered import WithoutPlans
from karpenter.dashboard.sources import FollowedCluster
from karpenter.decision_log.log import DecisionLog
from karpenter.kube.read_only import ReadOnlyClient
from karpenter.pass_settings import disruption_settings
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.command.controller_deployment import LABELS, NAMESPACE
from karpenter_sandbox.server.transport import MemoryTransport

_SOURCE: Final = "sandbox"


@dataclass(frozen=True, slots=True)
class SandboxDashboard:
    """A dashboard that is served."""

    address: Address
    scene: FollowedScene
    decisions: DecisionLog  # which the controllers write to

    def sell(self, process: Process) -> None:
        """Have prices, once there are controllers with a cloud."""
        settings = disruption_settings(process.settings)
        self.scene.sell(Machines(process.cloud, settings))


@asynccontextmanager
async def dashboard(cluster: Cluster, provider: str, port: int) -> AsyncIterator[SandboxDashboard]:
    """Serve the dashboard of a cluster for as long as a block runs, or end the command."""
    kube = ReadOnlyClient(MemoryTransport(cluster.api, user="karpenter-dashboard"), cluster.clock)
    rng = random.Random()  # noqa: S311 not used for secrets
    followed = FollowedCluster(kube, cluster.clock, rng=rng)
    scene = FollowedScene(followed, cluster.clock, is_hidden=_is_of_the_sandbox)
    assets = load_assets()
    identity = Identity(_SOURCE, provider, release=__version__, assets=assets.hash)
    clock = SystemClock()  # pages live in real time, whatever the speed of the cluster
    feed = Feed(scene, identity, clock)
    decisions = DecisionLog()
    end = decisions.follow(lambda record, line: feed.tell("decision", line))
    reading = asyncio.create_task(followed.run(), name="dashboard's mirrors")
    place = Place(port=port, option="--dashboard-port")
    try:
        async with serving(
            feed, WithoutPlans(_about(provider), decisions), assets, place, clock
        ) as address:
            yield SandboxDashboard(address, scene, decisions)
    except ServingError as error:
        output.fail(str(error), output.EXIT_FAILED)
    finally:
        end()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _is_of_the_sandbox(resource: Resource) -> bool:
    """Whether an object is the pod that stands for the controllers, which run on no node."""
    return (
        isinstance(resource, Pod)
        and resource.metadata.namespace == NAMESPACE
        and resource.metadata.labels.items() >= LABELS.items()
        and not resource.spec.node_name
    )


def _about(provider: str) -> About:
    return About(
        version=__version__,
        source=_SOURCE,
        provider=provider,
        cluster="",
        prices="those of the simulated provider",
        unread=[],
        settings={},
        settings_from="",
        history=HistoryKept(since=None, until="", bytes=0, is_on_disk=False),
        clients=0,
        can_plan=False,
        leader="",
    )
