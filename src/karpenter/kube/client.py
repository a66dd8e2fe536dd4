"""Verbs on objects, over any transport.

What comes back is a wire model; what is written is plain data with exactly the fields the caller
owns. Refusals raise the classes of ``karpenter.kube.errors``.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

import msgspec

from karpenter.api.codec import WatchEvent, unreadable_in
from karpenter.api.meta import ObjectList, Resource, kind_of
from karpenter.api.pods import Pod
from karpenter.api.problems import DecodeError
from karpenter.clock import Clock
from karpenter.kube.answers import read_events, read_list, read_object, read_version
from karpenter.kube.errors import ConnectionLostError, KubeError, UnreadableAnswerError, refusal
from karpenter.kube.kinds import resource_of
from karpenter.kube.retry import delay_before_retry
from karpenter.kube.transport import Request, Response, Transport

R = TypeVar("R", bound=Resource)

_REFUSED: Final = 400
_VERSION: Final = "/version"


class PatchType(StrEnum):
    """The content type of a patch."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class NotLeadingError(KubeError):
    """A write was held back because this process no longer leads."""


class Limiter(Protocol):
    """A rate limit on requests."""

    async def take(self) -> None:
        """Wait until a request may be sent."""


class Observer(Protocol):
    """Counts requests."""

    def request(self, method: str, resource: str, status: int, seconds: float) -> None:
        """Note an answer; a status of 0 means that there was none."""


class Kube(Protocol):
    """The verbs of an API server that controllers use."""

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        """One object, as the server has it now."""

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

    async def create(self, kind: type[R], body: Mapping[str, Any]) -> R:
        """Make an object."""

    async def patch(
        self,
        kind: type[R],
        name: str,
        body: Any,
        namespace: str = "",
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        force: bool = False,
    ) -> R:
        """Change the fields of an object that ``body`` names."""

    async def delete(
        self,
        kind: type[R],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation: str = "",
    ) -> None:
        """Ask for an object to be removed."""

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        """Ask for a pod to leave its node, as its disruption budgets allow."""

    async def bind(self, name: str, namespace: str, *, uid: str, node: str) -> None:
        """Put a pod on a node."""

    async def version(self) -> str:
        """The release the server is of, such as ``v1.31.2``."""


class Client:
    """``Kube`` over a transport."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        field_manager: str = "karpenter",
        limiter: Limiter | None = None,
        observer: Observer | None = None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """Make a client.

        Args:
            transport: the way to the server; it is the caller's to close.
            clock: the clock for retries.
            field_manager: the owner of the fields that are written.
            limiter: limits the rate of all requests but watches.
            observer: called with every answer.
            may_write: called before every write (fencing): if false, the write is not sent.
        """
        self._transport = transport
        self._clock = clock
        self._field_manager = field_manager
        self._limiter = limiter
        self._observer = observer
        self._may_write = may_write

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        return await self._object(kind, Request("GET", resource_of(kind).path(namespace, name)))

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
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit) if limit else "",
            resourceVersion=resource_version,
            **{"continue": continue_token},
        )
        request = Request("GET", resource_of(kind).path(namespace), query, seconds=60.0)
        answer = await self._ask(kind, request)
        return read_list(request, answer.body, kind)

    async def list(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> tuple[R, ...]:
        items: tuple[R, ...] = ()
        token = ""
        while True:
            page = await self.page(
                kind,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=500,
                continue_token=token,
            )
            items += page.items
            for obj in unreadable_in(page):
                # A caller of a complete list takes absent objects for deleted
                path = resource_of(kind).path(obj.namespace, obj.name)
                raise UnreadableAnswerError("GET", path, DecodeError((obj.name,), obj.problem))
            token = page.metadata.continue_token
            if not token:
                return items

    @asynccontextmanager
    async def watch(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        resource_version: str,
        seconds: float,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[AsyncIterator[WatchEvent[R]]]:
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(max(1, round(seconds))),
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        request = Request("GET", resource_of(kind).path(namespace), query)
        async with AsyncExitStack() as stack:
            with self._observed(kind, request) as answered:
                stream = await stack.enter_async_context(self._transport.stream(request))
                answered(stream.status)
            if stream.status >= _REFUSED:
                raise refusal(Response(stream.status, stream.body, stream.headers))
            yield read_events(request, stream.lines, kind)

    async def create(self, kind: type[R], body: Mapping[str, Any]) -> R:
        whole = {"apiVersion": kind.api_version, "kind": kind_of(kind), **body}
        namespace = whole.get("metadata", {}).get("namespace", "")
        query = _query(fieldManager=self._field_manager)
        request = Request(
            "POST", resource_of(kind).path(namespace), query, msgspec.json.encode(whole)
        )
        return await self._object(kind, request)

    async def patch(
        self,
        kind: type[R],
        name: str,
        body: Any,
        namespace: str = "",
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        force: bool = False,
    ) -> R:
        query = _query(fieldManager=self._field_manager, force="true" if force else "")
        request = Request(
            "PATCH",
            resource_of(kind).path(namespace, name, subresource),
            query,
            msgspec.json.encode(body),
            patch_type.value,
        )
        return await self._object(kind, request)

    async def delete(
        self,
        kind: type[R],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation: str = "",
    ) -> None:
        conditions = {"uid": uid, "resourceVersion": resource_version}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if wanted := {key: value for key, value in conditions.items() if value}:
            body["preconditions"] = wanted
        if grace_period_seconds is not None:
            body["gracePeriodSeconds"] = grace_period_seconds
        if propagation:
            body["propagationPolicy"] = propagation
        path = resource_of(kind).path(namespace, name)
        await self._ask(kind, Request("DELETE", path, body=msgspec.json.encode(body)))

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        await self._post_to_pod(name, namespace, "eviction", body)

    async def bind(self, name: str, namespace: str, *, uid: str, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._post_to_pod(name, namespace, "binding", body)

    async def version(self) -> str:
        request = Request("GET", _VERSION)
        answer = await self._ask(None, request)
        return read_version(request, answer.body)

    async def _post_to_pod(
        self, name: str, namespace: str, subresource: str, body: Mapping[str, Any]
    ) -> None:
        path = resource_of(Pod).path(namespace, name, subresource)
        query = _query(fieldManager=self._field_manager)
        await self._ask(Pod, Request("POST", path, query, msgspec.json.encode(body)))

    async def _object(self, kind: type[R], request: Request) -> R:
        """Send a request that is answered with one object."""
        return read_object(request, (await self._ask(kind, request)).body, kind)

    async def _ask(self, kind: type[Resource] | None, request: Request) -> Response:
        """Send a request, with retries where that is safe, and return a successful answer."""
        attempt = 0
        while True:
            try:
                return await self._ask_once(kind, request)
            except KubeError as error:
                delay = delay_before_retry(attempt, error, request)
                if delay is None:
                    raise
                attempt += 1
                await self._clock.sleep(delay)

    async def _ask_once(self, kind: type[Resource] | None, request: Request) -> Response:
        if self._limiter is not None:
            await self._limiter.take()
        if request.is_write:
            self._check_leading(request)
            request = replace(request, may_go=self._may_write)
        try:
            with self._observed(kind, request) as answered:
                answer = await self._transport.send(request)
                answered(answer.status)
        except ConnectionLostError:
            if request.is_write:
                self._check_leading(request)
            raise
        if answer.status >= _REFUSED:
            raise refusal(answer)
        return answer

    @contextmanager
    def _observed(
        self, kind: type[Resource] | None, request: Request
    ) -> Iterator[Callable[[int], None]]:
        """Report one request to the observer; the block sets the status of the answer."""
        statuses = [0]
        began = self._clock.monotonic()
        try:
            yield statuses.append
        finally:
            if self._observer is not None:
                seconds = self._clock.monotonic() - began
                about = request.path.strip("/") if kind is None else resource_of(kind).plural
                self._observer.request(request.method, about, statuses[-1], seconds)

    def _check_leading(self, request: Request) -> None:
        if not self._may_write():
            raise NotLeadingError(f"{request.method} {request.path} is not sent by a standby")


def _query(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in values.items() if value)
