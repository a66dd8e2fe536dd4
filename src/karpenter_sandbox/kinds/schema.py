"""What a value may look like and how it merges, for built-in kinds and those of CRDs alike.

A schema says whether a value may be a scalar, a list or a map, or any of them. For lists it says
whether they are one value (atomic), a set of scalars, or items identified by key fields; for maps,
whether they are one value or a collection of fields. Server-side apply and field ownership follow
from that. Fields of built-in kinds also carry the rules of strategic merge patches.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from karpenter_sandbox.kinds.schemas.structs import (
    Form,
    GoType,
    StructField,
    struct,
    struct_of_kind,
)


class Scalar(Enum):
    """What a single value may be."""

    STRING = "string"
    NUMERIC = "numeric"
    BOOLEAN = "boolean"
    ANY = "any"


class ListKind(Enum):
    """How the items of a list are identified."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A named part of an object."""

    schema: "Schema"
    default: Any = None
    patch_strategies: tuple[str, ...] = ()
    merge_key: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ListSchema:
    """A list; ``keys`` are the fields that identify an item when it is a map."""

    items: "Schema"
    kind: ListKind = ListKind.ATOMIC
    keys: tuple[str, ...] = ()


class MapSchema:
    """An object with known fields, a map with values of one schema, or both."""

    __slots__ = ("_fields", "_load", "is_atomic", "values")

    def __init__(
        self,
        load: Callable[[], Mapping[str, Field]],
        *,
        values: "Schema | None" = None,
        is_atomic: bool = False,
    ) -> None:
        self._load = load
        self._fields: Mapping[str, Field] | None = None
        self.values = values
        self.is_atomic = is_atomic

    @property
    def fields(self) -> Mapping[str, Field]:
        """The known fields, read when they are first needed because schemas may contain themselves."""
        if self._fields is None:
            self._fields = self._load()
        return self._fields

    def part(self, key: str) -> "Schema":
        """The schema of a value below this map."""
        field = self.fields.get(key)
        if field is not None:
            return field.schema
        return self.values or ANYTHING

    def declares(self, key: str) -> bool:
        """Whether a key may stand in this map."""
        return self.values is not None or key in self.fields

    def with_atomicity(self, is_atomic: bool) -> "MapSchema":
        """The same map, owned in one piece or in parts."""
        return MapSchema(lambda: self.fields, values=self.values, is_atomic=is_atomic)


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """What a value may be; parts that are absent are not allowed."""

    scalar: Scalar | None = None
    list: ListSchema | None = None
    map: MapSchema | None = None


def _no_fields() -> Mapping[str, Field]:
    return {}


_SCALARS: Final = {kind: Schema(scalar=kind) for kind in Scalar}
# A value of which nothing is known, owned in one piece whatever it is
OPAQUE: Final = Schema(
    scalar=Scalar.ANY,
    list=ListSchema(_SCALARS[Scalar.ANY]),
    map=MapSchema(_no_fields, values=_SCALARS[Scalar.ANY], is_atomic=True),
)


def _anything() -> Schema:
    free = MapSchema(_no_fields)
    schema = Schema(scalar=Scalar.ANY, list=ListSchema(OPAQUE), map=free)
    free.values = schema
    return schema


# A value of which nothing is known, whose maps are still owned field by field
ANYTHING: Final = _anything()
_OF_GO: Final = {"bool": Scalar.BOOLEAN, "string": Scalar.STRING, "bytes": Scalar.STRING}
_OF_OPAQUE: Final = {
    "Time": Scalar.STRING,
    "MicroTime": Scalar.STRING,
    "Quantity": Scalar.ANY,
    "IntOrString": Scalar.ANY,
}
_OF_OPENAPI: Final = {
    "integer": Scalar.NUMERIC,
    "number": Scalar.NUMERIC,
    "boolean": Scalar.BOOLEAN,
    "string": Scalar.STRING,
}


def builtin_schema(api_version: str, kind: str) -> Schema | None:
    """The schema of one of Kubernetes' own kinds, or None when it is not known."""
    found = struct_of_kind(api_version, kind)
    return None if found is None else _of_struct(found.name)


@functools.cache
def _of_struct(name: str) -> Schema:
    found = struct(name)

    def load() -> Mapping[str, Field]:
        return {key: _builtin_field(field) for key, field in found.json_fields().items()}

    # like the API server, take an object without declared fields for a free one
    values = None if found.fields else ANYTHING
    return Schema(map=MapSchema(load, values=values, is_atomic=found.is_atomic))


def _builtin_field(field: StructField) -> Field:
    schema = _of_type(field.type, field)
    return Field(schema, field.default, field.patch_strategies, field.merge_key)


def _of_type(go_type: GoType, field: StructField | None = None) -> Schema:
    """The schema of a type; a field's own words decide how its list or map is owned."""
    if go_type.form is Form.LIST:
        kind = ListKind(field.list_type) if field and field.list_type else ListKind.ATOMIC
        keys = field.map_keys if field else ()
        return Schema(list=ListSchema(_of_type(go_type.parts), kind, keys))
    if go_type.form is Form.MAP:
        is_atomic = field is not None and field.map_type == "atomic"
        values = _of_type(go_type.parts)
        return Schema(map=MapSchema(_no_fields, values=values, is_atomic=is_atomic))
    if go_type.form is Form.STRUCT:
        schema = _of_struct(go_type.name)
        if field is not None and field.map_type and schema.map is not None:
            return Schema(map=schema.map.with_atomicity(field.map_type == "atomic"))
        return schema
    if go_type.form is Form.SCALAR:
        return _SCALARS[_OF_GO.get(go_type.name, Scalar.NUMERIC)]
    if go_type.name in _OF_OPAQUE:
        return _SCALARS[_OF_OPAQUE[go_type.name]]
    return OPAQUE if go_type.name == "RawExtension" else ANYTHING


def crd_schema(document: Mapping[str, Any]) -> Schema:
    """The schema of a version of a CRD, from its ``openAPIV3Schema``."""
    schema = _custom(document, keeps_unknown=False)
    if schema.map is None:
        return schema
    inner = schema.map

    def load() -> Mapping[str, Field]:
        envelope = {
            "apiVersion": Field(_SCALARS[Scalar.STRING]),
            "kind": Field(_SCALARS[Scalar.STRING]),
            "metadata": Field(_of_struct("meta.v1.ObjectMeta")),
        }
        return {**inner.fields, **envelope}

    return Schema(map=MapSchema(load, values=inner.values, is_atomic=inner.is_atomic))


def _custom(document: Mapping[str, Any], *, keeps_unknown: bool) -> Schema:
    keeps_unknown = keeps_unknown or document.get("x-kubernetes-preserve-unknown-fields") is True
    stated = document.get("type")
    if stated in _OF_OPENAPI:
        return _SCALARS[_OF_OPENAPI[stated]]
    if stated == "array":
        return Schema(list=_custom_list(document, keeps_unknown))
    if stated == "object":
        return Schema(map=_custom_map(document, keeps_unknown))
    return Schema(
        scalar=Scalar.ANY,
        list=_custom_list(document, keeps_unknown),
        map=_custom_map(document, keeps_unknown),
    )


def _custom_list(document: Mapping[str, Any], keeps_unknown: bool) -> ListSchema:
    items = document.get("items")
    schema = _custom(items, keeps_unknown=keeps_unknown) if isinstance(items, Mapping) else OPAQUE
    kind = ListKind(document.get("x-kubernetes-list-type") or "atomic")
    return ListSchema(schema, kind, tuple(document.get("x-kubernetes-list-map-keys") or ()))


def _custom_map(document: Mapping[str, Any], keeps_unknown: bool) -> MapSchema:
    properties: Mapping[str, Mapping[str, Any]] = document.get("properties") or {}

    def load() -> Mapping[str, Field]:
        return {
            name: Field(_custom(part, keeps_unknown=keeps_unknown), part.get("default"))
            for name, part in properties.items()
        }

    additional = document.get("additionalProperties")
    values: Schema | None = None
    if isinstance(additional, Mapping):
        values = _custom(additional, keeps_unknown=keeps_unknown)
    elif additional or keeps_unknown or (additional is None and not properties):
        values = ANYTHING
    is_atomic = document.get("x-kubernetes-map-type") == "atomic"
    return MapSchema(load, values=values, is_atomic=is_atomic)
