"""Counts interruptions and machine hours of spot, and keeps them in a ConfigMap.

Interruptions are those that a provider's decisions tell of. Hours are added up, and all is written
every ten minutes; what was counted since then is lost with the process. Planners take the risk of
spot from it. It runs only while ``SPOT_INTERRUPTION_COST`` gives an interruption a price.
"""

from collections import Counter
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.cluster import ConfigMap
from karpenter.controllers.context import Context, Loop
from karpenter.decision_log.record import DecisionRecord, Kind
from karpenter.kube.access.config import own_namespace
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.model import labels
from karpenter.scheduling.spot.history import SpotHistory
from karpenter.scheduling.spot.risk import Place

CONFIG_MAP: Final = "karpenter-spot-history"
KEY: Final = "history"
WRITE_SECONDS: Final = 600.0
SPOT_INTERRUPTED: Final = "SpotInterrupted"  # the reason of a provider's decision
_UNSYNCED: Final = 1.0
_AN_HOUR: Final = timedelta(hours=1)
_MOST_REMEMBERED: Final = 10_000


class SpotHistoryKeeper(Loop):
    """Keeps the history of spot, and tells planners what was seen."""

    name = "spot.history"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._namespace = context.settings.leader_election_namespace or own_namespace()
        self._history: SpotHistory | None = None  # None: not read so far
        self._counted_at: datetime | None = None
        self._interrupted: Counter[Place] = Counter()  # since then
        self._known: dict[str, None] = {}  # subjects of records: notices may come twice
        self._written = ""
        self._complaint = ""
        self._end = context.decisions.follow(self._take)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await super().run()
        finally:
            self._end()

    async def step(self) -> float:
        """Count what has happened since the last step, and write it."""
        if not self.context.is_synced:
            return _UNSYNCED
        now = self.clock.now()
        if self._history is None:
            self._history = await self._read()
        history = self._history
        self._count(history, now)
        history.forget(now)
        self.context.spot_seen.clear()
        self.context.spot_seen.update(history.seen())
        await self._write(history.text())
        return WRITE_SECONDS

    def _take(self, record: DecisionRecord, line: bytes) -> None:
        """Count an interruption of a spot machine, once."""
        if record.kind is not Kind.INTERRUPT or record.reason != SPOT_INTERRUPTED:
            return
        if record.subject in self._known:
            return
        self._known[record.subject] = None
        if len(self._known) > _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        place = Place(str(record.detail.get("instanceType")), str(record.detail.get("zone")))
        if all(place):
            self._interrupted[place] += 1

    def _count(self, history: SpotHistory, now: datetime) -> None:
        for place, count in self._interrupted.items():
            history.add(place, now, interruptions=count)
        self._interrupted.clear()
        since, self._counted_at = self._counted_at, now
        for machine in self.context.state.snapshot().nodes:
            claim, held = machine.node_claim, machine.labels
            if claim is None or held.get(labels.CAPACITY_TYPE) != labels.SPOT:
                continue
            place = Place(held.get(labels.INSTANCE_TYPE, ""), held.get(labels.ZONE, ""))
            born = claim.metadata.creation_timestamp
            if since is None or born is None or not all(place):
                continue
            hours = max(timedelta(0), now - max(since, born)) / _AN_HOUR
            history.add(place, now, hours=hours)

    async def _read(self) -> SpotHistory:
        if not self._namespace:
            self._complain("it is not kept: outside of a cluster set LEADER_ELECTION_NAMESPACE")
            return SpotHistory()
        try:
            found = await self.context.kube.get(ConfigMap, CONFIG_MAP, self._namespace)
        except NotFoundError:
            return SpotHistory()
        self._written = found.data.get(KEY, "")
        return SpotHistory.of_text(self._written)

    async def _write(self, text: str) -> None:
        if not self._namespace or text == self._written:
            return
        kube, body = self.context.kube, {"data": {KEY: text}}
        try:
            try:
                await kube.patch(ConfigMap, CONFIG_MAP, body, self._namespace)
            except NotFoundError:
                metadata = {"name": CONFIG_MAP, "namespace": self._namespace}
                await kube.create(ConfigMap, {"metadata": metadata, **body})
        except KubeError as error:
            self._complain(f"it could not be written: {error}")
            return
        self._written, self._complaint = text, ""

    def _complain(self, why: str) -> None:
        """Log why the history is not kept; not again while the reason stays the same."""
        if why != self._complaint:
            self._complaint = why
            self.log.warning("history of spot interruptions", error=why)
