"""What pods say about labels: selectors, tolerations and node selector terms, compiled once.

Compiled values are plain tuples, so equal definitions compare and hash equal. The scheduler groups
pods into classes by them.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from karpenter.api.meta import JsonObject

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"


class Requirement(NamedTuple):
    """One condition on one label."""

    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it; an unknown operator is never fulfilled."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return _compares(self.operator, value, self.values)
        return False


class Selector(NamedTuple):
    """A label selector; ``requirements`` is None for an absent selector, which matches nothing."""

    requirements: tuple[Requirement, ...] | None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector matches an object with ``labels``."""
        return self.requirements is not None and all(
            requirement.holds(labels) for requirement in self.requirements
        )

    @property
    def is_empty(self) -> bool:
        """Whether the selector matches everything."""
        return self.requirements == ()

    def narrowed(self, more: Iterable[Requirement]) -> "Selector":
        """The selector with further conditions; an absent one stays absent."""
        if self.requirements is None:
            return self
        return _selector((*self.requirements, *more))


NOTHING: Final = Selector(None)
EVERYTHING: Final = Selector(())


class NodeTerm(NamedTuple):
    """One alternative of a node selector: conditions on labels and on the node's name."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node fulfils the term; an empty term is never fulfilled."""
        if not self.expressions and not self.fields:
            return False
        if self.fields:
            known = {"metadata.name": name}
            if not all(requirement.holds(known) for requirement in self.fields):
                return False
        return all(requirement.holds(labels) for requirement in self.expressions)

    @property
    def pinned_names(self) -> frozenset[str] | None:
        """The names of the only nodes that the term can match, when its fields list names."""
        names: frozenset[str] | None = None
        for requirement in self.fields:
            if requirement.key != "metadata.name" or requirement.operator != "In":
                return None
            allowed = frozenset(requirement.values)
            names = allowed if names is None else names & allowed
        return names


class Taint(NamedTuple):
    """A taint of a node."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A toleration of a pod; empty strings mean "any"."""

    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        """Whether this toleration tolerates ``taint``."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


def read_selector(selector: JsonObject | None) -> Selector:
    """Compile the ``LabelSelector`` of an object."""
    if selector is None:
        return NOTHING
    labels = selector.get("matchLabels") or {}
    exact = [Requirement(key, "In", (value,)) for key, value in labels.items()]
    return _selector((*exact, *read_requirements(selector.get("matchExpressions"))))


def exact_selector(labels: Mapping[str, str]) -> Selector:
    """The selector of a Service: every label, exactly."""
    return _selector(Requirement(key, "In", (value,)) for key, value in labels.items())


def read_requirements(expressions: list[JsonObject] | None) -> tuple[Requirement, ...]:
    """Compile a list of conditions in the order in which they stand."""
    return tuple(
        Requirement(
            expression["key"], expression["operator"], tuple(expression.get("values") or ())
        )
        for expression in expressions or ()
    )


def read_node_term(term: JsonObject) -> NodeTerm:
    """Compile a ``NodeSelectorTerm``."""
    return NodeTerm(
        read_requirements(term.get("matchExpressions")), read_requirements(term.get("matchFields"))
    )


def read_node_terms(selector: JsonObject | None) -> tuple[NodeTerm, ...] | None:
    """Compile the alternatives of a ``NodeSelector``; None when there is no such selector."""
    if selector is None:
        return None
    return tuple(read_node_term(term) for term in selector.get("nodeSelectorTerms") or ())


def any_term_holds(
    terms: tuple[NodeTerm, ...] | None, name: str, labels: Mapping[str, str]
) -> bool:
    """Whether a node fulfils one of the alternatives, or there are none to fulfil."""
    return terms is None or any(term.holds(name, labels) for term in terms)


def read_tolerations(tolerations: list[JsonObject] | None) -> tuple[Toleration, ...]:
    """Compile the tolerations of a pod."""
    return tuple(
        Toleration(
            toleration.get("key") or "",
            toleration.get("operator") or "Equal",
            toleration.get("value") or "",
            toleration.get("effect") or "",
        )
        for toleration in tolerations or ()
    )


def read_taints(taints: list[JsonObject] | None) -> tuple[Taint, ...]:
    """Compile the taints of a node."""
    return tuple(
        Taint(taint["key"], taint.get("value") or "", taint.get("effect") or "")
        for taint in taints or ()
    )


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any toleration covers ``taint``."""
    return any(toleration.covers(taint) for toleration in tolerations)


def _selector(requirements: Iterable[Requirement]) -> Selector:
    # canonical order without duplicates, so that equivalent selectors compare equal
    return Selector(tuple(sorted(set(requirements))))


def _compares(operator: str, value: str | None, bounds: tuple[str, ...]) -> bool:
    try:
        number, bound = int(value or ""), int(bounds[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound
