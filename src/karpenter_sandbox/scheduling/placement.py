"""Chooses the node of one pod, or reports why no node fits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from random import Random
from typing import Final

from karpenter_sandbox.scheduling import preemption, wording
from karpenter_sandbox.scheduling.classes import Group, PodClass
from karpenter_sandbox.scheduling.cluster import Cluster
from karpenter_sandbox.scheduling.preemption import Budget, Candidate
from karpenter_sandbox.scheduling.rules import Classes
from karpenter_sandbox.scheduling.shapes import PodInfo
from karpenter_sandbox.scheduling.topology import TopologyCounts
from karpenter_sandbox.scheduling.wording import Failure


class Change(Flag):
    """What may happen in a cluster that lets a pod be placed after all."""

    NODE = auto()  # a node was added or changed
    POD_GONE = auto()  # a pod left its node
    POD_CAME = auto()  # a pod was placed, which may satisfy another's affinity
    STORAGE = auto()  # a claim, a volume or a storage class changed


ANY_CHANGE = Change.NODE | Change.POD_GONE | Change.POD_CAME | Change.STORAGE


@dataclass(frozen=True, slots=True)
class Chosen:
    """The pod goes to a node."""

    node: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pod goes nowhere for now."""

    message: str
    awaits: Change  # what would make another try worth while
    candidate: Candidate | None = None  # pods to remove so that it can be placed soon
    keeps_nomination: bool = False


Decision = Chosen | Rejected

_REMEMBERED: Final = 128
_AWAITED: Mapping[Failure, Change] = {
    wording.UNSCHEDULABLE: Change.NODE,
    wording.TAINT: Change.NODE,
    wording.NODE_AFFINITY: Change.NODE,
    wording.SPREAD: Change.NODE | Change.POD_GONE | Change.POD_CAME,
    wording.SPREAD_LABEL: Change.NODE,
    wording.AFFINITY: Change.NODE | Change.POD_CAME,
    wording.ANTI_AFFINITY: Change.NODE | Change.POD_GONE,
    wording.OTHERS_ANTI_AFFINITY: Change.NODE | Change.POD_GONE,
}


class Placement:
    """Places pods on the nodes of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        classes: Classes,
        budgets: Callable[[], Sequence[Budget]],
        random: Random,
    ) -> None:
        self._cluster = cluster
        self._classes = classes
        self._budgets = budgets
        self._random = random
        # Cached rejections of equal pods, with the log position at which they were made
        self._verdicts: dict[PodClass, tuple[int, Rejected]] = {}

    def decide(self, pod: PodInfo) -> Decision:
        """Find the best node for a pod."""
        nodes = len(self._cluster.nodes)
        if not nodes:
            return Rejected(wording.NO_NODES, Change.NODE)
        nominated = self._cluster.drop_nomination(pod.uid) or pod.nominated
        alike = self._classes.of(pod)
        if alike.needs.problem:
            sentence = wording.refused(nodes, alike.needs.problem)
            return Rejected(sentence, Change.STORAGE | Change.NODE)
        lookout = TopologyCounts(alike.rules)
        if nominated and self._fits(alike, lookout, nominated):
            return Chosen(nominated)
        if pod.shape.pinned is not None:
            return self._decide_pinned(pod, alike, lookout)
        known = self._verdicts.get(alike)
        if known is not None and known[0] == self._cluster.position and not nominated:
            return known[1]
        return self._decide_free(pod, alike, lookout, nominated)

    def _fits(self, alike: PodClass, lookout: TopologyCounts, name: str) -> bool:
        return name in self._cluster.nodes and alike.failure_of(name, lookout) is None

    def _decide_free(
        self, pod: PodInfo, alike: PodClass, lookout: TopologyCounts, nominated: str
    ) -> Decision:
        failures = dict(alike.failures)
        feasible: list[Group] = []
        for group in alike.groups():
            failure = lookout.failure(group.key)
            if failure is None:
                feasible.append(group)
            else:
                failures[failure] = failures.get(failure, 0) + group.size
        if feasible:
            return Chosen(alike.best(feasible))
        rejected = self._reject(pod, alike, lookout, failures, nominated)
        if not nominated and rejected.candidate is None:
            if len(self._verdicts) >= _REMEMBERED:
                self._verdicts.clear()
            self._verdicts[alike] = (self._cluster.position, rejected)
        return rejected

    def _decide_pinned(self, pod: PodInfo, alike: PodClass, lookout: TopologyCounts) -> Decision:
        failures: dict[Failure, int] = {}
        names = sorted(name for name in pod.shape.pinned or () if name in self._cluster.nodes)
        for name in names:
            failure = alike.failure_of(name, lookout)
            if failure is None:
                return Chosen(name)
            failures[failure] = failures.get(failure, 0) + 1
        absent = len(self._cluster.nodes) - len(names)
        if absent:
            failures[wording.NOT_PINNED] = absent
        return self._reject(pod, alike, lookout, failures, "", only=names)

    def _reject(
        self,
        pod: PodInfo,
        alike: PodClass,
        lookout: TopologyCounts,
        failures: Mapping[Failure, int],
        nominated: str,
        only: Sequence[str] | None = None,
    ) -> Rejected:
        sentence = wording.unavailable(len(self._cluster.nodes), _by_reason(failures))
        awaits = Change.NODE
        for failure in failures:
            awaits |= _AWAITED.get(failure, Change.NODE | Change.POD_GONE | Change.STORAGE)
        if not pod.shape.may_preempt:
            message = wording.with_preemption(sentence, wording.NEVER_PREEMPTS)
            return Rejected(message, awaits)
        if nominated and self._is_victim_leaving(pod, nominated):
            message = wording.with_preemption(sentence, wording.VICTIM_LEAVING)
            return Rejected(message, awaits, keeps_nomination=True)
        resolvable = [name for name in alike.resolvable(lookout) if only is None or name in only]
        candidates, refusals = self._candidates(pod, alike, resolvable)
        if candidates:
            best = min(candidates, key=lambda candidate: candidate.cost)
            return Rejected(sentence, awaits, candidate=best)
        outcome = preemption.fruitless(len(self._cluster.nodes), refusals)
        return Rejected(wording.with_preemption(sentence, outcome), awaits)

    def _candidates(
        self, pod: PodInfo, alike: PodClass, names: list[str]
    ) -> tuple[list[Candidate], dict[Failure, int]]:
        if not names:
            return [], {}
        if min(self._cluster.priorities, default=pod.shape.priority) >= pod.shape.priority:
            return [], {preemption.NO_VICTIMS: len(names)}
        # a random start, so that preemption does not always hit the same nodes
        offset = self._random.randrange(len(names))
        nodes = [self._cluster.nodes[name] for name in (*names[offset:], *names[:offset])]
        return preemption.find_candidates(pod, alike, nodes, self._budgets())

    def _is_victim_leaving(self, pod: PodInfo, nominated: str) -> bool:
        node = self._cluster.nodes.get(nominated)
        return node is not None and any(
            other.is_terminating and other.shape.priority < pod.shape.priority
            for other in node.pods.values()
        )


def _by_reason(failures: Mapping[Failure, int]) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for failure, count in failures.items():
        for reason in failure.reasons:
            reasons[reason] = reasons.get(reason, 0) + count
    return reasons
