"""How objects are chosen by their labels: label selectors, and selectors of nodes."""

from collections.abc import Mapping

from karpenter.api.meta import Model


class LabelSelectorRequirement(Model, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Model, frozen=True):
    """An empty selector matches everything; an absent one (``None``) matches nothing."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Model, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Model, frozen=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Model, frozen=True):
    """Alternatives: one term that matches is enough."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()
