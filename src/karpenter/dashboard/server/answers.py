"""Answers: documents as JSON, refusals, files, each with the headers that go with it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from karpenter.dashboard.contract import Refusal
from karpenter.dashboard.gate import HEADERS
from karpenter.visible import visible

JSON: Final = "application/json"
NO_STORE: Final = "no-store"
# Encoding what is smaller takes longer than sending it
_WORTH_COMPRESSING: Final = 1024


class RefusedError(Exception):
    """A request that gets no answer; the text is one sentence."""

    def __init__(
        self,
        status: int,
        text: str,
        headers: Mapping[str, str] | None = None,
        *,
        refusal: Refusal | None = None,
    ) -> None:
        """Refuse with a status; ``refusal`` says more than the sentence."""
        super().__init__(text)
        self.status: Final = status
        self.headers: Final = headers or {}
        self.refusal: Final = refusal or Refusal(error=visible(text))


def refused(error: RefusedError) -> web.Response:
    """The answer to a request that is refused."""
    body = msgspec.json.encode(error.refusal)
    return answer(error.status, body, JSON, {"Cache-Control": NO_STORE, **error.headers})


def answer(
    status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An answer with the headers that all have."""
    given = {**HEADERS, "Content-Type": content_type, **(headers or {})}
    return web.Response(status=status, body=body, headers=given)


def document(content: Any, cache: str = NO_STORE) -> web.Response:
    """A document."""
    return answer(200, msgspec.json.encode(content), JSON, {"Cache-Control": cache})


def takes_gzip(request: web.BaseRequest) -> bool:
    """Whether a client takes gzip."""
    return "gzip" in request.headers.get("Accept-Encoding", "").lower()


def is_worth_compressing(body: bytes) -> bool:
    """Whether it pays."""
    return len(body) >= _WORTH_COMPRESSING


def matches(request: web.BaseRequest, tag: str) -> bool:
    """Whether a client has what is known by an ETag."""
    known = request.headers.get("If-None-Match", "")
    return tag in (each.strip().removeprefix("W/") for each in known.split(","))
