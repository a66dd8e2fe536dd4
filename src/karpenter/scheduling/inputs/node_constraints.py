"""Whether a pod's hard requirements on its node are ones that can be satisfied at all.

The node selector and every alternative of the required node affinity are checked, since any of them
may become the one that is used. Preferences are not checked: an impossible one is given up like any
other. The exception is a pod that opts out of managed nodes, which it may also do by a preference.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from karpenter.api.pods import NodeAffinity, PodSpec
from karpenter.api.selectors import NodeSelectorRequirement, NodeSelectorTerm
from karpenter.cloud.types import ProviderFacts
from karpenter.model import labels
from karpenter.model.label_rules import (
    Place,
    label_key_problem,
    label_value_problem,
    restricted_reason,
)
from karpenter.model.requirement import (
    Operator,
    Requirement,
    RequirementError,
    parse_integer,
    requirement,
)
from karpenter.scheduling.inputs.ignored_pods import Objection, WhyIgnored

_OPERATORS: Final = frozenset(Operator)
_BOUNDS: Final = frozenset({Operator.GT, Operator.GTE, Operator.LT, Operator.LTE})


def opts_out(spec: PodSpec) -> bool:
    """Whether the first stage of a pod's demands excludes every pool.

    Contradicting demands on the pool do so as well.
    """
    wanted: Requirement | None = None
    for expression in _first_choice(spec):
        if labels.normalise(expression.key) != labels.NODEPOOL:
            continue
        try:
            entry = requirement(expression.key, expression.operator, expression.values)
        except RequirementError:
            continue  # an invalid expression; the pod is refused for it later
        wanted = entry if wanted is None else wanted.intersection(entry)
    return wanted is not None and wanted.operator is Operator.DOES_NOT_EXIST


def node_constraint_objection(spec: PodSpec, facts: ProviderFacts) -> Objection | None:
    """Which demand on the node cannot be served, or None when all can."""
    for expression in _selector_expressions(spec):
        objection = _objection(expression, "node selector", facts)
        if objection is not None:
            return objection
    for number, term in enumerate(_required_terms(_node_affinity(spec)), start=1):
        where = f"required node affinity term {number}"
        if term.match_fields:
            sentence = f"{where} uses matchFields, which is not supported; use matchExpressions"
            return WhyIgnored.MATCH_FIELDS_UNSUPPORTED, sentence
        for expression in term.match_expressions:
            objection = _objection(expression, where, facts)
            if objection is not None:
                return objection
    return None


def _first_choice(spec: PodSpec) -> Iterator[NodeSelectorRequirement]:
    yield from _selector_expressions(spec)
    affinity = _node_affinity(spec)
    if affinity is None:
        return
    for term in _required_terms(affinity)[:1]:
        yield from term.match_expressions
    if affinity.preferred:
        heaviest = max(affinity.preferred, key=lambda term: term.weight)
        yield from heaviest.preference.match_expressions


def _selector_expressions(spec: PodSpec) -> Iterator[NodeSelectorRequirement]:
    for key, value in spec.node_selector.items():
        yield NodeSelectorRequirement(key=key, operator=Operator.IN, values=(value,))


def _node_affinity(spec: PodSpec) -> NodeAffinity | None:
    return spec.affinity.node_affinity if spec.affinity is not None else None


def _required_terms(affinity: NodeAffinity | None) -> tuple[NodeSelectorTerm, ...]:
    if affinity is None or affinity.required is None:
        return ()
    return affinity.required.node_selector_terms


def _objection(
    expression: NodeSelectorRequirement, where: str, facts: ProviderFacts
) -> Objection | None:
    restricted = _restriction(expression.key, facts)
    if restricted is not None:
        return WhyIgnored.RESTRICTED_LABEL, f"{where}: {restricted}"
    invalid = _key_problem(expression.key) or _operand_problem(expression)
    if invalid is not None:
        return WhyIgnored.INVALID_REQUIREMENT, f"{where}: {invalid}"
    if (
        labels.normalise(expression.key) == labels.CAPACITY_TYPE
        and expression.operator == Operator.IN
        and labels.CAPACITY_TYPES.isdisjoint(expression.values)
    ):
        known = ", ".join(sorted(labels.CAPACITY_TYPES))
        found = _listed(expression.values)
        sentence = f"{where}: {expression.key} {found} is unknown; use one of {known}"
        return WhyIgnored.UNKNOWN_CAPACITY_TYPE, sentence
    return None


def _restriction(key: str, facts: ProviderFacts) -> str | None:
    stable = labels.normalise(key)
    if stable in facts.well_known_labels and stable != labels.HOSTNAME:
        return None
    return restricted_reason(key, place=Place.POD)


def _key_problem(key: str) -> str | None:
    problem = label_key_problem(key)
    return f"label key {key!r} {problem}" if problem is not None else None


def _operand_problem(expression: NodeSelectorRequirement) -> str | None:
    key, operator, values = expression.key, expression.operator, expression.values
    if operator not in _OPERATORS:
        known = ", ".join(Operator)
        return f"operator {operator!r} of {key} is unknown; use one of {known}"
    if operator in _BOUNDS:
        bound = parse_integer(values[0]) if len(values) == 1 else None
        if bound is None or bound < 0:
            found = _listed(values) or "none"
            return f"{key} {operator} needs exactly one integer that is not negative, not {found}"
    if operator == Operator.IN and not values:
        return f"{key} In needs at least one value"
    for value in values:
        problem = label_value_problem(value)
        if problem is not None:
            return f"value {value!r} of {key} {problem}"
    return None


def _listed(values: Iterable[str]) -> str:
    return ", ".join(values)
