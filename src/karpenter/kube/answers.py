"""Decodes the API server's answers into objects, or raises an error that names the request."""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import msgspec

from karpenter.api.codec import WatchEvent, decode_as, decode_event, decode_list, unreadable_in
from karpenter.api.depth import without_depths
from karpenter.api.meta import ObjectList, Resource, Status
from karpenter.api.problems import DecodeError, TooDeepError
from karpenter.kube.errors import UnreadableAnswerError, from_status
from karpenter.kube.transport import Request

R = TypeVar("R", bound=Resource)
K = TypeVar("K")
T = TypeVar("T")


class _Release(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str


class _Envelope(msgspec.Struct, frozen=True):
    kind: str = ""
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def read_object(request: Request, data: bytes, kind: type[R]) -> R:
    """Read an answer that is one object."""
    return _read(request, data, kind, decode_as)


def read_list(request: Request, data: bytes, kind: type[R]) -> ObjectList[R]:
    """Read an answer that is a list; an empty one must have ``items`` or the kind of a list."""
    page = _read(request, data, kind, decode_list)
    if page.items or unreadable_in(page):
        return page
    said = _read(request, data, _Envelope, decode_as)
    if said.items is msgspec.UNSET and not said.kind.endswith("List"):
        raise UnreadableAnswerError(request.method, request.path, DecodeError((), "it is no list"))
    return page


def read_version(request: Request, data: bytes) -> str:
    """Read which release of Kubernetes a server is."""
    return _read(request, data, _Release, decode_as).git_version


async def read_events(
    request: Request, lines: AsyncIterator[bytes], kind: type[R]
) -> AsyncIterator[WatchEvent[R]]:
    """Read a watch, line by line; an ERROR event ends it with an exception."""
    async for line in lines:
        event = _read(request, line, kind, decode_event)
        if isinstance(event.object, Status):
            raise from_status(event.object.code, event.object)
        yield event


def _read(request: Request, data: bytes, kind: K, decode: Callable[[bytes, K], T]) -> T:
    try:
        try:
            return decode(data, kind)
        except TooDeepError:
            # A server accepts deeper nesting than the decoder, in fields that are not decoded
            return decode(without_depths(data), kind)
    except DecodeError as error:
        raise UnreadableAnswerError(request.method, request.path, error) from error
