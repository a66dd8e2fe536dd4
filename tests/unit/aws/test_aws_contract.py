"""The AWS provider keeps every promise of a provider."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from karpenter.clock import run_virtual
from karpenter.cloud.contract import Bed, ProviderContract, type_problems
from karpenter.cloud.types import InstanceType
from unit.aws.aws_bed import AwsBed, aws_cloud


@pytest.mark.row("S0-12", "S3-01")
class TestAws(ProviderContract):
    @asynccontextmanager
    async def bed(self) -> AsyncIterator[Bed]:
        async with aws_cloud() as cloud:
            yield AwsBed(cloud)

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        run_virtual(test)

    def test_instance_types_are_well_formed(self) -> None:
        """As in the contract, of offerings that can be had.

        EC2 sells in zones a node class has no subnets in; such offerings are listed, because
        planners explain with them why they cannot be had, and are never available.
        """

        async def checked() -> None:
            async with self.bed() as bed:
                types = await bed.provider.instance_types(bed.pool())

                assert types
                assert len(types) == len({kind.name for kind in types})
                had = [_what_can_be_had(kind) for kind in types]
                assert [] == [problem for kind in had for problem in type_problems(kind)]

        self.run(checked())


def _what_can_be_had(kind: InstanceType) -> InstanceType:
    return kind.with_offerings(tuple(each for each in kind.offerings if each.available))
