"""One entry for checking any object, whether it comes from a file or over the API.

* Kinds of the project: unknown fields are dropped (and reported as warnings), defaults filled in,
  then schema, CEL rules, and the rules of the controllers or of the legacy webhooks.
* Kubernetes' own kinds: metadata, the shape of the fields the project reads, and amounts.
* Anything else matches no kind.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.admission.errors import (
    ErrorKind,
    FieldError,
    FieldWarning,
    Findings,
    Path,
    is_below,
    render_path,
)
from karpenter.admission.legacy.webhook import default_legacy, legacy_findings
from karpenter.admission.metadata import identity_errors, metadata_errors
from karpenter.admission.quantities import quantity_errors
from karpenter.admission.runtime import runtime_findings
from karpenter.admission.schemas.crds import LEGACY
from karpenter.admission.schemas.engine import CompiledVersion, builtin
from karpenter.api.codec import KINDS, convert, is_known
from karpenter.api.meta import kind_of
from karpenter.api.problems import DecodeError
from karpenter.model.suggestions import nearest_key

_KNOWN: Final = tuple((resource.api_version, kind_of(resource)) for resource in KINDS)


@dataclass(frozen=True, slots=True)
class Checked:
    """An object as it would be stored, with its errors and warnings."""

    object: dict[str, Any]
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldWarning] = field(default_factory=list)


def check(
    obj: dict[str, Any], old: dict[str, Any] | None = None, *, provider: str = "aws"
) -> Checked:
    """Check one object; with ``old``, as an update of it."""
    errors = identity_errors(obj)
    if errors:
        return Checked(obj, errors)
    api_version, kind = obj["apiVersion"], obj["kind"]
    version = builtin(api_version, kind)
    if version is not None:
        return _check_own(obj, old, version, provider)
    if is_known(api_version, kind):
        return Checked(obj, _kubernetes_errors(obj))
    return Checked(obj, [_no_match(api_version, kind)])


def _check_own(
    obj: dict[str, Any], old: dict[str, Any] | None, version: CompiledVersion, provider: str
) -> Checked:
    admitted = version.admit(obj, old)
    # Every field below a value of the wrong type is unknown; its type error is enough
    warnings = [
        _unknown_field(path, version)
        for path in admitted.pruned
        if not any(is_below(path, error.path) for error in admitted.errors)
    ]
    if version.deprecation:
        warnings.insert(0, FieldWarning(("apiVersion",), version.deprecation))
    if any(error.kind.concerns_shape for error in admitted.errors):
        return Checked(admitted.object, admitted.errors, warnings)
    stored, findings = _controller_findings(admitted.object, version, provider)
    taken = {error.path for error in admitted.errors}
    errors = [*admitted.errors, *(e for e in findings.errors if e.path not in taken)]
    return Checked(stored, errors, [*warnings, *findings.warnings])


def _controller_findings(
    obj: dict[str, Any], version: CompiledVersion, provider: str
) -> tuple[dict[str, Any], Findings]:
    if f"{version.plural}.{version.group}" not in LEGACY:
        return obj, runtime_findings(obj, provider=provider)
    defaulted = default_legacy(obj, provider=provider)
    return defaulted, legacy_findings(defaulted, provider=provider)


def _unknown_field(path: Path, version: CompiledVersion) -> FieldWarning:
    message = f'unknown field "{render_path(path)}"'
    parent = version.schema.at(path[:-1])
    meant = nearest_key(str(path[-1]), parent.properties) if parent is not None else None
    return FieldWarning(path, f'{message}; did you mean "{meant}"?' if meant else message)


def _kubernetes_errors(obj: Mapping[str, Any]) -> list[FieldError]:
    errors = metadata_errors(obj)
    try:
        resource = convert(obj)
    except DecodeError as error:
        if not any(is_below(error.path, known.path) for known in errors):
            kind = ErrorKind.REQUIRED if error.missing else ErrorKind.TYPE_INVALID
            errors.append(FieldError(kind, error.path, error.problem))
        return errors
    return [*errors, *quantity_errors(resource)]


def _no_match(api_version: str, kind: str) -> FieldError:
    detail = f'no matches for kind "{kind}" in version "{api_version}"'
    for suggestion in _suggestions(api_version, kind):
        detail += f"; did you mean {suggestion}?"
        break
    return FieldError(ErrorKind.NOT_SUPPORTED, ("kind",), detail)


def _suggestions(api_version: str, kind: str) -> Iterator[str]:
    """Known kinds that may have been meant, the likeliest first."""
    versions = [known for known, name in _KNOWN if name == kind]
    wanted = api_version.rpartition("/")[2]
    for known in sorted(versions, key=lambda known: known.rpartition("/")[2] != wanted):
        yield f'version "{known}"'
    siblings = [name for known, name in _KNOWN if known == api_version]
    for names in (siblings, [name for _, name in _KNOWN]):
        meant = nearest_key(kind, names)
        if meant:
            known = next(known for known, name in _KNOWN if name == meant)
            yield f'kind "{meant}"' if names is siblings else f'kind "{meant}" in version "{known}"'
