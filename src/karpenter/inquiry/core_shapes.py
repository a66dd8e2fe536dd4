"""Types generated from the structs of Kubernetes' own kinds, which msgspec decodes at C's speed.

Such a type has every field that its kind has and refuses all others. What was decoded into one is
written back as it was, ``null`` included: a field that was not given is ``UNSET``.
"""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

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


class Shape(msgspec.Struct, gc=False):
    """Base of the generated types."""

    attributes: ClassVar[Mapping[str, str]] = {}  # by their names in JSON


@functools.cache
def shape_of(name: str) -> type[Shape]:
    """Return the type for a struct, by the name of the struct."""
    # A name in JSON may be a keyword, so attributes are numbered
    known = struct(name).json_fields()
    attributes = {key: f"f{at}" for at, key in enumerate(known)}
    fields = [
        (
            attributes[key],
            _annotation(field.type) | None | msgspec.UnsetType,
            msgspec.field(default=msgspec.UNSET, name=key),
        )
        for key, field in known.items()
    ]
    made = msgspec.defstruct(
        name.replace(".", "_"),
        fields,
        bases=(Shape,),
        namespace={"attributes": attributes},
        forbid_unknown_fields=bool(fields),
        gc=False,
    )
    return cast(type[Shape], made)


def part(shape: object, key: str) -> Any:
    """Return what a field was given, by its name in JSON; None where it was not."""
    if not isinstance(shape, Shape) or key not in shape.attributes:
        return None
    found = getattr(shape, shape.attributes[key])
    return None if found is msgspec.UNSET else found


def put(shape: object, key: str, value: Any) -> None:
    """Give a field another value, where there is such a field."""
    if isinstance(shape, Shape) and key in shape.attributes:
        setattr(shape, shape.attributes[key], value)


def _annotation(go_type: GoType) -> Any:
    if go_type.form is Form.STRUCT:
        return shape_of(go_type.name)
    if go_type.form is Form.LIST:
        return list[_annotation(go_type.parts) | None]  # type: ignore[misc]
    if go_type.form is Form.MAP:
        return dict[str, _annotation(go_type.parts) | None]  # type: ignore[misc]
    return SCALARS.get(go_type.name, Any)
