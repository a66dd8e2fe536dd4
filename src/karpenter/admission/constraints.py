"""Labels, requirements and taints: the rules every kind that describes nodes has in common.

Each kind passes a ``Place``, since the reserved keys differ from place to place. Values of the
wrong type are skipped; schemas report those.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from karpenter.admission.errors import (
    ErrorKind,
    FieldError,
    FieldWarning,
    Findings,
    Path,
    render_path,
)
from karpenter.api.node_classes import ec2_labels, kwok_labels
from karpenter.model import labels
from karpenter.model.label_rules import (
    CORE_KEYS,
    Place,
    ProviderKeys,
    label_key_problem,
    label_value_problem,
    restricted_reason,
)
from karpenter.model.labels import CORE_WELL_KNOWN
from karpenter.model.memo import remembered
from karpenter.model.suggestions import nearest_key

_KEYS: Final[Mapping[str, ProviderKeys]] = {
    "aws": ProviderKeys(
        well_known=CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN,
        domain=ec2_labels.DOMAIN,
        node_classes=frozenset({ec2_labels.NODE_CLASS}),
        settled_at_launch=ec2_labels.SETTLED_AT_LAUNCH,
        alpha=frozenset({ec2_labels.INSTANCE_AMI_ID, ec2_labels.INSTANCE_PODS}),
    ),
    "kwok": ProviderKeys(
        well_known=CORE_WELL_KNOWN | kwok_labels.WELL_KNOWN,
        domain=kwok_labels.DOMAIN,
        node_classes=frozenset({kwok_labels.NODE_CLASS}),
        # as on AWS, so that a NodeOverlay tested with the simulated provider is accepted there too
        settled_at_launch=ec2_labels.SETTLED_AT_LAUNCH,
    ),
}

Finding: TypeAlias = FieldError | FieldWarning

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_KNOWN_VALUES: Final = {
    labels.CAPACITY_TYPE: labels.CAPACITY_TYPES,
    ec2_labels.INSTANCE_TENANCY: ec2_labels.TENANCIES,
}
_ASCII_INTEGER: Final = re.compile(r"[0-9]+")


def collect(found: Iterable[Finding]) -> Findings:
    """Separate errors from warnings, keeping the order of each."""
    findings = Findings()
    for finding in found:
        if isinstance(finding, FieldError):
            findings.errors.append(finding)
        else:
            findings.warnings.append(finding)
    return findings


def object_at(parent: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return the object in ``field``, or an empty one when there is none."""
    value = parent.get(field)
    return value if isinstance(value, Mapping) else {}


def objects_at(parent: Mapping[str, Any], field: str) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the objects of the list in ``field`` with their positions."""
    value = parent.get(field)
    if not isinstance(value, list):
        return []
    return [(index, item) for index, item in enumerate(value) if isinstance(item, Mapping)]


def label_findings(
    given: Mapping[str, Any], path: Path, *, place: Place, provider: str
) -> Iterator[Finding]:
    """Check the keys and values of a map of labels."""
    for key, value in given.items():
        if not isinstance(key, str):
            continue
        yield from key_findings(key, (*path, key), place=place, provider=provider)
        problem = label_value_problem(value) if isinstance(value, str) else None
        if problem:
            yield FieldError(ErrorKind.INVALID, (*path, key), f"the value {problem}", value)


def requirement_findings(
    spec: Mapping[str, Any], path: Path, *, place: Place, provider: str
) -> Iterator[Finding]:
    """Check the keys and values of ``requirements``."""
    for index, requirement in objects_at(spec, "requirements"):
        here = (*path, "requirements", index)
        key = requirement.get("key")
        if not isinstance(key, str):
            continue
        yield from key_findings(key, (*here, "key"), place=place, provider=provider)
        values = requirement.get("values")
        for position, value in enumerate(values if isinstance(values, list) else ()):
            problem = label_value_problem(value) if isinstance(value, str) else None
            if problem:
                yield FieldError(ErrorKind.INVALID, (*here, "values", position), problem, value)


def known_value_findings(
    spec: Mapping[str, Any], path: Path, *, provider: str
) -> Iterator[Finding]:
    """Check that ``requirements`` on keys with a closed set of values allow one of them."""
    for index, requirement in objects_at(spec, "requirements"):
        key = str(requirement.get("key"))
        known = _KNOWN_VALUES.get(key) if key in keys_of(provider).well_known else None
        if known and requirement.get("operator") == "In":
            yield from _choice_findings(requirement, (*path, "requirements", index), known)


def key_findings(key: str, path: Path, *, place: Place, provider: str) -> Iterator[Finding]:
    """Check one label key: its grammar, whether it is reserved, and whether it looks misspelt."""
    if problem := label_key_problem(key):
        yield FieldError(ErrorKind.INVALID, path, f"the key {problem}", key)
        return
    meant = _meant(labels.normalise(key), provider)
    hint = f"; did you mean {meant}?" if meant else ""
    if reason := restricted_reason(key, place=place, provider=keys_of(provider)):
        yield FieldError(ErrorKind.FORBIDDEN, path, f"{reason}{hint}")
    elif meant:
        yield FieldWarning(path, f"label {key} has no special meaning{hint}")


def operator_errors(
    spec: Mapping[str, Any], path: Path, *, operators: tuple[str, ...]
) -> Iterator[FieldError]:
    """Check the operators of ``requirements`` and how many values each takes."""
    for index, requirement in objects_at(spec, "requirements"):
        here = (*path, "requirements", index)
        operator, values = requirement.get("operator"), _values(requirement)
        if operator not in operators:
            yield _not_one_of(operators, (*here, "operator"), operator)
        elif operator == "In" and not values:
            yield FieldError(
                ErrorKind.REQUIRED, (*here, "values"), "operator In needs at least one value"
            )
        elif operator in ("Gt", "Lt") and not _is_one_integer(values):
            yield FieldError(
                ErrorKind.INVALID,
                (*here, "values"),
                f"operator {operator} needs exactly one integer of at least 0",
                values,
            )


def taint_errors(
    spec: Mapping[str, Any], path: Path, *, effect_required: bool
) -> Iterator[FieldError]:
    """Check ``taints`` and ``startupTaints``, which may not repeat each other either."""
    first_of: dict[tuple[str, str], Path] = {}  # key and effect -> path of the first such taint
    for field in ("taints", "startupTaints"):
        for index, taint in objects_at(spec, field):
            here = (*path, field, index)
            yield from _single_taint_errors(taint, here, effect_required=effect_required)
            identity = (str(taint.get("key")), str(taint.get("effect") or ""))
            first = first_of.setdefault(identity, here)
            if first != here:
                yield FieldError(
                    ErrorKind.DUPLICATE,
                    here,
                    f"has the key and effect of {render_path(first)}; remove one of the two",
                    ":".join(identity),
                )


# The search for the nearest key takes a millisecond or more, and pools are checked repeatedly.
@remembered(1024)
def _meant(key: str, provider: str) -> str | None:
    return nearest_key(key, keys_of(provider).well_known)


def _single_taint_errors(
    taint: Mapping[str, Any], path: Path, *, effect_required: bool
) -> Iterator[FieldError]:
    key, value, effect = taint.get("key") or "", taint.get("value"), taint.get("effect")
    if isinstance(key, str) and (problem := label_key_problem(key)):
        yield FieldError(ErrorKind.INVALID, (*path, "key"), problem, key)
    # A taint's value follows the grammar of keys, not that of label values.
    if isinstance(value, str) and value and (problem := label_key_problem(value)):
        yield FieldError(ErrorKind.INVALID, (*path, "value"), problem, value)
    if not effect:
        if effect_required:
            yield FieldError(
                ErrorKind.REQUIRED, (*path, "effect"), f"must be one of {', '.join(TAINT_EFFECTS)}"
            )
    elif effect not in TAINT_EFFECTS:
        yield _not_one_of(TAINT_EFFECTS, (*path, "effect"), effect)


def _not_one_of(choices: Iterable[str], path: Path, value: object) -> FieldError:
    return FieldError(ErrorKind.NOT_SUPPORTED, path, f"must be one of {', '.join(choices)}", value)


def _choice_findings(
    requirement: Mapping[str, Any], path: Path, known: frozenset[str]
) -> Iterator[Finding]:
    values = _values(requirement)
    unknown = [value for value in values if value not in known]
    usable = {value for value in values if value in known}
    choices = ", ".join(sorted(known))
    minimum = requirement.get("minValues")
    if not usable:
        yield FieldError(
            ErrorKind.NOT_SUPPORTED,
            (*path, "values"),
            f"holds no known value; use one of {choices}",
            values,
        )
    elif isinstance(minimum, int) and len(usable) < minimum:
        yield FieldError(
            ErrorKind.INVALID,
            (*path, "minValues"),
            f"is more than the {len(usable)} known values listed; known are {choices}",
            minimum,
        )
    elif unknown:
        yield FieldWarning(
            (*path, "values"), f"{', '.join(unknown)} will never match; known are {choices}"
        )


def _values(requirement: Mapping[str, Any]) -> list[str]:
    values = requirement.get("values")
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, str)]


def _is_one_integer(values: list[str]) -> bool:
    return len(values) == 1 and _ASCII_INTEGER.fullmatch(values[0]) is not None


def keys_of(provider: str) -> ProviderKeys:
    """The keys of a provider whose kinds are admitted here.

    A provider that is not listed has no kinds of its own among the CRDs of this project. Its keys
    are unknown, so they are checked like those of users.
    """
    return _KEYS.get(provider, CORE_KEYS)
