"""A server of the dashboard's page for tests: the files with the gate's headers, and answers that a test gives."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from karpenter.clock import SystemClock
from karpenter.dashboard.assets import Asset, load_assets
from karpenter.dashboard.contract import View
from karpenter.dashboard.gate import HEADERS, Asked, Gate

TOKEN = "the-token-of-a-test"
_SECONDS = 10


@dataclass
class Page:
    """What the server says, and what it was asked; tests change both while it runs."""

    view: View
    answers: dict[str, Any] = field(default_factory=dict)  # path after api/v1/ -> document
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)
    hello: dict[str, Any] = field(default_factory=dict)
    is_down: bool = False
    url: str = ""
    _loop: asyncio.AbstractEventLoop | None = None
    _streams: list["asyncio.Queue[bytes | None]"] = field(default_factory=list)

    @property
    def address(self) -> str:
        """What a terminal would print."""
        return f"{self.url}/#token={TOKEN}"

    @property
    def streams(self) -> int:
        """How many clients read the stream."""
        return len(self._streams)

    def tell(self, event: str, data: Any) -> None:
        """Send an event to everybody."""
        body = data if isinstance(data, bytes) else msgspec.json.encode(data)
        text = f"event: {event}\ndata: ".encode() + body + b"\n\n"
        self._put(text)

    def drop(self) -> None:
        """End all streams."""
        self._put(None)

    def _put(self, text: bytes | None) -> None:
        assert self._loop is not None

        async def put() -> None:
            for each in self._streams:
                each.put_nowait(text)

        asyncio.run_coroutine_threadsafe(put(), self._loop).result(_SECONDS)


@contextlib.contextmanager
def served(page: Page) -> Iterator[Page]:
    """Serve a page on a port of loopback, in a thread of its own."""
    started, ended = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    page._loop = loop

    async def run() -> None:
        runner = web.AppRunner(_application(page), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        page.url = f"http://{host}:{port}"
        started.set()
        await ended.wait()
        for each in page._streams:
            each.put_nowait(None)
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert started.wait(_SECONDS)
    try:
        yield page
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(_SECONDS)
        loop.close()


def _application(page: Page) -> web.Application:
    assets = load_assets()

    async def index(_: web.Request) -> web.Response:
        return _file(assets.index)

    async def asset(request: web.Request) -> web.Response:
        return _file(assets.files[request.match_info["path"]])

    application = web.Application(middlewares=[_gated(page)])
    application.router.add_get("/", index)
    application.router.add_get("/assets/{hash}/{path:.+}", asset)
    application.router.add_get("/api/v1/stream", partial(_stream, page))
    application.router.add_route("*", "/api/v1/{path:.+}", partial(_answer, page))
    return application


def _gated(page: Page) -> Any:
    """What the gate does for every request, and notes of those it lets through."""
    gate = Gate(TOKEN, SystemClock())

    @web.middleware
    async def checked(request: web.Request, handler: Any) -> Any:
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Asked(request.method, request.path_qs, headers, request.remote or "")
        if (turned := gate.turned_away(asked)) is not None:
            return _json({"error": turned.text}, HTTPStatus(turned.status))
        page.asked.append((request.path, dict(parse_qsl(request.query_string))))
        return await handler(request)

    return checked


async def _answer(page: Page, request: web.Request) -> web.Response:
    path = request.match_info["path"]
    if page.is_down:
        return _json({"error": "the API server is not reached"}, HTTPStatus.SERVICE_UNAVAILABLE)
    if path == "view" and "at" not in request.query:
        return _json(page.view)
    if request.method == "POST":
        page.posted.append(await request.json())
    found = page.answers.get(path)
    if isinstance(found, tuple):
        refused = _json(found[1], HTTPStatus(found[0]))
        refused.headers["Retry-After"] = "1"
        return refused
    if found is None:
        return _json({"error": f"there is no {path}", "problems": []}, HTTPStatus.NOT_FOUND)
    return _json(found)


async def _stream(page: Page, request: web.Request) -> web.StreamResponse:
    if page.is_down:
        return _json({"error": "it is down"}, HTTPStatus.SERVICE_UNAVAILABLE)
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
    await response.prepare(request)
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()
    hello = {"epoch": page.view.epoch, "seq": page.view.seq, "version": 1, **page.hello}
    queue.put_nowait(b"event: hello\ndata: " + msgspec.json.encode(hello) + b"\n\n")
    page._streams.append(queue)
    try:
        while (text := await queue.get()) is not None:
            await response.write(text)
    except (ConnectionError, asyncio.CancelledError):
        pass
    finally:
        page._streams.remove(queue)
    return response


def _file(asset: Asset) -> web.Response:
    return web.Response(body=asset.body, headers={**HEADERS, "Content-Type": asset.content_type})


def _json(document: Mapping[str, Any] | View, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(document),
        status=status,
        headers={**HEADERS, "Content-Type": "application/json"},
    )
