"""The lower bound of a run: no plan that served the same pods could have cost less.

For each interval of the grid it is the bound that ``karpenter plan`` states, for the fewest pods of each
kind that were bound at any moment of it, on an empty cluster, each offering at the lowest price it ever
had, sold out or not. Daemons, limits, spreads and volumes are left out, which only lowers it.

Why no interval can cost less: at each of its moments at least these pods are on machines that run, and so
are paid for. A pod counts from its binding to a machine that the cloud has announced until it has ended
or the machine is gone, and is of a kind by what it asks for when it is bound. So the machines of that
moment are a packing of these pods and others. It is one that the bound is about:

- Pods fit. The scheduler and the kubelets see to the room that types state; the offering of each machine
  must be one that a pool sells to such a pod, by any template that a pool ever had. A kind that was bound
  to another one, such as a machine of a claim that no pool made or a node that was relabelled, does not
  count at all.
- No machine costs less than the bound takes it for: prices are the lowest of the whole run, and a machine
  that lived short is billed for more than its time, never for less.

Sums of floats are a little off, so a little is taken off each bound: one may be too low, never too high.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import JsonObject
from karpenter.api.pods import Pod
from karpenter.cloud.kwok.catalogue import facts_about
from karpenter.cloud.types import InstanceType, Offering
from karpenter.kube.transport import Request
from karpenter.scheduling.bound import lower_bound, markets_of, offering_masks
from karpenter.scheduling.compiled.offerings import members
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.problem import PoolCatalogue, Problem
from karpenter.simulate.observe.levels import HOUR, Grid
from karpenter.simulate.observe.machines import Place
from karpenter.simulate.observe.observations import Observations
from karpenter.simulate.observe.watcher import Watcher
from karpenter.simulate.seam import MachineEvent, Mark, PriceChange, View
from karpenter_sandbox.store.store import Event

_ROUNDING: Final = 1e-9  # of sums of floats in the bound, and in the cost it is compared with
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
    counted = [
        (compiled.class_of[number], crowd.fewest)
        for number, crowd in enumerate(seen.crowds)
        if crowd.places <= _sold_to(compiled.class_of[number], compiled.templates, well_known)
    ]
    if not counted:
        return [0.0] * len(seen.times)
    known: dict[tuple[int, ...], float] = {}
    found = []
    for counts in zip(*(fewest for _, fewest in counted), strict=True):
        if counts not in known:
            if len(known) >= _MOST_PRICED:
                return []
            served: Counter[PodClass] = Counter()
            for (pod_class, _), count in zip(counted, counts, strict=True):
                if count:
                    served[pod_class] += count
            least = lower_bound(compiled.templates, served, well_known) if served else 0.0
            known[counts] = least * (1 - _ROUNDING)
        found.append(known[counts])
    return found


def dollar_hours(hourly: list[float], seen: Observations) -> float:
    """The sum of all intervals."""
    grid = Grid(seen.first, seen.until, seen.step)
    return math.fsum(
        price * grid.length(number, seen.ended) / HOUR for number, price in enumerate(hourly)
    )


def _sold_to(
    pod_class: PodClass, templates: Sequence[Template], well_known: frozenset[str]
) -> frozenset[Place]:
    """The offerings that any pool sells to pods of a class."""
    markets = markets_of(templates)
    return frozenset(
        (universe.type_names[universe.type_of[bit]], offering.zone, offering.capacity_type)
        for market, mask in zip(
            markets, offering_masks(pod_class, markets, well_known), strict=True
        )
        for universe in [market[0].universe]
        for bit in members(mask)
        for offering in [universe.offerings[bit]]
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
