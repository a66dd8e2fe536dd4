"""OpenAPI documents, one per group and version, as ``kubectl explain`` and ``apply`` read them.

Schemas of built-in kinds are made from their structs, with descriptions of our own; those of CRDs
are their own schemas. Paths list the operations of each resource with what clients look for in
them: the kind, the action, and that a patch can validate fields.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources as package_resources
from typing import Any, Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.schemas.structs import (
    OPAQUE,
    Form,
    GoType,
    StructField,
    full_name,
    kinds_of,
    struct,
    struct_of_kind,
)
from karpenter_sandbox.kinds.served import ServedResource, version_info

# Cached documents: every group version of Kubernetes, and room for those of CRDs
_REMEMBERED: Final = 128
_REFERENCE: Final = "#/components/schemas/"
_KIND: Final = "x-kubernetes-group-version-kind"
_OBJECT_META: Final = "meta.v1.ObjectMeta"
_LIST_META: Final = "meta.v1.ListMeta"
_OPTIONS: Final = ("meta.v1.DeleteOptions", "meta.v1.Status")
_SCALARS: Final[Mapping[str, JsonObject]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_OPAQUE_SCHEMAS: Final[Mapping[str, JsonObject]] = {
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "FieldsV1": {"type": "object"},
    "RawExtension": {"type": "object"},
}
_PATCH_TYPES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "list": (
        "allowWatchBookmarks",
        "continue",
        "fieldSelector",
        "labelSelector",
        "limit",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "timeoutSeconds",
        "watch",
    ),
    "post": _WRITE_PARAMETERS,
    "put": _WRITE_PARAMETERS,
    "patch": (*_WRITE_PARAMETERS, "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
}
_METHODS: Final = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}


def openapi_index(
    resources: Iterable[ServedResource], crds: Iterable[Mapping[str, Any]]
) -> JsonObject:
    """The document at ``/openapi/v3``: where the others are, and a hash that changes with them."""
    known, definitions = list(resources), list(crds)
    paths = {}
    for group, version in dict.fromkeys((r.group, r.version) for r in known):
        path = _path(group, version)
        digest = _digest(known, definitions, group, version)
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def openapi_document(
    resources: Iterable[ServedResource],
    crds: Iterable[Mapping[str, Any]],
    group: str,
    version: str,
) -> bytes | None:
    """The document of one group and version as JSON, or None when nothing of it is served."""
    served = _of(resources, group, version)
    if not served:
        return None
    schemas = dict(_builtin_schemas(group, version))
    for crd in crds:
        schemas.update(_custom_schemas(crd, group, version))
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version_info()["gitVersion"]},
        "paths": {path: operations for resource in served for path, operations in _paths(resource)},
        "components": {"schemas": dict(sorted(schemas.items()))},
    }
    return msgspec.json.encode(document)


def _of(resources: Iterable[ServedResource], group: str, version: str) -> list[ServedResource]:
    return [r for r in resources if (r.group, r.version) == (group, version)]


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _digest(
    resources: list[ServedResource], crds: list[Mapping[str, Any]], group: str, version: str
) -> str:
    parts = [
        version_info()["gitVersion"],
        [msgspec.to_builtins(resource) for resource in _of(resources, group, version)],
        [crd["spec"] for crd in crds if crd["spec"]["group"] == group],
    ]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest().upper()


@functools.lru_cache(maxsize=_REMEMBERED)
def _builtin_schemas(group: str, version: str) -> dict[str, JsonObject]:
    """The schemas of a version's kinds and of everything they are made of."""
    kinds = kinds_of(group, version)
    found: dict[str, JsonObject] = {}
    pending = [*kinds.values(), _LIST_META, _OBJECT_META, *_OPTIONS]
    by_name = {name: kind for kind, name in kinds.items()}
    while pending:
        name = pending.pop()
        full = full_name(name)
        if full in found:
            continue
        if name in OPAQUE:
            found[full] = _described(dict(_OPAQUE_SCHEMAS.get(name, {})), name)
            continue
        found[full] = _struct_schema(name)
        if name in by_name:
            found[full][_KIND] = [{"group": group, "version": version, "kind": by_name[name]}]
        pending.extend(_named_types(name))
    return found


def _named_types(name: str) -> Iterator[str]:
    for field in struct(name).json_fields().values():
        go_type = field.type
        while go_type.form in (Form.LIST, Form.MAP):
            go_type = go_type.parts
        if go_type.form is not Form.SCALAR:
            yield go_type.name


def _struct_schema(name: str) -> JsonObject:
    found = struct(name)
    schema: JsonObject = {"type": "object"}
    fields = found.json_fields()
    if fields:
        schema["properties"] = {
            key: _property(field, f"{name}.{key}") for key, field in sorted(fields.items())
        }
    required = sorted(key for key, field in fields.items() if field.is_required)
    if required:
        schema["required"] = required
    if found.is_atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return _described(schema, name)


def _property(field: StructField, name: str) -> JsonObject:
    schema = _type_schema(field.type)
    if "$ref" in schema:
        # keywords beside a $ref are ignored unless it is wrapped in allOf
        schema = {"allOf": [schema]}
    extensions = {
        "x-kubernetes-list-type": field.list_type,
        "x-kubernetes-list-map-keys": list(field.map_keys),
        "x-kubernetes-map-type": field.map_type,
        "x-kubernetes-patch-strategy": ",".join(field.patch_strategies),
        "x-kubernetes-patch-merge-key": field.merge_key,
    }
    schema.update({key: value for key, value in extensions.items() if value})
    if field.default is not None:
        schema["default"] = field.default
    return _described(schema, name)


def _type_schema(go_type: GoType) -> JsonObject:
    if go_type.form is Form.SCALAR:
        return dict(_SCALARS[go_type.name])
    if go_type.form is Form.LIST:
        return {"type": "array", "items": _type_schema(go_type.parts)}
    if go_type.form is Form.MAP:
        return {"type": "object", "additionalProperties": _type_schema(go_type.parts)}
    return {"$ref": f"{_REFERENCE}{full_name(go_type.name)}"}


@functools.cache
def _descriptions() -> dict[str, str]:
    file = package_resources.files("karpenter_sandbox.kinds.schemas") / "descriptions.json"
    return msgspec.json.decode(file.read_bytes(), type=dict[str, str])


def _described(schema: JsonObject, name: str) -> JsonObject:
    text = _descriptions().get(name) or _descriptions().get(f"*.{name.rpartition('.')[2]}")
    return {"description": text, **schema} if text else schema


def _custom_schemas(
    crd: Mapping[str, Any], group: str, version: str
) -> Iterator[tuple[str, JsonObject]]:
    spec = crd["spec"]
    entry = next((v for v in spec["versions"] if v["name"] == version and v.get("served")), None)
    if spec["group"] != group or entry is None:
        return
    kind = spec["names"]["kind"]
    list_kind = spec["names"].get("listKind") or f"{kind}List"
    prefix = ".".join([*reversed(group.split(".")), version])
    own = dict((entry.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"})
    metadata = {"allOf": [{"$ref": f"{_REFERENCE}{full_name(_OBJECT_META)}"}]}
    own["properties"] = {
        **(own.get("properties") or {}),
        "apiVersion": {"type": "string", "description": _descriptions()["*.apiVersion"]},
        "kind": {"type": "string", "description": _descriptions()["*.kind"]},
        "metadata": {**metadata, "description": _descriptions()["*.metadata"]},
    }
    own[_KIND] = [{"group": group, "version": version, "kind": kind}]
    yield f"{prefix}.{kind}", own
    yield (
        f"{prefix}.{list_kind}",
        {
            "description": f"A list of {kind} objects.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"allOf": [{"$ref": f"{_REFERENCE}{full_name(_LIST_META)}"}]},
                "items": {"type": "array", "items": {"$ref": f"{_REFERENCE}{prefix}.{kind}"}},
            },
            _KIND: [{"group": group, "version": version, "kind": list_kind}],
        },
    )


def _paths(resource: ServedResource) -> Iterator[tuple[str, JsonObject]]:
    root = f"/{_path(resource.group, resource.version)}"
    scope = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    verbs = set(resource.verbs)
    collection: JsonObject = {}
    if "list" in verbs:
        collection["get"] = _operation(resource, "list", "")
    if "create" in verbs:
        collection["post"] = _operation(resource, "post", "")
    if "deletecollection" in verbs:
        collection["delete"] = _operation(resource, "deletecollection", "")
    if collection:
        yield f"{scope}/{resource.plural}", collection
    if resource.namespaced and "list" in verbs:
        yield f"{root}/{resource.plural}", {"get": _operation(resource, "list", "")}
    item = _item_operations(resource, verbs, "")
    if item:
        yield f"{scope}/{resource.plural}/{{name}}", item
    for part in resource.subresources:
        operations = _item_operations(resource, set(part.verbs), part.name)
        if "create" in part.verbs:
            operations["post"] = _operation(resource, "post", part.name)
        yield f"{scope}/{resource.plural}/{{name}}/{part.name}", operations


def _item_operations(resource: ServedResource, verbs: set[str], part: str) -> JsonObject:
    return {
        method: _operation(resource, method, part)
        for verb, method in _METHODS.items()
        if verb in verbs
    }


def _operation(resource: ServedResource, action: str, part: str) -> JsonObject:
    found = next((p for p in resource.subresources if p.name == part), None)
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    if found is not None and found.version:
        kind = {"group": found.group, "version": found.version, "kind": found.kind}
    elif found is not None:
        kind["kind"] = found.kind
    scope = "Namespaced" if resource.namespaced else ""
    operation: JsonObject = {
        "operationId": f"{action}{scope}{resource.api_version}{resource.kind}{part}",
        "x-kubernetes-action": action,
        _KIND: kind,
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in _PARAMETERS.get(action, ())
        ],
        "responses": {"200": {"description": "OK"}},
    }
    if action == "patch":
        is_builtin = struct_of_kind(resource.api_version, resource.kind) is not None
        types = (*_PATCH_TYPES, _STRATEGIC) if is_builtin else _PATCH_TYPES
        body = {"schema": {"type": "object"}}
        operation["requestBody"] = {"content": dict.fromkeys(types, body)}
    return operation
