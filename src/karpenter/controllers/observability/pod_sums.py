"""Sums about pods by pool, zone and capacity type, in place of series for every pod."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.controllers.context import Context
from karpenter.controllers.observability.node_sums import (
    PLACE_LABELS,
    Place,
    place_of,
    place_text,
)
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.telemetry.exposition import AT_A_TIME, escaped, number
from karpenter.telemetry.family import Family

_NOWHERE: Final[Place] = ("", "", "")
_PENDING: Final = "Pending"
_UNSTARTED: Final = "unstarted"
_UNBOUND: Final = "unbound"
_UNDECIDED: Final = "undecided"
_PODS: Final = Family.of_pools(
    "karpenter_nodepools_pods",
    "How many pods are on nodes of a pool in a zone; a pod without a node has empty labels.",
    f"{PLACE_LABELS} phase",
)
_WAITING: Final = Family.of_pools(
    "karpenter_pods_waiting",
    "Pending pods that do not run (unstarted), have no node (unbound), or about which nothing was"
    " decided yet (undecided).",
    "state",
)
_LONGEST: Final = Family.of_pools(
    "karpenter_pods_waiting_longest_seconds",
    "How long the pod that has waited longest has done so; 0 if none waits.",
    "state",
)
POD_SUM_FAMILIES: Final = (_PODS, _WAITING, _LONGEST)


class PodSums:
    """The source of the sums about pods."""

    def __init__(self, context: Context, planned: PlannedPods) -> None:
        self._context = context
        self._planned = planned

    def lines(self) -> Iterable[str]:
        """All sums."""
        nodes, now = self._context.mirror(Node), self._context.clock.now()
        places: dict[str, Place] = {"": _NOWHERE}  # by name of the node
        pods: Counter[tuple[Place, str]] = Counter()
        waits: dict[str, list[float]] = {_UNSTARTED: [], _UNBOUND: [], _UNDECIDED: []}
        for count, pod in enumerate(self._context.mirror(Pod).list(), start=1):
            name = pod.spec.node_name
            place = places.get(name)
            if place is None:
                node = nodes.get(name)
                place = _NOWHERE if node is None else place_of(node.metadata.labels)
                places[name] = place
            pods[place, pod.status.phase] += 1
            if pod.status.phase == _PENDING:
                for state, since in self._waits(pod):
                    waits[state].append((now - since).total_seconds())
            if count % AT_A_TIME == 0:
                yield ""
        yield _PODS.text(
            f'{{{place_text(place)},phase="{escaped(phase)}"}} {count}'
            for (place, phase), count in pods.items()
        )
        yield _WAITING.text(f'{{state="{state}"}} {len(each)}' for state, each in waits.items())
        yield _LONGEST.text(
            f'{{state="{state}"}} {number(max(each, default=0.0))}' for state, each in waits.items()
        )

    def _waits(self, pod: Pod) -> Iterable[tuple[str, datetime]]:
        """What a pending pod waits for, and since when."""
        created = pod.metadata.creation_timestamp
        if created is not None:
            yield _UNSTARTED, created
            if not pod.spec.node_name:
                yield _UNBOUND, created
        times = self._planned.times_of(pod.metadata.uid)
        if not pod.spec.node_name and times is not None and times.decided is None:
            yield _UNDECIDED, times.seen
