"""Whether a body has the shape of its kind: fields that exist, values of the right type.

A value of the wrong type is always refused. Unknown fields are refused, reported or silently
dropped, as the client chooses; they are never stored.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from karpenter.admission.errors import ErrorKind, FieldError, render_path
from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.kinds.schema import builtin_schema
from karpenter_sandbox.kinds.typed import (
    Decoded,
    DecodeError,
    complete_object,
    decode_metadata,
    decode_object,
)
from karpenter_sandbox.server.options import STRICT, WARN
from karpenter_sandbox.server.syntax_errors import json_name, unrecognized
from karpenter_sandbox.status import ApiError, bad_request, invalid

# JSON escapes control characters as \u00XX, Go's %q as \xXX
_ESCAPE: Final = re.compile(r"\\u00([0-9a-f]{2})")
# The source position that an API server's message names
_SCHEME: Final = "pkg/runtime/scheme.go:111"


def identified(body: object, resource: Resource) -> JsonObject:
    """A body whose apiVersion and kind match the path.

    Raises:
        ApiError: it is something else, or nothing at all.
    """
    if body is None and resource.custom is None:
        body = {}
    if not isinstance(body, dict):
        raise bad_request("the body of the request must be an object")
    if resource.custom is not None:
        _require_custom_identity(body, resource)
    else:
        _require_identity(body, resource)
    rest = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
    metadata = rest.get("metadata")
    if metadata is None:
        rest["metadata"] = {}
    elif not isinstance(metadata, dict):
        field = f"Go struct field {resource.kind}.metadata of"
        place = "Go value of" if resource.custom is not None else field
        problem = f"json: cannot unmarshal {json_name(metadata)} into {place} type v1.ObjectMeta"
        raise unreadable(resource, problem)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **rest}


def shaped(
    body: JsonObject,
    resource: Resource,
    validation: str,
    warnings: list[str],
    duplicates: Sequence[str] = (),
    known: JsonObject | None = None,
) -> JsonObject:
    """A body without unknown fields.

    Parts that are as in ``known``, the object as it was before, have been read before and are not
    read again: most writes change one part of an object and repeat the others.

    Raises:
        ApiError: a value has the wrong type, or ``validation`` is strict and a field is unknown
            or given twice.
    """
    pruned, unknown = _pruned(body, resource, known or {})
    problems = [
        *(f"unknown field {_quoted(field)}" for field in unknown),
        *(f"duplicate field {_quoted(field)}" for field in duplicates),
    ]
    if problems and validation == STRICT:
        raise unreadable(resource, "strict decoding error: " + ", ".join(problems))
    if validation == WARN:
        warnings.extend(problems)
    return pruned


def _quoted(text: str) -> str:
    """A text in quotation marks, with the escapes of Go for what cannot be seen."""
    return _ESCAPE.sub(r"\\x\1", json.dumps(text, ensure_ascii=False))


def unreadable(resource: Resource, problem: str) -> ApiError:
    """The refusal of a body that is not of its kind."""
    version, kind = resource.version, resource.kind
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')


def read_as(body: JsonObject, api_version: str, kind: str) -> JsonObject:
    """A body that is not an object of the cluster but options, such as ``DeleteOptions``.

    Raises:
        ApiError: a value has the wrong type.
    """
    try:
        decoded = decode_object(body, api_version, kind)
    except DecodeError as error:
        if kind == "DeleteOptions":  # served in every group: no version
            raise bad_request(error.message) from error
        version = api_version.rpartition("/")[2]
        problem = f'{kind} in version "{version}" cannot be handled as a {kind}: {error.message}'
        raise bad_request(problem) from error
    assert decoded is not None, "the kind is built in"
    return decoded.object


def completed(obj: JsonObject, resource: Resource, known: JsonObject | None) -> JsonObject:
    """An object with what is always written, as far as it differs from what was ``known``."""
    if known is None or known.keys() - obj.keys():
        return complete_object(obj, resource.api_version, resource.kind)
    changed = _changed(obj, known)
    complete = complete_object(changed, resource.api_version, resource.kind)
    return {**obj, **{name: complete[name] for name in changed}}


def _pruned(
    body: JsonObject, resource: Resource, known: JsonObject
) -> tuple[JsonObject, list[str]]:
    if resource.custom is not None:
        pruned, dropped = resource.custom.prune(body)
        metadata = _metadata(body, resource)
        unknown = [*metadata.unknown, *(render_path(path) for path in dropped)]
        return {**pruned, "metadata": metadata.object}, sorted(unknown)
    changed = _changed(body, known)
    try:
        decoded = decode_object(changed, resource.api_version, resource.kind)
    except DecodeError as error:
        raise unreadable(resource, error.message) from error
    if decoded is None:
        return body, []
    read = decoded.object
    kept = {
        name: read.get(name, part)
        for name, part in body.items()
        if name in read or name not in changed
    }
    return kept, list(decoded.unknown)


def _metadata(body: JsonObject, resource: Resource) -> Decoded:
    try:
        return decode_metadata(body["metadata"])
    except DecodeError as error:
        raise unreadable(resource, error.message) from error


def _changed(obj: JsonObject, known: JsonObject) -> JsonObject:
    """The parts of an object that are not as they were."""
    absent = object()
    return {
        name: part
        for name, part in obj.items()
        if part is not (before := known.get(name, absent)) and part != before
    }


def _require_identity(body: JsonObject, resource: Resource) -> None:
    """Refuse an object of another of Kubernetes' own kinds."""
    api_version = str(body.get("apiVersion") or resource.api_version)
    kind = str(body.get("kind") or resource.kind)
    if (api_version, kind) == (resource.api_version, resource.kind):
        return
    version = api_version.rpartition("/")[2]
    if builtin_schema(api_version, kind) is None:
        problem = not_registered(api_version, kind)
    else:
        package = resource.group.partition(".")[0] or "core"
        problem = (
            f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
        )
    raise bad_request(
        f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {problem}'
    )


def not_registered(api_version: str, kind: str) -> str:
    """The error message for an unknown kind."""
    return f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"'


def _require_custom_identity(body: JsonObject, resource: Resource) -> None:
    api_version, kind = body.get("apiVersion"), body.get("kind")
    for name, value in (("Kind", kind), ("apiVersion", api_version)):
        if not value:
            data = msgspec.json.encode(body)
            problem = f"Object '{name}' is missing in '{data.decode()}'"
            raise unrecognized(resource.kind, problem, data)
    if api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match"
            f" the expected API version ({resource.api_version})"
        )
    if kind != resource.kind:
        error = FieldError(ErrorKind.INVALID, ("kind",), f"must be {resource.kind}", kind)
        metadata = body.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise invalid(resource.group, str(kind), name, [error])
