"""The ``CloudProvider`` protocol: a dozen methods, and the errors they may raise.

A provider launches an instance for a NodeClaim and terminates it. It keeps no state that it could
not recover after a restart: what it must remember is stored on the instance, as tags for example.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol, runtime_checkable

import msgspec

from karpenter.api.karpenter import Commitment, NodeClaim, NodeClaimStatus, NodePool
from karpenter.api.meta import ResourceMap
from karpenter.api.nodes import Node
from karpenter.cloud.types import InstanceType, ProviderFacts

REPLACE_NODE: Final = "ReplaceNode"
REBOOT_NODE: Final = "RebootNode"


class CloudError(Exception):
    """Base of the errors of a cloud provider; any other exception is retried as well.

    * CloudError
      x InsufficientCapacityError   sold out; the claim is given up and planned again
      x NodeClassNotReadyError      the node class cannot be used yet; the claim is given up
      x CreateError                 the launch failed for a reason users should read; retried
      x InstanceNotFoundError       there is no such instance, or there is none any more
      x RebootNotImplementedError   this provider cannot restart instances
      x RebootFailedError           the restart was refused for good
    """


class InsufficientCapacityError(CloudError):
    """None of the requested offerings is available now."""


class NodeClassNotReadyError(CloudError):
    """The node class of the claim cannot be used."""


class CreateError(CloudError):
    """A launch failed; ``reason`` is a CamelCase word for the Launched condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class InstanceNotFoundError(CloudError):
    """The instance does not exist."""


class RebootNotImplementedError(CloudError):
    """Instances of this provider cannot be restarted in place."""

    def __init__(self) -> None:
        super().__init__("reboot is not implemented by this cloud provider")


class RebootFailedError(CloudError):
    """The restart was refused, and a retry would be refused too."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine that exists, or that has been promised."""

    provider_id: str
    image_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: ResourceMap = field(default_factory=dict)
    allocatable: ResourceMap = field(default_factory=dict)
    created_at: datetime | None = None
    is_deleting: bool = False

    def status_of(self, claim: NodeClaim) -> NodeClaimStatus:
        """The status of a claim once this is its instance."""
        return msgspec.structs.replace(
            claim.status,
            provider_id=self.provider_id,
            image_id=self.image_id,
            capacity=self.capacity,
            allocatable=self.allocatable,
        )


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """When a node is unhealthy enough to be replaced or restarted."""

    condition_type: str
    condition_status: str
    toleration: timedelta
    reason_regex: str = ""  # empty: the fallback for every covered condition
    termination_grace_period: timedelta | None = None
    priority: int = 0
    action: str = REPLACE_NODE


@dataclass(frozen=True, slots=True)
class HookResult:
    """The answer of a registration hook: done, or to be called again after so many seconds."""

    is_ready: bool
    retry_after: float = 5.0
    labels: Mapping[str, str] = field(default_factory=dict)  # to be added to claim and node
    annotations: Mapping[str, str] = field(default_factory=dict)


class RegistrationHook(Protocol):
    """Work of a provider that must be done before a node takes pods."""

    @property
    def name(self) -> str: ...

    async def __call__(self, claim: NodeClaim, node: Node) -> HookResult: ...


class CloudProvider(Protocol):
    """The interface between controllers and a cloud."""

    @property
    def facts(self) -> ProviderFacts:
        """Name, node classes and labels."""

    @property
    def repair_policies(self) -> Sequence[RepairPolicy]:
        """When nodes of this cloud count as broken; none if it cannot detect that."""

    @property
    def registration_hooks(self) -> Sequence[RegistrationHook]:
        """What must have happened before a node may take pods."""

    async def create(self, claim: NodeClaim) -> Instance:
        """Launch an instance for a claim, and return once the cloud has accepted it.

        Idempotent by the claim's uid: a second call must not launch another instance, even if the
        process was restarted in between.

        Raises:
            InsufficientCapacityError, NodeClassNotReadyError, CreateError
        """

    async def delete(self, claim: NodeClaim) -> None:
        """Request the termination of a claim's instance; called repeatedly until it is gone.

        Raises:
            InstanceNotFoundError: it is gone.
        """

    async def get(self, provider_id: str) -> Instance:
        """One instance.

        Raises:
            InstanceNotFoundError: there is none, or it is on its way out.
        """

    async def list(self) -> Sequence[Instance]:
        """Every instance of this cluster that was made for a claim."""

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """What the pool could buy, with prices and availability as they are now."""

    async def drift_reason(self, claim: NodeClaim) -> str:
        """Why the instance no longer is what its node class asks for; empty if it is."""

    async def reboot(self, claim: NodeClaim, operation: str) -> None:
        """Restart the instance in place; ``operation`` is an idempotency token.

        Raises:
            RebootNotImplementedError, RebootFailedError
        """

    async def run(self) -> None:
        """Work in the background, while this process leads; may return at once."""


@runtime_checkable
class CommittedProvider(Protocol):
    """A provider that knows what its account has committed to pay; few do."""

    def commitments(self) -> Sequence[Commitment]:
        """Commitments as they were last read; planned with like declared ones."""

    async def refresh_commitments(self) -> None:
        """Read them now, which the provider does by itself only while it leads."""


@runtime_checkable
class StartingProvider(Protocol):
    """A provider that needs a start-up check or discovery before its first call; few do."""

    async def start(self) -> None:
        """Check whether this cloud can be used; called once, in every replica.

        A ``CloudError`` or a ``ProviderError`` is why the process does not start, in one sentence.
        """
