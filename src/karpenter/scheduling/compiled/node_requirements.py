"""What a pod requires of the labels of its node, as ``Requirements``.

Contradicting requirements intersect to the empty set, which in the algebra of requirements means
that the label is absent. A node without the label does not satisfy the pod, though, unless each of
its requirements allows absence; so a contradiction becomes a requirement on a key that no node has.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from karpenter.api.selectors import NodeSelectorTerm
from karpenter.model.requirement import Operator, Requirement, RequirementError, requirement
from karpenter.model.requirements import Requirements

_NO_DEMANDS: Final = Requirements()
CONTRADICTION: Final = ""  # no label has an empty key; the value describes the contradiction


def selector_demands(node_selector: Mapping[str, str]) -> Requirements:
    """What a node selector asks for."""
    if not node_selector:
        return _NO_DEMANDS
    wanted = (requirement(key, Operator.IN, (value,)) for key, value in node_selector.items())
    return _all_of(Requirements(), wanted)


def with_terms(demands: Requirements, terms: Iterable[NodeSelectorTerm]) -> Requirements:
    """What is asked for when every one of ``terms`` must be met as well."""
    try:
        for term in terms:
            wanted = [requirement(e.key, e.operator, e.values) for e in term.match_expressions]
            demands = _all_of(demands, wanted)
    except RequirementError as error:
        return _impossible(str(error))  # only preferences are unchecked here; this one is given up
    return demands


def _all_of(demands: Requirements, more: Iterable[Requirement]) -> Requirements:
    narrowed = {held.key: held for held in demands}
    for wanted in more:
        held = narrowed.get(wanted.key)
        both = narrowed[wanted.key] = wanted if held is None else held.intersection(wanted)
        if held is None or both.operator is not Operator.DOES_NOT_EXIST:
            continue
        if not (held.allows_absence and wanted.allows_absence):
            return _impossible(f"{wanted} contradicts {held}")
    return Requirements(narrowed.values())


def _impossible(why: str) -> Requirements:
    return Requirements((Requirement(CONTRADICTION, complement=False, values=frozenset({why})),))
