"""Reads a cluster that serves Karpenter's kinds as v1beta1 only, and shows them as v1.

A kind is asked for as v1 first. Where the cluster does not serve that, v1beta1 is read and converted
object by object; a cluster that is upgraded meanwhile is read as v1 from the next list on.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from karpenter.api.codec import (
    PartialList,
    Unreadable,
    WatchEvent,
    convert_as,
    to_plain,
    unreadable_in,
)
from karpenter.api.karpenter import NodeClaim, NodeClaimV1Beta1, NodePool, NodePoolV1Beta1
from karpenter.api.meta import ObjectList, Resource
from karpenter.api.node_classes.ec2 import EC2NodeClass, EC2NodeClassV1Beta1
from karpenter.api.problems import DecodeError
from karpenter.conversion.v1beta1 import up
from karpenter.kube.errors import NotFoundError

if TYPE_CHECKING:
    from karpenter.dashboard.sources import Reads

R = TypeVar("R", bound=Resource)

_OLDER: Final[Mapping[type[Resource], type[Resource]]] = {
    NodePool: NodePoolV1Beta1,
    NodeClaim: NodeClaimV1Beta1,
    EC2NodeClass: EC2NodeClassV1Beta1,
}
_BOOKMARK: Final = "BOOKMARK"


class ConvertingReads:
    """Reads for mirrors of v1 kinds, whatever version is served."""

    def __init__(self, kube: "Reads") -> None:
        """Read through a client."""
        self._kube = kube
        self._older: set[type[Resource]] = set()  # kinds that are served as v1beta1 only
        self._expiries: dict[str, str] = {}  # pool -> expireAfter, which its claims did not have

    async def page(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList[R]:
        """One page of a list."""

        async def ask(version: type[Any]) -> ObjectList[Any]:
            return await self._kube.page(
                version,
                namespace,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
            )

        older = _OLDER.get(kind)
        if older is None or (continue_token and kind not in self._older):
            return await ask(kind)
        if not continue_token:  # a new list: the cluster may have been upgraded
            self._older.discard(kind)
            try:
                return await ask(kind)
            except NotFoundError as error:
                try:
                    page = await ask(older)
                except NotFoundError:
                    raise error from None
                self._older.add(kind)
                return self._converted(page, kind)
        return self._converted(await ask(older), kind)

    def watch(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        resource_version: str,
        seconds: float,
        field_selector: str = "",
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[R]]]:
        """The changes after a version."""
        version = _OLDER[kind] if kind in self._older else kind
        changes = self._kube.watch(
            cast(type[Any], version),
            namespace,
            resource_version=resource_version,
            seconds=seconds,
            field_selector=field_selector,
        )
        return changes if version is kind else self._watched(changes, kind)

    @asynccontextmanager
    async def _watched(
        self,
        changes: AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]],
        kind: type[R],
    ) -> AsyncIterator[AsyncIterator[WatchEvent[R]]]:
        async with changes as events:

            async def converted() -> AsyncIterator[WatchEvent[R]]:
                async for event in events:
                    yield self._event(event, kind)

            yield converted()

    def _event(self, event: WatchEvent[Any], kind: type[R]) -> WatchEvent[R]:
        if not isinstance(event.object, Resource):
            return event
        if event.type == _BOOKMARK:  # it has nothing but a version
            return WatchEvent(event.type, cast(Any, kind)(metadata=event.object.metadata))
        return WatchEvent(event.type, self._as(event.object, kind))

    def _converted(self, page: ObjectList[Any], kind: type[R]) -> ObjectList[R]:
        found = [self._as(each, kind) for each in page.items]
        unreadable = [each for each in found if isinstance(each, Unreadable)]
        return PartialList(
            metadata=page.metadata,
            items=tuple(each for each in found if not isinstance(each, Unreadable)),
            unreadable=(*unreadable_in(page), *unreadable),
        )

    def _as(self, resource: Resource, kind: type[R]) -> R | Unreadable:
        """An object as v1; one that cannot be converted is named."""
        metadata = resource.metadata
        try:
            found = convert_as(up(to_plain(resource), self._expiries.get), kind)
        except (DecodeError, ValueError) as error:
            return Unreadable(
                metadata.name, "", metadata.uid, metadata.resource_version, str(error)
            )
        if isinstance(found, NodePool):
            self._expiries[metadata.name] = found.spec.template.spec.expire_after
        return msgspec.structs.replace(found, metadata=metadata)
