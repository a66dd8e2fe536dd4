"""Strategic merge patches: merge patches that merge keyed lists item by item.

The schema of the kind defines whether a list is merged and by which key. Directives inside a patch
express what values alone cannot: ``$patch: delete`` and ``$patch: replace``, ``$retainKeys``, and,
for a list called ``x``, ``$deleteFromPrimitiveList/x`` and ``$setElementOrder/x``.
"""

from collections.abc import Sequence
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.patching.errors import MAP, PatchError, go_text, undecodable
from karpenter_sandbox.kinds.schema import ANYTHING, Field, MapSchema, Schema

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_PREFIX: Final = "$deleteFromPrimitiveList/"
_ORDER_PREFIX: Final = "$setElementOrder/"
_DELETE, _REPLACE, _MERGE = "delete", "replace", "merge"


def apply_strategic_patch(obj: JsonObject, patch: object, schema: Schema) -> JsonObject:
    """Return ``obj`` changed by a parsed patch.

    Raises:
        PatchError: the patch is neither an object nor nothing, or its directives do not make sense.
    """
    if patch is None:
        return obj
    if not isinstance(patch, dict):
        raise undecodable(patch, MAP)
    return _merge_map(obj, patch, schema.map or _free_map())


def _free_map() -> MapSchema:
    assert ANYTHING.map is not None
    return ANYTHING.map


def _merge_map(original: JsonObject, patch: JsonObject, schema: MapSchema) -> JsonObject:
    if _DIRECTIVE in patch:
        return _whole_map(patch)
    result = _retained(original, patch)
    rest = {key: value for key, value in patch.items() if key != _RETAIN_KEYS}
    for directive in [key for key in rest if key.startswith(_ORDER_PREFIX)]:
        _merge_ordered(result, rest, directive, schema)
    for key, value in rest.items():
        if key.startswith(_DELETE_PREFIX):
            _delete_members(result, key.removeprefix(_DELETE_PREFIX), value)
        elif value is None:
            result.pop(key, None)
        else:
            _merge_value(result, key, value, schema)
    return result


def _whole_map(patch: JsonObject) -> JsonObject:
    if patch[_DIRECTIVE] == _REPLACE:
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if patch[_DIRECTIVE] == _DELETE:
        return {}
    raise _refused(f"unknown patch type: {patch[_DIRECTIVE]} in map: {go_text(patch)}")


def _retained(original: JsonObject, patch: JsonObject) -> JsonObject:
    """The fields of the original that ``$retainKeys`` lets stand; all of them without it."""
    if _RETAIN_KEYS not in patch:
        return dict(original)
    kept = patch[_RETAIN_KEYS]
    problem = "invalid patch format of retainKeys"
    if not isinstance(kept, list):
        raise _bad_request(problem)
    for key, value in patch.items():
        is_directive = key == _RETAIN_KEYS or key.startswith((_DELETE_PREFIX, _ORDER_PREFIX))
        if value is not None and not is_directive and key not in kept:
            raise _bad_request(problem)
    return {key: value for key, value in original.items() if key in kept}


def _merge_value(result: JsonObject, key: str, value: Any, schema: MapSchema) -> None:
    field = _field(schema, key)
    before = result.get(key)
    if isinstance(before, dict) and isinstance(value, dict):
        if _REPLACE in field.patch_strategies:
            result[key] = value
        else:
            result[key] = _merge_map(before, value, field.schema.map or _free_map())
    elif isinstance(before, list) and isinstance(value, list):
        result[key] = _merge_list(before, value, field)
    elif _is_directive(value):
        result.pop(key, None)
    else:
        result[key] = _plain(value)


def _field(schema: MapSchema, key: str) -> Field:
    return schema.fields.get(key) or Field(schema.part(key))


def _merge_list(original: list[Any], patch: list[Any], field: Field) -> list[Any]:
    if _MERGE not in field.patch_strategies:
        return patch
    if not any(isinstance(item, dict) for item in (*original, *patch)):
        return _merge_members(original, patch)
    return _merge_items(original, patch, field)


def _merge_members(original: list[Any], patch: list[Any]) -> list[Any]:
    both: list[Any] = []
    for member in (*original, *patch):
        if member not in both:
            both.append(member)
    return _in_order(both, patch, original, "")


def _merge_items(original: list[Any], patch: list[Any], field: Field) -> list[Any]:
    key = field.merge_key
    items = field.schema.list.items.map if field.schema.list else None
    if not key:
        raise _refused("cannot merge lists without merge key")
    kept, stated = _without_directives(original, patch, key)
    merged = list(kept)
    for item in stated:
        wanted = _key_of(item, key)
        at = next((i for i, held in enumerate(merged) if _key_of(held, key) == wanted), None)
        if at is None:
            merged.append(_plain(item))
        else:
            merged[at] = _merge_map(merged[at], item, items or _free_map())
    return _in_order(merged, stated, kept, key)


def _without_directives(
    original: list[Any], patch: list[Any], key: str
) -> tuple[list[Any], list[Any]]:
    """Carry out the directives among the items of a patch; return both lists without them."""
    kept, stated = list(original), []
    is_replaced = False
    for item in patch:
        if not _is_directive(item):
            stated.append(item)
        elif item[_DIRECTIVE] == _DELETE:
            gone = _key_of(item, key)
            kept = [held for held in kept if _key_of(held, key) != gone]
        elif item[_DIRECTIVE] == _REPLACE:
            is_replaced = True
        elif item[_DIRECTIVE] == _MERGE:
            raise _refused("merging lists cannot yet be specified in the patch")
        else:
            raise _refused(f"unknown patch type: {item[_DIRECTIVE]} in map: {go_text(item)}")
    return (stated, []) if is_replaced else (kept, stated)


def _key_of(item: Any, key: str) -> Any:
    if not isinstance(item, dict):
        raise _refused(f"expected a map[string]interface {{}}, but received a {_go_type(item)}")
    if key not in item:
        raise _refused(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return item[key]


def _merge_ordered(
    result: JsonObject, patch: JsonObject, directive: str, schema: MapSchema
) -> None:
    """Merge a list whose wanted order the patch states; both leave the patch."""
    order = patch.pop(directive)
    name = directive.removeprefix(_ORDER_PREFIX)
    field = _field(schema, name)
    stated = patch.get(name)
    if not isinstance(order, list) or (name in patch and not isinstance(stated, list)):
        raise _bad_request("invalid patch format of setElementOrder list")
    original = result.get(name)
    if stated is not None:
        _check_order(stated, order, field.merge_key)
    if not isinstance(original, list) and stated is None:
        return
    if not isinstance(original, list):
        merged = _plain(stated)
    elif stated is None:
        merged = original
    else:
        merged = _merge_list(original, stated, field)
    patch.pop(name, None)
    held = original if isinstance(original, list) else []
    result[name] = _in_order(merged, order, held, field.merge_key)


def _check_order(stated: list[Any], order: list[Any], key: str) -> None:
    """Refuse an order that leaves out stated items or contradicts theirs."""
    if not stated or not order:
        return
    wanted = iter([_identity(item, key) for item in order])
    for item in stated:
        if not _is_directive(item) and _identity(item, key) not in wanted:
            raise _refused(
                f"The order in patch list:\n{go_text(stated)}\n doesn't match $setElementOrder"
                f" list:\n{go_text(order)}\n"
            )


def _in_order(items: list[Any], stated: Sequence[Any], held: list[Any], key: str) -> list[Any]:
    """Sort stated items as stated and others as they stood, and merge both by where they stood."""
    wanted = [_identity(item, key) for item in stated]
    stood = [_identity(item, key) for item in held]
    mine = [item for item in items if _identity(item, key) in wanted]
    others = [item for item in items if _identity(item, key) not in wanted]
    mine.sort(key=lambda item: wanted.index(_identity(item, key)))
    others.sort(key=lambda item: _place(_identity(item, key), stood))
    result = []
    for item in mine:
        place = _place(_identity(item, key), stood)
        while others and place < len(stood) and _place(_identity(others[0], key), stood) < place:
            result.append(others.pop(0))
        result.append(item)
    return result + others


def _place(identity: Any, stood: list[Any]) -> int:
    return stood.index(identity) if identity in stood else len(stood)


def _identity(item: Any, key: str) -> Any:
    return _key_of(item, key) if key else item


def _delete_members(result: JsonObject, name: str, members: Any) -> None:
    held = result.get(name)
    if isinstance(held, list) and isinstance(members, list):
        result[name] = [member for member in held if member not in members]


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _plain(value: Any) -> Any:
    """A value of a patch as it is stored: without nulls and directives."""
    if isinstance(value, dict):
        return {
            key: _plain(part)
            for key, part in value.items()
            if part is not None
            and not _is_directive(part)
            and key != _RETAIN_KEYS
            and not key.startswith((_DELETE_PREFIX, _ORDER_PREFIX))
        }
    if isinstance(value, list):
        return [_plain(part) for part in value if not _is_directive(part)]
    return value


def _go_type(value: Any) -> str:
    names: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "float64"}
    return names.get(type(value), "[]interface {}" if isinstance(value, list) else "%!s(<nil>)")


def _bad_request(message: str) -> PatchError:
    return PatchError(message, status=400, reason="BadRequest")


def _refused(message: str) -> PatchError:
    """The refusal of a mistake that API servers answer with 500, like an internal error."""
    return PatchError(message, status=500, reason="")
