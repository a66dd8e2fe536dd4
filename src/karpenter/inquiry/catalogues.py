"""What the pools of a running cluster can buy, asked of its cloud again and again."""

import random
from collections.abc import Mapping
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.clock import Clock
from karpenter.cloud.provider import CloudError, CloudProvider
from karpenter.cloud.registry import ProviderContext, ProviderError, load_provider
from karpenter.cloud.types import InstanceType
from karpenter.console import output
from karpenter.inquiry import offline
from karpenter.inquiry.live import KnowsPrices, is_sandbox, types_of
from karpenter.kube.client import Client
from karpenter.kube.errors import KubeError
from karpenter.kube.read_only import ReadOnlyTransport
from karpenter.kube.transport import Transport
from karpenter.settings import Settings


class NotAskableError(Exception):
    """The cloud cannot be asked; one sentence."""


class Catalogues:
    """Asks one cloud, whose provider is made once and changes nothing."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        environment: Mapping[str, str],
        settings: Settings,
    ) -> None:
        """Prepare; nothing is asked yet."""
        self._kube: Final = Client(ReadOnlyTransport(transport), clock, may_write=lambda: False)
        self._clock = clock
        self._environment = environment
        self._settings = settings
        self._cloud: CloudProvider | None = None

    async def types(self) -> dict[str, tuple[InstanceType, ...]]:
        """The instance types of each pool, at the prices of now.

        Raises:
            NotAskableError: cluster or cloud do not answer.
        """
        try:
            pools = await self._kube.list(NodePool)
            cloud = await self._provider(pools)
            if isinstance(cloud, KnowsPrices):
                await cloud.refresh_prices()
            return await types_of(pools, cloud, output.warning)
        except (KubeError, CloudError, ProviderError) as error:
            raise NotAskableError(str(error)) from error

    async def _provider(self, pools: tuple[NodePool, ...]) -> CloudProvider:
        if self._cloud is None:
            name = self._environment.get("CLOUD_PROVIDER") or offline.provider_of(pools)
            if offline.may_be_simulated(name) and await is_sandbox(self._kube):
                raise NotAskableError("the cloud of a sandbox exists in its own process alone")
            rng = random.Random()  # noqa: S311 nothing secret hangs on it
            given = ProviderContext(
                self._kube, self._clock, self._settings, self._environment, rng, only_reads=True
            )
            self._cloud = load_provider(name)(given)
        return self._cloud
