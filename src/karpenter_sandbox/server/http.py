"""The API over HTTP, on loopback by default.

A client authenticates with the server's token: as a bearer token, as the first part of the path, or
as the password for a proxy. The last two exist for ``kubectl``, which sends no bearer token over
plain HTTP: a kubeconfig names the server as ``http://127.0.0.1:PORT/TOKEN``, and the server once
more as its own proxy, because ``kubectl get --raw`` replaces the whole path. Neither web pages nor
other users of the machine have the token, so neither can reach the cluster.
"""

import asyncio
import base64
import hmac
import ipaddress
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

import yaml
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from karpenter_sandbox.server.api import Api, Request, Response, WatchResponse
from karpenter_sandbox.server.bodies import LARGEST
from karpenter_sandbox.server.connections import HEAD_SECONDS, Connections
from karpenter_sandbox.server.messages import refused
from karpenter_sandbox.status import (
    ApiError,
    bad_request,
    not_simulated,
    too_large,
    too_slow,
    unauthorized,
)

LOOPBACK: Final = "127.0.0.1"
# Paths that need no token, as on a real server
_PUBLIC: Final = ("/healthz", "/livez", "/readyz", "/version")
_STOP_SECONDS: Final = 1.0
# The timeout of an API server for requests other than watches
_BODY_SECONDS: Final = 60.0
_OWNER_ONLY: Final = 0o600
_PROXY_USER: Final = "sandbox"


class UnsafeAddressError(ValueError):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"listening on {host} opens the cluster to the network; give it a token as well"
        )
        self.host = host


class Server:
    """Serves an ``Api`` until it is stopped."""

    def __init__(
        self,
        api: Api,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        token: str | None = None,
        now: Callable[[], datetime] | None = None,
        most_connections: int | None = None,
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        """Prepare to listen.

        Args:
            api: what answers.
            host: the address to listen on.
            port: the port to listen on; 0 is any free one.
            token: the token clients must send; none disables authentication.
            now: the clock of ``Date`` headers, for clusters in another time.
            most_connections: how many clients are let in; as many as there are files for.
            head_seconds: how long a client may take for the head of its first request.

        Raises:
            UnsafeAddressError: the address is not loopback and there is no token.
        """
        if not is_loopback(host) and not token:
            raise UnsafeAddressError(host)
        self.host = host
        self.token = token
        self._port = port
        self._api = api
        self._now = now
        self._most_connections = most_connections
        self._head_seconds = head_seconds
        self._connections: Connections | None = None
        self._listening: asyncio.Server | None = None
        self._runner: web.ServerRunner | None = None
        self._streams: set[asyncio.Task[object]] = set()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._port

    @property
    def url(self) -> str:
        """Where clients find the server, token included."""
        base = f"http://{self._address}"
        return f"{base}/{quote(self.token, safe='')}" if self.token else base

    @property
    def proxy_url(self) -> str | None:
        """Where clients that lose the path of ``url`` find the server, if it asks for a token."""
        if not self.token:
            return None
        return f"http://{_PROXY_USER}:{quote(self.token, safe='')}@{self._address}"

    @property
    def _address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self._port}"

    async def start(self) -> None:
        """Begin to listen."""
        self._connections = Connections(
            self._answer, most=self._most_connections, head_seconds=self._head_seconds
        )
        self._runner = web.ServerRunner(self._connections, shutdown_timeout=_STOP_SECONDS)
        await self._runner.setup()
        self._listening = await self._connections.listen(self.host, self._port)
        self._port = self._listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End all watches and stop listening."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for stream in self._streams:
            stream.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._connections is not None
        self._connections.heard_of(request.protocol)
        try:
            return await self._answered(request)
        except ApiError as error:
            return _complete(refused(error))

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "CONNECT":
            return _tunnel_refused()
        path, _, query = _origin_form(request.raw_path).partition("?")
        path, is_trusted = self._authenticated(path, request.headers)
        if not is_trusted and not path.startswith(_PUBLIC):
            return _complete(refused(unauthorized()))
        body = await _body(request)
        answer = self._api.handle(
            Request(
                method=request.method,
                path=path,
                query=parse_qs(query, keep_blank_values=True),
                headers={name.lower(): value for name, value in request.headers.items()},
                body=body,
            )
        )
        if isinstance(answer, WatchResponse):
            return await self._followed(request, answer)
        complete = _complete(answer)
        if self._now is not None:
            complete.headers["Date"] = format_datetime(self._now(), usegmt=True)
        return complete

    async def _followed(
        self, request: web.BaseRequest, answer: WatchResponse
    ) -> web.StreamResponse:
        """Send a watch, in a way that ``stop`` can end at once."""
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            return await _stream(request, answer)
        finally:
            self._streams.discard(task)

    def _authenticated(self, path: str, headers: Mapping[str, str]) -> tuple[str, bool]:
        """The path without a token, and whether the request carries the right one."""
        if not self.token:
            return path, True
        first, _, rest = path.lstrip("/").partition("/")
        if _same(first, quote(self.token, safe="")):
            return f"/{rest}", True
        known = (
            _bearer(headers.get("Authorization", "")),
            _password(headers.get("Proxy-Authorization", "")),
        )
        return path, any(_same(token, self.token) for token in known)


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    """Serve for as long as a block runs."""
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(24)


def kubeconfig(server: Server, *, name: str = "karpenter-sandbox") -> str:
    """The text of a kubeconfig that leads to ``server``."""
    user = {"token": server.token} if server.token else {}
    cluster = {"server": server.url}
    if server.proxy_url is not None:
        cluster["proxy-url"] = server.proxy_url
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(content, sort_keys=False)


def write_kubeconfig(server: Server, path: Path) -> None:
    """Write a kubeconfig that only its owner can read; it appears complete or not at all."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    partial.touch(mode=_OWNER_ONLY)
    try:
        partial.write_text(kubeconfig(server), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _password(header: str) -> str:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
    except ValueError:  # binascii.Error, or non-ASCII text
        return ""
    return decoded.decode(errors="replace").partition(":")[2]


def _origin_form(target: str) -> str:
    """The request target in origin form, without the server that a proxy request names."""
    if target.startswith("/"):
        return target
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise bad_request(f"the target of the request is no URL: {error}") from error
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path


async def _body(request: web.BaseRequest) -> bytes:
    """The body of a request.

    Raises:
        ApiError: it is too large, or broken, or does not come.
    """
    if not request.can_read_body:
        return b""
    if request.content_length is not None and request.content_length > LARGEST:
        raise too_large(LARGEST)
    parts, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.content.iter_any():
                size += len(part)
                if size > LARGEST:
                    raise too_large(LARGEST)
                parts.append(part)
    except TimeoutError as error:
        raise too_slow() from error
    except (web.RequestPayloadError, HttpProcessingError) as error:
        raise bad_request("the body of the request cannot be read") from error
    return b"".join(parts)


def _tunnel_refused() -> web.Response:
    """The answer to ``kubectl exec`` and its like, which go through a proxy by a tunnel.

    All that ``kubectl`` shows of it is the reason of the status.
    """
    error = not_simulated("talking to containers")
    return web.Response(status=error.status, reason=error.message, body=error.encoded())


def _complete(answer: Response) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


async def _stream(request: web.BaseRequest, answer: WatchResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    response.enable_chunked_encoding()
    await response.prepare(request)
    frames = answer.stream.frames()
    try:
        async for frame in frames:
            await response.write(frame)
        await response.write_eof()
    except ConnectionError:
        # The client is gone, which is how most watches end
        pass
    finally:
        await frames.aclose()
    return response
