"""Labels, selectors, taints and tolerations, checked one value at a time.

Whether two requirements can both be met is found by trying values: all that they mention, the
integers next to those, one value that is mentioned nowhere, and the absence of the label.
Requirements list values or compare integers, so every other value behaves like one of these.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from karpenter.api.nodes import Taint
from karpenter.api.pods import PodSpec, Toleration
from karpenter.api.selectors import LabelSelector
from karpenter.checker.inputs import ValueSet

Value: TypeAlias = str | None  # None: the label is absent

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
NODEPOOL: Final = "karpenter.sh/nodepool"

_RENAMED: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
}
_UNHEARD_OF: Final = "~unheard-of~"


@dataclass(frozen=True)
class Demand:
    """One requirement on one label."""

    key: str
    mentioned: frozenset[str]
    is_closed: bool  # allows no value that it does not mention
    allows: Callable[[Value], bool]


Demands: TypeAlias = Sequence[Demand]


def demand(key: str, operator: str, values: Iterable[str]) -> Demand:
    """A demand as it stands in a manifest."""
    listed = tuple(values)
    return Demand(
        stable(key),
        frozenset(listed),
        operator in ("In", "DoesNotExist"),
        lambda value: _holds(operator, listed, value),
    )


def demand_of(held: ValueSet) -> Demand:
    """A demand as catalogues and plans hold it."""
    bounds = [str(bound) for bound in (held.gte, held.lte) if bound is not None]

    def allows(value: Value) -> bool:
        if value is None:
            # excluding values does not require the label; bounds do
            return bool(held.values) and not bounds if held.complement else not held.values
        if (value in held.values) == held.complement:
            return False
        if not bounds:
            return True
        number = _integer(value)
        return (
            number is not None
            and (held.gte is None or number >= held.gte)
            and (held.lte is None or number <= held.lte)
        )

    return Demand(held.key, held.values | set(bounds), not held.complement, allows)


def about(key: str, *parties: Iterable[Demand]) -> list[Demand]:
    """All requirements on one label."""
    return [one for party in parties for one in party if one.key == key]


def trials(demands: Sequence[Demand]) -> list[Value]:
    """Values to try, the absence of the label among them."""
    closed = [one.mentioned for one in demands if one.is_closed]
    if closed:
        return [None, *min(map(sorted, closed), key=len)]
    mentioned = {value for one in demands for value in one.mentioned}
    numbers = {number for value in mentioned if (number := _integer(value)) is not None}
    near = {str(number + step) for number in numbers for step in (-1, 0, 1)}
    return [None, *sorted(mentioned | near | {_UNHEARD_OF})]


def can_agree(demands: Sequence[Demand]) -> bool:
    """Whether some value of a label, or its absence, satisfies all."""
    return any(all(one.allows(value) for one in demands) for value in trials(demands))


def node_alternatives(spec: PodSpec) -> list[list[Demand]]:
    """A pod's alternative demands on its node: its selector with each required term."""
    selector = [demand(key, "In", (value,)) for key, value in spec.node_selector.items()]
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None or not affinity.required.node_selector_terms:
        return [selector]
    return [
        selector + [demand(e.key, e.operator, e.values) for e in term.match_expressions]
        for term in affinity.required.node_selector_terms
    ]


def label_meets(labels: Mapping[str, str], demands: Iterable[Demand]) -> bool:
    """Whether a node with these labels satisfies every demand."""
    known = {stable(key): value for key, value in labels.items()}
    return all(one.allows(known.get(one.key)) for one in demands)


def selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches an object; an absent one matches none."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _holds(e.operator, e.values, labels.get(e.key)) for e in selector.match_expressions
    )


def untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], *, soft_too: bool
) -> Taint | None:
    """The first taint that a pod does not tolerate; ``soft_too`` includes ``PreferNoSchedule``."""
    for taint in taints:
        if taint.effect == "PreferNoSchedule" and not soft_too:
            continue
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def stable(key: str) -> str:
    """The present name of a label."""
    return _RENAMED.get(key, key)


def _holds(operator: str, values: Sequence[str], value: Value) -> bool:
    if operator == "DoesNotExist":
        return value is None
    if operator == "NotIn":
        return value is None or value not in values
    if value is None:
        return False
    if operator == "In":
        return value in values
    return operator == "Exists" or _compares(operator, values, value)


def _compares(operator: str, values: Sequence[str], value: str) -> bool:
    number = _integer(value)
    bound = _integer(values[0]) if len(values) == 1 else None
    if number is None or bound is None:
        return False
    return {
        "Gt": number > bound,
        "Gte": number >= bound,
        "Lt": number < bound,
        "Lte": number <= bound,
    }.get(operator, False)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if toleration.operator in ("Gt", "Lt"):
        return _compares(toleration.operator, (toleration.value,), taint.value)
    return toleration.operator == "Exists"


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdigit() else None
