"""What earlier passes have found out about the pods of machines.

Before it searches, a pass looks at every pod of the cluster: may it move, what does that cost, does
anything hold it. State hands out the same ``StateNode`` until something about the machine or its
pods changes, so an answer holds until then, unless

- a PDB in a namespace of the pods changes in what is read of it (``budget_key``), or
- the protection of one of the pods ends: every answer has a span of time in which it holds. A clock
  that is set back leaves that span, too.

An answer is what a fresh look would give, never an estimate.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeAlias, TypeVar, cast

from karpenter.api.policy import PodDisruptionBudget
from karpenter.state.departing_pods import protected_until
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot

T = TypeVar("T")

BudgetKey: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What answers about pods depend on beside the pods themselves."""

    snapshot: Snapshot
    now: datetime
    keys: dict[str, tuple[BudgetKey, ...]] = field(default_factory=dict)  # namespace -> its PDBs

    def budgets(self, namespaces: Iterable[str]) -> tuple[tuple[BudgetKey, ...], ...]:
        """What is read of the PDBs of some namespaces."""
        found = []
        for namespace in namespaces:
            known = self.keys.get(namespace)
            if known is None:
                known = tuple(map(budget_key, self.snapshot.pdbs_in(namespace)))
                self.keys[namespace] = known
            found.append(known)
        return tuple(found)


def budget_key(pdb: PodDisruptionBudget) -> BudgetKey:
    """What disruption reads of a PDB: the count of allowed disruptions only as far as it is none."""
    metadata, is_closed = pdb.metadata, pdb.status.disruptions_allowed == 0
    return metadata.name, pdb.spec, is_closed, pdb.status.expected_pods if is_closed else 0


@dataclass(slots=True)
class _Answer(Generic[T]):
    value: T
    budgets: tuple[tuple[BudgetKey, ...], ...]
    since: datetime | None  # when the last protection ended
    until: datetime | None  # when the next one ends

    def holds(self, budgets: tuple[tuple[BudgetKey, ...], ...], now: datetime) -> bool:
        if self.since is not None and now < self.since:
            return False
        return (self.until is None or now < self.until) and self.budgets == budgets


@dataclass(slots=True)
class _Machine:
    """What is known about one machine."""

    machine: StateNode  # kept alive, so that its id stays unique
    namespaces: tuple[str, ...]  # of its pods
    ends: tuple[datetime, ...]  # of the protection of its pods, in order
    answers: dict[Hashable, _Answer[object]] = field(default_factory=dict)  # by what was asked


class KnownMachines:
    """Keeps answers between passes; not to be shared between concurrent ones."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._machines: dict[int, _Machine] = {}  # by identity

    def forget(self, nodes: Sequence[StateNode]) -> None:
        """Forget machines that are no longer there."""
        if len(self._machines) > len(nodes):
            there = set(map(id, nodes))
            self._machines = {key: known for key, known in self._machines.items() if key in there}

    def about(
        self, machine: StateNode, what: Hashable, around: Surroundings, look: Callable[[], T]
    ) -> T:
        """The answer to a question about the pods of a machine.

        Args:
            what: the name of the question.
            look: finds the answer; it reads nothing but the machine, its pods, PDBs and the time.
        """
        known = self._machines.get(id(machine))
        if known is None or known.machine is not machine:
            known = self._machines[id(machine)] = _known(machine)
        budgets = around.budgets(known.namespaces)
        answer = known.answers.get(what)
        if answer is None or not answer.holds(budgets, around.now):
            past = [end for end in known.ends if end <= around.now]
            coming = known.ends[len(past) :]
            answer = _Answer(
                look(), budgets, past[-1] if past else None, coming[0] if coming else None
            )
            known.answers[what] = answer
        return cast(T, answer.value)  # what was asked names the type


def _known(machine: StateNode) -> _Machine:
    namespaces = dict.fromkeys(pod.metadata.namespace or "default" for pod in machine.pods)
    ends = {end for pod in machine.annotated_pods if (end := protected_until(pod)) is not None}
    return _Machine(machine, tuple(namespaces), tuple(sorted(ends)))
