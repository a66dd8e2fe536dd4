"""Whether the cluster state is in sync, and a log line when it stays out of sync for long."""

from collections.abc import Iterable
from typing import Final

from karpenter.controllers.context import Context, Loop
from karpenter.telemetry.exposition import number
from karpenter.telemetry.family import Family

_LOOK_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 30.0
_REPEAT_SECONDS: Final = 10.0
SYNC_FAMILIES: Final = (
    Family("karpenter_cluster_state_node_count", "Nodes in the cluster state."),
    Family("karpenter_cluster_state_synced", "Whether the cluster state is synced."),
    Family(
        "karpenter_cluster_state_unsynced_time_seconds",
        "Time that the cluster state has not been synced.",
    ),
)


class SyncWatch(Loop):
    """Checks whether the state is in sync; without it no pass begins."""

    name = "state.sync"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._unsynced_since: float | None = None
        self._said_at: float | None = None

    async def run(self) -> None:
        """Watch, and offer the gauges, until cancelled."""
        remove = self.context.metrics.add_lines(self.lines)
        try:
            await super().run()
        finally:
            remove()

    async def step(self) -> float:
        """Check once; log when the state has been out of sync for too long."""
        waited = self._unsynced_seconds()
        now = self.clock.monotonic()
        is_time = self._said_at is None or now - self._said_at >= _REPEAT_SECONDS
        if waited < _PATIENCE_SECONDS:
            self._said_at = None
        elif is_time:
            self._said_at = now
            unlaunched = self.context.state.snapshot().unlaunched
            self.log.error(
                "cluster is waiting on sync for extended duration",
                duration=f"{waited:.0f}s",
                missing=list(self.context.mirrors.missing),
                NodeClaims=[claim.metadata.name for claim in unlaunched[:5]],
            )
        return _LOOK_SECONDS

    def lines(self) -> Iterable[str]:
        """The gauges about the state."""
        unsynced = self._unsynced_seconds()
        nodes = len(self.context.state.snapshot().nodes)
        for family, value in zip(
            SYNC_FAMILIES, (nodes, self._unsynced_since is None, unsynced), strict=True
        ):
            yield family.text([f" {number(value)}"])

    def _unsynced_seconds(self) -> float:
        now = self.clock.monotonic()
        if self.context.is_synced:
            self._unsynced_since = None
        elif self._unsynced_since is None:
            self._unsynced_since = now
        return now - self._unsynced_since if self._unsynced_since is not None else 0.0
