"""What observers saw in a run, as values that can be sent to another process."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from karpenter.api.meta import JsonObject
from karpenter.simulate.observe.machines import Life, Place
from karpenter.simulate.observe.pods import Eviction, Waiting


@dataclass(frozen=True, slots=True)
class Crowds:
    """Pods of one kind on machines of the cloud: an example, and the fewest in each interval."""

    example: JsonObject
    places: frozenset[Place]  # the offerings of those machines
    fewest: list[int]


@dataclass(frozen=True, slots=True)
class MarkSeen:
    """A step of the timeline as it happened."""

    at: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class WorkloadSeen:
    """A workload at the end: the lowest share of its wanted pods that were Ready."""

    name: str
    lowest_ready: float | None


@dataclass(frozen=True, slots=True)
class Observations:
    """One run."""

    start: datetime
    until: float
    first: float  # seconds from the start until figures begin: the warm-up
    ended: float
    step: float  # of the grid
    times: list[float]
    lives: list[Life]
    fixed_node_hours: float
    pending: list[float]
    binding: list[float]
    created: Mapping[str, float]  # pod -> when
    unscheduled: list[Waiting]
    evictions: list[Eviction]
    workloads: list[WorkloadSeen]
    integrals: Mapping[str, float]  # amount x seconds
    values: Mapping[str, float]  # at this moment
    means: Mapping[str, list[float]]
    peaks: Mapping[str, list[float]]
    crowds: list[Crowds]
    pool_ends: Mapping[str, float]  # NodePools that were deleted, and when
    marks: list[MarkSeen]
    image_bytes: int
    pools: list[JsonObject]  # every version of the template of every NodePool
    lowest: Mapping[Place, float]  # offering -> its lowest price, where it moved
