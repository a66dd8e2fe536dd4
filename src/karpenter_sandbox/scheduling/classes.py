"""Pods that are alike, and where they can go: kept up to date node by node.

Placing a pod means computing for every node whether it fits and with which score. Pods that are
alike get the same results, and placing one of them changes the results of few nodes. So a
``PodClass`` caches for every node either why it does not fit or which *group* it is in and how much
room it leaves, and recomputes the nodes that changed since its last use. Rules across nodes
(spreading, affinity, preferences) have the same result for every node of a group, so they are
evaluated per group.

Invariant: after ``catch_up`` every node of the cluster stands either in exactly one group or under
exactly one failure, and every tally holds the counts of now.
"""

import heapq
from collections.abc import Iterator
from random import Random
from typing import Final

from karpenter_sandbox.scheduling import fitting
from karpenter_sandbox.scheduling.cluster import Cluster, PodCounter
from karpenter_sandbox.scheduling.nodes import NodeFacts, NodeState
from karpenter_sandbox.scheduling.shapes import PodInfo, Shape
from karpenter_sandbox.scheduling.topology import (
    BEST,
    HOSTNAME,
    GroupKey,
    Rules,
    Tally,
    TopologyCounts,
    preference_scores,
)
from karpenter_sandbox.scheduling.volumes import VolumeNeeds
from karpenter_sandbox.scheduling.wording import Failure

# The places of a group's key that every class has: PreferNoSchedule taints, node preferences
FIXED_PLACES: Final = 2
_TAINT_WEIGHT: Final = 3
# Heaps keep outdated elements until these are the larger part
_OUTDATED_SHARE: Final = 4
_OUTDATED_MIN: Final = 64
_NODE_PREFERENCE_WEIGHT: Final = 2


class Entry:
    """One node, as a class of pods sees it."""

    __slots__ = ("base", "counts", "facts", "failure", "fixed", "group", "host", "stamp", "values")

    def __init__(self, facts: NodeFacts, base: GroupKey, tallies: int) -> None:
        self.facts = facts
        self.host = facts.labels.get(HOSTNAME)
        self.base = base  # the part of its group's key that no pod changes
        self.fixed: Failure | None = None  # a failure that no pod can change
        self.failure: Failure | None = None
        self.group: Group | None = None
        self.stamp = 0  # identifies its current heap element; others are outdated
        self.values: tuple[str | None, ...] = (None,) * tallies  # domain, if it counts there
        self.counts = [0] * tallies  # pods it contributes to each tally


class Group:
    """Nodes that are equal for all rules across nodes, in a heap with the roomiest on top."""

    __slots__ = ("heap", "key", "size")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.size = 0
        self.heap: list[tuple[int, float, int, str]] = []  # -room, tie, stamp, node


class PodClass:
    """A set of pods that are alike, and what every node means to them."""

    def __init__(
        self,
        cluster: Cluster,
        shape: Shape,
        needs: VolumeNeeds,
        rules: Rules,
        counters: list[PodCounter],
        random: Random,
    ) -> None:
        self.shape = shape
        self.needs = needs
        self.rules = rules
        self.counters = counters
        self.epoch = cluster.epoch
        self.failures: dict[Failure, int] = {}  # -> nodes that fail for it by themselves
        self._cluster = cluster
        self._random = random
        self._tallies = rules.tallies()
        self._domain_places = _domain_places(self._tallies)
        self._host_tallies = [tally for tally in self._tallies if tally.is_host]
        self._entries: dict[str, Entry] = {}
        self._groups: dict[GroupKey, Group] = {}
        self._hosts: dict[str, dict[str, None]] = {}  # hostname -> its nodes
        self._stamp = 0
        self._position = -1

    def catch_up(self) -> None:
        """Recompute the nodes that changed since the last call."""
        changed = self._cluster.changed_since(self._position) if self._position >= 0 else None
        if changed is None:
            changed = dict.fromkeys([*self._entries, *self._cluster.nodes])
        for name in changed:
            self._look_at(name)
        self._position = self._cluster.position

    def groups(self) -> Iterator[Group]:
        """The groups that have nodes."""
        for group in self._groups.values():
            if group.size:
                yield group

    def best(self, groups: list[Group]) -> str:
        """The node to choose, of the nodes of ``groups``."""
        best: tuple[int, float, str] | None = None
        for group, worth in zip(groups, self._worth(groups), strict=True):
            room, tie, _, name = self._top(group)
            candidate = (room - worth, tie, name)
            if best is None or candidate < best:
                best = candidate
        assert best is not None
        return best[2]

    def failure_of(self, name: str, lookout: TopologyCounts) -> Failure | None:
        """Why a pod of this class does not fit on a node."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        return lookout.failure(entry.group.key) if entry.group is not None else entry.failure

    def resolvable(self, lookout: TopologyCounts) -> list[str]:
        """Nodes that fail for a reason that might go away with some of their pods."""
        rejected = {group.key for group in self.groups() if _is_open(lookout.failure(group.key))}
        names = []
        for name, entry in self._entries.items():
            if entry.group is not None:
                if entry.group.key in rejected:
                    names.append(name)
            elif _is_open(entry.failure):
                names.append(name)
        return names

    def without(self, node: NodeState, pods: list[PodInfo]) -> Failure | None:
        """Why a pod would not fit on ``node`` without ``pods``, which it no longer counts."""
        failure = fitting.dynamic_failure(self.shape, self.needs, node)
        if failure is not None or not self._tallies:
            return failure
        entry = self._entries[node.facts.name]
        shifts = {
            id(tally): -sum(tally.counts(pod) for pod in pods)
            for index, tally in enumerate(self._tallies)
            if entry.values[index] is not None
        }
        return TopologyCounts(self.rules, shifts).failure(self._key(entry))

    def _worth(self, groups: list[Group]) -> list[int]:
        """The score that a node's group adds to its room score."""
        worth = preference_scores(self.rules, [(group.key, group.size) for group in groups])
        taints = [_number(group.key[0]) for group in groups]
        scores = [_number(group.key[1]) for group in groups]
        most_taints, most_score = max(taints), max(scores)
        for index in range(len(groups)):
            if most_taints:
                worth[index] += _TAINT_WEIGHT * (BEST - BEST * taints[index] // most_taints)
            if most_score:
                worth[index] += _NODE_PREFERENCE_WEIGHT * (BEST * scores[index] // most_score)
        return worth

    def _top(self, group: Group) -> tuple[int, float, int, str]:
        heap = group.heap
        while not self._is_current(heap[0]):
            heapq.heappop(heap)
        return heap[0]

    def _look_at(self, name: str) -> None:
        node = self._cluster.nodes.get(name)
        entry = self._entries.get(name)
        if entry is not None and (node is None or entry.facts is not node.facts):
            self._forget(name, entry)
            entry = None
        if node is None:
            return
        if entry is None:
            entry = self._entries[name] = self._enter(node.facts)
        if self._tallies and self._count(name, entry):
            self._place_all(entry.host)
        self._place(node, entry)

    def _place_all(self, host: str | None) -> None:
        """Place the nodes of a hostname again: they share a count, and it changed."""
        for name in self._hosts.get(host or "", ()):
            node = self._cluster.nodes.get(name)
            if node is not None:  # a deleted node is handled later in this round
                self._place(node, self._entries[name])

    def _enter(self, facts: NodeFacts) -> Entry:
        base = (
            fitting.discouraging_taints(self.shape, facts),
            fitting.node_preference(self.shape, facts),
            *(facts.labels.get(name) for name in self._domain_places),
        )
        entry = Entry(facts, base, len(self._tallies))
        entry.fixed = fitting.static_failure(self.shape, facts)
        if not self._tallies:
            return entry
        values: list[str | None] = []
        for tally in self._tallies:
            value = facts.labels.get(tally.key)
            if value is not None and self._counts(tally, facts):
                values.append(value)
                tally.domains[value] = tally.domains.get(value, 0) + 1
                tally.sums.setdefault(value, 0)
            else:
                values.append(None)
        entry.values = tuple(values)
        if entry.host is not None and self._host_tallies:
            self._hosts.setdefault(entry.host, {})[facts.name] = None
        return entry

    def _counts(self, tally: Tally, facts: NodeFacts) -> bool:
        """Whether the pods of a node count; spreading omits nodes that its policies exclude."""
        constraint = tally.constraint
        if constraint is None:
            return True
        needed = self.rules.hard if tally.is_hard else self.rules.soft
        if (tally.is_hard or self.rules.soft_needs_labels) and not all(
            spread.constraint.topology_key in facts.labels for spread in needed
        ):
            return False
        if constraint.honours_affinity and not fitting.matches_affinity(self.shape, facts):
            return False
        return not constraint.honours_taints or fitting.tolerates(self.shape.tolerations, facts)

    def _forget(self, name: str, entry: Entry) -> None:
        for index, tally in enumerate(self._tallies):
            value = entry.values[index]
            if value is None:
                continue
            tally.sums[value] -= entry.counts[index]
            tally.domains[value] -= 1
            if not tally.domains[value]:
                del tally.domains[value], tally.sums[value]
        self._withdraw(entry)
        del self._entries[name]
        siblings = self._hosts.get(entry.host or "", {})
        if name in siblings:
            del siblings[name]
            if siblings:
                self._place_all(entry.host)
            else:
                del self._hosts[entry.host or ""]

    def _count(self, name: str, entry: Entry) -> bool:
        """Bring the tallies up to date; say whether that changes the group of other nodes."""
        has_siblings = False
        for index, tally in enumerate(self._tallies):
            value = entry.values[index]
            if value is None:
                continue
            count = tally.by_node.get(name, 0)
            if count != entry.counts[index]:
                tally.sums[value] += count - entry.counts[index]
                entry.counts[index] = count
                if tally.is_host and len(self._hosts[value]) > 1:
                    has_siblings = True
        return has_siblings

    def _place(self, node: NodeState, entry: Entry) -> None:
        failure = entry.fixed or fitting.dynamic_failure(self.shape, self.needs, node)
        if failure is not None:
            if failure != entry.failure:
                self._withdraw(entry)
                entry.failure = failure
                self.failures[failure] = self.failures.get(failure, 0) + 1
            return
        key = self._key(entry)
        group = entry.group
        if group is None or group.key != key:
            self._withdraw(entry)
            group = entry.group = self._groups.get(key) or self._new_group(key)
            group.size += 1
        # pushed again even if unchanged: ties are broken separately for every pod
        self._stamp = entry.stamp = self._stamp + 1
        room = fitting.room_score(self.shape.requests, node)
        heapq.heappush(group.heap, (-room, self._random.random(), entry.stamp, node.facts.name))
        if len(group.heap) > _OUTDATED_SHARE * group.size + _OUTDATED_MIN:
            self._sweep(group)

    def _new_group(self, key: GroupKey) -> Group:
        group = self._groups[key] = Group(key)
        return group

    def _withdraw(self, entry: Entry) -> None:
        if entry.failure is not None:
            self.failures[entry.failure] -= 1
            if not self.failures[entry.failure]:
                del self.failures[entry.failure]
            entry.failure = None
        group = entry.group
        if group is not None:
            group.size -= 1
            entry.group = None
            entry.stamp = 0
            if not group.size:
                del self._groups[group.key]

    def _sweep(self, group: Group) -> None:
        """Drop what is outdated from a group's heap."""
        group.heap = [element for element in group.heap if self._is_current(element)]
        heapq.heapify(group.heap)

    def _is_current(self, element: tuple[int, float, int, str]) -> bool:
        entry = self._entries.get(element[3])
        return entry is not None and entry.stamp == element[2]

    def _key(self, entry: Entry) -> GroupKey:
        tallies, host = self._host_tallies, entry.host
        if not tallies:
            return entry.base
        if host is None:
            return entry.base + (None,) * len(tallies)
        if len(tallies) == 1:  # fast path for the common case
            return (*entry.base, tallies[0].sums.get(host, 0))
        return entry.base + tuple([tally.sums.get(host, 0) for tally in tallies])


def _is_open(failure: Failure | None) -> bool:
    return failure is not None and not failure.is_final


def _domain_places(tallies: list[Tally]) -> list[str]:
    """Topology keys in the order of their places, without hostnames; sets the tallies' places."""
    names = list(dict.fromkeys(tally.key for tally in tallies if not tally.is_host))
    place = FIXED_PLACES + len(names)
    for tally in tallies:
        if tally.is_host:
            tally.place = place
            place += 1
        else:
            tally.place = FIXED_PLACES + names.index(tally.key)
    return names


def _number(part: object) -> int:
    assert isinstance(part, int)
    return part
