"""Requests over HTTP: connections, TLS, proxies, credentials and their renewal.

Connections are kept and used again. A dead one is noticed by the operating system within a
minute, also while a watch is silent. Lines of a stream may be of any length. Every failure of the
connection is a ``ConnectionLostError`` that names the server, never its path, which may hold a
secret.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload
from multidict import CIMultiDict
from yarl import URL

from karpenter.clock import Clock
from karpenter.kube.access.credentials import Credentials, Proof
from karpenter.kube.access.tls import tls_context
from karpenter.kube.access.types import Certificate, ClusterConfig
from karpenter.kube.errors import ConnectionLostError
from karpenter.kube.transport import JSON, Request, Response, Stream
from karpenter.os_errors import os_reason

_UNAUTHORIZED: Final = 401
_REDIRECTS: Final = range(300, 400)
_CONNECT_SECONDS: Final = 10.0
# For requests; a new connection costs more than waiting for one, and watches have their own
_MOST_CONNECTIONS: Final = 40
_NO_LIMIT: Final = 0
_KEPT_SECONDS: Final = 60.0  # less than servers keep an idle connection
# TCP keepalive: a silent peer is probed, and given up in less than a minute
_SOCKET_OPTIONS: Final = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 8),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 50_000),
)
_NO_ENVIRONMENT: Final[Mapping[str, str]] = {}


class HttpTransport:
    """A way to one API server over HTTP."""

    def __init__(
        self,
        config: ClusterConfig,
        clock: Clock,
        *,
        user_agent: str,
        environment: Mapping[str, str] = _NO_ENVIRONMENT,
    ) -> None:
        """Prepare to connect; nothing is sent yet.

        Args:
            config: the server and the client's identity.
            clock: the clock for the expiry of credentials.
            user_agent: the User-Agent header.
            environment: the environment that exec plugins are run in.
        """
        parts = urlsplit(config.server)
        self._config = config
        # As in kubectl, a password in the URL is used if there are no other credentials
        self._server_alone = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self._name = f"{parts.scheme}://{parts.hostname}:{parts.port or _port(parts.scheme)}"
        self._is_secure = parts.scheme == "https"
        # A sandbox is its own proxy; an error about an unreachable proxy would mislead
        proxy = urlsplit(config.proxy)
        self._is_its_own_proxy = (proxy.hostname, proxy.port) == (parts.hostname, parts.port)
        self._credentials = Credentials(config.identity, clock, environment)
        self._user_agent = user_agent
        self._sessions: dict[int, aiohttp.ClientSession] = {}  # by the most connections of each
        self._context: tuple[Certificate | None, ssl.SSLContext] | None = None

    async def send(self, request: Request) -> Response:
        """Send a request and wait for the whole answer."""
        proof = await self._proof()
        response = await self._send_as(proof, request)
        if response.status == _UNAUTHORIZED and (newer := await self._newer(proof)) is not None:
            response = await self._send_as(newer, request)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a streaming answer, until it ends or the block is left."""
        proof = await self._proof()
        response = await self._open(proof, request)
        try:
            if response.status == _UNAUTHORIZED and (newer := await self._newer(proof)) is not None:
                response.close()
                response = await self._open(newer, request)
            headers = _lower(response.headers)
            if response.status == 200:
                yield Stream(response.status, self._lines(response), headers=headers)
            else:
                body = await self._read(response, request.seconds)
                yield Stream(response.status, _nothing(), body, headers)
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections."""
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()

    async def _proof(self) -> Proof:
        # As in kubectl: credentials are not sent without TLS, where others could read them
        return await self._credentials.proof() if self._is_secure else Proof()

    async def _newer(self, refused: Proof) -> Proof | None:
        return await self._credentials.renew(refused) if self._is_secure else None

    async def _send_as(self, proof: Proof, request: Request) -> Response:
        try:
            async with (
                asyncio.timeout(request.seconds),
                self._request(proof, request, most=_MOST_CONNECTIONS) as response,
            ):
                self._check(response)
                body = await response.read()
                return Response(response.status, body, _lower(response.headers))
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error

    async def _open(self, proof: Proof, request: Request) -> aiohttp.ClientResponse:
        try:
            # A watch may be silent for minutes, so only its beginning has a time limit
            async with asyncio.timeout(request.seconds):
                response: aiohttp.ClientResponse = await self._request(
                    proof, request, most=_NO_LIMIT
                )
            self._check(response)
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error
        return response

    async def _read(self, response: aiohttp.ClientResponse, seconds: float) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error

    async def _lines(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        pending: list[bytes] = []  # parts of a line whose end has not come yet
        try:
            async for chunk in response.content.iter_any():
                if b"\n" not in chunk:
                    pending.append(chunk)
                    continue
                *lines, rest = b"".join([*pending, chunk]).split(b"\n")
                pending = [rest] if rest else []
                for line in lines:
                    if line:
                        yield line
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error
        if pending:
            yield b"".join(pending)

    def _request(self, proof: Proof, request: Request, *, most: int) -> Any:
        headers = CIMultiDict(proof.headers)
        headers["Accept"] = JSON
        headers["User-Agent"] = self._user_agent
        if request.body:
            headers["Content-Type"] = request.content_type
        return self._connected(most).request(
            request.method,
            self._url(request, is_proven="Authorization" in headers),
            data=_body(request),
            headers=headers,
            allow_redirects=False,  # credentials go to one server only
            ssl=self._tls(proof.certificate),
            server_hostname=(self._config.tls.server_name or None) if self._is_secure else None,
            proxy=self._config.proxy or None,
        )

    def _url(self, request: Request, *, is_proven: bool) -> URL:
        query = f"?{urlencode(request.query)}" if request.query else ""
        server = self._server_alone if is_proven else self._config.server
        return URL(f"{server.rstrip('/')}{request.path}{query}", encoded=True)

    def _connected(self, most: int) -> aiohttp.ClientSession:
        session = self._sessions.get(most)
        if session is None:
            connector = aiohttp.TCPConnector(
                limit=most,
                keepalive_timeout=_KEPT_SECONDS,
                socket_factory=_new_socket,
            )
            session = self._sessions[most] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            )
        return session

    def _tls(self, certificate: Certificate | None) -> ssl.SSLContext | bool:
        if not self._is_secure:
            return True
        if self._context is None or self._context[0] != certificate:
            self._context = (certificate, tls_context(self._config.tls, certificate))
        return self._context[1]

    def _check(self, response: aiohttp.ClientResponse) -> None:
        if response.status in _REDIRECTS:
            response.close()
            raise ConnectionLostError(
                f"{self._name} answered {response.status}, a redirection; is it an API server?"
            )

    def _lost(self, error: BaseException) -> ConnectionLostError:
        return ConnectionLostError(self._sentence(error))

    def _sentence(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            return f"{self._name} did not answer in time"
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return (
                f"the certificate of {self._name} is not trusted: {error.certificate_error};"
                " check certificate-authority and tls-server-name"
            )
        through = aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError
        if isinstance(error, through) and not self._is_its_own_proxy:
            return f"the proxy on the way to {self._name} does not let us through: {_words(error)}"
        if isinstance(error, aiohttp.ClientConnectorError):
            return f"cannot connect to {self._name}: {_words(error.os_error)}"
        return f"the connection to {self._name} was lost: {_words(error)}"


class _GuardedBody(BytesPayload):
    """A body that checks once more before it is sent: getting a connection may take long.

    Headers are sent with the body, so when the check fails nothing has been sent.
    """

    def __init__(self, content: bytes, may_go: Callable[[], bool]) -> None:
        super().__init__(content)
        self._may_go = may_go

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        if not self._may_go():
            raise ConnectionLostError("the request was called off before it was sent")
        await super().write_with_length(writer, content_length)


def _body(request: Request) -> BytesPayload | bytes | None:
    if request.body and request.may_go is not None:
        return _GuardedBody(request.body, request.may_go)
    return request.body or None


def _words(error: BaseException) -> str:
    """The reason of an error, without the URL that messages of aiohttp may contain."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"it answered {error.status} {error.message}".rstrip()
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, OSError) and error.strerror:
        return os_reason(error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed it before it had answered"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer ended too early"
    return type(error).__name__


def _new_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SOCKET_OPTIONS:
        # Not every operating system has all of them
        if (option := getattr(socket, name, None)) is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
