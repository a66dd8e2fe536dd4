"""The companion: the dashboard of any cluster that can be read, or of manifests, until it is stopped.

Nothing is installed and nothing is written. What machines there are is asked first as ``plan`` asks
it, so that its sentences about a cluster that cannot be read are those of ``plan`` too; prices are
asked for again later.
"""

import asyncio
import os
import secrets
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import typer

from karpenter import __version__
from karpenter.api.karpenter import NodePool
from karpenter.api.nodes import Node
from karpenter.clock import Clock, SystemClock
from karpenter.console import output
from karpenter.console.quiet import run_quietly
from karpenter.dashboard.answers.answers import Origin
from karpenter.dashboard.history import History
from karpenter.dashboard.history_file import HistoryFile, HistoryFileError
from karpenter.dashboard.homes.deployment_settings import deployment_settings
from karpenter.dashboard.homes.followed import (
    FollowedHome,
    Market,
    Options,
    followed_dashboard,
)
from karpenter.dashboard.homes.offered import Offered, Renewal
from karpenter.dashboard.homes.still import StillCluster, still_dashboard
from karpenter.dashboard.server.entrance import Entrance, EntranceError
from karpenter.dashboard.server.serving import Address, Place, ServingError
from karpenter.dashboard.shown import Shown
from karpenter.inquiry import offline
from karpenter.inquiry import settings as plan_settings
from karpenter.inquiry.files import load_objects
from karpenter.inquiry.live import asked_again
from karpenter.inquiry.question import (
    STANDARD_INPUT,
    CloudOffer,
    Question,
    Source,
    question,
)
from karpenter.kube.access.config import load_config
from karpenter.kube.errors import KubeError
from karpenter.kube.http import HttpTransport
from karpenter.kube.limiter import Limiter
from karpenter.kube.read_only import ReadOnlyClient, ReadOnlyTransport
from karpenter.scheduling.inputs.cluster import catalogue_of
from karpenter.settings import Settings
from karpenter.visible import visible

_PER_SECOND: Final = 5.0  # requests to the API server
_AT_ONCE: Final = 10
_KEY_BYTES: Final = 32
_FILE_PRICES: Final = "Those of {file}."
_SETTINGS: Final = (
    "The defaults, and what --set says; those of the cluster's controller cannot be read."
)
_TOLD_SETTINGS: Final = (
    "Those in the environment of the controller's Deployment, and what --set says."
)

_Served: TypeAlias = AbstractAsyncContextManager[Address]


@dataclass(frozen=True, slots=True)
class CompanionOptions:
    """What the command line asks for."""

    source: Source
    entrance: Entrance
    assignments: Sequence[str] = ()
    history: timedelta = timedelta(hours=24)
    history_file: Path | None = None
    namespaces: frozenset[str] | None = None
    is_redacted: bool = False
    opens_browser: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def run(options: CompanionOptions) -> None:
    """Serve until a signal, or end the command with one sentence."""
    if STANDARD_INPUT in options.source.names:
        output.fail("the dashboard reads manifests more than once: name files instead of -")
    try:
        place = options.entrance.place()
        history = _history(options)
    except (EntranceError, HistoryFileError) as error:
        output.fail(str(error))
    shown = Shown(options.namespaces, options.is_redacted, _key(place))
    asked = _asked(options)
    if options.entrance.warning:
        output.warning(options.entrance.warning)
    made: Callable[[], _Served]
    if asked is not None and options.source.names:
        made = partial(_still, options, place, shown, asked)
    else:
        made = partial(_live, options, place, shown, asked, history)
    try:
        run_quietly(_until_stopped(options, place, made))
    except ServingError as error:
        output.fail(str(error), output.EXIT_FAILED)
    finally:
        if history is not None:
            history.close()


def _asked(options: CompanionOptions) -> Question | None:
    """What the planners are asked, with what there is to buy.

    Where a provider cannot be asked, as without credentials of its cloud, its built-in estimates take
    the place of what it sells. None where there are none: nodes, pods and events are shown all the same.
    """
    source = replace(options.source, takes_estimates=True)
    try:
        asked = question(source, assignments=options.assignments, now=None)
    except typer.Exit as ended:
        is_usage = ended.exit_code != output.EXIT_FAILED
        if is_usage or options.source.names or not run_quietly(_is_readable(options)):
            raise
        output.warning(
            "the cluster is shown without prices, and nothing is planned; --instance-types FILE says what"
            " machines there are"
        )
        return None
    if asked.offer.not_asked:
        output.warning(
            f"instance types and prices are the built-in estimates of {asked.offer.facts.name}, which"
            f" cannot be asked: {asked.offer.not_asked}"
        )
    return asked


async def _is_readable(options: CompanionOptions) -> bool:
    try:
        async with _connected(options, SystemClock()) as there:
            await there.reads.page(Node, limit=1)
    except KubeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Connection:
    """The way to a cluster, on which nothing but reads is sent."""

    transport: ReadOnlyTransport
    limiter: Limiter
    reads: ReadOnlyClient


@asynccontextmanager
async def _connected(options: CompanionOptions, clock: Clock) -> AsyncIterator[_Connection]:
    """A connection to the cluster.

    Raises:
        KubeError: the kubeconfig cannot be used.
    """
    source, environment = options.source, dict(options.environment)
    if source.kubeconfig:
        environment["KUBECONFIG"] = source.kubeconfig
    config = load_config(environment, context=source.context)
    transport = HttpTransport(
        config, clock, user_agent=f"karpenter-dashboard/{__version__}", environment=environment
    )
    limiter = Limiter(clock, _PER_SECOND, _AT_ONCE)
    reads = ReadOnlyClient(transport, clock, limiter=limiter)
    try:
        yield _Connection(ReadOnlyTransport(transport), limiter, reads)
    finally:
        await transport.close()


async def _until_stopped(
    options: CompanionOptions, place: Place, served: Callable[[], _Served]
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with served() as address:
        print(visible(f"Watch the cluster in a browser: {address.url}"))
        print("Stop it with Ctrl-C; nothing is changed in the cluster.", flush=True)
        if _opens_browser(options):
            await asyncio.to_thread(webbrowser.open, address.url)
        entrance = options.entrance
        renewing = asyncio.create_task(
            entrance.renewed(place.tls, SystemClock(), output.warning), name="certificate"
        )
        try:
            await stopped.wait()
        finally:
            renewing.cancel()


def _opens_browser(options: CompanionOptions) -> bool:
    is_wanted = options.opens_browser and options.environment.get("BROWSER") != "none"
    return is_wanted and sys.stdout is not None and sys.stdout.isatty()


@asynccontextmanager
async def _live(
    options: CompanionOptions,
    place: Place,
    shown: Shown,
    asked: Question | None,
    history: History | None,
) -> AsyncIterator[Address]:
    """Serve the cluster of the kubeconfig."""
    source, clock = options.source, SystemClock()
    provider = asked.offer.facts.name if asked is not None else ""
    async with _connected(options, clock) as there:
        told = await deployment_settings(there.transport)
        assignments = [*(f"{name}={value}" for name, value in told.items()), *options.assignments]
        settings, gates_are_set = plan_settings.assigned(assignments)
        wanted = Options(
            Origin("live", provider, source.context),
            place,
            shown,
            can_plan=bool(provider),
            is_observed=True,
            namespace=asked.namespace if asked is not None else "",
            gates_are_set=gates_are_set,
        )
        async with followed_dashboard(there.reads, clock, wanted, history=history) as dashboard:
            if asked is None or not provider:
                yield dashboard.address
                return
            whose = _TOLD_SETTINGS if told else _SETTINGS
            renewal = _sold(
                options, there, clock, shown, settings, whose, asked.offer, dashboard.home
            )
            renewing = asyncio.create_task(renewal.run()) if renewal is not None else None
            try:
                yield dashboard.address
            finally:
                if renewing is not None:
                    renewing.cancel()
                    await asyncio.gather(renewing, return_exceptions=True)


def _sold(
    options: CompanionOptions,
    there: _Connection,
    clock: Clock,
    shown: Shown,
    settings: Settings,
    whose: str,
    offer: CloudOffer,
    home: FollowedHome,
) -> Renewal | None:
    """Have what there is to buy, and return what asks for it again; None for machines of a file."""
    source, environment = options.source, options.environment
    pools = home.followed.of(NodePool)
    offered = Offered(offer, pools.list)

    def told(prices: str) -> None:
        home.trade(Market(offered.supply, settings, prices, whose))

    if source.instance_types is not None:
        told(_FILE_PRICES.format(file=shown.name(source.instance_types)))
        return None

    async def again() -> CloudOffer | None:
        named = source.provider or environment.get("CLOUD_PROVIDER")
        known = await asked_again(
            there.transport,
            clock,
            provider=named or offline.provider_of(pools.list()),
            pools=pools.list(),
            settings=settings,
            environment=environment,
            limiter=there.limiter,
        )
        if known is None:
            return None
        return CloudOffer(catalogue_of(known.types), known.facts, known.repair_policies)

    renewal = Renewal(
        offered,
        again,
        clock,
        offer.facts.name,
        not_asked=offer.not_asked,
        told=told,
        warn=output.warning,
    )
    told(renewal.prices)
    return renewal


def _still(
    options: CompanionOptions,
    place: Place,
    shown: Shown,
    asked: Question,
) -> _Served:
    """Serve the cluster of manifests, which has no past."""
    source = options.source
    found = load_objects(
        source.names,
        recursive=source.recursive,
        provider=source.provider or offline.DEFAULT,
        is_quiet=True,  # the question has read the same files
    )
    settings, gates_are_set = plan_settings.assigned(options.assignments)
    cluster = StillCluster(
        found.objects, found.unjudged, asked, settings, gates_are_set, ", ".join(source.names)
    )
    return still_dashboard(cluster, place, SystemClock(), shown)


def _history(options: CompanionOptions) -> History | None:
    """What keeps the views.

    Raises:
        HistoryFileError: its file cannot be used.
    """
    seconds = options.history.total_seconds()
    if options.source.names or not seconds:
        return None
    path = options.history_file
    journal = HistoryFile(path, warn=output.warning) if path is not None else None
    return History(seconds=seconds, journal=journal)


def _key(place: Place) -> bytes:
    """What hashes of names are mixed with: the same over restarts where the token is."""
    return place.token.encode() if place.token else secrets.token_bytes(_KEY_BYTES)
