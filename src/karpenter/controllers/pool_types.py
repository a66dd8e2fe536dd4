"""The instance types of each pool, as the cloud provider lists them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.cloud.provider import CloudError, CloudProvider
from karpenter.cloud.types import InstanceType

_NO_TYPES: Final[tuple[InstanceType, ...]] = ()


class PoolTypes:
    """Lists the instance types of pools.

    Why a pool has none is reported when that begins or changes, not in every pass.
    """

    def __init__(
        self,
        cloud: CloudProvider,
        report: Callable[[str, str], None],
        *,
        may_fail: Callable[[NodePool], bool] = lambda pool: False,
        may_be_empty: bool = False,
    ) -> None:
        self._cloud = cloud
        self._report = report
        self._may_fail = may_fail
        self._may_be_empty = may_be_empty
        self._reported: dict[str, str] = {}  # pool -> why

    async def of(self, pools: Iterable[NodePool]) -> dict[str, tuple[InstanceType, ...]]:
        """The instance types of each pool, by name; none where the cloud fails to list them."""
        asked = tuple(pools)
        answers = await asyncio.gather(*map(self._ask, asked))
        return {
            pool.metadata.name: self._heard(pool, answer)
            for pool, answer in zip(asked, answers, strict=True)
        }

    async def _ask(self, pool: NodePool) -> tuple[InstanceType, ...] | CloudError:
        try:
            return await self._cloud.instance_types(pool)
        except CloudError as error:
            return error

    def _heard(
        self, pool: NodePool, answer: tuple[InstanceType, ...] | CloudError
    ) -> tuple[InstanceType, ...]:
        if isinstance(answer, CloudError):
            if not self._may_fail(pool):
                self._complain(pool, str(answer))
            return _NO_TYPES
        if answer or self._may_be_empty:
            self._reported.pop(pool.metadata.name, None)
        else:
            self._complain(pool, "the provider has no instance types for it")
        return answer

    def _complain(self, pool: NodePool, why: str) -> None:
        name = pool.metadata.name
        if self._reported.get(name) != why:
            self._reported[name] = why
            self._report(name, why)
