"""Runs the controllers on a real cluster, from start to shutdown.

An error at start is one sentence. A signal shuts down in order: work is cancelled and the lease
released; after half a minute the process exits regardless.
"""

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar
from urllib.parse import urlsplit

from structlog.typing import FilteringBoundLogger

from karpenter import __version__
from karpenter.api.codec import KINDS
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Resource, kind_of
from karpenter.api.nodes import Node
from karpenter.clock import Clock, SystemClock
from karpenter.cloud.metered import MeteredProvider
from karpenter.cloud.provider import CloudError, CloudProvider, StartingProvider
from karpenter.cloud.registry import ProviderContext, ProviderError, load_provider
from karpenter.cloud.repair import violations
from karpenter.console import output
from karpenter.controllers.context import Context
from karpenter.controllers.controllers import make_controllers
from karpenter.controllers.health import liveness, readiness
from karpenter.controllers.manager import Manager, NotSyncedError, Process
from karpenter.decision_log.file import DecisionFile
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.warning_events import observing
from karpenter.kube.access.config import load_config, own_namespace
from karpenter.kube.client import Client, Kube
from karpenter.kube.errors import KubeError, NoApiServerError, NotFoundError, ServerError
from karpenter.kube.events import Recorder
from karpenter.kube.http import HttpTransport
from karpenter.kube.kinds import resource_of
from karpenter.kube.lease import Election, new_identity
from karpenter.kube.limiter import Limiter
from karpenter.kube.read_only import ReadOnlyClient
from karpenter.notifications.channels import ChannelDependencies, open_channel
from karpenter.notifications.notifier import Notifier, cluster_name
from karpenter.operator.beside import Beside, Running
from karpenter.operator.event_loop import WatchedSelector, watched_loop
from karpenter.operator.gc_thresholds import collect_briefly
from karpenter.operator.memory import watch_memory
from karpenter.operator.serving import Endpoints, ServingError, serving
from karpenter.runtime import Runnable, first_cause, kept_running
from karpenter.scheduling.inputs.scheduler_config import (
    SchedulerConfigError,
    parse_scheduler_config,
)
from karpenter.settings import Settings
from karpenter.telemetry import CloudCalls, Metrics

T = TypeVar("T")

DEFAULT_PROVIDER: Final = "kwok"
_GRACE_SECONDS: Final = 30.0
_NODE_REPAIR: Final = "NodeRepair"
_UNCONVERTED: Final = "conversion webhook for"  # as API servers begin the message


class StartError(Exception):
    """Why the process does not start; the text is one sentence."""


_FORESEEN: Final = (
    StartError,
    ProviderError,
    SchedulerConfigError,
    ServingError,
    NotSyncedError,
    KubeError,
)


def run(
    settings: Settings,
    environment: Mapping[str, str],
    log: FilteringBoundLogger,
    commit: str,
    beside: Beside | None = None,
) -> int:
    """Run until stopped, with what is served ``beside`` the controllers; return the exit code."""
    deadline = threading.Timer(_GRACE_SECONDS, _leave_everything)
    deadline.daemon = True
    collect_briefly()  # a full collection would block the event loop for a tenth of a second
    selector = WatchedSelector()
    # To diagnose delays with LOG_LEVEL=debug
    selector.report = lambda seconds, processor: log.debug(
        "event loop held up", seconds=round(seconds, 4), processor=round(processor, 4)
    )
    try:
        with asyncio.Runner(loop_factory=partial(watched_loop, selector)) as runner:
            return runner.run(
                run_controller(
                    settings, environment, log, commit=commit, on_stop=deadline.start, beside=beside
                )
            )
    finally:
        deadline.cancel()


async def run_controller(
    settings: Settings,
    environment: Mapping[str, str],
    log: FilteringBoundLogger,
    *,
    commit: str = "",
    on_stop: Callable[[], None] = lambda: None,
    beside: Beside | None = None,
) -> int:
    """Run the controllers until a signal or a fatal error; return the exit code.

    Args:
        settings: the settings.
        environment: where cluster and cloud are described.
        log: where lines go.
        commit: the revision this build was made of.
        on_stop: called when a signal has come, before anything ends.
        beside: what is served beside the controllers, such as the dashboard.
    """
    try:
        assembled = _assembled(settings, environment, log, commit, beside)
        async with assembled as (manager, notifier):
            finish = notifier.flush if notifier is not None else _nothing
            return await _until_stopped(manager.run(), log, on_stop, finish)
    except BaseExceptionGroup as group:
        foreseen, unforeseen = group.split(_FORESEEN)
        if unforeseen is not None:
            log.exception("the controllers have stopped", error=first_cause(unforeseen))
        if foreseen is not None:
            output.error(str(first_cause(foreseen)))
    except _FORESEEN as error:
        output.error(str(error))
    return output.EXIT_FAILED


@asynccontextmanager
async def _assembled(
    settings: Settings,
    environment: Mapping[str, str],
    log: FilteringBoundLogger,
    commit: str,
    beside: Beside | None = None,
) -> AsyncIterator[tuple[Manager, Notifier | None]]:
    """Put together everything a process needs, and serve for as long as the block runs."""
    parse_scheduler_config(settings.scheduler_config)
    config = load_config(environment)
    clock = SystemClock()
    rng = random.Random()  # noqa: S311 not used for secrets
    metrics = Metrics(commit=commit, with_process=True, detail=settings.metrics_detail)
    metrics.api_server = _host(config.server)
    metrics.resources = _resources()
    async with AsyncExitStack() as stack:

        async def connected() -> HttpTransport:
            transport = HttpTransport(
                config, clock, user_agent=f"karpenter/{__version__}", environment=environment
            )
            stack.push_async_callback(transport.close)
            return transport

        election = None
        if not settings.disable_leader_election:
            namespace = _lease_namespace(settings)
            # A separate client without a rate limit: a busy controller must not lose its lease
            election = _election(settings, namespace, Client(await connected(), clock), clock, rng)
            status = metrics.leader_election_master_status.labels(settings.leader_election_name)
            status.set_function(election.is_leading)
        kube = Client(
            await connected(),
            clock,
            limiter=_limiter(settings, clock),
            observer=metrics,
            may_write=election.is_leading if election is not None else lambda: True,
        )
        decisions = DecisionLog()
        if settings.decision_log:
            file = DecisionFile(settings.decision_log, clock, log)
            await stack.enter_async_context(_written(decisions, file))
        context = ProviderContext(kube, clock, settings, environment, rng, metrics, decisions)
        cloud = _cloud(context)
        if settings.webhook_port:
            from karpenter.operator.webhook import serve_webhook

            # First of all: the lists below may need the conversion it serves
            webhook_kube = Client(await connected(), clock, observer=metrics)
            await serve_webhook(
                stack, webhook_kube, clock, log, metrics, settings, _provider_name(environment)
            )
        await _look_at(kube, log)
        await _start(cloud)
        process = Process(
            kube=kube,
            cloud=MeteredProvider(cloud, CloudCalls(metrics), clock.monotonic),
            clock=clock,
            settings=settings,
            recorder=Recorder(kube, clock, rng=rng, observer=observing(decisions, clock)),
            metrics=metrics,
            log=log,
            rng=rng,
            decisions=decisions,
        )
        notifier = _notifier(process, environment)
        manager = Manager(process, _with_notifier(process, notifier), election)
        await stack.enter_async_context(
            serving(
                Endpoints(
                    metrics.pieces,
                    liveness(),
                    readiness(manager.mirrors, kube, clock),
                    metrics_port=settings.metrics_port,
                    health_port=settings.health_probe_port,
                    with_profiling=settings.enable_profiling,
                )
            )
        )
        stack.enter_context(watch_memory(settings.memory_limit, log))
        log.info(
            "starting", version=__version__, provider=cloud.facts.name, server=metrics.api_server
        )
        if beside is not None:
            reads = ReadOnlyClient(
                await connected(), clock, limiter=_limiter(settings, clock), observer=metrics
            )
            running = Running(process, manager.mirrors, reads, election, own_namespace())
            await stack.enter_async_context(beside(running))
        yield manager, notifier


def _notifier(process: Process, environment: Mapping[str, str]) -> Notifier | None:
    """The notifier, None without ``notifications_config``."""
    path, clock = process.settings.notifications_config, process.clock
    if not path:
        return None
    cluster = cluster_name(environment, process.metrics.api_server)
    around = ChannelDependencies(cluster, clock, environment)
    return Notifier(
        path,
        process.decisions,
        lambda sink: open_channel(sink, around),
        clock=clock,
        log=process.log,
        metrics=process.metrics,
        rng=random.Random(),  # noqa: S311 not used for secrets
    )


def _with_notifier(
    process: Process, notifier: Notifier | None
) -> Callable[[Context], Sequence[Runnable]]:
    """A factory of a term's controllers that adds the notifier, so that only the leader sends."""

    def make(context: Context) -> Sequence[Runnable]:
        made = make_controllers(context)
        return [*made, Kept(notifier, process)] if notifier is not None else made

    return make


@dataclass(frozen=True, slots=True)
class Kept:
    """A worker that is restarted after an error, so that its failure does not end the term."""

    worker: Runnable
    process: Process

    @property
    def name(self) -> str:
        """What it is called."""
        return self.worker.name

    async def run(self) -> None:
        """Run until cancelled."""
        process = self.process
        await kept_running(self.worker, process.clock, process.log, process.metrics)


async def _nothing() -> None:
    """Have nothing to finish."""


@asynccontextmanager
async def _written(decisions: DecisionLog, file: DecisionFile) -> AsyncIterator[None]:
    """Write decisions to a file for as long as the block runs."""
    end = decisions.follow(file.take)
    task = asyncio.create_task(file.run(), name="decision log")
    try:
        yield
    finally:
        end()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _host(server: str) -> str:
    """Host and port of a URL; the rest of it may hold secrets."""
    return urlsplit(server).netloc.rpartition("@")[2]


def _resources() -> Mapping[str, tuple[str, str, str]]:
    """Group, version and kind of all resources by plural name."""
    known: dict[str, tuple[str, str, str]] = {}
    for kind in KINDS:
        group, _, version = kind.api_version.rpartition("/")
        known.setdefault(resource_of(kind).plural, (group, version, kind_of(kind)))
    return known


def _limiter(settings: Settings, clock: Clock) -> Limiter | None:
    """The rate limit on requests; a rate of zero means no limit."""
    if settings.kube_client_qps <= 0:
        return None
    return Limiter(clock, settings.kube_client_qps, max(settings.kube_client_burst, 1))


def _lease_namespace(settings: Settings) -> str:
    namespace = settings.leader_election_namespace or own_namespace()
    if not namespace:
        raise StartError(
            "leader election needs a namespace outside of a cluster: set"
            " LEADER_ELECTION_NAMESPACE, or DISABLE_LEADER_ELECTION=true for a single process"
        )
    return namespace


def _election(
    settings: Settings, namespace: str, kube: Client, clock: Clock, rng: random.Random
) -> Election:
    return Election(
        kube,
        clock,
        name=settings.leader_election_name,
        namespace=namespace,
        identity=new_identity(),
        rng=rng,
    )


def _cloud(context: ProviderContext) -> CloudProvider:
    name = _provider_name(context.environment)
    cloud = load_provider(name)(context)
    settings = context.settings
    if settings.feature_gates[_NODE_REPAIR] and not settings.legacy_node_repair:
        problems = violations(cloud.repair_policies)
        if problems:
            raise StartError(f"feature gate {_NODE_REPAIR}, provider {name}: {'; '.join(problems)}")
    return cloud


def _provider_name(environment: Mapping[str, str]) -> str:
    return environment.get("CLOUD_PROVIDER") or DEFAULT_PROVIDER


async def _start(cloud: CloudProvider) -> None:
    """Run the provider's start-up check, before any controller uses it."""
    if not isinstance(cloud, StartingProvider):
        return
    try:
        await cloud.start()
    except CloudError as error:
        raise StartError(f"provider {cloud.facts.name} cannot start: {error}") from error


async def _look_at(kube: Kube, log: FilteringBoundLogger) -> None:
    """Check that the API server answers; CRDs that are missing may be installed later.

    Raises:
        KubeError: there is no answer, or not that of an API server.
    """
    missing = [kind for kind in (NodePool, NodeClaim) if not await _is_served(kube, kind)]
    if missing and not await _is_served(kube, Node):
        raise NoApiServerError(resource_of(Node).path())
    for kind in missing:
        log.error(
            "custom resource definition is missing",
            kind=kind_of(kind),
            advice="karpenter crds | kubectl apply --server-side -f -",
        )


async def _is_served(kube: Kube, kind: type[Resource]) -> bool:
    try:
        await kube.page(kind, limit=1)
    except NotFoundError:
        return False
    except ServerError as error:
        # The kind is served, but its conversion webhook does not answer yet: the mirrors retry
        if _UNCONVERTED not in str(error):
            raise
    return True


async def _until_stopped(
    work: Awaitable[None],
    log: FilteringBoundLogger,
    on_stop: Callable[[], None],
    finish: Callable[[], Awaitable[None]],
) -> int:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    task = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.is_set():
            await task
            return 0
        log.info("stopping")
        on_stop()
        await shut_down(task, finish)
        log.info("stopped")
        return 0
    finally:
        stop.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def shut_down(work: "asyncio.Future[None]", finish: Callable[[], Awaitable[None]]) -> None:
    """Cancel the work, which releases the lease, and let ``finish`` begin before and run beside it.

    A successor must not wait for ``finish``, which sends notifications to sinks that may hang.
    """
    finishing = asyncio.ensure_future(finish())
    await asyncio.sleep(0)  # ``finish`` begins, while there is still something to finish
    work.cancel()
    await asyncio.gather(work, finishing, return_exceptions=True)


def _leave_everything() -> None:
    """Exit the process without waiting for tasks that have not ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
