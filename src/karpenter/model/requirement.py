"""One requirement on a node label, and the set algebra that narrows it.

A ``Requirement`` is a set of label values for one key. The set is either concrete (exactly these
values) or a complement (every value but these), and a complement may be bounded to an interval of
integers. The eight operators of the API are eight ways to write such a set::

    In v         concrete {v}          Gt n    complement {}, at least n+1
    NotIn v      complement {v}        Gte n   complement {}, at least n
    Exists       complement {}         Lt n    complement {}, at most n-1
    DoesNotExist concrete {}           Lte n   complement {}, at most n

The empty concrete set also stands for "the label is absent", which is why two requirements that
both allow absence are compatible although no value satisfies both. ``NotIn`` allows absence too,
but not once it was narrowed by a requirement that does not: ``must_exist`` then records that the
label is required.

Requirements are values: operations return new ones, and equal ones hash alike. Collections with
one per key, and their compatibility, are in ``requirements``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from karpenter.api.karpenter import NodeRequirement
from karpenter.model.labels import normalise

_SMALLEST_INTEGER: Final = -(2**63)
_LARGEST_INTEGER: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_LONGEST_INTEGER: Final = 128  # beyond any label value; keeps int() cheap on hostile text
_VALUES_SHOWN: Final = 5

Chooser: TypeAlias = Callable[[int], int]  # number of choices -> index of the chosen one
ValueRewrites: TypeAlias = Mapping[str, Mapping[str, str]]  # key -> value -> value to read instead
_NO_REWRITES: Final[ValueRewrites] = {}


class RequirementError(ValueError):
    """A requirement that cannot be satisfied or evaluated, such as ``Gt`` without an integer."""


class Operator(StrEnum):
    """The operators of a node selector requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"
    GTE = "Gte"
    LTE = "Lte"


@dataclass(frozen=True, slots=True)
class Requirement:
    """The values one label may have; build it with ``requirement`` unless the set is at hand."""

    key: str
    complement: bool = True
    values: frozenset[str] = frozenset()
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None
    must_exist: bool = False  # set only for NotIn, which otherwise allows absence

    @property
    def operator(self) -> Operator:
        """The operator that describes the set; bounds do not change it."""
        if self.complement:
            return Operator.NOT_IN if self.values else Operator.EXISTS
        return Operator.IN if self.values else Operator.DOES_NOT_EXIST

    @property
    def allows_absence(self) -> bool:
        """Whether a node without the label satisfies the requirement."""
        if self.complement:
            return bool(self.values) and not self.must_exist and not self._is_bounded
        return not self.values

    @property
    def allows_anything(self) -> bool:
        """Whether every value satisfies the requirement."""
        return self.complement and not self.values and not self._is_bounded

    def has(self, value: str) -> bool:
        """Whether a label with ``value`` satisfies the requirement."""
        return (value in self.values) != self.complement and (
            (self.gte is None and self.lte is None) or _is_between(value, self.gte, self.lte)
        )

    def intersection(self, other: "Requirement") -> "Requirement":
        """Return the values that satisfy both; ``min_values`` is the larger of the two."""
        gte, lte = _tightest(max, self.gte, other.gte), _tightest(min, self.lte, other.lte)
        min_values = _tightest(max, self.min_values, other.min_values)
        if _is_crossed(gte, lte):
            return Requirement(self.key, complement=False, min_values=min_values)
        values = _intersect_values(self, other)
        if gte is not None or lte is not None:
            values = frozenset(value for value in values if _is_between(value, gte, lte))
        if self.complement and other.complement:
            both_optional = self.allows_absence and other.allows_absence
            unbounded = bool(values) and gte is None and lte is None
            must_exist = unbounded and not both_optional
            return Requirement(self.key, True, values, gte, lte, min_values, must_exist)
        return Requirement(self.key, False, values, min_values=min_values)

    def has_intersection(self, other: "Requirement") -> bool:
        """Whether some value satisfies both, found without building the intersection.

        Two complements are taken to intersect unless their bounds cross, even if everything
        between the bounds is excluded.
        """
        gte, lte = _tightest(max, self.gte, other.gte), _tightest(min, self.lte, other.lte)
        if _is_crossed(gte, lte):
            return False
        if self.complement:
            if other.complement:
                return True
            concrete, rest = other, self
        else:
            concrete, rest = self, other
        if gte is None and lte is None:
            if rest.complement:
                return not concrete.values <= rest.values
            return not concrete.values.isdisjoint(rest.values)
        return any(
            (value in rest.values) != rest.complement and _is_between(value, gte, lte)
            for value in concrete.values
        )

    def any(self, choose: Chooser = lambda choices: 0) -> str:
        """Return one value that satisfies the requirement, or nothing when there is none.

        ``choose`` picks among the choices in their order; pass ``Random(seed).randrange`` for
        variety. Where the set is a complement, the choices are the integers it allows, from its
        lower bound (else zero) upwards.
        """
        if not self.complement:
            choices = sorted(self.values)
            return choices[choose(len(choices))] if choices else ""
        highest = _LARGEST_INTEGER if self.lte is None else self.lte
        lowest = min(0, highest) if self.gte is None else self.gte
        excluded = sorted(
            number
            for value in self.values
            if (number := parse_integer(value)) is not None
            and str(number) == value
            and lowest <= number <= highest
        )
        count = highest - lowest + 1 - len(excluded)
        if count <= 0:
            return ""
        number = lowest + choose(count)
        for hole in excluded:
            if hole <= number:
                number += 1
        return str(number)

    def to_wire(self) -> list[NodeRequirement]:
        """Write the requirement as entries of a NodeClaim's ``requirements``.

        A bounded requirement takes one entry per bound, and its excluded values are omitted.
        ``NotIn`` with ``must_exist`` takes two entries, ``Exists`` and ``NotIn``.
        """
        if self.gte is not None or self.lte is not None:
            bounds = ((Operator.GTE, self.gte), (Operator.LTE, self.lte))
            return [self._entry(how, str(bound)) for how, bound in bounds if bound is not None]
        whole = self._entry(self.operator, *sorted(self.values))
        return [self._entry(Operator.EXISTS), whole] if self.must_exist else [whole]

    def _entry(self, operator: Operator, *values: str) -> NodeRequirement:
        return NodeRequirement(
            key=self.key, operator=operator, values=values, min_values=self.min_values
        )

    def __str__(self) -> str:
        """The requirement for display: ``zone In [a b] minValues 2``, long lists truncated."""
        parts = [self.key, *(("Exists",) if self.must_exist else ()), self.operator.value]
        if self.values:
            shown = sorted(self.values)[:_VALUES_SHOWN]
            if len(self.values) > _VALUES_SHOWN:
                shown.append(f"and {len(self.values) - _VALUES_SHOWN} others")
            parts.append(f"[{' '.join(shown)}]")
        parts += [
            f"{word}{bound}"
            for word, bound in ((">=", self.gte), ("<=", self.lte), ("minValues ", self.min_values))
            if bound is not None
        ]
        return " ".join(parts)

    @property
    def _is_bounded(self) -> bool:
        return self.gte is not None or self.lte is not None


def requirement(
    key: str,
    operator: str,
    values: Iterable[str] = (),
    min_values: int | None = None,
    *,
    rewrites: ValueRewrites = _NO_REWRITES,
) -> Requirement:
    """Build a requirement from the fields of the API; the key is normalised.

    Raises:
        RequirementError: when the operator is unknown or needs one integer and has none.
    """
    stable = normalise(key)
    rewrite = rewrites.get(stable, {})
    listed = [rewrite.get(value, value) for value in values]
    match operator:
        case Operator.IN:
            return Requirement(stable, False, frozenset(listed), min_values=min_values)
        case Operator.NOT_IN:
            return Requirement(stable, True, frozenset(listed), min_values=min_values)
        case Operator.EXISTS:
            return Requirement(stable, True, min_values=min_values)
        case Operator.DOES_NOT_EXIST:
            return Requirement(stable, False, min_values=min_values)
        case Operator.GT | Operator.LT | Operator.GTE | Operator.LTE:
            return _bounded(stable, Operator(operator), listed, min_values)
    known = ", ".join(Operator)
    raise RequirementError(f"operator {operator!r} of {key} is unknown; use one of {known}")


def parse_integer(text: str) -> int | None:
    """Read a decimal integer of 64 bits, or None when ``text`` is anything else."""
    if len(text) > _LONGEST_INTEGER or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if _SMALLEST_INTEGER <= number <= _LARGEST_INTEGER else None


def _bounded(
    key: str, operator: Operator, values: list[str], min_values: int | None
) -> Requirement:
    bound = parse_integer(values[0]) if len(values) == 1 else None
    if bound is None:
        raise RequirementError(f"{key} {operator} needs exactly one integer, not {values}")
    gte = lte = None
    match operator:
        case Operator.GT:
            gte = bound + 1
        case Operator.GTE:
            gte = bound
        case Operator.LT:
            lte = bound - 1
        case Operator.LTE:
            lte = bound
    if _is_crossed(gte, _LARGEST_INTEGER) or _is_crossed(_SMALLEST_INTEGER, lte):
        return Requirement(key, complement=False, min_values=min_values)
    return Requirement(key, True, gte=gte, lte=lte, min_values=min_values)


def _intersect_values(left: Requirement, right: Requirement) -> frozenset[str]:
    match left.complement, right.complement:
        case True, True:
            return left.values | right.values
        case True, False:
            return right.values - left.values
        case False, True:
            return left.values - right.values
        case _:
            return left.values & right.values


def _tightest(pick: Callable[[int, int], int], left: int | None, right: int | None) -> int | None:
    if left is None:
        return right
    return left if right is None else pick(left, right)


def _is_crossed(gte: int | None, lte: int | None) -> bool:
    return gte is not None and lte is not None and gte > lte


def _is_between(value: str, gte: int | None, lte: int | None) -> bool:
    number = parse_integer(value)
    return number is not None and (gte is None or number >= gte) and (lte is None or number <= lte)
