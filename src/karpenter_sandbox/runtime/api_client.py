"""What the parts of a cluster ask of its API, whatever carries the requests."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from karpenter.api.meta import JsonObject

Objects: TypeAlias = list[JsonObject]


class WatchEvent(Protocol):
    """One change of an object."""

    @property
    def type(self) -> str: ...
    @property
    def obj(self) -> JsonObject: ...


class WatchStream(Protocol):
    """The changes after a list; either method raises ``ApiError`` 410 when some were lost."""

    def ready(self) -> Sequence[WatchEvent]:
        """Take the changes that have happened, without waiting."""

    async def batch(self) -> Sequence[WatchEvent]:
        """Wait for changes and take them; none means the watch has ended."""


class ApiClient(Protocol):
    """The requests of informers, controllers, the scheduler and kubelets."""

    async def list(
        self, api_version: str, resource: str, namespace: str | None = None
    ) -> tuple[Objects, str]: ...

    def watch(
        self,
        api_version: str,
        resource: str,
        namespace: str | None = None,
        *,
        resource_version: str,
    ) -> WatchStream: ...

    async def create(self, obj: JsonObject, *, namespace: str | None = None) -> JsonObject: ...

    async def patch(
        self,
        patch_type: str,
        api_version: str,
        resource: str,
        namespace: str | None,
        name: str,
        patch: Any,
    ) -> JsonObject: ...

    async def patch_status(
        self, api_version: str, resource: str, namespace: str | None, name: str, status: JsonObject
    ) -> JsonObject: ...

    async def delete(
        self,
        api_version: str,
        resource: str,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace_period: int | None = None,
    ) -> JsonObject: ...

    async def bind(self, namespace: str, name: str, node: str, *, uid: str = "") -> None: ...

    async def record(self, event: JsonObject) -> None: ...
