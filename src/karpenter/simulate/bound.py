"""The lower bound of a run: what nobody who served the same pods could have paid less than.

For each interval of the grid it is the bound that ``karpenter plan`` states, for the fewest pods of each
kind that were bound at any moment of it, on an empty cluster, each offering at the lowest price it ever
had, sold out or not. Daemons, limits, spreads and volumes are left out, which only lowers it.
"""

import math
from collections import Counter
from dataclasses import replace
from typing import Final

import msgspec

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import JsonObject
from karpenter.api.pods import Pod
from karpenter.cloud.kwok.catalogue import facts_about
from karpenter.cloud.types import InstanceType, Offering
from karpenter.kube.transport import Request
from karpenter.scheduling.bound import lower_bound
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.problem import PoolCatalogue, Problem
from karpenter.simulate.observe.levels import HOUR
from karpenter.simulate.observe.observations import Observations
from karpenter.simulate.observe.watcher import Watcher
from karpenter.simulate.seam import MachineEvent, Mark, PriceChange, View
from karpenter_sandbox.store.store import Event

_MOST_PRICED: Final = 4000  # different intervals that are priced; beyond that, no bound is stated


class Bound:
    """An observer that prices what another one has counted."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._types: tuple[InstanceType, ...] = ()

    def begin(self, view: View) -> None:
        """Take note of what is sold."""
        self._types = view.types

    def changed(self, event: Event) -> None:
        """See nothing: the watcher does."""

    def machine(self, event: MachineEvent) -> None:
        """See nothing."""

    def priced(self, change: PriceChange) -> None:
        """See nothing."""

    def marked(self, mark: Mark) -> None:
        """See nothing."""

    def wrote(self, request: Request) -> None:
        """See nothing."""

    def finish(self) -> list[float]:
        """The bound of each interval in dollars per hour."""
        return bounds(self._watcher.finish(), self._types)


def bounds(seen: Observations, types: tuple[InstanceType, ...]) -> list[float]:
    """The bound of each interval in dollars per hour; empty where there is too much to price."""
    pools = [_pool(number, obj) for number, obj in enumerate(seen.pools)]
    if not pools or not seen.crowds:
        return [0.0] * len(seen.times)
    sold = tuple(_at_lowest(kind, seen) for kind in types)
    problem = Problem(
        pods=[_pod(number, crowd.example) for number, crowd in enumerate(seen.crowds)],
        nodes=(),
        pools=[PoolCatalogue(pool, sold) for pool in pools],
        facts=facts_about(types),
    )
    compiled = CompiledProblem(problem)
    well_known = problem.facts.well_known_labels | compiled.custom_labels
    known: dict[tuple[int, ...], float] = {}
    found = []
    for counts in zip(*(crowd.fewest for crowd in seen.crowds), strict=True):
        if counts not in known:
            if len(known) >= _MOST_PRICED:
                return []
            served: Counter[PodClass] = Counter()
            for number, count in enumerate(counts):
                if count:
                    served[compiled.class_of[number]] += count
            known[counts] = lower_bound(compiled.templates, served, well_known) if served else 0.0
        found.append(known[counts])
    return found


def dollar_hours(hourly: list[float], seen: Observations) -> float:
    """The sum of all intervals."""
    ends = seen.ended
    return math.fsum(
        price * (min(begin + seen.step, ends) - begin) / HOUR
        for price, begin in zip(hourly, seen.times, strict=True)
    )


def _at_lowest(kind: InstanceType, seen: Observations) -> InstanceType:
    """A type that is never sold out, at the lowest prices there were."""

    def cheapest(offering: Offering) -> Offering:
        place = (kind.name, offering.zone, offering.capacity_type)
        price = min(offering.price, seen.lowest.get(place, offering.price))
        return replace(offering, price=price, available=True)

    return kind.with_offerings(tuple(map(cheapest, kind.offerings)))


def _pool(number: int, obj: JsonObject) -> NodePool:
    pool = msgspec.convert(obj, NodePool)
    metadata = msgspec.structs.replace(pool.metadata, name=f"{pool.metadata.name}-{number}")
    return msgspec.structs.replace(pool, metadata=metadata)


def _pod(number: int, obj: JsonObject) -> Pod:
    pod = msgspec.convert(obj, Pod)
    spec = msgspec.structs.replace(pod.spec, node_name="", volumes=(), resource_claims=())
    metadata = msgspec.structs.replace(pod.metadata, uid=f"kind-{number}")
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)
