"""Types generated from the structs of Kubernetes' own kinds, which msgspec decodes at C's speed.

Such a type has every field that its kind has and refuses all others. What was decoded into one is
written back as it was, ``null`` included: a field that was not given is ``UNSET``.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from karpenter_sandbox.kinds.schemas.structs import Form, GoType, struct

SCALARS: Final[Mapping[str, type]] = {
    "string": str,
    "bytes": str,
    "bool": bool,
    "int32": int,
    "int64": int,
    "float64": float,
}


@functools.cache
def shape_of(name: str) -> type[msgspec.Struct]:
    """Return the type for a struct, by the name of the struct."""
    # A name in JSON may be a keyword, so attributes are numbered
    fields = [
        (
            f"f{at}",
            _annotation(field.type) | None | msgspec.UnsetType,
            msgspec.field(default=msgspec.UNSET, name=key),
        )
        for at, (key, field) in enumerate(struct(name).json_fields().items())
    ]
    return msgspec.defstruct(
        name.replace(".", "_"), fields, forbid_unknown_fields=bool(fields), gc=False
    )


def part(shape: object, key: str) -> Any:
    """Return what a field was given, by its name in JSON; None where it was not."""
    found = getattr(shape, _attributes_of(shape).get(key, ""), None)
    return None if found is msgspec.UNSET else found


def put(shape: object, key: str, value: Any) -> None:
    """Give a field another value, where there is such a field."""
    attribute = _attributes_of(shape).get(key)
    if attribute is not None:
        setattr(shape, attribute, value)


def _attributes_of(shape: object) -> Mapping[str, str]:
    return _attributes(type(shape))  # type: ignore[arg-type]  # mypy doubts that types are hashable


@functools.cache
def _attributes(shape: type) -> Mapping[str, str]:
    """Return the attributes of a type by their names in JSON; none for any other type."""
    if not issubclass(shape, msgspec.Struct):
        return {}
    return {field.encode_name: field.name for field in msgspec.structs.fields(shape)}


def _annotation(go_type: GoType) -> Any:
    if go_type.form is Form.STRUCT:
        return shape_of(go_type.name)
    if go_type.form is Form.LIST:
        return list[_annotation(go_type.parts) | None]  # type: ignore[misc]
    if go_type.form is Form.MAP:
        return dict[str, _annotation(go_type.parts) | None]  # type: ignore[misc]
    return SCALARS.get(go_type.name, Any)
