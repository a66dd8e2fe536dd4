"""One session of the recorder on the cluster of a kubeconfig, from its first request to its last sentence."""

import asyncio
import os
import random
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from karpenter import __version__
from karpenter.api.cluster import Namespace
from karpenter.clock import Clock, SystemClock
from karpenter.console import output
from karpenter.kube.access.config import ClusterConfig
from karpenter.kube.errors import ForbiddenError, NotFoundError
from karpenter.kube.http import HttpTransport
from karpenter.kube.read_only import ReadOnlyClient
from karpenter.kube.transport import Transport
from karpenter.simulate.record.folder import Archive, WriteError
from karpenter.simulate.record.live import Recording, sentence
from karpenter.simulate.record.names import Names
from karpenter.simulate.record.prices import Asked, PricesError, beside, follow_prices
from karpenter.simulate.record.recorder import Recorder
from karpenter.simulate.record.scenario_file import NAME

# Makes what asks for prices
Pricing: TypeAlias = Callable[[Transport, Clock], Asked]
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def now() -> float:
    """The time of day, in seconds."""
    return SystemClock().now().timestamp()


async def recorded(
    config: ClusterConfig,
    archive: Archive,
    names: Names,
    *,
    lasts: float | None,
    namespaces: Sequence[str],
    heard: float | None,
    pricing: Pricing | None = None,
) -> None:
    """Record until a signal comes, or for so many seconds, and say what was recorded.

    Raises:
        KubeError: the cluster cannot be reached.
        NotRecordableError: what it takes may not be read.
        WriteError: something could not be written.
    """
    clock, stop = SystemClock(), asyncio.Event()
    transport = HttpTransport(
        config, clock, user_agent=f"karpenter-record/{__version__}", environment=os.environ
    )
    try:
        kube = ReadOnlyClient(transport, clock)
        await kube.version()  # whether there is a cluster at all
        recorder = Recorder(names, now, archive.write, archive.changed)
        recording = Recording(
            kube,
            clock,
            recorder,
            archive,
            rng=random.Random(),  # noqa: S311 nothing secret hangs on it
            namespaces=namespaces,
            said=output.note,
        )
        for name in namespaces:
            await _point_out_missing(kube, name)
        _end_on_signals(stop)
        output.note(f"recording to {archive.path}; Ctrl-C ends it")
        prices = None
        if pricing is not None:
            asked = pricing(transport, clock)
            prices = follow_prices(asked, archive.prices, clock, output.note)
        try:
            await beside(recording.run(stop, lasts=lasts, heard=heard), prices)
        except PricesError as error:
            raise WriteError(f"{archive.path}: {error}") from None
        if not recording.has_begun:
            output.note("nothing was recorded: it ended before the cluster had been read")
            return
        size = archive.size / 2**20
        output.note(
            f"recorded {sentence(recorder)}, {size:.1f} MiB;"
            f" replay with: {output.program_name()} simulate {archive.path / NAME}"
        )
    finally:
        await transport.close()


async def _point_out_missing(kube: ReadOnlyClient, namespace: str) -> None:
    """Warn of a namespace that may be misspelt; it may also come later."""
    with suppress(ForbiddenError):  # without the right nobody can tell
        try:
            await kube.get(Namespace, namespace)
        except NotFoundError:
            output.warning(
                f"there is no namespace {namespace}: nothing of it is recorded until there is one"
            )


def _end_on_signals(stop: asyncio.Event) -> None:
    """End in order at the first signal, and at once at the second."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        stop.set()
        for each in _SIGNALS:
            loop.remove_signal_handler(each)

    for each in _SIGNALS:
        with suppress(NotImplementedError):  # not on every operating system
            loop.add_signal_handler(each, end)
