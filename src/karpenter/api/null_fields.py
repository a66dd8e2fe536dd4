"""What Kubernetes accepts and strict models do not: a ``null`` for "not given", and odd years.

Go writes ``null`` for an empty list or an unset time here and there (``drivers: null`` on a
CSINode without drivers), and manifests have empty YAML keys. Making every collection optional would
decode just as fast, but push the question "None or empty?" into every planner. Instead models stay
strict, and an object that does not fit is decoded once more without the nulls of its fields. Times,
which are null most often, are optional anyway and never need the second pass.

Only fields of models are treated so. A null *inside* a free map (a label without a value) or a
list stays, and is refused: dropping it would change what the map selects.

A time of the year 0 or 10000, which servers accept and Python cannot represent, is clamped to the
first or the last time there is (see ``karpenter.api.times``): a node with a wrong clock still
counts.
"""

from collections.abc import Mapping
from functools import cache

import msgspec
from msgspec import inspect

from karpenter.api.times import within_bounds


def without_null_fields(value: object, model: type[msgspec.Struct]) -> object:
    """Return ``value`` without null members of ``model``, and with times that can be read."""
    return _pruned(value, _type_info(model))


@cache
def _type_info(model: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(model)


def _pruned(value: object, shape: inspect.Type) -> object:
    match shape:
        case inspect.UnionType(types=types):
            return _pruned(value, next((t for t in types if _is_looked_at(t)), inspect.AnyType()))
        case inspect.StructType(cls=cls) if isinstance(value, Mapping):
            fields = _field_shapes(cls)
            return {
                key: _pruned(member, fields.get(key, _OPAQUE))
                for key, member in value.items()
                if member is not None
            }
        case inspect.DictType(value_type=inner) if isinstance(value, Mapping):
            return {key: _pruned(member, inner) for key, member in value.items()}
        case inspect.VarTupleType(item_type=inner) if isinstance(value, list):
            return [_pruned(member, inner) for member in value]
        case inspect.DateTimeType() if isinstance(value, str):
            return within_bounds(value)
        case _:
            return value


_OPAQUE = inspect.AnyType()


def _is_looked_at(shape: inspect.Type) -> bool:
    return isinstance(
        shape,
        inspect.StructType | inspect.DictType | inspect.VarTupleType | inspect.DateTimeType,
    )


@cache
def _field_shapes(model: type[msgspec.Struct]) -> Mapping[str, inspect.Type]:
    shape = _type_info(model)
    assert isinstance(shape, inspect.StructType)
    return {field.encode_name: field.type for field in shape.fields}
