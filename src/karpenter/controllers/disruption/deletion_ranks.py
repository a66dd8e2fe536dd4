"""Which pods a ReplicaSet that shrinks should give up first: those on nodes that are to go; pure.

Every machine gets a value for its pods. Machines on their way out come first of all, then those that
disruption would take next, in its order. All others get none, so that nothing is said about them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from karpenter.api.pods import Pod
from karpenter.disruption import budgets
from karpenter.disruption.candidates import Candidate, Kind
from karpenter.disruption.detection import DRIFTED, NEVER
from karpenter.disruption.passes import Pass
from karpenter.model.taints import DISRUPTED, matches
from karpenter.state.eviction import POD_DELETION_COST
from karpenter.state.nodes import StateNode

FIRST_OF_ALL: Final = -(2**31)
MOST_NODES: Final = 50  # whose pods are written to in one go

_REPLICA_SET: Final = ("apps/v1", "ReplicaSet")
_EASY_OWNERS: Final = frozenset({_REPLICA_SET, ("batch/v1", "Job"), ("apps/v1", "DaemonSet")})
_SYSTEM: Final = "kube-system"


@dataclass(frozen=True, slots=True)
class Rank:
    """What the pods of a machine are to say about their deletion; nothing without a value."""

    machine: StateNode
    value: int | None
    is_going: bool = False

    @property
    def text(self) -> str | None:
        """The value as it is written."""
        return None if self.value is None else str(self.value)

    @property
    def outdated(self) -> tuple[Pod, ...]:
        """The pods that say something else."""
        return tuple(
            pod
            for pod in self.machine.pods
            if is_of_replica_set(pod)
            and pod.metadata.annotations.get(POD_DELETION_COST) != self.text
        )


def ranks(view: Pass) -> list[Rank]:
    """The rank of every machine of ours: those that go, those to go next, and all others."""
    going: list[Rank] = []
    candidates: list[Candidate] = []
    staying: list[Rank] = []
    for name, standing in view.standing(Kind.GRACEFUL).items():
        machine = view.snapshot.node(name)
        if machine is None or machine.node_claim is None:
            continue
        if machine.is_deleting or _is_tainted(machine):
            going.append(Rank(machine, FIRST_OF_ALL, is_going=True))
        elif isinstance(standing, Candidate) and _is_easy(standing):
            candidates.append(standing)
        else:
            staying.append(Rank(machine, None))
    candidates.sort(key=lambda candidate: (-candidate.ratio, candidate.name))
    drifted, rest = _within_budget(view, budgets.DRIFTED, candidates, _may_drift)
    next_ones, others = _within_budget(view, budgets.UNDERUTILIZED, rest, _may_shrink)
    ordered = [*drifted, *next_ones]
    return [
        *going,
        *(Rank(each.machine, place - len(ordered)) for place, each in enumerate(ordered)),
        *staying,
        *(Rank(each.machine, None) for each in others),
    ]


def chosen(found: Iterable[Rank]) -> list[Rank]:
    """The ranks to write now: all that go, and of the others as many as may change in one go."""
    changed = [rank for rank in found if rank.outdated]
    going = [rank for rank in changed if rank.is_going]
    others = [rank for rank in changed if not rank.is_going]
    others.sort(key=lambda rank: rank.value is None)  # those with a value first, as they stand
    return [*going, *others[:MOST_NODES]]


def is_of_replica_set(pod: Pod) -> bool:
    """Whether a ReplicaSet decides about the pod."""
    return _controller(pod) == _REPLICA_SET


def _within_budget(
    view: Pass,
    reason: str,
    candidates: Iterable[Candidate],
    belongs: Callable[[Candidate], bool],
) -> tuple[list[Candidate], list[Candidate]]:
    left = view.remaining(reason)
    within: list[Candidate] = []
    rest: list[Candidate] = []
    for candidate in candidates:
        if belongs(candidate) and left[candidate.pool] > 0:
            left[candidate.pool] -= 1
            within.append(candidate)
        else:
            rest.append(candidate)
    return within, rest


def _may_drift(candidate: Candidate) -> bool:
    return not candidate.is_static and candidate.machine.has_condition(DRIFTED)


def _may_shrink(candidate: Candidate) -> bool:
    wanted = candidate.node_pool.spec.disruption.consolidate_after
    return not candidate.is_static and wanted != NEVER


def _is_easy(candidate: Candidate) -> bool:
    """Whether a machine is sold by its pool, and nobody on it is harder to move than others."""
    if candidate.instance_type is None:
        return False
    return all(
        pod.metadata.namespace == _SYSTEM or _controller(pod) in _EASY_OWNERS
        for pod in candidate.machine.pods
    )


def _is_tainted(machine: StateNode) -> bool:
    return machine.node is not None and any(
        matches(taint, DISRUPTED) for taint in machine.node.spec.taints
    )


def _controller(pod: Pod) -> tuple[str, str]:
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return owner.api_version, owner.kind
    return "", ""
