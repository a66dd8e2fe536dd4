"""Finds the class a pod belongs to, and works out the rules of a class that is new."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from random import Random
from typing import Final, Protocol

from karpenter_sandbox.matching import Selector
from karpenter_sandbox.scheduling.classes import PodClass
from karpenter_sandbox.scheduling.cluster import Cluster, Holder, PodCounter
from karpenter_sandbox.scheduling.shapes import (
    AffinityTerm,
    Labels,
    PodInfo,
    Shape,
    SpreadConstraint,
)
from karpenter_sandbox.scheduling.topology import HOSTNAME, Rules, Spread, Tally
from karpenter_sandbox.scheduling.volumes import Storage, VolumeNeeds

ZONE: Final = "topology.kubernetes.io/zone"
_DEFAULT_SKEWS: Final = ((HOSTNAME, 3), (ZONE, 5))  # how pods of one workload are spread
_REMEMBERED: Final = 96


class Workloads(Protocol):
    """Which pods belong to one workload, for default spreading."""

    def selector_of(self, pod: PodInfo) -> Selector | None:
        """The selector of the services and the controller a pod belongs to, if any."""


class Classes:
    """The classes in use, most recent last."""

    def __init__(
        self, cluster: Cluster, storage: Storage, workloads: Workloads, random: Random
    ) -> None:
        self._cluster = cluster
        self._storage = storage
        self._workloads = workloads
        self._random = random
        self._classes: OrderedDict[Hashable, PodClass] = OrderedDict()
        self._spare: dict[Hashable, tuple[SpreadConstraint, ...]] = {}

    def of(self, pod: PodInfo) -> PodClass:
        """The class of a pod, up to date."""
        shape = pod.shape
        needs = self._storage.needs(pod)
        soft, needs_labels = shape.soft_spread, True
        if not shape.has_spread and (selector := self._workloads.selector_of(pod)):
            soft, needs_labels = self._default_spread(selector), False
        holders = self._cluster.holders_matching(shape.namespace, pod.labels)
        is_near = bool(shape.affinity) and all(
            self._cluster.is_meant(term, shape.namespace, pod.labels) for term in shape.affinity
        )
        itself = tuple(c.selector.matches(pod.labels) for c in shape.hard_spread)
        place = shape.namespace if soft else ""
        key = (shape.placement, needs, soft, place, holders, is_near, itself, self._cluster.epoch)
        known = self._classes.get(key)
        if known is None:
            rules, counters = self._rules(shape, pod.labels, soft, holders)
            rules.soft_needs_labels = needs_labels
            rules.is_near_itself = is_near
            known = self._add(key, shape, needs, rules, counters)
        else:
            self._classes.move_to_end(key)
        known.catch_up()
        return known

    def _add(
        self,
        key: Hashable,
        shape: Shape,
        needs: VolumeNeeds,
        rules: Rules,
        counters: list[PodCounter],
    ) -> PodClass:
        added = PodClass(self._cluster, shape, needs, rules, counters, self._random)
        self._classes[key] = added
        outdated = [k for k, c in self._classes.items() if c.epoch != self._cluster.epoch]
        for old in outdated:
            del self._classes[old]
        while len(self._classes) > _REMEMBERED:
            _, dropped = self._classes.popitem(last=False)
            self._cluster.release(dropped.counters)
        return added

    def _default_spread(self, selector: Selector) -> tuple[SpreadConstraint, ...]:
        spread = self._spare.get(selector)
        if spread is None:
            spread = self._spare[selector] = tuple(
                SpreadConstraint(key, max_skew, 1, selector) for key, max_skew in _DEFAULT_SKEWS
            )
            if len(self._spare) > _REMEMBERED:
                self._spare.pop(next(iter(self._spare)))
        return spread

    def _rules(
        self,
        shape: Shape,
        labels: Labels,
        soft: tuple[SpreadConstraint, ...],
        holders: tuple[Holder, ...],
    ) -> tuple[Rules, list[PodCounter]]:
        counters: list[PodCounter] = []
        rules = Rules(
            hard=self._spreads(shape, shape.hard_spread, labels, counters, is_hard=True),
            soft=self._spreads(shape, soft, labels, counters, is_hard=False),
            far=tuple(self._meant((term,), term, 0, counters) for term in shape.anti_affinity),
            others_far=tuple(_held(holder) for holder in holders if holder.role == "anti"),
        )
        # a pod counts for affinity only if it matches every affinity term
        rules.near = tuple(
            self._meant(shape.affinity, term, 0, counters) for term in shape.affinity
        )
        rules.preferences = (
            *(self._meant((w.term,), w.term, w.weight, counters) for w in shape.preferences),
            *(_held(holder) for holder in holders if holder.role != "anti"),
        )
        return rules, counters

    def _spreads(
        self,
        shape: Shape,
        constraints: tuple[SpreadConstraint, ...],
        labels: Labels,
        counters: list[PodCounter],
        *,
        is_hard: bool,
    ) -> tuple[Spread, ...]:
        spreads = []
        for constraint in constraints:
            counter = self._cluster.spread_counter(shape.namespace, constraint.selector)
            counters.append(counter)
            tally = Tally(
                constraint.topology_key,
                counter.by_node,
                _once(counter.asks),
                constraint=constraint,
                is_hard=is_hard,
            )
            spreads.append(Spread(constraint, tally, constraint.selector.matches(labels)))
        return tuple(spreads)

    def _meant(
        self,
        terms: tuple[AffinityTerm, ...],
        term: AffinityTerm,
        weight: int,
        counters: list[PodCounter],
    ) -> Tally:
        counter = self._cluster.affinity_counter(terms)
        counters.append(counter)
        return Tally(term.topology_key, counter.by_node, _once(counter.asks), weight=weight)


def _held(holder: Holder) -> Tally:
    return Tally(holder.term.topology_key, holder.by_node, holder.times_in, weight=holder.weight)


def _once(asks: Callable[[PodInfo], bool]) -> Callable[[PodInfo], int]:
    return lambda pod: int(asks(pod))
