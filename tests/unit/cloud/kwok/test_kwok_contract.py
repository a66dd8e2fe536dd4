"""The simulated provider keeps every promise of a provider, with and without its metrics."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from karpenter.clock import run_virtual
from karpenter.cloud.contract import Bed, ProviderContract
from karpenter.cloud.metered import Call, MeteredProvider
from karpenter.cloud.provider import CloudProvider
from unit.cloud.kwok.kwok_bed import KwokBed
from unit.cloud.kwok.kwok_cloud import KwokCloud, kwok_cloud


@pytest.mark.row("S0-49")
@pytest.mark.row("S3-01")
class TestKwok(ProviderContract):
    @asynccontextmanager
    async def bed(self) -> AsyncIterator[Bed]:
        async with kwok_cloud() as cloud:
            yield KwokBed(cloud)

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        run_virtual(test)


class Silence:
    def duration(self, call: Call, seconds: float) -> None:
        assert seconds >= 0

    def error(self, call: Call, error: str, nodepool: str) -> None:
        assert call.method


class MeteredBed(KwokBed):
    def __init__(self, cloud: KwokCloud) -> None:
        super().__init__(cloud)
        self.provider = self._metered()

    async def restart(self) -> CloudProvider:
        await super().restart()
        self.provider = self._metered()
        return self.provider

    def _metered(self) -> MeteredProvider:
        return MeteredProvider(self.cloud.provider, Silence(), self.cloud.clock.monotonic)


@pytest.mark.row("S0-47")
class TestMeteredKwok(TestKwok):
    @asynccontextmanager
    async def bed(self) -> AsyncIterator[Bed]:
        async with kwok_cloud() as cloud:
            yield MeteredBed(cloud)
