"""What pools can buy, asked of the cloud of a cluster without changing anything."""

import pytest

from helpers.autoscaler import kwok_class, kwok_pool
from helpers.rights import Recording
from karpenter.clock import run_virtual, running_clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.inquiry.catalogues import Catalogues, NotAskableError
from karpenter.settings import Settings
from karpenter_sandbox.cluster import virtual_cluster
from karpenter_sandbox.server.transport import MemoryTransport


def asked(environment: dict[str, str], used: set[tuple[str, str, str]]) -> dict[str, int]:
    """How many types each pool of a cluster can buy, asked twice."""

    async def story() -> dict[str, int]:
        async with virtual_cluster() as cluster:
            for obj in (kwok_class(), kwok_pool("a"), kwok_pool("b")):
                await cluster.client.create(obj)
            transport = Recording(MemoryTransport(cluster.api), used)
            catalogues = Catalogues(transport, running_clock(), environment, Settings())
            first = await catalogues.types()
            assert await catalogues.types() == first
            return {name: len(types) for name, types in first.items()}

    return run_virtual(story(), seed="1")


def test_the_provider_of_the_pools_is_asked_and_only_read_from() -> None:
    used: set[tuple[str, str, str]] = set()

    assert asked({}, used) == {"a": len(built_in()), "b": len(built_in())}
    assert {verb for _, _, verb in used} <= {"get", "list", "watch"}


@pytest.mark.parametrize(
    ("provider", "problem"),
    [
        ("aws", "the cloud of a sandbox exists in its own process alone"),
        ("nobody", "nobody"),
    ],
)
def test_a_cloud_that_cannot_be_asked_is_named(provider: str, problem: str) -> None:
    with pytest.raises(NotAskableError, match=problem):
        asked({"CLOUD_PROVIDER": provider}, set())
