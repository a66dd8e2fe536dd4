"""A client that cannot write: it has no verb for it, and its transport sends nothing but reads.

For programs that only look at a cluster, whatever their credentials would allow. The client is not
a ``Client`` with a flag, so that none of its users can write by mistake; the transport below it
refuses every other request before it is sent.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from karpenter.api.codec import WatchEvent
from karpenter.api.meta import ObjectList, Resource
from karpenter.clock import Clock
from karpenter.kube.client import Client, Limiter, Observer
from karpenter.kube.errors import KubeError
from karpenter.kube.transport import Request, Response, Stream, Transport

R = TypeVar("R", bound=Resource)


class ReadOnlyError(KubeError):
    """A request that may change something was not sent."""

    def __init__(self, request: Request) -> None:
        super().__init__(f"{request.method} {request.path} is not sent: this client only reads")


class ReadOnlyTransport:
    """A transport that sends reads alone."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request) -> Response:
        """Send a read and wait for the whole answer.

        Raises:
            ReadOnlyError: it is no read.
        """
        _check(request)
        return await self._transport.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Open the streaming answer of a read.

        Raises:
            ReadOnlyError: it is no read.
        """
        _check(request)
        return self._transport.stream(request)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


class ReadOnlyClient:
    """The verbs that read, as ``Client`` has them."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        limiter: Limiter | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Make a client.

        Args:
            transport: the way to the server; it is the caller's to close.
            clock: the clock for retries.
            limiter: limits the rate of all requests but watches.
            observer: called with every answer.
        """
        only_reads = ReadOnlyTransport(transport)
        self._client: Final = Client(only_reads, clock, limiter=limiter, observer=observer)

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        """One object, as the server has it now."""
        return await self._client.get(kind, name, namespace)

    async def list(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> tuple[R, ...]:
        """All objects of a kind that are selected.

        Raises:
            UnreadableAnswerError: one of them cannot be read, so this would not be all of them.
        """
        return await self._client.list(
            kind, namespace, label_selector=label_selector, field_selector=field_selector
        )

    async def page(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectList[R]:
        """One page of a list; ``unreadable_in`` gives the objects it omits."""
        return await self._client.page(
            kind,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
        )

    def watch(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        resource_version: str,
        seconds: float,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[R]]]:
        """The changes after a version, bookmarks included, for at most so long."""
        return self._client.watch(
            kind,
            namespace,
            resource_version=resource_version,
            seconds=seconds,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    async def version(self) -> str:
        """The release the server is of, such as ``v1.31.2``."""
        return await self._client.version()


def _check(request: Request) -> None:
    if request.is_write:
        raise ReadOnlyError(request)
