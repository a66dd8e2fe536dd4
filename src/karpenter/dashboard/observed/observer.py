"""Makes records of a cluster whose controller is another one, from picture to picture.

Changes are collected as they come, and looked at together when a picture is taken: what is recorded
does not depend on the order in which kinds and objects arrived in between. No I/O, no clock. A look
may be taken in another thread than the one that collects; two looks at once may not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.api.cluster import Event
from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Resource
from karpenter.api.nodes import Node
from karpenter.api.times import earlier
from karpenter.dashboard.observed.events import event_sighting, is_of_karpenter
from karpenter.dashboard.observed.machines import (
    MOST_REMEMBERED,
    Machines,
    claim_changes,
    claim_gone,
    node_changes,
    node_gone,
    pool_name,
)
from karpenter.dashboard.observed.sightings import Sighting, distinct
from karpenter.kube.events import Recent
from karpenter.state.object_keys import uid_of

# API servers delete events after an hour: one that comes again after that is another one
MEMORY: Final = timedelta(hours=1)


@dataclass(slots=True)
class _Change:
    """An object before and after what was collected."""

    old: Any
    new: Any  # the last version that was seen
    is_gone: bool = False


class Observer:
    """Sees what happens in a cluster, and tells each thing once."""

    def __init__(self, *, since: datetime) -> None:
        """Begin; what happened before ``since`` is not told, because it is no news."""
        self._since = since
        self._changes: dict[tuple[str, str], _Change] = {}  # by kind and uid
        self._machines = Machines()
        self._claims: dict[str, NodeClaim] = {}  # by the name of their Node
        self._told: Recent[datetime] = Recent(MOST_REMEMBERED)  # key -> when it was last seen

    def changed(self, old: Resource | None, new: Resource | None) -> None:
        """Take over a change of an object; None stands for "not there"."""
        if old is not None and new is not None and uid_of(old) != uid_of(new):
            self.changed(old, None)
            old = None
        subject = new if new is not None else old
        if not isinstance(subject, NodeClaim | Node | Event):
            return
        key = (subject.kind, uid_of(subject))
        change = self._changes.get(key)
        if change is None:
            change = self._changes[key] = _Change(old, subject)
        change.new, change.is_gone = subject, new is None

    def look(self, now: datetime) -> list[Sighting]:
        """What has happened since the last look, each thing once, in the order of its time."""
        changes, self._changes = self._changes, {}
        claims = [each for each in changes.values() if isinstance(each.new, NodeClaim)]
        for change in claims:
            self._machines.note(change.new)
            if change.new.status.node_name:
                self._claims[change.new.status.node_name] = change.new
        found = distinct(
            each
            for change in changes.values()
            for each in self._sightings(change, now)
            if each.until >= self._since
        )
        for change in claims:
            node = change.new.status.node_name
            if change.is_gone and self._claims.get(node) is change.new:
                del self._claims[node]
        return [each for each in map(self._untold, found) if each is not None]

    def _untold(self, sighting: Sighting) -> Sighting | None:
        """The sighting, unless it was told before."""
        known = self._told.get(sighting.key)
        self._told.put(sighting.key, max(sighting.until, known or sighting.until))
        if known is None:
            return sighting
        if earlier(sighting.until, MEMORY) <= known:
            return None
        return Sighting(sighting.until, sighting.until, sighting.key, sighting.rank, sighting.draft)

    def _sightings(self, change: _Change, now: datetime) -> Iterator[Sighting]:
        old, new = change.old, change.new
        if isinstance(new, NodeClaim):
            yield from claim_changes(old, new, now)
            if change.is_gone:
                yield claim_gone(new, now)
        elif isinstance(new, Node):
            claim = self._claims.get(new.metadata.name)
            if claim is None and not pool_name(new.metadata):
                return  # not Karpenter's
            yield from node_changes(old, new, claim, now)
            if change.is_gone:
                yield node_gone(new, claim, now)
        elif is_of_karpenter(new) and not (change.is_gone and change.old is not None):
            found = event_sighting(new, self._machines, now)
            if found is not None:
                yield found
