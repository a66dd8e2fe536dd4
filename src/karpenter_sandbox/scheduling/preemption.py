"""Which pods must go so that a more important one can have their node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.matching import Selector, read_selector
from karpenter_sandbox.scheduling import wording
from karpenter_sandbox.scheduling.classes import PodClass
from karpenter_sandbox.scheduling.nodes import NodeState
from karpenter_sandbox.scheduling.shapes import PodInfo
from karpenter_sandbox.scheduling.wording import Failure

# The number of candidate nodes is bounded, as in kube-scheduler, to bound the cost of a try
_FEWEST_CANDIDATES: Final = 100
_CANDIDATE_SHARE: Final = 10
# Makes the importance of every victim positive, so that fewer victims are always better
_LOWEST_PRIORITY: Final = -(2**31)
# Sorts after every timestamp: pods that have not started
_NOT_STARTED: Final = "~"


@dataclass(frozen=True, slots=True)
class Budget:
    """The fields of a PodDisruptionBudget that preemption reads."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]

    def covers(self, pod: PodInfo) -> bool:
        """Whether the budget covers a pod; one in ``disruptedPods`` has been counted already."""
        return (
            pod.key[0] == self.namespace
            and not self.selector.is_empty
            and self.selector.matches(pod.labels)
            and pod.key[1] not in self.disrupted
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, and the pods that must leave it, the most important first."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int  # victims that a disruption budget protects

    @property
    def cost(self) -> tuple[object, ...]:
        """The sort key of candidates, in kube-scheduler's order; the smallest is chosen."""
        priorities = [pod.shape.priority for pod in self.victims]
        highest = max(priorities)
        earliest = min(_start(pod) for pod in self.victims if pod.shape.priority == highest)
        return (
            self.violations,
            highest,
            sum(priority - _LOWEST_PRIORITY for priority in priorities),
            len(priorities),
            _Descending(earliest),
            self.node,
        )


class _Descending:
    """Orders texts from last to first."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: "_Descending") -> bool:
        return self.text > other.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def read_budget(budget: JsonObject) -> Budget:
    """Read a PodDisruptionBudget."""
    status = budget.get("status") or {}
    return Budget(
        namespace=budget["metadata"].get("namespace", ""),
        selector=read_selector((budget.get("spec") or {}).get("selector")),
        allowed=status.get("disruptionsAllowed") or 0,
        disrupted=frozenset(status.get("disruptedPods") or ()),
    )


def find_candidates(
    pod: PodInfo,
    alike: PodClass,
    nodes: Sequence[NodeState],
    budgets: Sequence[Budget],
) -> tuple[list[Candidate], dict[Failure, int]]:
    """Find victims node by node; return the candidates, and why other nodes are none."""
    wanted = max(len(nodes) * _CANDIDATE_SHARE // 100, _FEWEST_CANDIDATES)
    candidates: list[Candidate] = []
    failures: dict[Failure, int] = {}
    for node in nodes:
        found = _victims_on(pod, alike, node, budgets)
        if isinstance(found, Candidate):
            candidates.append(found)
            if len(candidates) >= wanted:
                break
        else:
            failures[found] = failures.get(found, 0) + 1
    return candidates, failures


def fruitless(nodes: int, failures: Mapping[Failure, int]) -> str:
    """The message for a preemption without candidates."""
    reasons: dict[str, int] = {}
    for failure, count in failures.items():
        for reason in failure.reasons:
            reasons[reason] = reasons.get(reason, 0) + count
    rest = nodes - sum(failures.values())
    if rest:
        reasons[wording.NOT_HELPFUL] = reasons.get(wording.NOT_HELPFUL, 0) + rest
    return wording.unavailable(nodes, reasons)


NO_VICTIMS: Final = Failure((wording.NO_VICTIMS,), True)


def _victims_on(
    pod: PodInfo, alike: PodClass, node: NodeState, budgets: Sequence[Budget]
) -> Candidate | Failure:
    priority = pod.shape.priority
    lesser = [other for other in node.pods.values() if other.shape.priority < priority]
    if not lesser:
        return NO_VICTIMS
    trial = node.without(lesser)
    failure = alike.without(trial, lesser)
    if failure is not None:
        return failure
    lesser.sort(key=importance)
    protected, others = _split(lesser, budgets)
    gone = list(lesser)
    violations = 0
    for victim in (*protected, *others):
        # spare each in turn if the pod still fits beside it, the most important first
        trial.add(victim)
        gone.remove(victim)
        if alike.without(trial, gone) is not None:
            trial.remove(victim)
            gone.append(victim)
            violations += victim in protected
    return Candidate(node.facts.name, tuple(sorted(gone, key=importance)), violations)


def importance(pod: PodInfo) -> tuple[int, str, tuple[str, str]]:
    """Orders pods from the most important: higher priority, then longer running."""
    return -pod.shape.priority, _start(pod), pod.key


def _start(pod: PodInfo) -> str:
    return pod.started or _NOT_STARTED


def _split(
    pods: Sequence[PodInfo], budgets: Sequence[Budget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Part the pods whose loss would exceed a disruption budget from the others."""
    left = [budget.allowed for budget in budgets]
    protected: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        is_protected = False
        for index, budget in enumerate(budgets):
            if budget.covers(pod):
                left[index] -= 1
                is_protected = is_protected or left[index] < 0
        (protected if is_protected else others).append(pod)
    return protected, others
