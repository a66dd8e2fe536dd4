"""Label selectors: which objects a selector matches.

An absent selector matches nothing, and an empty one matches everything. An expression with an
unknown operator matches nothing, so that a typing mistake never widens a selection.
"""

from collections.abc import Mapping

from karpenter.api.selectors import LabelSelector, LabelSelectorRequirement


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether ``selector`` matches an object with ``labels``."""
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    expressions = selector.match_expressions
    return not expressions or all(_holds(expression, labels) for expression in expressions)


def is_empty(selector: LabelSelector | None) -> bool:
    """Whether ``selector`` is present and matches everything."""
    return selector is not None and not selector.match_labels and not selector.match_expressions


def with_values(
    selector: LabelSelector | None,
    values: Mapping[str, str],
    without: Mapping[str, str] | None = None,
) -> LabelSelector:
    """Return the selector narrowed to objects that have these labels as well, and not the others.

    Expressions that the selector has already are not repeated.
    """
    base = selector or LabelSelector()
    more = (
        LabelSelectorRequirement(key=key, operator=operator, values=(value,))
        for operator, labels in (("In", values), ("NotIn", without or {}))
        for key, value in labels.items()
    )
    said = base.match_expressions
    return LabelSelector(
        match_labels=base.match_labels,
        match_expressions=said + tuple(entry for entry in more if entry not in said),
    )


def format_selector(selector: LabelSelector | None) -> str:
    """Write a selector as kubectl does: ``app=web,tier in (a,b)``."""
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    parts += [_expression(expression) for expression in selector.match_expressions]
    return ",".join(parts) or "all pods"


def _expression(expression: LabelSelectorRequirement) -> str:
    match expression.operator:
        case "Exists":
            return expression.key
        case "DoesNotExist":
            return f"!{expression.key}"
    return f"{expression.key} {expression.operator.lower()} ({','.join(expression.values)})"


def _holds(expression: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    match expression.operator:
        case "In":
            return labels.get(expression.key) in expression.values
        case "NotIn":
            return labels.get(expression.key) not in expression.values
        case "Exists":
            return expression.key in labels
        case "DoesNotExist":
            return expression.key not in labels
    return False
