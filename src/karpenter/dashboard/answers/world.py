"""A cluster as plans take it: its objects, what there is to buy, and the settings in force."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from karpenter.api.legacy import Provisioner
from karpenter.api.meta import Resource
from karpenter.dashboard.answers.supply import Supply
from karpenter.inquiry.overlay import Overlay
from karpenter.inquiry.question import Question, asked_about
from karpenter.inquiry.snapshots import (
    snapshot_of_cluster,
    snapshot_of_files,
    with_judged_budgets,
)
from karpenter.settings import Settings
from karpenter.state.snapshot import Snapshot, with_going


@dataclass(frozen=True, slots=True)
class Terms:
    """What is known about a cluster besides its objects and what there is to buy."""

    settings: Settings = field(default_factory=Settings)
    gates_are_set: bool = False  # otherwise a cluster that uses a gate has it, as for ``plan``
    is_files: bool = False  # the objects are of manifests, and no controller has seen them
    unjudged: frozenset[str] = frozenset()  # of files: disruption budgets without a status
    namespace: str = ""  # the one that the context of the kubeconfig names


@dataclass(frozen=True)
class World:
    """A cluster at one moment; never changed, only replaced by what it would be."""

    objects: Sequence[Resource]
    supply: Supply
    terms: Terms
    now: datetime
    going: frozenset[str] = frozenset()  # names of machines that are to be drained
    known: Snapshot | None = None  # of the objects, where one exists

    @cached_property
    def snapshot(self) -> Snapshot:
        """The cluster."""
        found = self.known
        if found is None and self.terms.is_files:
            found = snapshot_of_files(self.objects, self.terms.unjudged)
        elif found is None:
            old = any(isinstance(each, Provisioner) for each in self.objects)
            found = snapshot_of_cluster(self.objects, has_old_keys=old)
        return with_going(found, self.going)

    def asked(self, time_budget: float | None) -> Question:
        """What the planners are asked about it."""
        return asked_about(
            self.snapshot,
            self.supply.offer,
            self.terms.settings,
            self.now,
            gates_are_set=self.terms.gates_are_set,
            is_said=False,
            time_budget=time_budget,
            namespace=self.terms.namespace,
        )

    def with_objects(self, objects: Iterable[Resource]) -> "World":
        """The same with other objects."""
        return replace(self, objects=tuple(objects), known=None)

    def with_snapshot(self, snapshot: Snapshot | None) -> "World":
        """The same, where a snapshot of the objects exists already."""
        return replace(self, known=snapshot)

    def after(self, change: Overlay) -> "World":
        """The same with a change laid over it."""
        if self.terms.is_files:
            unjudged = self.terms.unjudged | change.budgets
            terms = replace(self.terms, unjudged=unjudged)
            return replace(self, objects=change.objects, terms=terms, known=None)
        return replace(self, objects=with_judged_budgets(change), known=None)
