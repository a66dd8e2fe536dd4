"""The controllers of a sandbox: the same as on a real cluster, on a simulated cloud.

They reach the cluster's API without a socket and live in the cluster's time, so ``--speed`` holds
for them too.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from karpenter import __version__
from karpenter.cloud.kwok.provider import INSTANCE_TYPES_FILE_PATH
from karpenter.cloud.metered import MeteredProvider
from karpenter.cloud.provider import CloudProvider
from karpenter.cloud.registry import ProviderContext, ProviderError, load_provider
from karpenter.console import output
from karpenter.controllers.controllers import make_controllers
from karpenter.controllers.manager import Manager, Process
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.warning_events import observing
from karpenter.kube.client import Client
from karpenter.kube.events import Recorder
from karpenter.telemetry import Metrics, quiet_logger
from karpenter.telemetry.capacity import CloudCalls
from karpenter.telemetry.logs import short_revision, take_over
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.command.cloud import AWS, CloudOptions, usable_settings
from karpenter_sandbox.command.controller_deployment import deployed
from karpenter_sandbox.command.decision_lines import decision_logger
from karpenter_sandbox.command.live_view import show_logs
from karpenter_sandbox.log_ring import LogRing
from karpenter_sandbox.server.transport import MemoryTransport


@asynccontextmanager
async def autoscaling(
    cluster: Cluster,
    options: CloudOptions,
    say: Callable[[str], object],
    decisions: DecisionLog | None = None,
) -> AsyncIterator[Manager]:
    """Run the controllers on a cluster for as long as a block runs.

    Their decisions are shown by ``say``, and their records kept in ``decisions``; their full log is
    that of their Deployment's pod.
    """
    settings = usable_settings(options)
    ring = LogRing()
    commit = short_revision(os.environ.get("KARPENTER_COMMIT", ""))
    log = decision_logger(say, cluster.clock.now, ring.write, commit)
    take_over(quiet_logger())
    show_logs(say)  # the cluster's log shows errors only
    rng = random.Random()  # noqa: S311 not used for secrets
    metrics = Metrics(detail=settings.metrics_detail)
    kube = Client(MemoryTransport(cluster.api), cluster.clock)
    environment = dict(os.environ)
    if options.instance_types:
        environment[INSTANCE_TYPES_FILE_PATH] = options.instance_types
    decisions = decisions if decisions is not None else DecisionLog()
    context = ProviderContext(kube, cluster.clock, settings, environment, rng, metrics, decisions)
    async with deployed(cluster, ring), _cloud(options, cluster, context, say) as cloud:
        process = Process(
            kube=kube,
            cloud=MeteredProvider(cloud, CloudCalls(metrics), cluster.clock.monotonic),
            clock=cluster.clock,
            settings=settings,
            recorder=Recorder(
                kube, cluster.clock, rng=rng, observer=observing(decisions, cluster.clock)
            ),
            metrics=metrics,
            log=log,
            rng=rng,
            decisions=decisions,
        )
        log.info("starting", version=__version__, provider=cloud.facts.name)
        manager = Manager(process, make_controllers)
        task = asyncio.create_task(manager.run(), name="controllers")
        task.add_done_callback(lambda ended: report_end(ended, say))
        try:
            yield manager
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def report_end(ended: asyncio.Task[None], say: Callable[[str], object]) -> None:
    """Report that the controllers have stopped: the display shows no other sign of it."""
    if not ended.cancelled() and (error := ended.exception()) is not None:
        while isinstance(error, BaseExceptionGroup):  # its text omits its errors
            error = error.exceptions[0]
        say(f"! the controllers have stopped: {str(error) or type(error).__name__}")


@asynccontextmanager
async def _cloud(
    options: CloudOptions, cluster: Cluster, context: ProviderContext, say: Callable[[str], object]
) -> AsyncIterator[CloudProvider]:
    """The cloud of that name; of AWS, a simulated one."""
    try:
        if options.provider == AWS:
            from karpenter_sandbox.command.aws import simulated_aws

            async with simulated_aws(
                cluster, context, options.account, say, has_example=options.has_example
            ) as provider:
                yield provider
        else:
            yield load_provider(options.provider)(context)
    except ProviderError as error:
        output.fail(str(error))
