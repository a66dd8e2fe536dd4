"""Client limits: how many writes a second a controller of the control plane may make.

A real controller manager gives each of its controllers a client of its own with the same limit, so
a thousand pods are not there at once. Reads are not limited, because controllers read their
informers, nor are Events, which their recorders drop before the limit would hold them back.
"""

from dataclasses import dataclass
from typing import Any

from karpenter.api.meta import JsonObject
from karpenter.kube.limiter import Limiter
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.client import Client


@dataclass(frozen=True, slots=True)
class Limit:
    """Requests a second on average, and at once."""

    qps: float
    burst: int


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The limits of the parts of a control plane; None is no limit."""

    controller_manager: Limit | None = None  # of each controller by itself
    scheduler: Limit | None = None


class LimitedClient(Client):
    """A client whose writes wait for their turn."""

    def __init__(self, backend: Backend, limiter: Limiter) -> None:
        super().__init__(backend)
        self._limiter = limiter
        self.is_limited = True

    async def _turn(self) -> None:
        if self.is_limited:
            await self._limiter.take()

    async def create(self, obj: JsonObject, *, namespace: str | None = None) -> JsonObject:
        """Create an object."""
        await self._turn()
        return await super().create(obj, namespace=namespace)

    async def update(self, obj: JsonObject) -> JsonObject:
        """Replace an object."""
        await self._turn()
        return await super().update(obj)

    async def update_status(self, obj: JsonObject) -> JsonObject:
        """Replace the status of an object."""
        await self._turn()
        return await super().update_status(obj)

    async def patch(self, *what: Any, **options: Any) -> JsonObject:
        """Change an object in part."""
        await self._turn()
        return await super().patch(*what, **options)

    async def delete(self, *what: Any, **options: Any) -> JsonObject:
        """Delete an object."""
        await self._turn()
        return await super().delete(*what, **options)

    async def evict(self, namespace: str, name: str, *, grace_period: int | None = None) -> None:
        """Evict a pod."""
        await self._turn()
        await super().evict(namespace, name, grace_period=grace_period)

    async def bind(self, namespace: str, name: str, node: str, *, uid: str = "") -> None:
        """Bind a pod to a node."""
        await self._turn()
        await super().bind(namespace, name, node, uid=uid)

    async def scale(
        self, api_version: str, resource: str, namespace: str | None, name: str, replicas: int
    ) -> None:
        """Set the number of replicas."""
        await self._turn()
        await super().scale(api_version, resource, namespace, name, replicas)
