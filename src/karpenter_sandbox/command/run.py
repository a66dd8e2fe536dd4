"""Runs a sandbox, from start to shutdown."""

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from karpenter.clock import PacedLoop, running_clock
from karpenter.console import manifest_files, output
from karpenter.manifests.reader import Document
from karpenter.operator.gc_thresholds import collect_rarely
from karpenter.os_errors import os_reason
from karpenter.visible import visible
from karpenter_sandbox.cluster import Cluster, last_moment
from karpenter_sandbox.command import demo
from karpenter_sandbox.command.cloud import (
    CloudOptions,
    check_cloud,
    first_nodes,
    legacy_defaults,
    usable_settings,
)
from karpenter_sandbox.command.controller_deployment import is_about_it, undeploy
from karpenter_sandbox.command.kubeconfig import make_way, published
from karpenter_sandbox.command.live_view import (
    EventFeed,
    laid_out,
    overview_of,
    said_text,
    show_logs,
)
from karpenter_sandbox.command.pace import Pace
from karpenter_sandbox.kinds.served import version_info
from karpenter_sandbox.kubelet.faults import Timing
from karpenter_sandbox.server.http import (
    Server,
    is_loopback,
    new_token,
    serving,
)
from karpenter_sandbox.status import ApiError
from karpenter_sandbox.store.errors import NotKeptError
from karpenter_sandbox.store.journal import JournalError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from karpenter_sandbox.command.dashboard import SandboxDashboard

_MANAGER: Final = "karpenter-sandbox"
_NAMESPACE: Final = "default"
# Kinds that others depend on come first, whatever the order of the files
_FIRST: Final = ("Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass")
_BOOT_SECONDS: Final = 3.0  # so that the display shows NotReady for a moment
_DEMO: Final = "demo"
_REFRESH: Final = 1.0
_SLOW_REFRESH: Final = 5.0
_MANY_PODS: Final = 2000
_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line asks for."""

    kubeconfig: Path
    address: str
    port: int
    data: Path | None
    nodes: int
    speed: float
    documents: Sequence[Document]
    cloud: CloudOptions
    is_demo: bool = False
    dashboard_port: int | None = 0  # 0: any free one; None: there is no dashboard


def run(options: RunOptions) -> None:
    """Run a sandbox until it is stopped."""
    if options.cloud.provider:
        check_cloud(options.cloud)
    make_way(options.kubeconfig)
    collect_rarely()
    with asyncio.Runner(loop_factory=_loop_factory(options)) as runner:
        runner.run(_run(options))


async def _run(options: RunOptions) -> None:
    # Events of the controllers' own Deployment are hidden; those of a user's Deployment are shown
    feed = EventFeed(is_hidden=is_about_it if options.cloud.provider else None)
    show_logs(feed.add)
    try:
        cluster = Cluster(
            running_clock(),
            data_file=options.data,
            timing=Timing(boot=_BOOT_SECONDS),
            provider=options.cloud.provider or "kwok",
            legacy_defaults=legacy_defaults(usable_settings(options.cloud)),
        )
    except JournalError as error:
        output.fail(str(error))
    if cluster.lost is not None:
        output.warning(cluster.lost)
    try:
        is_shown_to_the_end = await _live(cluster, feed, options)
    except NotKeptError as error:
        output.fail(str(error), output.EXIT_FAILED)
    finally:
        await _stopped(cluster)
    _say_goodbye(options, is_shown_to_the_end=is_shown_to_the_end)


async def _stopped(cluster: Cluster) -> None:
    try:
        await cluster.stop()
    except JournalError as error:
        output.fail(str(error), output.EXIT_FAILED)


async def _live(cluster: Cluster, feed: EventFeed, options: RunOptions) -> bool:
    """Fill the cluster and serve it until it is stopped or the demonstration ends."""
    await cluster.start()
    # An example kept from the last run may have been changed on purpose
    new = [each for each in _example(options) if await cluster.find(each.data, _NAMESPACE) is None]
    await _load(cluster, [*new, *options.documents])
    missing = options.nodes - cluster.store.count("", "nodes")
    if missing > 0:
        shape = first_nodes(options.cloud)
        await cluster.add_nodes(missing, shape)
    if not options.is_demo:  # the demonstration shows decisions, not events
        cluster.store.on_change(feed.follow)
    server = Server(
        cluster.api,
        host=options.address,
        port=options.port,
        token=new_token(),
        now=cluster.clock.now,
    )
    async with (
        _listening(server),
        _shown(cluster, options) as dashboard,
        _reachable(server, options.kubeconfig),
    ):
        stopped = _stop_signal()
        hello = _hello(server, options, dashboard.url if dashboard is not None else "")
        print("\n".join(hello), flush=True)
        if not is_loopback(server.host):
            output.warning(
                "every client that reaches this machine and knows the token can use the cluster"
            )
        async with _controllers(cluster, feed, options, dashboard):
            return await _until_stopped(cluster, feed, options, stopped, hello)


@asynccontextmanager
async def _shown(cluster: Cluster, options: RunOptions) -> AsyncIterator["SandboxDashboard | None"]:
    """Serve the dashboard of the cluster, if it is wanted."""
    if options.dashboard_port is None:
        yield None
        return
    module = await asyncio.to_thread(import_module, "karpenter_sandbox.command.dashboard")
    provider = options.cloud.provider
    async with module.dashboard(cluster, provider, options.dashboard_port) as dashboard:
        yield dashboard


@asynccontextmanager
async def _controllers(
    cluster: Cluster,
    feed: EventFeed,
    options: RunOptions,
    dashboard: "SandboxDashboard | None",
) -> AsyncIterator[None]:
    """Run the controllers beside the cluster, if they are wanted."""
    if not options.cloud.provider:
        await undeploy(cluster)
        yield
        return
    # The cluster answers already; what the controllers need is loaded meanwhile
    module = await asyncio.to_thread(import_module, "karpenter_sandbox.command.autoscaler")
    decisions = dashboard.decisions if dashboard is not None else None
    async with module.autoscaling(cluster, options.cloud, feed.add, decisions) as manager:
        if dashboard is not None:
            dashboard.sell(manager.process)
        yield


def _loop_factory(options: RunOptions) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop with the cluster's clock, which never goes back between runs."""
    now = datetime.now(UTC)
    try:
        last = last_moment(options.data) if options.data is not None else None
    except JournalError as error:
        output.fail(str(error))
    if options.speed == 1 and (last is None or last <= now):
        return None
    return partial(PacedLoop, options.speed, start=max(now, last or now))


@asynccontextmanager
async def _listening(server: Server) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serving(server))
        except OSError as error:
            output.fail(_why_not_listening(server, error), output.EXIT_FAILED)
        yield


def _why_not_listening(server: Server, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        advice = "choose another with --port, or omit it for any free one"
        return f"port {server.port} of {server.host} is taken; {advice}"
    return f"cannot listen on {server.host}: {os_reason(error)}; choose another with --address"


@asynccontextmanager
async def _reachable(server: Server, kubeconfig: Path) -> AsyncIterator[None]:
    """Let clients find the server for as long as it answers."""
    await _ask(server)
    with published(server, kubeconfig):
        yield


async def _ask(server: Server) -> None:
    """Make sure that the server answers."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n\r\n")
        answer = await reader.readline()
    finally:
        writer.close()
    if b" 200 " not in answer:
        output.fail("the server does not answer as it should", output.EXIT_FAILED)


def _stop_signal() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    return stopped


async def _until_stopped(
    cluster: Cluster,
    feed: EventFeed,
    options: RunOptions,
    stopped: asyncio.Event,
    hello: Sequence[str],
) -> bool:
    """Wait for the end, and return whether it is that of the demonstration."""
    pace = Pace(cluster.clock, options.speed)
    shows = _show(cluster, feed, options.cloud, pace, hello) if _is_terminal() else _log(feed)
    tasks = {
        asyncio.create_task(stopped.wait(), name="stop"),
        asyncio.create_task(cluster.wait(), name="wait"),
        asyncio.create_task(shows, name="show"),
    }
    if options.is_demo:
        tasks.add(asyncio.create_task(_demonstrate(cluster, feed, options), name=_DEMO))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return any(task.get_name() == _DEMO for task in done)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if shortfall := pace.shortfall():
            print(shortfall, flush=True)


async def _demonstrate(cluster: Cluster, feed: EventFeed, options: RunOptions) -> None:
    """Scale the example up and down."""
    from karpenter_sandbox.command.prices import price_list

    cloud = options.cloud
    prices = await asyncio.to_thread(price_list, cloud.provider, cloud.instance_types)
    await demo.demonstrate(cluster, feed.add, prices)


async def _show(
    cluster: Cluster, feed: EventFeed, cloud: CloudOptions, pace: Pace, hello: Sequence[str]
) -> None:
    """Print decisions as they are made, and refresh the nodes below them until the end."""
    from karpenter_sandbox.command.live_screen import LiveScreen
    from karpenter_sandbox.command.prices import price_list

    prices = await asyncio.to_thread(price_list, cloud.provider, cloud.instance_types)
    view = overview_of(cluster, prices)

    def layout(columns: int, lines: int) -> "RenderableType":
        headline = f"{cluster.clock.now():%H:%M:%S}{pace.headline()}"
        return laid_out(view, feed.recent, headline=headline, columns=columns, lines=lines)

    with LiveScreen(layout, hello) as shown, shown.guarded():
        try:
            while True:
                view = overview_of(cluster, prices)
                shown.refresh()
                is_large = view.phases.total() > _MANY_PODS
                for _ in range(round((_SLOW_REFRESH if is_large else _REFRESH) / _PAUSE)):
                    await asyncio.sleep(_PAUSE)
                    shown.say(map(said_text, feed.said()))
                    if shown.is_behind:
                        shown.refresh()
        finally:
            shown.say(map(said_text, feed.said()))
            view = overview_of(cluster, prices)


async def _log(feed: EventFeed) -> None:
    """Print each event as a line, those of the last moment before the end included."""
    try:
        while True:
            _print_new(feed)
            await asyncio.sleep(_PAUSE)
    finally:
        _print_new(feed)


def _print_new(feed: EventFeed) -> None:
    for line in feed.taken():
        print(line, flush=True)


async def _load(cluster: Cluster, documents: Sequence[Document]) -> None:
    """Apply manifests, or list everything that is wrong with them and end the command."""
    problems = 0
    ranked = sorted(documents, key=lambda document: _rank(document.data))
    for document in ranked:
        try:
            await _apply(cluster, document.data)
        except NotKeptError:
            raise  # the journal failed: not a mistake in the manifest
        except ApiError as error:
            title = manifest_files.title_of(document.data)
            output.error(f"{document.source.name}:{document.line()}: {title}: {error}")
            problems += 1
    if problems:
        output.fail(f"nothing is started: {manifest_files.problems(problems)}")


def _example(options: RunOptions) -> Sequence[Document]:
    return demo.example(options.cloud.provider or "kwok") if options.cloud.has_example else ()


async def _apply(cluster: Cluster, obj: dict[str, Any]) -> None:
    # These become parts of a request path, so they must be text; the API validates the rest
    metadata = obj.get("metadata")
    held = metadata if isinstance(metadata, dict) else {}
    name, namespace = str(held.get("name") or ""), str(held.get("namespace") or _NAMESPACE)
    api_version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    if not name:
        whole = {**obj, "apiVersion": api_version, "kind": kind}
        await cluster.client.create(whole, namespace=namespace)
        return
    await cluster.client.patch(
        "apply", api_version, kind, namespace, name, obj, field_manager=_MANAGER, force=True
    )


def _rank(obj: dict[str, Any]) -> int:
    kind = obj.get("kind")
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def _hello(server: Server, options: RunOptions, dashboard: str) -> list[str]:
    version = version_info()["gitVersion"]
    host = f"[{server.host}]" if ":" in server.host else server.host
    kept = f"it is kept in {options.data}" if options.data else "--data FILE keeps it for next time"
    lines = [
        f"The cluster is up: Kubernetes {version} at http://{host}:{server.port}",
        f"Use it in another terminal: export KUBECONFIG={quote(str(options.kubeconfig.resolve()))}",
    ]
    if dashboard:
        lines.append(f"Watch it in a browser: {dashboard}")
    lines.append(f"Stop it with Ctrl-C; {kept}.")
    if options.cloud.has_example and not options.is_demo:
        commands = (f"  {command}" for command in demo.commands_to_try())
        lines += ["Try this, and watch it here:", *commands]
    return [visible(line) for line in lines]


def _say_goodbye(options: RunOptions, *, is_shown_to_the_end: bool) -> None:
    if is_shown_to_the_end:
        if not _is_terminal():
            print()
        print("That was the demo; karpenter sandbox --example lets you try it yourself.")
    elif _is_terminal():
        kept = f"it goes on with --data {options.data}" if options.data else "nothing of it is kept"
        print(f"The cluster is stopped; {kept}.")


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
