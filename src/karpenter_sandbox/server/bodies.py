"""Reading the body of a request: JSON, YAML or protobuf, within limits."""

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read
from karpenter_sandbox.kinds.depth import TOO_DEEP, check_depth
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.server import protobuf
from karpenter_sandbox.server.structure import unreadable
from karpenter_sandbox.server.syntax_errors import (
    json_problem,
    kind_problem,
    number_problem,
    unrecognized,
)
from karpenter_sandbox.status import bad_request, too_large, unsupported_media_type

LARGEST: Final = 3 * 1024 * 1024
# Longer integers overflow a float64 in Go, and parsing is quadratic in the digits
_MOST_DIGITS: Final = 309
JSON_TYPES: Final = frozenset({"", "application/json"})
YAML_TYPES: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
_ACCEPTED: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_NO_KIND: Final = "couldn't get version/kind; json parse error: "


class UnreadableError(ValueError):
    """A body that cannot be read at all."""


class NumberError(UnreadableError):
    """A body with a number beyond all bounds."""


@dataclass(frozen=True, slots=True)
class Body:
    """The decoded value of a body, and its duplicate fields."""

    content: Any
    duplicates: tuple[str, ...] = ()


def read_object(data: bytes, content_type: str, resource: Resource | None) -> Body:
    """Read an object.

    Raises:
        ApiError: the body is too large, of an unknown type, or cannot be read.
    """
    _check_size(data)
    media_type = _media_type(content_type)
    try:
        if media_type in JSON_TYPES:
            return _of_object(read_json(data))
        if media_type in YAML_TYPES:
            return read_yaml(data)
        if media_type == protobuf.MEDIA_TYPE:
            return _read_protobuf(data, resource)
    except NumberError as error:
        problem = str(error)
        raise unreadable(resource, problem) if resource else bad_request(problem) from error
    except UnreadableError as error:
        if resource is None:
            raise bad_request(str(error)) from error
        raise unrecognized(resource.kind, str(error), data) from error
    raise unsupported_media_type(_ACCEPTED)


def _of_object(body: Body) -> Body:
    if body.content is not None and not isinstance(body.content, dict):
        raise UnreadableError(_NO_KIND + kind_problem(body.content))
    return body


def _read_protobuf(data: bytes, resource: Resource | None) -> Body:
    default = (resource.api_version, resource.kind) if resource is not None else None
    try:
        content = protobuf.decode(data, default_kind=default)
    except protobuf.ProtobufError as error:
        if not data.startswith(protobuf.MAGIC):
            raise UnreadableError(str(error)) from error
        raise bad_request(str(error)) from error
    check_depth(content)
    return Body(content)


def read_patch(data: bytes, *, is_apply: bool) -> Body:
    """Read a patch, which is JSON, except that server-side apply takes YAML as well."""
    _check_size(data)
    try:
        is_json = not is_apply or data.lstrip()[:1] == b"{"
        return read_json(data) if is_json else read_yaml(data)
    except UnreadableError as error:
        if is_apply:
            raise bad_request(str(error)) from error
        raise bad_request(f"error decoding patch: {str(error).removeprefix(_NO_KIND)}") from error


def read_json(data: bytes) -> Body:
    """Read JSON, noticing fields that appear twice in one object.

    Raises:
        UnreadableError: it is none.
    """
    try:
        content = msgspec.json.decode(data)
    except RecursionError as error:
        raise bad_request(TOO_DEEP) from error
    except ValueError as error:
        raise _problem(data) from error
    check_depth(content)
    return Body(content, tuple(_duplicates(data)))


def _problem(data: bytes) -> UnreadableError:
    """Why the fast reader refuses what may yet be JSON: some numbers it does not take."""
    try:
        json.loads(data, parse_int=_integer, parse_float=_float)
    except NumberError as error:
        return error
    except (ValueError, RecursionError):
        pass
    return UnreadableError(_NO_KIND + json_problem(data))


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > _MOST_DIGITS:
        raise NumberError(number_problem(text))
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NumberError(number_problem(text))
    return value


def read_yaml(data: bytes) -> Body:
    """Read one YAML document.

    Raises:
        UnreadableError: it is none.
    """
    try:
        documents = read(data, "the body of the request")
    except ManifestError as error:
        raise UnreadableError(f"error decoding YAML: {error}") from error
    if len(documents) != 1:
        raise bad_request(f"the body of the request has {len(documents)} documents instead of one")
    return Body(documents[0].data)


def _duplicates(data: bytes) -> list[str]:
    """The keys that are given more than once, which the fast reader does not report."""
    is_repeating = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal is_repeating
        found = dict(items)
        if len(found) == len(items):
            return found
        is_repeating = True
        counts = Counter(key for key, _ in items)
        return _Repeating(found, [key for key, count in counts.items() if count > 1])

    tree = json.loads(data, object_pairs_hook=pairs, parse_int=_integer)
    return _paths(tree, "") if is_repeating else []


class _Repeating(dict[str, Any]):
    """An object in which some keys were given more than once."""

    def __init__(self, content: dict[str, Any], repeated: list[str]) -> None:
        super().__init__(content)
        self.repeated = repeated


def _paths(value: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, dict):
        repeated = value.repeated if isinstance(value, _Repeating) else []
        found.extend(f"{path}.{key}".lstrip(".") for key in repeated)
        for key, part in value.items():
            found.extend(_paths(part, f"{path}.{key}".lstrip(".")))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            found.extend(_paths(part, f"{path}[{index}]"))
    return found


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _check_size(data: bytes) -> None:
    if len(data) > LARGEST:
        raise too_large(LARGEST)
