"""Changing an object in part: three kinds of patches, and server-side apply."""

from typing import Final

import msgspec

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds import versions
from karpenter_sandbox.kinds.depth import check_depth
from karpenter_sandbox.kinds.patching.apply import apply_configuration
from karpenter_sandbox.kinds.patching.errors import PatchError
from karpenter_sandbox.kinds.patching.json_patch import apply_json_patch
from karpenter_sandbox.kinds.patching.merge_patch import apply_merge_patch
from karpenter_sandbox.kinds.patching.strategic import apply_strategic_patch
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.kinds.schema import Schema
from karpenter_sandbox.server.options import WriteOptions
from karpenter_sandbox.server.structure import identified, shaped
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs import ownership
from karpenter_sandbox.server.verbs.writing import Written, insert, replace
from karpenter_sandbox.status import (
    ApiError,
    bad_request,
    invalid,
    not_found,
    unsupported_media_type,
)
from karpenter_sandbox.store.store import Stored

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


def patch(
    backend: Backend, target: Target, patch_type: str, body: object, options: WriteOptions
) -> Written:
    """Patch an object; apply creates it when it is not there."""
    _check_options(patch_type, options)
    existing = backend.store.find(backend.key(target.resource, target.namespace, target.name))
    if patch_type == APPLY_PATCH:
        return _apply(backend, target, existing, body, options)
    if existing is None:
        raise not_found(target.resource.group, target.resource.plural, target.name)
    old = versions.served(existing.obj, target.resource)
    schema = ownership.schema_of(target.resource)
    changed = patched(old, body, patch_type, target.resource, schema=schema)
    warnings: list[str] = []
    obj = _readable(changed, old, target.resource, options, warnings)
    _check_name(obj, target)
    _check_identity(obj, old, target.resource)
    return replace(backend, target, existing, obj, options, warnings)


def _readable(
    changed: JsonObject,
    old: JsonObject,
    resource: Resource,
    options: WriteOptions,
    warnings: list[str],
) -> JsonObject:
    """The patched object, unless the patch has made something else of it."""
    try:
        obj = identified(changed, resource)
        return shaped(obj, resource, options.field_validation, warnings, known=old)
    except ApiError as error:
        if error.status != 400:
            raise
        problem = error.message.partition(f" cannot be handled as a {resource.kind}: ")[2]
        text = msgspec.json.encode(changed).decode()
        detail = problem or error.message
        raise invalid(
            "", "", "", [FieldError(ErrorKind.INVALID, ("patch",), detail, text)]
        ) from error


def _check_identity(obj: JsonObject, old: JsonObject, resource: Resource) -> None:
    wanted, actual = obj["metadata"].get("uid"), old["metadata"]["uid"]
    if wanted and wanted != actual:
        path = ("metadata", "uid")
        error = FieldError(ErrorKind.INVALID, path, "field is immutable", wanted)
        raise invalid(resource.group, resource.kind, old["metadata"]["name"], [error])


def patched(
    obj: JsonObject,
    body: object,
    patch_type: str,
    resource: Resource,
    *,
    schema: Schema | None,
) -> JsonObject:
    """The object after a patch; ``schema`` is its structural type.

    Raises:
        ApiError: the patch makes no sense, or does not fit the object.
    """
    try:
        if patch_type == JSON_PATCH:
            changed = apply_json_patch(obj, body)
            check_depth(changed)  # only JSON patches can nest copies deeper
            return changed
        if patch_type == MERGE_PATCH:
            return apply_merge_patch(obj, body)
        if patch_type == STRATEGIC_PATCH and resource.custom is None and schema is not None:
            return apply_strategic_patch(obj, body, schema)
    except PatchError as error:
        raise refusal(error) from error
    raise unsupported_media_type(", ".join(accepted_types(resource)))


def accepted_types(resource: Resource) -> tuple[str, ...]:
    """The kinds of patches a resource takes."""
    if resource.custom is not None:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def refusal(error: PatchError) -> ApiError:
    """The API's error for a refused patch."""
    details: JsonObject | None = {} if error.status == 422 else None
    if error.causes:
        causes = [
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
            for cause in error.causes
        ]
        details = {"causes": causes}
    return ApiError(error.status, error.reason, error.message, details)


def _apply(
    backend: Backend,
    target: Target,
    existing: Stored | None,
    body: object,
    options: WriteOptions,
) -> Written:
    resource = target.resource
    applied = _configuration(body, resource)
    if existing is None and target.subresource:
        raise not_found(resource.group, resource.plural, target.name)
    live = versions.served(existing.obj, resource) if existing is not None else None
    schema = ownership.schema_of(resource)
    if schema is None:
        raise unsupported_media_type(", ".join(accepted_types(resource)))
    try:
        merged = apply_configuration(
            live,
            applied,
            schema=schema,
            writer=ownership.writer_of(backend, target, options),
            force=options.force,
            ignored=ownership.ignored_fields(target),
        )
    except PatchError as error:
        raise refusal(error) from error
    warnings: list[str] = []
    merged = shaped(merged, resource, options.field_validation, warnings, known=live)
    if not (merged.get("metadata") or {}).get("name"):
        place = f"the name of the object ({target.name} based on URL)"
        raise bad_request(f"{place} was undeterminable: name must be provided")
    _check_name(merged, target)
    if existing is None:
        return insert(backend, target, merged, options, warnings, tracks=False)
    return replace(backend, target, existing, merged, options, warnings, tracks=False)


def _configuration(body: object, resource: Resource) -> JsonObject:
    """What is applied, once it is known to be of the right kind."""
    content = {} if body is None else body
    if not isinstance(content, dict):
        raise bad_request("error decoding YAML: the configuration must be an object")
    api_version, kind = content.get("apiVersion", ""), content.get("kind", "")
    if (api_version, kind) != (resource.api_version, resource.kind):
        group_version = api_version if "/" in str(api_version) else f"/{api_version}"
        raise bad_request(f"invalid object type: {group_version}, Kind={kind}")
    return content


def _check_options(patch_type: str, options: WriteOptions) -> None:
    if patch_type == APPLY_PATCH and not options.field_manager:
        detail = "is required for apply patch"
        error = FieldError(ErrorKind.REQUIRED, ("fieldManager",), detail)
    elif patch_type != APPLY_PATCH and options.force:
        detail = "may not be specified for non-apply patch"
        error = FieldError(ErrorKind.FORBIDDEN, ("force",), detail)
    else:
        return
    raise invalid("meta.k8s.io", "PatchOptions", "", [error])


def _check_name(obj: JsonObject, target: Target) -> None:
    name = obj["metadata"].get("name")
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
