"""Why nodes and pods went: what observers saw, joined with the decision records by name and time."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from karpenter.decision_log.record import DecisionRecord, Kind, Outcome
from karpenter.simulate.observe.machines import Life
from karpenter.simulate.observe.pods import Eviction

INTERRUPTED: Final = "Interrupted"
NODE_LOST: Final = "NodeLost"
PREEMPTED: Final = "Preempted"
POOL_DELETED: Final = "PoolDeleted"
DELETED: Final = "Deleted"  # a person deleted the node or its claim, or evicted the pod
STILL_THERE: Final = ""
_BY_CLUSTER: Final = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})
_BY_SCHEDULER: Final = "PreemptionByScheduler"
_ROUNDING: Final = 0.001  # records have milliseconds
_DECISIVE: Final = frozenset({Kind.DISRUPT, Kind.REPAIR, Kind.INTERRUPT})


class Causes:
    """What was decided about each node, and when."""

    def __init__(
        self,
        records: Iterable[DecisionRecord],
        start: datetime,
        lives: Iterable[Life],
        pool_ends: Mapping[str, float],
    ) -> None:
        self._pool_ends = pool_ends
        self._lives = {life.name: life for life in lives}
        self._decided: dict[str, list[tuple[float, str]]] = {}  # node -> (when, reason)
        nodes = {life.claim: life.name for life in self._lives.values()}
        for record in records:
            for node in _concerned(record, nodes):
                reason = INTERRUPTED if record.kind is Kind.INTERRUPT else record.reason
                at = seconds_since(start, record.at)
                self._decided.setdefault(node, []).append((at, reason))

    def of_eviction(self, eviction: Eviction) -> str:
        """Why a pod was evicted."""
        if eviction.reason == _BY_SCHEDULER:
            return PREEMPTED
        decided = self._at(eviction.node, eviction.at)
        if eviction.reason in _BY_CLUSTER and decided != INTERRUPTED:
            return NODE_LOST
        life = self._lives.get(eviction.node)
        if not decided and life is not None and _has_disappeared(life, eviction.at):
            return NODE_LOST  # its pods are evicted from a node whose machine is no more
        return decided or DELETED

    def of_end(self, life: Life) -> str:
        """Why a machine went; empty while it is there."""
        if life.ended is None:
            return STILL_THERE
        decided = self._at(life.name, life.ended)
        if not decided and _has_disappeared(life, life.ended):
            return NODE_LOST
        return decided or DELETED

    def _at(self, node: str, moment: float) -> str:
        """The latest decision about a node at a moment."""
        life = self._lives.get(node)
        noticed = life.noticed if life is not None else None
        if noticed is not None and noticed <= moment + _ROUNDING:
            return INTERRUPTED
        decided = self._decided.get(node, [])
        position = bisect_right(decided, moment + _ROUNDING, key=lambda each: each[0])
        if position:
            return decided[position - 1][1]
        pool_end = self._pool_ends.get(life.pool) if life is not None else None
        return POOL_DELETED if pool_end is not None and pool_end <= moment else ""


def nodes_of(record: DecisionRecord) -> list[str]:
    """All nodes that a record names: the candidates of a command, of which the detail has a few."""
    named = [each.partition("/") for each in record.objects]
    return [name for kind, _, name in named if kind == "Node"]


def _has_disappeared(life: Life, moment: float) -> bool:
    """Whether a machine was gone from one moment to the next."""
    return life.cause == "disappeared" and life.ended is not None and life.ended <= moment


def seconds_since(start: datetime, at: str) -> float:
    """The seconds between the start of a run and the time of a record."""
    return (datetime.fromisoformat(at) - start).total_seconds()


def _concerned(record: DecisionRecord, nodes: Mapping[str, str]) -> list[str]:
    """The nodes that go because of a record."""
    if record.kind not in _DECISIVE or record.outcome is not Outcome.BEGUN:
        return []
    found = nodes_of(record)
    named = [each.partition("/") for each in record.objects]
    return found or [nodes[name] for kind, _, name in named if kind == "NodeClaim" if name in nodes]
