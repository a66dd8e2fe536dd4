"""The routes: what each path answers, once the gate has let a request through."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import parse_qs

import msgspec
import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from karpenter.clock import Clock
from karpenter.dashboard.assets import Asset, Assets
from karpenter.dashboard.attendance import Attendance
from karpenter.dashboard.contract import HistoryKept, View, WhatIfRequest
from karpenter.dashboard.feed import Feed, Published, TooManyClientsError
from karpenter.dashboard.gate import Asked, Gate
from karpenter.dashboard.questions import BusyError, QuestionError, Questions
from karpenter.dashboard.server import asked_for
from karpenter.dashboard.server.answers import (
    JSON,
    NO_STORE,
    RefusedError,
    answer,
    document,
    is_worth_compressing,
    matches,
    refused,
    takes_gzip,
)
from karpenter.dashboard.server.connections import Rate
from karpenter.dashboard.server.schema import schema
from karpenter.dashboard.server.stream import stream

_API: Final = "/api/v1/"
_ASSETS: Final = "/assets/"
_EXPLAIN: Final = f"{_API}explain/"
_A_YEAR: Final = "public, max-age=31536000, immutable"
_SECONDS_10: Final = "private, max-age=10"
_AN_HOUR: Final = "private, max-age=3600"
_PER_SECOND: Final = 10.0  # questions
_AT_ONCE: Final = 20
_LARGEST_BODY: Final = 2**20
_BODY_SECONDS: Final = 10.0
_log: Final = structlog.get_logger(__name__)

Query: TypeAlias = Mapping[str, str]
_Handler: TypeAlias = Callable[[web.BaseRequest, Query], Awaitable[web.StreamResponse]]


class Moments(Protocol):
    """The views of the past."""

    def at(self, moment: float) -> View | None:
        """The view of a moment, in seconds since 1970; None if none is kept of it."""

    @property
    def kept(self) -> HistoryKept:
        """How far back it goes."""


class Routes:
    """Answers requests."""

    def __init__(
        self,
        feed: Feed,
        questions: Questions,
        gate: Gate,
        assets: Assets,
        clock: Clock,
        *,
        history: Moments | None = None,
        attendance: Attendance | None = None,
    ) -> None:
        """Make the routes.

        Args:
            feed: the views.
            questions: answers what is not a view.
            gate: checks every request first.
            assets: the page.
            clock: real time.
            history: the views of the past; none of them without it.
            attendance: is told of clients, where there is more to do while there are some.
        """
        self._attendance = attendance or Attendance(clock)
        self._feed = feed
        self._questions = questions
        self._gate = gate
        self._assets = assets
        self._clock = clock
        self._history = history
        self._rate = Rate(clock, _PER_SECOND, _AT_ONCE)
        self._compressing = asyncio.Lock()
        self._routes: Final[Mapping[str, tuple[str, _Handler]]] = {
            "/": ("GET", self._index),
            "/healthz": ("GET", self._healthz),
            f"{_API}view": ("GET", self._view),
            f"{_API}stream": ("GET", self._stream),
            f"{_API}decisions": ("GET", self._decisions),
            f"{_API}costs": ("GET", self._costs),
            f"{_API}plan": ("GET", self._plan),
            f"{_API}what-if": ("POST", self._what_if),
            f"{_API}schema": ("GET", self._schema),
            f"{_API}about": ("GET", self._about),
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request, whatever it asks."""
        try:
            return await self._let_in(request)
        except RefusedError as error:
            return refused(error)
        except QuestionError as error:
            return refused(_without_answer(error))
        except (ConnectionError, HttpProcessingError, web.RequestPayloadError):
            raise  # the client is gone, or does not speak HTTP
        except Exception as error:  # noqa: BLE001 one request must not end the others
            _log.error("a request to the dashboard failed", path=request.path, exc_info=error)
            text = f"the request failed with an unexpected {type(error).__name__}"
            return refused(RefusedError(500, text))

    async def _let_in(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Asked(request.method, request.raw_path, headers, request.remote or "")
        turned = self._gate.turned_away(asked)
        if turned is not None:
            raise RefusedError(turned.status, turned.text, turned.headers)
        if asked.path.startswith(_API):  # with the token, unlike the page itself
            self._attendance.note()
        method, handler = self._route(asked.path)
        if asked.method != method and (asked.method, method) != ("HEAD", "GET"):
            text = f"{asked.method} is not answered here, only {method}"
            raise RefusedError(405, text, {"Allow": method})
        query = parse_qs(asked.target.partition("?")[2], keep_blank_values=True)
        return await handler(request, {name: values[-1] for name, values in query.items()})

    def _route(self, path: str) -> tuple[str, _Handler]:
        known = self._routes.get(path)
        if known is not None:
            return known
        if path.startswith(_ASSETS):
            return "GET", partial(self._asset, path.removeprefix(_ASSETS))
        if path.startswith(_EXPLAIN):
            kind, *names = path.removeprefix(_EXPLAIN).split("/")
            wanted = {"pod": 2, "node": 1, "nodepool": 1}.get(kind)
            if wanted == len(names) and all(names):
                return "GET", partial(self._explain, kind, names)
        raise RefusedError(404, "there is nothing at this path")

    async def _index(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        return _file(request, self._assets.index, "no-cache")

    async def _asset(self, path: str, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        named, _, rest = path.partition("/")
        asset = self._assets.files.get(rest) if named == self._assets.hash else None
        if asset is None:
            raise RefusedError(404, "there is no such file; reload the page")
        return _file(request, asset, _A_YEAR)

    async def _healthz(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        return answer(200, b"ok", "text/plain; charset=utf-8", {"Cache-Control": NO_STORE})

    async def _view(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        if at := query.get("at"):
            return await self._past_view(asked_for.seconds("at", at))
        published = await self._feed.view()
        tag = f'"{published.tag}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if matches(request, tag):
            return answer(304, b"", JSON, headers)
        is_compressed = takes_gzip(request)
        body = await self._encoded(published, is_compressed=is_compressed)
        if is_compressed:
            headers["Content-Encoding"] = "gzip"
        return answer(200, body, JSON, headers)

    async def _encoded(self, published: Published, *, is_compressed: bool) -> bytes:
        """A view as bytes, made in a thread by the first who asks."""
        loop = asyncio.get_running_loop()
        async with self._compressing:
            return await loop.run_in_executor(
                None, lambda: published.compressed if is_compressed else published.body
            )

    async def _past_view(self, moment: float) -> web.StreamResponse:
        self._count()
        history = self._history
        if history is None:
            raise RefusedError(404, "this server keeps no history")
        loop = asyncio.get_running_loop()
        view = await loop.run_in_executor(None, history.at, moment)
        if view is None:
            raise RefusedError(404, "no view is kept of that time; api/v1/about says since when")
        return document(view)

    async def _stream(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        await self._feed.view()  # so that there is an epoch, and no change from long ago
        try:
            with (
                self._feed.following(query.get("since", "")) as follower,
                self._attendance.present(),
            ):
                return await stream(request, follower, self._feed, self._clock)
        except TooManyClientsError:
            text = "as many pages as can be served are open; close one, or wait"
            raise RefusedError(503, text, {"Retry-After": "10"}) from None

    async def _decisions(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        self._count()
        return document(
            await self._questions.decisions(
                before=query.get("before", ""),
                limit=asked_for.limit(query.get("limit", "")),
                kind=query.get("kind", ""),
                node_pool=query.get("nodePool", ""),
                text=query.get("text", ""),
            )
        )

    async def _costs(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        self._count()
        since, until = (asked_for.moment(name, query.get(name, "")) for name in ("from", "to"))
        costs = await self._questions.costs(since, until, asked_for.tables(query.get("by", "")))
        return document(costs, _SECONDS_10)

    async def _plan(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        self._count()
        return await self._long(request, await self._questions.plan())

    async def _explain(
        self, kind: str, names: list[str], request: web.BaseRequest, query: Query
    ) -> web.StreamResponse:
        self._count()
        *namespaces, name = names
        namespace = "".join(namespaces)
        return await self._long(request, await self._questions.explain(kind, namespace, name))

    async def _what_if(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        self._count()
        body = await self._body(request)
        kind = request.content_type
        asked = asked_for.what_if(body) if kind == JSON else WhatIfRequest(apply=_text(body))
        return document(await self._questions.what_if(asked))

    async def _schema(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        return document(await loop.run_in_executor(None, schema), _AN_HOUR)

    async def _about(self, request: web.BaseRequest, query: Query) -> web.StreamResponse:
        about = await self._questions.about()
        about.clients = self._feed.clients
        if self._history is not None:
            about.history = self._history.kept
        return document(about)

    async def _long(self, request: web.BaseRequest, content: Mapping[str, Any]) -> web.Response:
        """A document that may be large: encoded in a thread."""

        def encoded() -> tuple[bytes, bool]:
            body = msgspec.json.encode(content)
            if not (takes_gzip(request) and is_worth_compressing(body)):
                return body, False
            return asked_for.compressed(body), True

        body, is_compressed = await asyncio.get_running_loop().run_in_executor(None, encoded)
        headers = {"Cache-Control": _SECONDS_10, "Vary": "Accept-Encoding"}
        if is_compressed:
            headers["Content-Encoding"] = "gzip"
        return answer(200, body, JSON, headers)

    async def _body(self, request: web.BaseRequest) -> bytes:
        """The body of a request, where it is small enough and comes soon."""
        too_large = RefusedError(413, f"the body is larger than {_LARGEST_BODY} bytes")
        if (request.content_length or 0) > _LARGEST_BODY:
            raise too_large
        body = bytearray()

        async def read() -> None:
            async for piece in request.content.iter_any():
                if len(body) + len(piece) > _LARGEST_BODY:
                    raise too_large
                body.extend(piece)

        try:
            await self._clock.wait_for(read(), seconds=_BODY_SECONDS)
        except TimeoutError:
            raise RefusedError(
                408, f"the body did not arrive within {_BODY_SECONDS:.0f} s"
            ) from None
        return bytes(body)

    def _count(self) -> None:
        """Count a question, and refuse one that is too many."""
        if self._rate.is_exceeded():
            raise RefusedError(
                429, "too many questions at once; wait a second", {"Retry-After": "1"}
            )


def _file(request: web.BaseRequest, asset: Asset, cache: str) -> web.Response:
    headers = {"Cache-Control": cache, "Vary": "Accept-Encoding"}
    if takes_gzip(request) and is_worth_compressing(asset.body):
        headers["Content-Encoding"] = "gzip"
        return answer(200, asset.compressed, asset.content_type, headers)
    return answer(200, asset.body, asset.content_type, headers)


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise RefusedError(400, "the body is not UTF-8 text") from None


def _without_answer(error: QuestionError) -> RefusedError:
    headers = {}
    if isinstance(error, BusyError):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    return RefusedError(HTTPStatus(error.status), str(error), headers, refusal=error.refusal)
