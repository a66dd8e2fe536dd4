"""Requests and responses, whatever carries them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from karpenter_sandbox.status import ApiError


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks; names of headers are in lower case, the path is not decoded yet."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: str = "sandbox-admin"

    def header(self, name: str) -> str:
        """The value of a header, empty when there is none."""
        return self.headers.get(name, "")


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Frames(Protocol):
    """Something that is sent piece by piece."""

    def frames(self) -> AsyncGenerator[bytes, None]:
        """The pieces, each sent as soon as it is there."""
        ...


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """An answer that goes on until one side ends it."""

    stream: Frames
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def refused(error: ApiError) -> Response:
    """The answer to a request that was refused."""
    headers = {"Content-Type": "application/json"}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return Response(error.status, error.encoded(), headers)
