"""Label selectors inside objects."""

from typing import Any

from karpenter.admission.errors import Path
from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.validation import grammar
from karpenter_sandbox.kinds.validation.metadata import label_errors
from karpenter_sandbox.kinds.validation.problems import (
    Problems,
    forbidden,
    required,
    wrong,
)


def selector_problems(selector: JsonObject | None, path: Path) -> Problems:
    """What is wrong with a label selector."""
    if selector is None:
        return
    yield from label_errors(selector.get("matchLabels") or {}, (*path, "matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        yield from _expression_problems(expression, (*path, "matchExpressions", index))


def node_expression_problems(expression: JsonObject, path: Path) -> Problems:
    """What is wrong with one condition on the labels of nodes."""
    if expression.get("operator", "") not in ("Gt", "Lt"):
        yield from _operator_problems(expression, path)
    elif len(expression.get("values") or []) != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        yield required((*path, "values"), detail)
    yield from _key_problems(expression.get("key", ""), (*path, "key"))


def _expression_problems(expression: JsonObject, path: Path) -> Problems:
    yield from _operator_problems(expression, path)
    yield from _key_problems(expression.get("key", ""), (*path, "key"))
    for index, value in enumerate(expression.get("values") or []):
        for problem in grammar.label_value(value):
            yield wrong((*path, "values", index), value, problem)


def _operator_problems(expression: JsonObject, path: Path) -> Problems:
    """What is wrong with an operator that takes any number of values, or none."""
    operator, values = expression.get("operator", ""), expression.get("values") or []
    match operator:
        case "In" | "NotIn":
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                yield required((*path, "values"), detail)
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden((*path, "values"), detail)
        case _:
            yield wrong((*path, "operator"), operator, "not a valid selector operator")


def _key_problems(key: str, path: Path) -> Problems:
    for problem in grammar.label_key(key):
        yield wrong(path, key, problem)


def node_selector_problems(selector: JsonObject, path: Path) -> Problems:
    """What is wrong with a selector of nodes."""
    terms: list[Any] = selector.get("nodeSelectorTerms") or []
    if not terms:
        yield required((*path, "nodeSelectorTerms"), "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from node_term_problems(term, (*path, "nodeSelectorTerms", index))


def node_term_problems(term: JsonObject, path: Path) -> Problems:
    """What is wrong with one alternative of a selector of nodes."""
    for index, expression in enumerate(term.get("matchExpressions") or []):
        yield from node_expression_problems(expression, (*path, "matchExpressions", index))
    for index, field in enumerate(term.get("matchFields") or []):
        place = (*path, "matchFields", index)
        if field.get("key") != "metadata.name":
            yield wrong((*place, "key"), field.get("key", ""), "not a valid field selector key")
        if field.get("operator") not in {"In", "NotIn"}:
            detail = "not a valid selector operator"
            yield wrong((*place, "operator"), field.get("operator", ""), detail)
        elif len(field.get("values") or []) != 1:
            detail = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            yield required((*place, "values"), detail)
