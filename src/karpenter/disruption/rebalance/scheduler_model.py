"""A model of kube-scheduler's default profile: where it would put pods, one after the other.

The planner knows that pods fit together; kube-scheduler decides where they go. This model follows
its filters (resources, taints, node affinity, host ports, the zones of volumes, hard spread,
affinity and anti-affinity) and its scores with their default weights. Left out are image locality,
which depends on what nodes have pulled, preemption, and devices. Ties go to the first name, where
the scheduler draws lots, so that the same input has the same answer.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from karpenter.api.pods import Pod
from karpenter.disruption.rebalance.scheduler_rules import (
    Kind,
    Load,
    Place,
    SchedulerRules,
    assumed,
)
from karpenter.model.resources import Resources, total
from karpenter.scheduling.compiled.host_ports import HostPort, conflict, host_ports
from karpenter.state.pods import key_of

_BEST: Final = 100  # the highest score of any one rule
_FULL: Final = -1  # in place of a score: there is no room
# The weights of the default profile; room (fit and balance) has a weight of one each
_TAINTS: Final = 3
_NODE_AFFINITY: Final = 2
_SPREAD: Final = 2
_POD_AFFINITY: Final = 2


@dataclass(slots=True)
class _Room:
    """What is taken of a place."""

    used: Resources
    weighed: Resources
    ports: list[HostPort]


class SchedulerModel:
    """Pods that are placed one after the other; further ones see where the earlier ones went."""

    def __init__(self, rules: SchedulerRules) -> None:
        """Begin with the pods that stay."""
        self._places = rules.places
        self._tallies = rules.tallies
        self._kind_of = rules.kind_of
        self._numbers = {place.name: number for number, place in enumerate(rules.places)}
        self._staying = rules.counts_of_staying()
        self._rooms_at_first = [_room_of(place) for place in rules.places]
        self._at_first: dict[Load, list[int]] = {}  # scores before any pod is placed
        self._begin()

    def placed(self, order: Iterable[Pod]) -> dict[str, str]:
        """Place pods in this order, beginning anew; return the place of each, empty for none."""
        self._begin()
        found: dict[str, str] = {}
        for pod in order:
            best = self.best(pod)
            found[key_of(pod)] = best[0] if best else ""
            if best:
                self.put(pod, best[0])
        return found

    def best(self, pod: Pod) -> list[str]:
        """The places with the highest score for a pod, by name; none when it fits nowhere."""
        kind = self._kind_of[key_of(pod)]
        room = self._room_scores(kind.load)
        feasible = self._within_rules(kind, [n for n in kind.open if room[n] != _FULL])
        if not feasible:
            return []
        scores = [room[number] for number in feasible]
        self._add_preferences(kind, feasible, scores)
        highest = max(scores)
        chosen = [n for n, score in zip(feasible, scores, strict=True) if score == highest]
        return [self._places[number].name for number in chosen]

    def put(self, pod: Pod, place: str) -> None:
        """Count a pod where it went."""
        kind, number = self._kind_of[key_of(pod)], self._numbers[place]
        room = self._rooms[number]
        room.used += kind.load.needs
        room.weighed += kind.load.weighed
        room.ports += kind.load.ports
        self._filled.append(number)
        for each, times in kind.counted:
            domain = self._tallies[each].domain_of[number]
            if domain is not None:
                self._counts[each][domain] += times

    def _begin(self) -> None:
        self._rooms = [replace(room, ports=[*room.ports]) for room in self._rooms_at_first]
        self._counts = [dict(counts) for counts in self._staying]
        self._filled: list[int] = []  # places that took a pod, one after the other
        self._scores: dict[Load, tuple[int, list[int]]] = {}  # -> how many were filled then

    def _room_scores(self, load: Load) -> list[int]:
        """The room that a load leaves on each place; only places that took a pod are new."""
        known = self._scores.get(load)
        if known is None:
            if load not in self._at_first:
                self._at_first[load] = [
                    _room_score(load, room, place.allocatable)
                    for room, place in zip(self._rooms_at_first, self._places, strict=True)
                ]
            known = 0, list(self._at_first[load])
        seen, scores = known
        for number in set(self._filled[seen:]):
            scores[number] = _room_score(
                load, self._rooms[number], self._places[number].allocatable
            )
        self._scores[load] = len(self._filled), scores
        return scores

    def _within_rules(self, kind: Kind, feasible: list[int]) -> list[int]:
        for spread in kind.hard:
            domain_of, counts = self._tallies[spread.tally].domain_of, self._counts[spread.tally]
            is_whole = len(counts) >= spread.min_domains
            least = min(counts.values(), default=0) if is_whole else 0
            most = spread.max_skew + least - spread.counts_itself
            feasible = [
                number
                for number in feasible
                if (domain := domain_of[number]) is not None and counts[domain] <= most
            ]
        if kind.near:
            feasible = self._near(kind, feasible)
        for each in kind.far:
            domain_of, counts = self._tallies[each].domain_of, self._counts[each]
            feasible = [
                number
                for number in feasible
                if (domain := domain_of[number]) is None or not counts[domain]
            ]
        return feasible

    def _near(self, kind: Kind, feasible: list[int]) -> list[int]:
        near = [(self._tallies[each].domain_of, self._counts[each]) for each in kind.near]
        # the first pod of a set with affinity to itself may go to any domain
        is_first = kind.is_near_itself and not any(any(counts.values()) for _, counts in near)
        return [
            number
            for number in feasible
            if all(
                (domain := domain_of[number]) is not None and (is_first or counts[domain])
                for domain_of, counts in near
            )
        ]

    def _add_preferences(self, kind: Kind, feasible: list[int], scores: list[int]) -> None:
        taints = [kind.discouraging[number] for number in feasible]
        wishes = [kind.wishes[number] for number in feasible]
        most_taints, most_wishes = max(taints), max(wishes)
        for index in range(len(feasible)):
            if most_taints:
                scores[index] += _TAINTS * (_BEST - _BEST * taints[index] // most_taints)
            if most_wishes:
                scores[index] += _NODE_AFFINITY * (_BEST * wishes[index] // most_wishes)
        if kind.soft:
            for index, score in enumerate(self._spread_scores(kind, feasible)):
                scores[index] += _SPREAD * score
        if kind.drawn:
            for index, score in enumerate(self._company_scores(kind, feasible)):
                scores[index] += _POD_AFFINITY * score

    def _spread_scores(self, kind: Kind, feasible: list[int]) -> list[int]:
        """The fewer pods of its own are in the domains of a place, the better."""
        tallies = [self._tallies[spread.tally] for spread in kind.soft]
        counted = [
            not kind.soft_needs_labels or all(t.domain_of[number] is not None for t in tallies)
            for number in feasible
        ]
        among = [number for number, counts in zip(feasible, counted, strict=True) if counts]
        weights = [
            math.log(
                (len(among) if t.is_host else len({t.domain_of[number] for number in among})) + 2
            )
            for t in tallies
        ]
        costs: list[int | None] = []
        for number, counts in zip(feasible, counted, strict=True):
            cost = 0.0
            for spread, tally, weight in zip(kind.soft, tallies, weights, strict=True):
                domain = tally.domain_of[number]
                if domain is not None:
                    pods = self._counts[spread.tally][domain]
                    cost += pods * weight + (spread.max_skew - 1)
            costs.append(math.floor(cost + 0.5) if counts else None)
        known = [cost for cost in costs if cost is not None]
        highest, lowest = max(known, default=0), min(known, default=0)
        return [
            0
            if cost is None
            else _BEST * (highest + lowest - cost) // highest
            if highest
            else _BEST
            for cost in costs
        ]

    def _company_scores(self, kind: Kind, feasible: list[int]) -> list[int]:
        """Preferred affinity and anti-affinity, its own and that of pods that are there."""
        raw = [0] * len(feasible)
        for each, weight in kind.drawn:
            domain_of, counts = self._tallies[each].domain_of, self._counts[each]
            for index, number in enumerate(feasible):
                domain = domain_of[number]
                if domain is not None:
                    raw[index] += weight * counts[domain]
        highest, lowest = max(raw), min(raw)
        if highest == lowest:
            return [0] * len(raw)
        return [int(_BEST * ((value - lowest) / (highest - lowest))) for value in raw]


def _room_of(place: Place) -> _Room:
    used = place.requested + place.reserved
    ports = [port for pod in place.pods for port in host_ports(pod.spec)]
    return _Room(used, used + total(map(assumed, place.pods)), ports)


def _room_score(load: Load, room: _Room, has: Resources) -> int:
    """How much room a load would leave, and how evenly, each up to 100; or that it does not fit."""
    if any(amount > has[name] - room.used[name] for name, amount in load.amounts):
        return _FULL
    if load.ports and conflict(load.ports, room.ports) is not None:
        return _FULL
    needs, weighed_needs = load.needs, load.weighed
    parts = [
        _BEST * max(0, amount - taken) // amount
        for amount, taken in (
            (has.cpu, room.weighed.cpu + weighed_needs.cpu),
            (has.memory, room.weighed.memory + weighed_needs.memory),
        )
        if amount
    ]
    score = sum(parts) // len(parts) if parts else 0
    if not (needs.cpu or needs.memory):
        return score
    if not (has.cpu and has.memory):
        return score + _BEST
    cpu = min((room.used.cpu + needs.cpu) / has.cpu, 1.0)
    memory = min((room.used.memory + needs.memory) / has.memory, 1.0)
    return score + int((1 - abs(cpu - memory) / 2) * _BEST)
