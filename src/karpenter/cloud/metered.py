"""Any provider with its calls counted and timed, in the words of Karpenter's metrics.

The observer records the numbers. Callers identify themselves through ``current_controller``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.cloud.provider import (
    CloudProvider,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    RegistrationHook,
    RepairPolicy,
)
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.model import labels

current_controller: ContextVar[str] = ContextVar("current_controller", default="")

_OTHER_ERROR: Final = "unknown"
_ERRORS: Final = (
    (InsufficientCapacityError, "InsufficientCapacityError"),
    (InstanceNotFoundError, "NodeClaimNotFoundError"),
    (NodeClassNotReadyError, "NodeClassNotReadyError"),
)


@dataclass(frozen=True, slots=True)
class Call:
    """Controller, method and provider: the labels both metrics share."""

    controller: str
    method: str
    provider: str


class CallObserver(Protocol):
    """Records the numbers."""

    def duration(self, call: Call, seconds: float) -> None:
        """A call has ended, well or not (``karpenter_cloudprovider_duration_seconds``)."""

    def error(self, call: Call, error: str, nodepool: str) -> None:
        """A call has failed (``karpenter_cloudprovider_errors_total``)."""


class MeteredProvider:
    """A provider that reports every call to an observer."""

    def __init__(
        self, provider: CloudProvider, observer: CallObserver, monotonic: Callable[[], float]
    ) -> None:
        """Wrap ``provider``; ``monotonic`` is the clock that times calls."""
        self.wrapped: Final = provider
        self._observer = observer
        self._monotonic = monotonic

    @property
    def facts(self) -> ProviderFacts:
        return self.wrapped.facts

    @property
    def repair_policies(self) -> Sequence[RepairPolicy]:
        return self.wrapped.repair_policies

    @property
    def registration_hooks(self) -> Sequence[RegistrationHook]:
        return self.wrapped.registration_hooks

    async def create(self, claim: NodeClaim) -> Instance:
        with self._metered("Create", _pool_of(claim)):
            return await self.wrapped.create(claim)

    async def delete(self, claim: NodeClaim) -> None:
        with self._metered("Delete", _pool_of(claim)):
            await self.wrapped.delete(claim)

    async def get(self, provider_id: str) -> Instance:
        # a call that failed has returned nothing that could name a pool
        with self._metered("Get", ""):
            return await self.wrapped.get(provider_id)

    async def list(self) -> Sequence[Instance]:
        with self._metered("List", ""):
            return await self.wrapped.list()

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        with self._metered("GetInstanceTypes", pool.metadata.name):
            return await self.wrapped.instance_types(pool)

    async def drift_reason(self, claim: NodeClaim) -> str:
        with self._metered("IsDrifted", _pool_of(claim)):
            return await self.wrapped.drift_reason(claim)

    async def reboot(self, claim: NodeClaim, operation: str) -> None:
        with self._metered("Reboot", _pool_of(claim)):
            await self.wrapped.reboot(claim, operation)

    async def run(self) -> None:
        await self.wrapped.run()

    @contextmanager
    def _metered(self, method: str, nodepool: str) -> Iterator[None]:
        call = Call(current_controller.get(), method, self.wrapped.facts.name)
        began = self._monotonic()
        try:
            yield
        except Exception as error:
            self._observer.error(call, error_name(error), nodepool)
            raise
        finally:
            self._observer.duration(call, self._monotonic() - began)


def error_name(error: Exception) -> str:
    """What the metric calls an error."""
    return next((name for known, name in _ERRORS if isinstance(error, known)), _OTHER_ERROR)


def _pool_of(claim: NodeClaim) -> str:
    return claim.metadata.labels.get(labels.NODEPOOL, "")
