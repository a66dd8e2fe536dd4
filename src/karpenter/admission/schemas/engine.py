"""Versions of kinds, compiled from CRDs: prune, default and validate objects as an API server does.

A CRD is compiled once; a compiled version holds no state and may be shared. Kinds of the project
come from its own CRDs through ``builtin``, those of a user from any CRD through ``compile_crd``.
Input objects are never changed; results may share parts with them.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.admission.cel.rules import RuleSet
from karpenter.admission.errors import ErrorKind, FieldError, Path, distinct
from karpenter.admission.metadata import metadata_errors
from karpenter.admission.schemas import defaulting
from karpenter.admission.schemas.crds import builtin_crds, crd_name
from karpenter.admission.schemas.lists import UniqueLists, unique_lists
from karpenter.admission.schemas.openapi import ValueSchema
from karpenter.admission.schemas.schema import CrdError, Document, Node, read_schema

# Far beyond any manifest; protects the stack, since the Rust libraries recurse into values
_DEEPEST: Final = 100


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a kind on the command line and in paths."""

    plural: str
    singular: str
    list_kind: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """The fields of the scale subresource, as JSON paths such as ``.spec.replicas``."""

    spec_replicas: str
    status_replicas: str
    selector: str | None


@dataclass(frozen=True, slots=True)
class Admitted:
    """An object as it would be stored, its errors, and the fields that were dropped."""

    object: dict[str, Any]
    errors: list[FieldError]
    pruned: list[Path]


@dataclass(frozen=True, slots=True)
class CompiledVersion:
    """One version of a kind, ready to check objects."""

    group: str
    version: str
    kind: str
    scope: str
    names: Names
    is_served: bool
    is_stored: bool
    deprecation: str | None
    has_status: bool
    scale: Scale | None
    columns: tuple[Mapping[str, Any], ...]
    schema: Node
    rules: RuleSet
    _values: ValueSchema
    _lists: UniqueLists | None

    @property
    def api_version(self) -> str:
        """Group and version as in a manifest."""
        return f"{self.group}/{self.version}"

    @property
    def plural(self) -> str:
        """The name of the resource in URLs."""
        return self.names.plural

    @property
    def has_rules(self) -> bool:
        """Whether there are rules in CEL."""
        return bool(self.rules.rules)

    def prune(self, obj: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Return ``obj`` without unknown fields, and the paths of those that were dropped."""
        return defaulting.prune(obj, self.schema)

    def default(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return ``obj`` with defaults filled in."""
        return defaulting.default(obj, self.schema)

    def validate(
        self,
        obj: dict[str, Any],
        old: dict[str, Any] | None = None,
        *,
        rules: bool = True,
        remembers: bool = False,
    ) -> list[FieldError]:
        """List what is wrong with a pruned and defaulted object.

        Args:
            obj: the object.
            old: the object before an update; transition rules run only then.
            rules: whether to run the rules in CEL as well.
            remembers: whether rules need not run again on parts that are as they were before.
        """
        try:
            texts = msgspec.json.encode((obj, old))
            errors = [*metadata_errors(obj), *self._values.errors(obj)]
        except (RecursionError, TypeError, ValueError):
            return [_unreadable(obj)]
        if self._lists is not None:
            errors.extend(self._lists.errors(obj))
        if rules:
            is_ascii = texts.isascii()
            errors.extend(
                self.rules.errors(obj, old, errors, is_ascii=is_ascii, remembers=remembers)
            )
        return distinct(errors)

    def admit(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> Admitted:
        """Prune, default and validate ``obj``."""
        known, dropped = self.prune(obj)
        complete = self.default(known)
        return Admitted(complete, self.validate(complete, old), dropped)


def compile_crd(crd: Document) -> dict[str, CompiledVersion]:
    """Compile every version of a CRD, in the order of the CRD.

    Raises:
        CrdError: the CRD cannot be served; its errors name every reason found.
    """
    name = _name_of(crd)
    versions = _part(crd, "spec").get("versions")
    if not isinstance(versions, list) or not versions:
        missing = FieldError(ErrorKind.REQUIRED, ("spec", "versions"), "a CRD has versions")
        raise CrdError(name, [missing])
    compiled = {}
    errors: list[FieldError] = []
    for index in range(len(versions)):
        try:
            version = _compile_version(crd, index)
        except CrdError as error:
            errors.extend(error.errors)
        else:
            compiled[version.version] = version
    if errors:
        raise CrdError(name, errors)
    return compiled


def builtin(api_version: str, kind: str) -> CompiledVersion | None:
    """The compiled version of one of the project's own kinds, or None for any other kind."""
    group, _, version = api_version.rpartition("/")
    name = crd_name(group, kind)
    if name is None:
        return None
    crd = builtin_crds()[name]
    if crd["spec"]["names"]["kind"] != kind:
        return None
    for index, entry in enumerate(crd["spec"]["versions"]):
        if entry["name"] == version:
            return _compiled_builtin(name, index)
    return None


@functools.cache
def _compiled_builtin(name: str, index: int) -> CompiledVersion:
    return _compile_version(builtin_crds()[name], index)


def _compile_version(crd: Document, index: int) -> CompiledVersion:
    spec = _part(crd, "spec")
    entry: Document = spec["versions"][index]
    path: Path = ("spec", "versions", index, "schema", "openAPIV3Schema")
    document = _part(_part(entry, "schema"), "openAPIV3Schema")
    schema, errors = read_schema(document, path)
    if errors:
        raise CrdError(_name_of(crd), errors)
    values = ValueSchema(document, path)
    rules = RuleSet(schema, path)
    errors = [*values.problems, *rules.problems, *_name_problems(crd, index)]
    if errors:
        raise CrdError(_name_of(crd), errors)
    names = spec["names"]
    subresources = _part(entry, "subresources")
    return CompiledVersion(
        group=spec["group"],
        version=entry["name"],
        kind=names["kind"],
        scope=spec.get("scope", "Namespaced"),
        names=_names(names),
        is_served=entry.get("served") is True,
        is_stored=entry.get("storage") is True,
        deprecation=_deprecation(spec, entry),
        has_status="status" in subresources,
        scale=_scale(_part(subresources, "scale")),
        columns=tuple(entry.get("additionalPrinterColumns") or ()),
        schema=schema,
        rules=rules,
        _values=values,
        _lists=unique_lists(schema),
    )


def _name_problems(crd: Document, index: int) -> Iterator[FieldError]:
    spec = _part(crd, "spec")
    required: tuple[tuple[Path, Document], ...] = (
        (("spec", "group"), spec),
        (("spec", "names", "kind"), _part(spec, "names")),
        (("spec", "names", "plural"), _part(spec, "names")),
        (("spec", "versions", index, "name"), spec["versions"][index]),
    )
    for path, parent in required:
        if not isinstance(parent.get(str(path[-1])), str):
            yield FieldError(ErrorKind.REQUIRED, path, "")


def _names(names: Document) -> Names:
    kind = names["kind"]
    return Names(
        plural=names["plural"],
        singular=names.get("singular") or kind.lower(),
        list_kind=names.get("listKind") or f"{kind}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
    )


def _scale(document: Document) -> Scale | None:
    if not document:
        return None
    return Scale(
        spec_replicas=document["specReplicasPath"],
        status_replicas=document["statusReplicasPath"],
        selector=document.get("labelSelectorPath"),
    )


def _deprecation(spec: Document, entry: Document) -> str | None:
    """The warning that goes with a deprecated version."""
    if not entry.get("deprecated"):
        return None
    name = f"{spec['group']}/{entry['name']} {spec['names']['kind']}"
    return entry.get("deprecationWarning") or f"{name} is deprecated"


def _part(document: Document, key: str) -> Document:
    part = document.get(key)
    return part if isinstance(part, Mapping) else {}


def _name_of(crd: Document) -> str:
    return str(_part(crd, "metadata").get("name", "without a name"))


def _unreadable(obj: object) -> FieldError:
    """Find the value that is not JSON, or nested too deeply."""
    pending: list[tuple[object, Path]] = [(obj, ())]
    while pending:
        value, path = pending.pop()
        if len(path) > _DEEPEST:
            detail = f"is nested more than {_DEEPEST} levels deep"
            return FieldError(ErrorKind.INVALID, path[:3], detail)
        if isinstance(value, dict):
            odd = next((key for key in value if not isinstance(key, str)), None)
            if odd is not None:
                detail = f"the key {odd!r} must be a string; write it in quotes"
                return FieldError(ErrorKind.INVALID, path, detail)
            pending.extend((part, (*path, name)) for name, part in value.items())
        elif isinstance(value, list):
            pending.extend((part, (*path, index)) for index, part in enumerate(value))
        elif not isinstance(value, (str, int, float, bool, type(None))):
            return FieldError(ErrorKind.INVALID, path, f"{type(value).__name__} is not JSON")
    return FieldError(ErrorKind.INVALID, (), "the object cannot be read as JSON")
