"""Constraints between pods: spreading, affinity and anti-affinity, per topology domain.

All of it depends on a node only through the values of some of its labels, and through the number
of pods that matter on it. Nodes that agree in these are one *group*: what holds for one of them
holds for all. A group is a tuple, and a ``Tally`` says which place in it belongs to which count:

* for ``kubernetes.io/hostname``, whose every value is a node, the place holds the count itself;
* for any other topology key it holds the value, and ``Tally.sums`` has the count.

In both cases None means that the node lacks the label.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from karpenter_sandbox.scheduling import wording
from karpenter_sandbox.scheduling.shapes import PodInfo, SpreadConstraint
from karpenter_sandbox.scheduling.wording import Failure

HOSTNAME: Final = "kubernetes.io/hostname"
GroupKey = tuple[object, ...]
BEST: Final = 100  # the highest score any one rule gives


@dataclass(eq=False, slots=True)
class Tally:
    """How many pods lie in each domain of a topology key, of the pods that one rule is about."""

    key: str
    by_node: Mapping[str, int]
    counts: Callable[[PodInfo], int]  # how often a pod is counted
    place: int = 0  # where in a group's key its value or count stands
    constraint: SpreadConstraint | None = None  # of a rule that is about spreading
    is_hard: bool = True
    weight: int = 0  # of a preference
    sums: dict[str, int] = field(default_factory=dict)  # domain -> pods
    domains: dict[str, int] = field(default_factory=dict)  # domain -> nodes that count
    is_host: bool = False  # whether every domain is one node

    def __post_init__(self) -> None:
        self.is_host = self.key == HOSTNAME

    def count(self, group: GroupKey) -> int | None:
        """Pods in the group's domain, or None when it is in no domain."""
        value = group[self.place]
        if value is None:
            return None
        if isinstance(value, int):
            return value
        assert isinstance(value, str)
        return self.sums.get(value, 0)


@dataclass(eq=False, slots=True)
class Spread:
    """One spread constraint, and whether its selector matches the pod itself."""

    constraint: SpreadConstraint
    tally: Tally
    counts_itself: bool


@dataclass(eq=False, slots=True)
class Rules:
    """Everything a class of pods, and the pods already placed, demand across nodes."""

    hard: tuple[Spread, ...] = ()
    soft: tuple[Spread, ...] = ()
    soft_needs_labels: bool = True
    near: tuple[Tally, ...] = ()
    is_near_itself: bool = False  # the pod matches its own affinity terms
    far: tuple[Tally, ...] = ()
    others_far: tuple[Tally, ...] = ()
    preferences: tuple[Tally, ...] = ()

    def tallies(self) -> list[Tally]:
        """All counts the rules are made of."""
        spreads = [spread.tally for spread in (*self.hard, *self.soft)]
        return [*spreads, *self.near, *self.far, *self.others_far, *self.preferences]


class TopologyCounts:
    """The rules at one moment: what the counts are, looked up once for all groups.

    ``shifts`` are corrections to the counts, for preemption, which evaluates a node without some of
    its pods.
    """

    def __init__(self, rules: Rules, shifts: Mapping[int, int] | None = None) -> None:
        self._rules = rules
        self._shifts = shifts or {}
        self._least = [_least(spread) for spread in rules.hard]
        self._is_lonely = bool(rules.near) and not any(any(t.sums.values()) for t in rules.near)

    def failure(self, group: GroupKey) -> Failure | None:
        """Why the pod does not fit on the nodes of a group, or None when it does."""
        rules = self._rules
        for spread, least in zip(rules.hard, self._least, strict=True):
            count = self._count(spread.tally, group)
            if count is None:
                return wording.SPREAD_LABEL
            # the victims of preemption are in this domain, which may become the emptiest
            emptiest = min(least, count) if self._shifts else least
            if count + spread.counts_itself - emptiest > spread.constraint.max_skew:
                return wording.SPREAD
        if rules.near and not self._is_near(group):
            return wording.AFFINITY
        if any(self._count(tally, group) for tally in rules.far):
            return wording.ANTI_AFFINITY
        if any(self._count(tally, group) for tally in rules.others_far):
            return wording.OTHERS_ANTI_AFFINITY
        return None

    def _is_near(self, group: GroupKey) -> bool:
        counts = [self._count(tally, group) for tally in self._rules.near]
        if None in counts:
            return False
        # the first pod of a set with affinity to itself may go to any domain
        return all(counts) or (self._is_lonely and self._rules.is_near_itself)

    def _count(self, tally: Tally, group: GroupKey) -> int | None:
        count = tally.count(group)
        if count is None or not self._shifts:
            return count
        return count + self._shifts.get(id(tally), 0)


def _least(spread: Spread) -> int:
    """Pods in the emptiest domain; none when there are fewer domains than asked for."""
    sums = spread.tally.sums
    if len(sums) < spread.constraint.min_domains:
        return 0
    return min(sums.values(), default=0)


def preference_scores(rules: Rules, groups: Sequence[tuple[GroupKey, int]]) -> list[int]:
    """The score of inter-pod preferences for each group, given as key and number of nodes.

    The result holds spreading and affinity with the weight that the scheduler gives both (2).
    """
    scores = [0] * len(groups)
    if rules.soft:
        for index, score in enumerate(_spread_scores(rules, groups)):
            scores[index] += 2 * score
    if rules.preferences:
        for index, score in enumerate(_preference_scores(rules, groups)):
            scores[index] += 2 * score
    return scores


def _spread_scores(rules: Rules, groups: Sequence[tuple[GroupKey, int]]) -> list[int]:
    counted = [
        not rules.soft_needs_labels
        or all(group[spread.tally.place] is not None for spread in rules.soft)
        for group, _ in groups
    ]
    weights = [_domain_weight(spread.tally, groups, counted) for spread in rules.soft]
    raw = [
        _spread_cost(rules.soft, weights, group) if is_counted else None
        for (group, _), is_counted in zip(groups, counted, strict=True)
    ]
    known = [cost for cost in raw if cost is not None]
    highest, lowest = max(known, default=0), min(known, default=0)
    return [
        0 if cost is None else BEST * (highest + lowest - cost) // highest if highest else BEST
        for cost in raw
    ]


def _domain_weight(
    tally: Tally, groups: Sequence[tuple[GroupKey, int]], counted: Sequence[bool]
) -> float:
    """Topologies with many domains count more, because each domain holds few pods."""
    nodes = [entry for entry, is_counted in zip(groups, counted, strict=True) if is_counted]
    if tally.is_host:
        size = sum(number for _, number in nodes)
    else:
        size = len({group[tally.place] for group, _ in nodes})
    return math.log(size + 2)


def _spread_cost(soft: Sequence[Spread], weights: Sequence[float], group: GroupKey) -> int:
    cost = 0.0
    for spread, weight in zip(soft, weights, strict=True):
        count = spread.tally.count(group)
        if count is not None:
            cost += count * weight + (spread.constraint.max_skew - 1)
    return math.floor(cost + 0.5)


def _preference_scores(rules: Rules, groups: Sequence[tuple[GroupKey, int]]) -> list[int]:
    raw = [
        sum(tally.weight * (tally.count(group) or 0) for tally in rules.preferences)
        for group, _ in groups
    ]
    highest, lowest = max(raw, default=0), min(raw, default=0)
    if highest == lowest:
        return [0] * len(raw)
    return [int(BEST * ((value - lowest) / (highest - lowest))) for value in raw]
