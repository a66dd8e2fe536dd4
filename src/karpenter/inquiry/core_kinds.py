"""What an API server would report about Kubernetes' own kinds in a manifest.

A mistyped field would otherwise be ignored, and the plan made for another cluster. The fields are
those of the structs that the sandbox's API server reads, and so are the rules: the errors are those
of ``kubectl apply`` there, with file and line.

An object with a uid was stored by a server, which has validated it. An unknown field of it is newer
than this program and only pointed out, once; for a pod only the rules about where it may run are
checked, since a dump may hold ten thousands of pods.

Most objects are valid and many are alike: a decoder generated from the structs confirms that at the
speed of C, equal parts are checked once, and lines are looked up only where there is a problem.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from karpenter.admission.errors import (
    ErrorKind,
    FieldError,
    FieldWarning,
    Findings,
    Path,
    render_path,
)
from karpenter.inquiry.core_shapes import SCALARS, shape_of
from karpenter.model.suggestions import nearest_key
from karpenter_sandbox.kinds.defaults.kinds import with_defaults
from karpenter_sandbox.kinds.schemas.structs import Form, GoType, Struct, struct, struct_of_kind
from karpenter_sandbox.kinds.typed import DecodeError, complete_object, decode_object
from karpenter_sandbox.kinds.validation.kinds import object_errors
from karpenter_sandbox.kinds.validation.placing import placing_problems

_JSON_NAMES: Final[Mapping[str, str]] = {
    "string": "text",
    "bytes": "text",
    "bool": "true or false",
    "int32": "a whole number",
    "int64": "a whole number",
    "float64": "a number",
}
PLACING: Final = ("tolerations", "topologySpreadConstraints", "affinity")
# Ownership and status, which no rule checks
_OF_ONE_OBJECT: Final = frozenset({"metadata", "status"})
# Kinds whose missing required fields are errors: their existing pods are counted by selector. For
# other kinds they are warnings, because a plan does not need them and examples often omit them
_COUNTED: Final = frozenset({"Deployment", "StatefulSet"})
# No plan depends on what runs in a container, and few examples have it
_NEEDLESS: Final = (("image",),)
_SELECTOR: Final = ("spec", "selector")
_LABELS: Final = ("spec", "template", "metadata", "labels")
_encode: Final = msgspec.json.Encoder().encode


class UnknownFieldError(FieldError):
    """A field that the kind of an object does not have."""

    __slots__ = ()

    @property
    def message(self) -> str:
        """The problem, in the words of an API server with strict field validation."""
        return self.detail

    def __str__(self) -> str:
        """The same, as it names the field."""
        return self.detail


class CoreKinds:
    """Validates objects of built-in kinds, and caches the results for equal parts."""

    def __init__(self) -> None:
        self._judged: dict[tuple[str, str, bytes], list[FieldError]] = {}
        self._pointed_out: set[tuple[str, str, Path]] = set()

    def findings(self, obj: Mapping[str, Any]) -> Findings:
        """What a server would report about an object of a built-in kind; nothing for others."""
        api_version, kind = obj["apiVersion"], obj["kind"]
        found = struct_of_kind(api_version, kind)
        if found is None:
            return Findings()
        metadata = obj.get("metadata")
        is_stored = isinstance(metadata, dict) and bool(metadata.get("uid"))
        said = Findings() if _has_shape(obj, found) else self._shape(obj, found, is_stored)
        if all(isinstance(error, UnknownFieldError) for error in said.errors):
            for error in self._ruled(obj, is_stored):
                if error.kind is ErrorKind.REQUIRED and kind not in _COUNTED:
                    said.warnings.append(FieldWarning(error.path, _missing(error)))
                else:
                    said.errors.append(error)
        return said

    def _shape(self, obj: Mapping[str, Any], found: Struct, is_stored: bool) -> Findings:
        said = Findings()
        for path, problem, is_unknown in _misshapen(obj, found, ()):
            if not (is_unknown and is_stored):
                said.errors.append(problem)
                continue
            plain: Path = tuple(part for part in path if isinstance(part, str))
            place = (obj["apiVersion"], obj["kind"], plain)
            if place not in self._pointed_out:
                self._pointed_out.add(place)
                more = "it is ignored, here and wherever else it occurs"
                said.warnings.append(FieldWarning(path, f"{problem.detail}; {more}"))
        return said

    def _ruled(self, obj: Mapping[str, Any], is_stored: bool) -> list[FieldError]:
        kind = obj["kind"]
        if is_stored and kind == "Pod":
            spec = obj.get("spec") or {}
            part: dict[str, Any] = {key: spec[key] for key in PLACING if spec.get(key)}
            if not part:
                return []
        else:
            part = {key: obj[key] for key in obj if key not in _OF_ONE_OBJECT}
        key = (obj["apiVersion"], kind, _encode(part))
        known = self._judged.get(key)
        if known is None:
            known = (
                list(placing_problems(part, ("spec",)))
                if is_stored and kind == "Pod"
                else broken_rules(part, obj["apiVersion"], kind)
            )
            self._judged[key] = known
        return known


def broken_rules(part: dict[str, Any], api_version: str, kind: str) -> list[FieldError]:
    """List which rules an object breaks, judged without its metadata and status."""
    group = api_version.rpartition("/")[0]
    try:
        decoded = decode_object({**part, "metadata": {"name": "x"}}, api_version, kind)
    except DecodeError as error:
        return [FieldError(ErrorKind.TYPE_INVALID, (), error.message)]
    assert decoded is not None, "the kind is built in"
    complete = complete_object(with_defaults(decoded.object, group, kind), api_version, kind)
    spec = complete.get("spec") or {}
    needless: tuple[Path, ...] = ()
    if kind == "Job" and not spec.get("manualSelector"):
        needless = (_SELECTOR, _LABELS)  # the server generates them, from the uid of the Job
    elif not spec.get("selector"):
        needless = (_LABELS,)  # follows from the missing selector, which is reported
    return [
        error
        for error in object_errors(complete, group, kind)
        if error.path[-1:] not in _NEEDLESS and error.path not in needless
    ]


def _missing(error: FieldError) -> str:
    return f"{error.message}; an API server would refuse the object, and it is read without that"


def _misshapen(
    value: Mapping[str, Any], found: Struct, path: Path
) -> Iterator[tuple[Path, FieldError, bool]]:
    """Fields that a struct does not know (True) and values that it cannot hold (False)."""
    fields = found.json_fields()
    for key, part in value.items():
        field, inner = fields.get(key), (*path, key)
        if field is None:
            yield inner, _unknown(inner, fields), True
        elif part is not None:
            yield from _misfits(part, field.type, inner)


def _misfits(value: Any, go_type: GoType, path: Path) -> Iterator[tuple[Path, FieldError, bool]]:
    form = go_type.form
    if form is Form.OPAQUE:
        return
    wanted, is_right = _wanted(value, go_type)
    if not is_right:
        yield path, FieldError(ErrorKind.TYPE_INVALID, path, f"must be {wanted}", value), False
    elif form is Form.STRUCT:
        yield from _misshapen(value, struct(go_type.name), path)
    elif form is not Form.SCALAR:
        for key, part in value.items() if form is Form.MAP else enumerate(value):
            if part is not None:
                yield from _misfits(part, go_type.parts, (*path, key))


def _wanted(value: Any, go_type: GoType) -> tuple[str, bool]:
    """What a value should be, and whether it is."""
    if go_type.form is Form.LIST:
        return "a list", isinstance(value, list)
    if go_type.form is not Form.SCALAR:
        return "a map of fields", isinstance(value, dict)
    return _JSON_NAMES[go_type.name], _is_scalar(value, go_type.name)


def _is_scalar(value: Any, name: str) -> bool:
    wanted = SCALARS[name]
    if wanted is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is wanted


def _unknown(path: Path, known: Mapping[str, Any]) -> FieldError:
    detail = f'unknown field "{render_path(path)}"'
    folded = {name.lower(): name for name in known}
    near = nearest_key(str(path[-1]), known) or folded.get(str(path[-1]).lower())
    detail = f'{detail}; did you mean "{near}"?' if near else detail
    return UnknownFieldError(ErrorKind.INVALID, path, detail)


def _has_shape(obj: Mapping[str, Any], found: Struct) -> bool:
    """Whether an object has known fields alone, with values of their types."""
    try:
        msgspec.convert(obj, shape_of(found.name))
    except msgspec.ValidationError:
        return False
    return True
