"""Sends decisions to sinks while this process leads; the configuration is reloaded on change."""

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from structlog.typing import FilteringBoundLogger

from karpenter.clock import Clock
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import DecisionRecord
from karpenter.notifications.channels import Channel
from karpenter.notifications.config import (
    MOST_BYTES,
    ConfigError,
    NotificationsConfig,
    SinkConfig,
    parse_config,
)
from karpenter.notifications.delivery import SinkWorker
from karpenter.os_errors import os_reason
from karpenter.telemetry import Metrics

OpenChannel: TypeAlias = Callable[[SinkConfig], Channel]

LONGEST_FLUSH: Final = 1.5  # seconds that a shutdown waits for messages
_RELOAD_SECONDS: Final = 5.0
_FLUSH_POLL: Final = 0.05


class Notifier:
    """The notifications of one process."""

    name: Final = "notifications"

    def __init__(
        self,
        path: str,
        decisions: DecisionLog,
        open_channel: OpenChannel,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: Metrics,
        rng: random.Random,
    ) -> None:
        self._path = path
        self._decisions = decisions
        self._open_channel = open_channel
        self._clock = clock
        self._log = log.bind(controller=self.name)
        self._metrics = metrics
        self._rng = rng
        self._workers: dict[SinkConfig, tuple[SinkWorker, asyncio.Task[None]]] = {}
        self._read: bytes | str | None = None  # the file as read last, or why it could not be read
        self._is_flushing = False

    async def run(self) -> None:
        """Send decisions to sinks until cancelled, for one term of leadership."""
        self._read = None
        end = self._decisions.follow(self._take)
        try:
            while True:
                await self._reload()
                await self._clock.sleep(_RELOAD_SECONDS)
        finally:
            end()
            if not self._is_flushing:
                await self._use(NotificationsConfig())

    async def flush(self) -> None:
        """Flush what waits at a shutdown, for ``LONGEST_FLUSH`` seconds at most.

        The term may end meanwhile: the lease is released without waiting for a sink that hangs.
        """
        self._is_flushing = True
        ends = self._clock.monotonic() + LONGEST_FLUSH
        workers = [worker for worker, _ in self._workers.values()]
        try:
            for worker in workers:
                worker.hurry()
            while self._clock.monotonic() < ends and not all(each.is_idle for each in workers):
                await self._clock.sleep(_FLUSH_POLL)
        finally:
            await self._use(NotificationsConfig())

    def _take(self, record: DecisionRecord, _line: bytes) -> None:
        for worker, _ in self._workers.values():
            worker.offer(record)

    async def _reload(self) -> None:
        """Use the file as it is now; a bad one is logged once, and the old configuration stays."""
        try:
            found: bytes | str = await asyncio.to_thread(read_file, self._path)
        except ConfigError as error:
            found = str(error)
        if found == self._read:
            return
        self._read = found
        try:
            if isinstance(found, str):
                raise ConfigError(found)  # noqa: TRY301 one handler logs both errors
            config = parse_config(found, self._path)
        except ConfigError as error:
            self._log.error("notifications stay as they were", error=str(error))
            return
        await self._use(config)
        names = ", ".join(sink.name for sink in config.sinks)
        self._log.info("notifications configured", sinks=names)

    async def _use(self, config: NotificationsConfig) -> None:
        """Start and stop workers; those of a sink that has not changed go on."""
        wanted = set(config.sinks)
        gone = [self._workers.pop(sink)[1] for sink in [*self._workers] if sink not in wanted]
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        for sink in config.sinks:
            if sink not in self._workers:
                channel = self._open_channel(sink)
                worker = SinkWorker(sink, channel, self._clock, self._log, self._metrics, self._rng)
                task = asyncio.create_task(worker.run(), name=f"notifications to {sink.name}")
                self._workers[sink] = worker, task


def cluster_name(environment: Mapping[str, str], server: str = "") -> str:
    """The cluster's name in messages: its own, else the host of its API server."""
    return environment.get("CLUSTER_NAME") or server or "unknown"


def read_file(path: str) -> bytes:
    """The bytes of a configuration.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {os_reason(error)}") from error
