"""What is wrong with a CustomResourceDefinition, and its versions compiled."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter.admission.schemas.engine import CompiledVersion, compile_crd
from karpenter.admission.schemas.schema import CrdError
from karpenter.api.meta import JsonObject
from karpenter.model.memo import remembered

_REMEMBERED: Final = 32
_LONGEST_REMEMBERED: Final = 256 * 1024


def crd_errors(crd: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """List the validation errors of a CRD."""
    errors = [*_name_errors(crd), *_schema_errors(crd["spec"])]
    if old is not None:
        errors.extend(_change_errors(crd["spec"], old["spec"]))
    if errors:
        return errors
    try:
        compiled_versions(crd)
    except CrdError as error:
        return error.errors
    return []


def compiled_versions(crd: JsonObject) -> dict[str, CompiledVersion]:
    """Compile a CRD that is about to be checked, served, or both, once."""
    name = crd["metadata"].get("name")
    return _compiled_once(msgspec.json.encode({"metadata": {"name": name}, "spec": crd["spec"]}))


@remembered(_REMEMBERED, longest=_LONGEST_REMEMBERED)
def _compiled_once(crd: bytes) -> dict[str, CompiledVersion]:
    return compile_crd(msgspec.json.decode(crd))


def _name_errors(crd: JsonObject) -> Iterator[FieldError]:
    spec: Mapping[str, Any] = crd["spec"]
    names = spec.get("names") or {}
    for path, value in (
        (("spec", "group"), spec.get("group")),
        (("spec", "names", "plural"), names.get("plural")),
        (("spec", "names", "kind"), names.get("kind")),
        (("spec", "scope"), spec.get("scope")),
        (("spec", "versions"), spec.get("versions")),
    ):
        if not value:
            yield FieldError(ErrorKind.REQUIRED, path, "")
    name, wanted = crd["metadata"].get("name"), f"{names.get('plural')}.{spec.get('group')}"
    if name != wanted:
        detail = 'must be spec.names.plural+"."+spec.group'
        yield FieldError(ErrorKind.INVALID, ("metadata", "name"), detail, name)
    if spec.get("scope") not in {None, "", "Cluster", "Namespaced"}:
        detail = 'supported values: "Cluster", "Namespaced"'
        yield FieldError(ErrorKind.NOT_SUPPORTED, ("spec", "scope"), detail, spec["scope"])
    stored = [version for version in spec.get("versions") or [] if version.get("storage")]
    if spec.get("versions") and len(stored) != 1:
        detail = "must have exactly one version marked as storage version"
        shown = [version.get("name") for version in spec["versions"]]
        yield FieldError(ErrorKind.INVALID, ("spec", "versions"), detail, shown)


def _schema_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    for index, version in enumerate(spec.get("versions") or []):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            path = ("spec", "versions", index, "schema", "openAPIV3Schema")
            yield FieldError(ErrorKind.REQUIRED, path, "")


def _change_errors(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    for path in (("group",), ("scope",), ("names", "kind"), ("names", "plural")):
        before, after = _at(old, path), _at(new, path)
        if before != after:
            yield FieldError(ErrorKind.INVALID, ("spec", *path), "field is immutable", after)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = (value or {}).get(part)
    return value
