"""From which nodes a device can be reached.

A device belongs to one node, or can be reached from every node, or from the nodes that a selector
matches. A selector is a list of alternatives; each is a ``NodeTerm``.
"""

from dataclasses import dataclass
from typing import Final

from karpenter.api.selectors import NodeSelector, NodeSelectorTerm
from karpenter.model.labels import HOSTNAME
from karpenter.model.requirement import RequirementError
from karpenter.model.requirements import Requirements

_NAME_FIELD: Final = "metadata.name"


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One alternative of a node selector."""

    requirements: Requirements
    names: frozenset[str] | None = None  # the only nodes it matches, if it names any
    other_names: frozenset[str] = frozenset()  # nodes it excludes

    def admits(self, labels: Requirements, name: str) -> bool:
        """Whether it matches a node with these labels and this name."""
        if name in self.other_names or (self.names is not None and name not in self.names):
            return False
        return labels.is_compatible(self.requirements)

    @property
    def admits_new_nodes(self) -> bool:
        """Whether it could match a node whose name is not known yet."""
        hostname = self.requirements.get(HOSTNAME)
        return self.names is None and (hostname is None or hostname.complement)


@dataclass(frozen=True, slots=True)
class Reach:
    """From where a device can be reached."""

    node_name: str | None = None  # the node it belongs to
    terms: tuple[NodeTerm, ...] | None = None  # alternatives; None means from every node

    @property
    def is_everywhere(self) -> bool:
        """Whether the device can be reached from every node."""
        return self.node_name is None and self.terms is None

    def term_for(self, labels: Requirements, name: str) -> NodeTerm | None:
        """The first alternative that matches a node."""
        return next((term for term in self.terms or () if term.admits(labels, name)), None)

    def includes(self, labels: Requirements, name: str) -> bool:
        """Whether the device can be reached from a node."""
        if self.node_name is not None:
            return self.node_name == name
        return self.terms is None or self.term_for(labels, name) is not None


EVERYWHERE: Final = Reach()
NOWHERE: Final = Reach(terms=())


def reach_of(node_name: str | None, selector: NodeSelector | None, all_nodes: bool) -> Reach:
    """Read the three fields of a slice that state its nodes; none set means no node."""
    if node_name:
        return Reach(node_name=node_name)
    if selector is not None:
        return Reach(terms=terms_of(selector))
    return EVERYWHERE if all_nodes else NOWHERE


def terms_of(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """Read the alternatives of a selector; those that no node could satisfy are left out."""
    terms = (_term(term) for term in selector.node_selector_terms)
    return tuple(term for term in terms if term is not None)


def _term(term: NodeSelectorTerm) -> NodeTerm | None:
    if not term.match_expressions and not term.match_fields:
        return None  # as in Kubernetes, an empty term matches no node
    names: frozenset[str] | None = None
    others: frozenset[str] = frozenset()
    for wanted in term.match_fields:
        if wanted.key != _NAME_FIELD or wanted.operator not in ("In", "NotIn"):
            return None
        listed = frozenset(wanted.values)
        if wanted.operator == "NotIn":
            others |= listed
        else:
            names = listed if names is None else names & listed
    try:
        return NodeTerm(Requirements.from_wire(term.match_expressions), names, others)
    except RequirementError:
        return None
