"""Where pods may run: tolerations, affinity and spreading."""

from typing import Final

from karpenter.admission.errors import Path
from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.validation import grammar
from karpenter_sandbox.kinds.validation.problems import (
    Problems,
    Verbatim,
    duplicate,
    one_of,
    required,
    unsupported,
    wrong,
)
from karpenter_sandbox.kinds.validation.selecting import (
    node_selector_problems,
    node_term_problems,
    selector_problems,
)

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def placing_problems(spec: JsonObject, path: Path) -> Problems:
    """What is wrong with where the pods of a specification may run."""
    for index, toleration in enumerate(spec.get("tolerations") or []):
        yield from _toleration_problems(toleration, (*path, "tolerations", index))
    constraints = spec.get("topologySpreadConstraints") or []
    last = {_spread_key(constraint): index for index, constraint in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        place = (*path, "topologySpreadConstraints", index)
        yield from _spread_problems(constraint, place)
        if last[_spread_key(constraint)] > index:
            shown = "{" + ", ".join(_spread_key(constraint)) + "}"
            yield duplicate((*place, Verbatim("{topologyKey, whenUnsatisfiable}")), shown)
    affinity = spec.get("affinity") or {}
    yield from _node_affinity_problems(
        affinity.get("nodeAffinity") or {}, (*path, "affinity", "nodeAffinity")
    )
    for name in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity_problems(affinity.get(name) or {}, (*path, "affinity", name))


def taint_problems(taints: list[JsonObject], path: Path) -> Problems:
    """What is wrong with the taints of a node."""
    seen = set()
    for index, taint in enumerate(taints):
        place = (*path, index)
        key, effect = taint.get("key", ""), taint.get("effect", "")
        for problem in grammar.label_key(key):
            yield wrong((*place, "key"), key, problem)
        for problem in grammar.label_value(taint.get("value", "")):
            yield wrong((*place, "value"), taint["value"], problem)
        if not effect:
            yield required((*place, "effect"))
        elif effect not in _EFFECTS:
            yield unsupported((*place, "effect"), effect, _EFFECTS)
        if (key, effect) in seen:
            shown = {
                "Key": key,
                "Value": taint.get("value", ""),
                "Effect": effect,
                "TimeAdded": taint.get("timeAdded"),
            }
            detail = "taints must be unique by key and effect pair"
            yield duplicate(place, shown, detail)
        seen.add((key, effect))


def _toleration_problems(toleration: JsonObject, path: Path) -> Problems:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        for problem in grammar.label_key(key):
            yield wrong((*path, "key"), key, problem)
    elif operator != "Exists":
        detail = (
            "operator must be Exists when `key` is empty,"
            ' which means "match all values and all keys"'
        )
        yield wrong((*path, "operator"), operator, detail)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield wrong((*path, "effect"), effect, detail)
    if operator in {"", "Equal"}:
        problems = grammar.label_value(value)
        if problems:
            yield wrong((*path, "operator"), value, ";".join(problems))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield wrong((*path, "operator"), value, detail)
    else:
        yield unsupported((*path, "operator"), operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        yield unsupported((*path, "effect"), effect, _EFFECTS)


def _spread_problems(constraint: JsonObject, path: Path) -> Problems:
    skew = constraint.get("maxSkew", 0)
    if skew <= 0:
        yield wrong((*path, "maxSkew"), skew, "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield required((*path, "topologyKey"), "can not be empty")
    else:
        for problem in grammar.label_key(constraint["topologyKey"]):
            yield wrong((*path, "topologyKey"), constraint["topologyKey"], problem)
    unsatisfiable = constraint.get("whenUnsatisfiable", "")
    if unsatisfiable not in {"DoNotSchedule", "ScheduleAnyway"}:
        allowed = ("DoNotSchedule", "ScheduleAnyway")
        yield unsupported((*path, "whenUnsatisfiable"), unsatisfiable, allowed)
    domains = constraint.get("minDomains")
    if domains is not None and domains <= 0:
        yield wrong((*path, "minDomains"), domains, "must be greater than zero")
    if domains is not None and unsatisfiable != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {unsatisfiable}"
        yield wrong((*path, "minDomains"), domains, detail)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        yield from one_of(path, constraint, name, "Honor", "Ignore")
    yield from selector_problems(constraint.get("labelSelector"), (*path, "labelSelector"))


def _spread_key(constraint: JsonObject) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _node_affinity_problems(affinity: JsonObject, path: Path) -> Problems:
    if _REQUIRED in affinity:
        yield from node_selector_problems(affinity[_REQUIRED], (*path, _REQUIRED))
    for index, term in enumerate(affinity.get(_PREFERRED) or []):
        place = (*path, _PREFERRED, index)
        yield from _weight_problems(term, place)
        yield from node_term_problems(term.get("preference") or {}, (*place, "preference"))


def _pod_affinity_problems(affinity: JsonObject, path: Path) -> Problems:
    for index, term in enumerate(affinity.get(_REQUIRED) or []):
        yield from _pod_term_problems(term, (*path, _REQUIRED, index))
    for index, weighted in enumerate(affinity.get(_PREFERRED) or []):
        place = (*path, _PREFERRED, index)
        yield from _weight_problems(weighted, place)
        yield from _pod_term_problems(
            weighted.get("podAffinityTerm") or {}, (*place, "podAffinityTerm")
        )


def _pod_term_problems(term: JsonObject, path: Path) -> Problems:
    yield from selector_problems(term.get("labelSelector"), (*path, "labelSelector"))
    yield from selector_problems(term.get("namespaceSelector"), (*path, "namespaceSelector"))
    key = term.get("topologyKey", "")
    if not key:
        yield required((*path, "topologyKey"), "can not be empty")
    for problem in grammar.label_key(key):
        yield wrong((*path, "topologyKey"), key, problem)


def _weight_problems(term: JsonObject, path: Path) -> Problems:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        yield wrong((*path, "weight"), weight, "must be in the range 1-100")
