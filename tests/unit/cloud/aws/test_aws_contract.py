"""The AWS provider keeps every promise of a provider."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from karpenter.clock import run_virtual
from karpenter.cloud.contract import Bed, ProviderContract
from unit.cloud.aws.aws_bed import AwsBed, aws_cloud


@pytest.mark.row("S3-01")
class TestAws(ProviderContract):
    @asynccontextmanager
    async def bed(self) -> AsyncIterator[Bed]:
        async with aws_cloud() as cloud:
            yield AwsBed(cloud)

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        run_virtual(test)
