"""Updates ``metadata.managedFields`` on every write."""

from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds.patching.apply import Writer, manager_name, track_update
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.kinds.schema import Schema, builtin_schema
from karpenter_sandbox.server.options import WriteOptions
from karpenter_sandbox.server.target import Target

# Parts that a write of the whole object cannot change, and so does not come to own
_STATUS: Final = (("status",),)


def schema_of(resource: Resource) -> Schema | None:
    """The structural type of a resource's objects."""
    if resource.custom is not None:
        return resource.schema
    return builtin_schema(resource.api_version, resource.kind)


def writer_of(backend: Backend, target: Target, options: WriteOptions) -> Writer:
    """Under which name, in which version and when a request writes."""
    return Writer(
        manager=manager_name(options.field_manager or None, options.user_agent),
        api_version=target.resource.api_version,
        time=backend.timestamp(),
        subresource=target.subresource,
    )


def ignored_fields(target: Target) -> tuple[tuple[str, ...], ...]:
    """Fields a request may name but does not write."""
    return _STATUS if target.resource.has_status and not target.subresource else ()


def tracked(
    backend: Backend,
    old: JsonObject | None,
    new: JsonObject,
    target: Target,
    options: WriteOptions,
) -> JsonObject:
    """``new`` with the fields it changes marked as written by this request."""
    schema = schema_of(target.resource)
    if schema is None:
        return new
    return track_update(
        old,
        new,
        schema=schema,
        writer=writer_of(backend, target, options),
        ignored=ignored_fields(target),
    )


def with_old_times(new: JsonObject, old: JsonObject) -> JsonObject:
    """``new``, but as it was when nothing differs except the time of the last write."""
    fresh = new["metadata"].get("managedFields")
    known = old["metadata"].get("managedFields")
    if fresh is None or known is None or fresh == known:
        return new
    if [_timeless(entry) for entry in fresh] != [_timeless(entry) for entry in known]:
        return new
    candidate = {**new, "metadata": {**new["metadata"], "managedFields": known}}
    return candidate if candidate == old else new


def _timeless(entry: JsonObject) -> JsonObject:
    return {key: value for key, value in entry.items() if key != "time"}
