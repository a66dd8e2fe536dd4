"""JSON patches (RFC 6902), with the leniencies of the library API servers use.

Replacing a field that is not there adds it, and negative indexes count from the end of a list. A
patch that does not fit is refused as a whole, with the same unspecific sentence an API server
gives; why it did not fit is the ``__cause__`` of the error.

Patches are untrusted input, so their cost is bounded, by the number of operations and by the total
size of copies: each copy of a document into itself doubles it, so thirty would exhaust memory.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from karpenter_sandbox.kinds.depth import TOO_DEEP
from karpenter_sandbox.kinds.patching.errors import DECODING, PatchError, undecodable

_MOST_OPERATIONS: Final = 10_000
_MOST_COPIED: Final = 3 * 1024 * 1024
_REFUSAL: Final = "the server rejected our request due to an error in our request"


class _MisfitError(ValueError):
    """An operation that does not fit the document."""


def apply_json_patch(obj: dict[str, Any], patch: object) -> dict[str, Any]:
    """Return ``obj`` changed by the operations of a parsed patch.

    Raises:
        PatchError: 400 for what is no patch or nests too deeply, 413 for one that is too long, 422
            for a misfit.
    """
    operations = _operations(patch)
    # Operations mutate in place, so they work on copies of the object and of their values
    document = _Document(_copied(obj))
    try:
        for operation in operations:
            document.apply(_copied(operation))
    except _MisfitError as error:
        raise PatchError(_REFUSAL, status=422, reason="Invalid") from error
    except RecursionError as error:
        # The recursion limit depends on the Python release; the answer must not
        raise PatchError(TOO_DEEP, status=400, reason="BadRequest") from error
    if not isinstance(document.root, dict):
        raise PatchError(_REFUSAL, status=422, reason="Invalid")
    return document.root


def _operations(patch: object) -> list[Mapping[str, Any]]:
    if not isinstance(patch, list):
        raise undecodable(patch, "[]handlers.jsonPatchOp", prefix=DECODING)
    for entry in patch:
        if not isinstance(entry, Mapping):
            raise undecodable(entry, "handlers.jsonPatchOp", prefix=DECODING)
    if len(patch) > _MOST_OPERATIONS:
        raise PatchError(
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {_MOST_OPERATIONS}, got {len(patch)}",
            status=413,
            reason="RequestEntityTooLarge",
        )
    return patch


class _Document:
    """What the operations of one patch change, one after the other."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied = 0  # bytes
        self._operations: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "add": self._add,
            "remove": self._remove,
            "replace": self._replace,
            "move": self._move,
            "copy": self._copy,
            "test": self._test,
        }

    def apply(self, operation: Mapping[str, Any]) -> None:
        name = operation.get("op")
        apply = self._operations.get(name) if isinstance(name, str) else None
        if apply is None:
            raise _MisfitError(f"unexpected kind: {name}")
        apply(operation)

    def _add(self, operation: Mapping[str, Any]) -> None:
        container, key = _place(self.root, _pointer(operation, "path"))
        _insert(container, key, operation.get("value"))

    def _remove(self, operation: Mapping[str, Any]) -> None:
        _take(*_place(self.root, _pointer(operation, "path")))

    def _replace(self, operation: Mapping[str, Any]) -> None:
        path, value = _pointer(operation, "path"), operation.get("value")
        if not path:
            self.root = value
            return
        container, key = _place(self.root, path)
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(key, len(container))] = value

    def _move(self, operation: Mapping[str, Any]) -> None:
        source = _pointer(operation, "from")
        value = _find(self.root, source)
        _take(*_place(self.root, source))
        _insert(*_place(self.root, _pointer(operation, "path")), value)

    def _copy(self, operation: Mapping[str, Any]) -> None:
        data = msgspec.json.encode(_find(self.root, _pointer(operation, "from")))
        self._copied += len(data)
        if self._copied > _MOST_COPIED:
            raise _MisfitError(
                f"the copies add up to {self._copied} bytes, more than the {_MOST_COPIED} allowed"
            )
        container, key = _place(self.root, _pointer(operation, "path"))
        _insert(container, key, msgspec.json.decode(data))

    def _test(self, operation: Mapping[str, Any]) -> None:
        path = _pointer(operation, "path")
        found = _find(self.root, path)
        if not _same(found, operation.get("value")):
            raise _MisfitError(f"testing value {operation['path']} failed: test failed")


def _copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


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


def _place(document: Any, path: list[str]) -> tuple[Any, str]:
    """The list or object that holds what a path leads to, and the last part of the path."""
    if not path:
        raise _MisfitError("doc is missing path: the whole document can only be replaced or tested")
    *way, last = path
    container = document
    for key in way:
        if isinstance(container, dict):
            if container.get(key) is None:
                raise _MisfitError(f'doc is missing path: there is no "{key}"')
            container = container[key]
        elif isinstance(container, list):
            container = container[_index(key, len(container))]
        else:
            raise _MisfitError(f'doc is missing path: nothing contains "{key}"')
    if not isinstance(container, dict | list):
        raise _MisfitError(f'doc is missing path: nothing contains "{last}"')
    return container, last


def _insert(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(key, len(container) + 1), value)


def _take(container: Any, key: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise _MisfitError(f'unable to remove nonexistent key: "{key}"')


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
