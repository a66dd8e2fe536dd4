"""The dashboard of a sandbox: it reads the cluster without a socket, and shows what is decided there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod
from karpenter.console import output
from karpenter.controllers.manager import Process
from karpenter.dashboard.answers.answers import Origin
from karpenter.dashboard.answers.selling import Seller
from karpenter.dashboard.history import History
from karpenter.dashboard.homes.followed import Dashboard, Market, Options, followed_dashboard
from karpenter.dashboard.server.serving import Place, ServingError
from karpenter.decision_log.log import DecisionLog
from karpenter.kube.read_only import ReadOnlyClient
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.command.controller_deployment import LABELS, NAMESPACE
from karpenter_sandbox.server.transport import MemoryTransport


@dataclass(frozen=True, slots=True)
class SandboxDashboard:
    """A dashboard that is served."""

    dashboard: Dashboard

    @property
    def url(self) -> str:
        """What is opened in a browser."""
        return self.dashboard.address.url

    @property
    def decisions(self) -> DecisionLog:
        """Where the controllers write their decisions."""
        return self.dashboard.home.decisions

    def sell(self, process: Process) -> None:
        """Have prices and settings, once there are controllers with a cloud."""
        home = self.dashboard.home
        seller = Seller(process.cloud, home.followed.of(NodePool).list, process.clock)
        home.trade(
            Market(
                seller.supply,
                process.settings,
                "those of the simulated provider",
                "those of the sandbox's controllers",
            )
        )


@asynccontextmanager
async def dashboard(cluster: Cluster, provider: str, port: int) -> AsyncIterator[SandboxDashboard]:
    """Serve the dashboard of a cluster for as long as a block runs, or end the command."""
    kube = ReadOnlyClient(MemoryTransport(cluster.api, user="karpenter-dashboard"), cluster.clock)
    options = Options(
        Origin("sandbox", provider),
        Place(port=port, option="--dashboard-port"),
        can_plan=bool(provider),
        is_hidden=_is_of_the_sandbox,
    )
    try:
        async with followed_dashboard(kube, cluster.clock, options, history=History()) as served:
            yield SandboxDashboard(served)
    except ServingError as error:
        output.fail(str(error), output.EXIT_FAILED)


def _is_of_the_sandbox(resource: Resource) -> bool:
    """Whether an object is the pod that stands for the controllers, which run on no node."""
    return (
        isinstance(resource, Pod)
        and resource.metadata.namespace == NAMESPACE
        and resource.metadata.labels.items() >= LABELS.items()
        and not resource.spec.node_name
    )
