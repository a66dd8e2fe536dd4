"""Which pods a set deletes first when it scales down.

The order is that of Kubernetes: pods that serve least are deleted first. Ages are compared on a
logarithmic scale; among pods of a similar age the uid decides, so that the youngest is not always
the one that is deleted.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.controllers.pods import (
    created,
    deletion_cost,
    is_active,
    is_ready,
    node_of,
    phase,
    ready_since,
    restarts,
)

_PHASE_ORDER: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOSECONDS: Final = 1_000_000_000


def victims(
    pods: Sequence[JsonObject], related: Iterable[JsonObject], count: int, now: datetime
) -> list[JsonObject]:
    """The ``count`` pods to delete first.

    Args:
        pods: the active pods of the set.
        related: the pods of all sets with the same owner, which should stay spread over nodes.
        count: how many have to go.
        now: from when ages are counted.
    """
    if count >= len(pods):
        return list(pods)
    on_node = Counter(node_of(pod) for pod in related if is_active(pod))
    ranked = sorted(pods, key=lambda pod: _rank(pod, on_node[node_of(pod)], now))
    return ranked[:count]


def _rank(pod: JsonObject, neighbours: int, now: datetime) -> tuple[object, ...]:
    is_up = is_ready(pod)
    since = ready_since(pod)
    return (
        bool(node_of(pod)),  # not placed yet
        _PHASE_ORDER.get(phase(pod), 2),  # not running yet
        is_up,  # not ready
        deletion_cost(pod),
        -neighbours,  # more related pods on its node
        _magnitude(since, now) if is_up else 0,  # ready for a shorter time
        -restarts(pod),  # restarted more often
        _magnitude(created(pod), now),  # younger
        pod["metadata"]["uid"],
    )


def _magnitude(moment: datetime | None, now: datetime) -> int:
    if moment is None:
        return -2
    age = (now - moment).total_seconds() * _NANOSECONDS
    return int(math.log2(age)) if age > 0 else -1
