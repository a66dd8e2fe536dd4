"""Requirements on a node: one per label key, and the compatibility of two such collections.

A key without a requirement may have any value. Compatibility is asymmetric: the node side must
define every label that the incoming side requires, while a label that only the node side defines
is no obstacle. Every refusal names the key, both sides, and the label that was probably meant.
"""

from collections.abc import Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodeRequirement
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.model.requirement import Operator, Requirement, requirement
from karpenter.model.suggestions import closest_label


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """Why an incoming requirement cannot be met: by ``own``, or because nothing defines its key."""

    incoming: Requirement
    own: Requirement | None = None
    known: frozenset[str] = frozenset()  # keys that are defined

    @property
    def key(self) -> str:
        """The label key in question."""
        return self.incoming.key

    @property
    def hint(self) -> str | None:
        """The label that was probably meant, when nothing defines the one that was asked for."""
        return closest_label(self.key, self.known) if self.own is None else None

    def __str__(self) -> str:
        """The reason in one phrase."""
        if self.own is not None:
            return f"{self.incoming} conflicts with {self.own}"
        suggestion = f"; did you mean {self.hint}?" if self.hint else ""
        return f"label {self.key} has no known values{suggestion}"


class Requirements:
    """An immutable collection of requirements, at most one per key."""

    __slots__ = ("_by_key",)

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        """Collect requirements; those with the same key are intersected."""
        self._by_key: Final[dict[str, Requirement]] = {}
        _add(self._by_key, requirements)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> "Requirements":
        """Require each label to have exactly its value."""
        return cls(requirement(key, Operator.IN, (value,)) for key, value in labels.items())

    @classmethod
    def from_wire(
        cls, entries: Iterable[NodeRequirement | NodeSelectorRequirement]
    ) -> "Requirements":
        """Read the entries of a ``requirements`` or ``matchExpressions`` list.

        Raises:
            RequirementError: when an entry's operator and values make no sense.
        """
        return cls(
            requirement(
                entry.key,
                entry.operator,
                entry.values,
                entry.min_values if isinstance(entry, NodeRequirement) else None,
            )
            for entry in entries
        )

    def to_wire(self) -> list[NodeRequirement]:
        """Write the entries of a NodeClaim's ``requirements`` list, sorted by key."""
        return [entry for key in sorted(self._by_key) for entry in self._by_key[key].to_wire()]

    def keys(self) -> KeysView[str]:
        """The keys that have a requirement."""
        return self._by_key.keys()

    def __getitem__(self, key: str) -> Requirement:
        """The requirement for ``key``, or one that allows any value."""
        return self._by_key.get(key) or Requirement(key)

    def get(self, key: str) -> Requirement | None:
        """The requirement for ``key``, or None when there is none."""
        return self._by_key.get(key)

    def __iter__(self) -> Iterator[Requirement]:
        """Yield the requirements in the order their keys were first added."""
        return iter(self._by_key.values())

    def __len__(self) -> int:
        """How many keys have a requirement."""
        return len(self._by_key)

    def __and__(self, more: Iterable[Requirement]) -> "Requirements":
        """Return these requirements narrowed by more of them."""
        narrowed = Requirements()
        narrowed._by_key.update(self._by_key)
        _add(narrowed._by_key, more)
        return narrowed

    def incompatibility(
        self, incoming: "Requirements", allow_undefined: frozenset[str] = frozenset()
    ) -> Incompatibility | None:
        """Why ``incoming`` cannot be met here, or None when it can.

        Keys in ``allow_undefined`` need no definition on this side: a later step, such as the
        choice of an instance type, gives them a value. A non-empty set also means that the node is
        not created yet, so a label with only excluded values gets some other value.
        """
        own = self._by_key
        for wanted in incoming:
            key = wanted.key
            if key in own or key in allow_undefined or wanted.allows_absence:
                continue
            if allow_undefined and wanted.operator is Operator.NOT_IN:
                continue
            return Incompatibility(wanted, known=allow_undefined | own.keys())
        return self.conflict(incoming)

    def conflict(self, incoming: "Requirements") -> Incompatibility | None:
        """The first key defined on both sides that cannot satisfy both, or None."""
        for wanted in incoming:
            held = self._by_key.get(wanted.key)
            if held is None or held.has_intersection(wanted):
                continue
            if held.allows_absence and wanted.allows_absence:
                continue
            return Incompatibility(wanted, held)
        return None

    def is_compatible(
        self, incoming: "Requirements", allow_undefined: frozenset[str] = frozenset()
    ) -> bool:
        """Whether ``incoming`` can be met here."""
        return self.incompatibility(incoming, allow_undefined) is None

    def intersects(self, other: "Requirements") -> bool:
        """Whether every key defined on both sides can satisfy both; the rest does not matter."""
        return self.conflict(other) is None

    def __eq__(self, other: object) -> bool:
        """Equal requirements, in whatever order they were added."""
        return self._by_key == other._by_key if isinstance(other, Requirements) else NotImplemented

    def __hash__(self) -> int:
        """Equal collections hash alike."""
        return hash(frozenset(self._by_key.values()))

    def __str__(self) -> str:
        """The requirements for display, sorted by key."""
        return ", ".join(str(self._by_key[key]) for key in sorted(self._by_key))

    def __repr__(self) -> str:
        """The requirements for debugging."""
        return f"Requirements({self})"


def _add(by_key: dict[str, Requirement], requirements: Iterable[Requirement]) -> None:
    for new in requirements:
        present = by_key.get(new.key)
        by_key[new.key] = present.intersection(new) if present else new
