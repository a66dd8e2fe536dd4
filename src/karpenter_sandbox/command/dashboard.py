"""The dashboard of a sandbox: it reads the cluster without a socket, and shows the decisions of all time."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from karpenter import __version__
from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Resource, kind_of
from karpenter.api.pods import Pod
from karpenter.clock import SystemClock
from karpenter.console import output
from karpenter.controllers.manager import Process
from karpenter.dashboard.answers.answers import Answers, Origin
from karpenter.dashboard.answers.planning import Planning
from karpenter.dashboard.answers.selling import Seller
from karpenter.dashboard.answers.supply import Supply
from karpenter.dashboard.answers.world import Terms
from karpenter.dashboard.assets import load_assets
from karpenter.dashboard.contract import View
from karpenter.dashboard.feed import Feed, Identity
from karpenter.dashboard.scene import FollowedScene, Machines
from karpenter.dashboard.server.serving import Address, Place, ServingError, serving
from karpenter.dashboard.sources import FollowedCluster
from karpenter.decision_log.log import DecisionLog
from karpenter.kube.read_only import ReadOnlyClient
from karpenter.pass_settings import disruption_settings
from karpenter.settings import Settings
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
    home: "_Home"

    def sell(self, process: Process) -> None:
        """Have prices and plans, once there are controllers with a cloud."""
        settings = disruption_settings(process.settings)
        self.scene.sell(Machines(process.cloud, settings))
        self.home.sell(process)


class _Home:
    """What is known of the sandbox and its controllers, which come later than the dashboard."""

    prices = "those of the simulated provider"
    settings_from = "those of the sandbox's controllers"
    leader = ""

    def __init__(self, followed: FollowedCluster) -> None:
        self._followed = followed
        self._process: Process | None = None
        self._seller: Seller | None = None

    def sell(self, process: Process) -> None:
        """Take over the controllers."""
        pools = self._followed.of(NodePool).list
        self._process = process
        self._seller = Seller(process.cloud, pools, process.clock)

    async def supply(self) -> Supply | None:
        """What there is to buy; None while there are no controllers."""
        return await self._seller.supply() if self._seller is not None else None

    def terms(self) -> Terms:
        """What plans depend on besides."""
        return Terms(self.settings or Settings(), gates_are_set=True)

    @property
    def settings(self) -> Settings | None:
        """The settings of the controllers."""
        return self._process.settings if self._process is not None else None

    @property
    def unread(self) -> Sequence[str]:
        """The kinds that could not be read."""
        return sorted(kind_of(each) for each in self._followed.refused())


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
    home = _Home(followed)
    planning = Planning(followed, home.supply, home.terms, cluster.clock)

    async def view() -> View:
        return (await feed.view()).view

    origin = Origin(_SOURCE, provider)
    answers = Answers(origin, home, view, decisions, cluster.clock, planning, real=clock)
    running = [
        asyncio.create_task(followed.run(), name="dashboard's mirrors"),
        asyncio.create_task(answers.run(), name="dashboard's answers"),
    ]
    place = Place(port=port, option="--dashboard-port")
    try:
        async with serving(feed, answers, assets, place, clock) as address:
            yield SandboxDashboard(address, scene, decisions, home)
    except ServingError as error:
        output.fail(str(error), output.EXIT_FAILED)
    finally:
        end()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _is_of_the_sandbox(resource: Resource) -> bool:
    """Whether an object is the pod that stands for the controllers, which run on no node."""
    return (
        isinstance(resource, Pod)
        and resource.metadata.namespace == NAMESPACE
        and resource.metadata.labels.items() >= LABELS.items()
        and not resource.spec.node_name
    )
