"""A transport on which things go wrong as a test says, and the cluster behind it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from karpenter.clock import Clock, running_clock
from karpenter.kube.client import Client
from karpenter.kube.errors import ConnectionLostError
from karpenter.kube.transport import Request, Response, Stream, Transport
from karpenter_sandbox.backend import Backend, Identity
from karpenter_sandbox.client import Client as DirectClient
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.server.api import Api
from karpenter_sandbox.server.crds import CustomKinds
from karpenter_sandbox.server.transport import MemoryTransport
from karpenter_sandbox.store.store import Store


class Break(StrEnum):
    """How a watch may come to an end, or seem to."""

    END = "it ends politely"
    LOST = "the connection is lost"
    GONE = "the server says 410"
    FAULT = "the server says 500"
    SILENT = "nothing is heard any more"


@dataclass(slots=True)
class Refusal:
    """An answer that is given in place of the real one."""

    status: int
    times: int = 1
    where: Callable[[Request], bool] = lambda request: True
    headers: dict[str, str] = field(default_factory=dict)
    is_carried_out: bool = False  # the request reaches the server, its answer does not come back

    def body(self) -> bytes:
        status = {"kind": "Status", "code": self.status, "message": f"told to say {self.status}"}
        return msgspec.json.encode(status)


class FlakyTransport:
    """Passes requests on, unless a test has something else in mind."""

    def __init__(self, inner: Transport, clock: Clock) -> None:
        self.requests: list[Request] = []
        self.is_cut = False
        self.delay = 0.0  # before a request reaches the server
        self.answer_delay = 0.0  # before its answer comes back
        self.refusals: list[Refusal] = []
        self._inner = inner
        self._clock = clock
        self._open: list[asyncio.Future[Break]] = []

    def refuse(self, refusal: Refusal) -> None:
        """Answer otherwise for a while; a status of 0 is a lost connection."""
        self.refusals.append(refusal)

    def break_watches(self, how: Break) -> None:
        """Let something happen to every open watch."""
        for control in self._open:
            if not control.done():
                control.set_result(how)
        self._open.clear()

    @property
    def open_watches(self) -> int:
        """How many watches nothing has happened to are open."""
        return len(self._open)

    def paths(self, method: str) -> list[str]:
        """What was asked for so far."""
        return [request.path for request in self.requests if request.method == method]

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        if self.delay:
            await self._clock.sleep(self.delay)
        if self.is_cut:
            raise ConnectionLostError("the cable is cut")
        refusal = self._refusal_of(request)
        if refusal is None or refusal.is_carried_out:
            answer = await self._inner.send(request)
            if self.answer_delay:
                await self._clock.sleep(self.answer_delay)
            if refusal is None:
                return answer
        if refusal.status == 0:
            raise ConnectionLostError("the answer is lost")
        return Response(refusal.status, refusal.body(), refusal.headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.requests.append(request)
        if self.is_cut:
            raise ConnectionLostError("the cable is cut")
        refusal = self._refusal_of(request)
        if refusal is not None and refusal.status == 0:
            raise ConnectionLostError("the watch does not open")
        if refusal is not None:
            yield Stream(refusal.status, _nothing(), refusal.body(), refusal.headers)
            return
        control: asyncio.Future[Break] = asyncio.get_running_loop().create_future()
        self._open.append(control)
        try:
            async with self._inner.stream(request) as stream:
                lines = _lines(stream.lines, control)
                yield Stream(stream.status, lines, stream.body, stream.headers)
        finally:
            if control in self._open:
                self._open.remove(control)

    async def close(self) -> None:
        await self._inner.close()

    def _refusal_of(self, request: Request) -> Refusal | None:
        for refusal in self.refusals:
            if refusal.times > 0 and refusal.where(request):
                refusal.times -= 1
                return refusal
        return None


async def _lines(
    lines: AsyncIterator[bytes], control: asyncio.Future[Break]
) -> AsyncIterator[bytes]:
    while True:
        upcoming = asyncio.ensure_future(_next(lines))
        try:
            waited: set[asyncio.Future[Any]] = {upcoming, control}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if control.done():
                break
            line = upcoming.result()
            if line is None:
                return
            yield line
        finally:
            upcoming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await upcoming
    how = control.result()
    if how is Break.LOST:
        raise ConnectionLostError("the watch is lost")
    if how is Break.SILENT:
        await asyncio.get_running_loop().create_future()
    code = {Break.GONE: 410, Break.FAULT: 500}.get(how)
    if code is not None:
        status = {"kind": "Status", "code": code, "message": "told to end"}
        yield msgspec.json.encode({"type": "ERROR", "object": status})


async def _next(lines: AsyncIterator[bytes]) -> bytes | None:
    async for line in lines:
        return line
    return None


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


class FlakyCluster:
    """A cluster with a client that goes through a flaky transport, and one that does not."""

    def __init__(self, clock: Clock | None = None, *, history: int = 1000) -> None:
        self.clock = clock or running_clock()
        self.store = Store(history=history)
        self.backend = Backend(self.store, Registry(), self.clock, Identity(7))
        CustomKinds(self.backend)
        self.api = Api(self.backend)
        self.direct = DirectClient(self.backend)
        self.transport = self.new_transport()
        self.kube = Client(self.transport, self.clock)

    async def begin(self, *namespaces: str) -> None:
        """Create namespaces; ``default`` always."""
        for name in ("default", *namespaces):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self.direct.create(namespace)

    def new_transport(self) -> FlakyTransport:
        """One more way to the cluster, with troubles of its own."""
        return FlakyTransport(MemoryTransport(self.api), self.clock)
