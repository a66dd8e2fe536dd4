"""JSON patches (RFC 6902), with the leniencies of the library API servers use.

Replacing a field that is not there adds it, and negative indexes count from the end of a list. A
patch that does not fit is refused as a whole, with the same unspecific sentence an API server
gives; why it did not fit is the ``__cause__`` of the error.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from karpenter.sandbox.patching.errors import DECODING, PatchError, undecodable

_MOST_OPERATIONS: Final = 10_000
_REFUSAL: Final = "the server rejected our request due to an error in our request"


class _MisfitError(ValueError):
    """An operation that does not fit the document."""


def apply_json_patch(obj: dict[str, Any], patch: object) -> dict[str, Any]:
    """Return ``obj`` changed by the operations of a parsed patch.

    Raises:
        PatchError: 400 for what is no patch, 413 for one that is too long, 422 for a misfit.
    """
    operations = _operations(patch)
    document: Any = obj
    try:
        for operation in operations:
            document = _apply(document, operation)
    except _MisfitError as error:
        raise PatchError(_REFUSAL, status=422, reason="Invalid") from error
    if not isinstance(document, dict):
        raise PatchError(_REFUSAL, status=422, reason="Invalid")
    return document


def _operations(patch: object) -> list[Mapping[str, Any]]:
    if not isinstance(patch, list):
        raise undecodable(patch, "[]handlers.jsonPatchOp", prefix=DECODING)
    for entry in patch:
        if not isinstance(entry, Mapping):
            raise undecodable(entry, "handlers.jsonPatchOp", prefix=DECODING)
    if len(patch) > _MOST_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS},"
            f" got {len(patch)}",
            status=413,
            reason="RequestEntityTooLarge",
        )
    return patch


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    name = operation.get("op")
    apply = _OPERATIONS.get(name) if isinstance(name, str) else None
    if apply is None:
        raise _MisfitError(f"unexpected kind: {name}")
    return apply(document, operation)


def _add(document: Any, operation: Mapping[str, Any]) -> Any:
    return _change(document, _pointer(operation, "path"), _adder(operation.get("value")))


def _remove(document: Any, operation: Mapping[str, Any]) -> Any:
    return _change(document, _pointer(operation, "path"), _without)


def _replace(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _pointer(operation, "path")
    value = operation.get("value")
    if not path:
        return value

    def replaced(container: Any, key: str) -> Any:
        if isinstance(container, dict):
            return {**container, key: value}
        index = _index(key, len(container))
        return [*container[:index], value, *container[index + 1 :]]

    return _change(document, path, replaced)


def _move(document: Any, operation: Mapping[str, Any]) -> Any:
    source = _pointer(operation, "from")
    value = _find(document, source)
    removed = _change(document, source, _without)
    return _change(removed, _pointer(operation, "path"), _adder(value))


def _copy(document: Any, operation: Mapping[str, Any]) -> Any:
    value = _find(document, _pointer(operation, "from"))
    return _change(document, _pointer(operation, "path"), _adder(value))


def _test(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _pointer(operation, "path")
    found = _find(document, path)
    if not _same(found, operation.get("value")):
        raise _MisfitError(f"testing value {operation['path']} failed: test failed")
    return document


_OPERATIONS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _pointer(operation: Mapping[str, Any], name: str) -> list[str]:
    """Split a JSON pointer (RFC 6901) into its parts."""
    text = operation.get(name)
    if not isinstance(text, str):
        raise _MisfitError(f"operation missing {name} field")
    if not text:
        return []
    if not text.startswith("/"):
        raise _MisfitError(f'"{text}" is no JSON pointer: it does not start with "/"')
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _find(document: Any, path: list[str]) -> Any:
    """The value at a path; fields that are not there count as null."""
    value = document
    for depth, key in enumerate(path):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list):
            value = value[_index(key, len(value))]
        else:
            raise _MisfitError(f"doc is missing path: /{'/'.join(path[: depth + 1])}")
    return value


def _change(document: Any, path: list[str], change: Callable[[Any, str], Any]) -> Any:
    """Rebuild the containers on the way to a path, the last one by ``change``."""
    if not path:
        raise _MisfitError("doc is missing path: the whole document can only be replaced or tested")
    key, *rest = path
    if not isinstance(document, dict | list):
        raise _MisfitError(f'doc is missing path: nothing contains "{key}"')
    if not rest:
        return change(document, key)
    if isinstance(document, dict):
        if document.get(key) is None:
            raise _MisfitError(f'doc is missing path: there is no "{key}"')
        return {**document, key: _change(document[key], rest, change)}
    index = _index(key, len(document))
    return [*document[:index], _change(document[index], rest, change), *document[index + 1 :]]


def _adder(value: Any) -> Callable[[Any, str], Any]:
    def added(container: Any, key: str) -> Any:
        if isinstance(container, dict):
            return {**container, key: value}
        if key == "-":
            return [*container, value]
        index = _index(key, len(container) + 1)
        return [*container[:index], value, *container[index:]]

    return added


def _without(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        if key not in container:
            raise _MisfitError(f'unable to remove nonexistent key: "{key}"')
        return {name: value for name, value in container.items() if name != key}
    index = _index(key, len(container))
    return [*container[:index], *container[index + 1 :]]


def _index(key: str, length: int) -> int:
    digits = key[1:] if key[:1] in ("-", "+") else key
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(_MOST_OPERATIONS)) + 9:
        raise _MisfitError(f'"{key}" is no index of a list')
    index = int(key)
    if not -length <= index < length:
        raise _MisfitError(f"unable to access invalid index: {index}")
    return index + length if index < 0 else index


def _same(left: Any, right: Any) -> bool:
    """Equality of JSON, where true is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
