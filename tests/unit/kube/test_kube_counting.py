"""Every request is counted once, with the status it was answered with: watches as well."""

from contextlib import suppress

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.cluster import Namespace
from karpenter.kube.client import Client
from karpenter.kube.errors import KubeError
from unit.kube.flaky import FlakyCluster, Refusal


class Counts:
    """Who counts requests, and how long the answers took."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []
        self.seconds: list[float] = []

    def request(self, method: str, resource: str, status: int, seconds: float) -> None:
        self.seen.append((method, resource, status))
        self.seconds.append(seconds)


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        pytest.param(None, 200, id="a watch that opens"),
        pytest.param(Refusal(403), 403, id="a watch that is refused"),
        pytest.param(Refusal(0), 0, id="a watch without an answer"),
    ],
)
def test_a_watch_is_counted_when_it_is_answered(refusal: Refusal | None, expected: int) -> None:
    @in_virtual_time
    async def run() -> None:
        cluster, counts = FlakyCluster(), Counts()
        client = Client(cluster.transport, cluster.clock, observer=counts)
        await cluster.begin()
        if refusal is not None:
            cluster.transport.refuse(refusal)

        with suppress(KubeError):
            async with client.watch(Namespace, resource_version="", seconds=60):
                assert [("GET", "namespaces", expected)] == counts.seen
                await cluster.clock.sleep(30)

        assert [("GET", "namespaces", expected)] == counts.seen
        assert [0.0] == counts.seconds  # how long it stayed open is another matter

    run()


@in_virtual_time
async def test_a_request_that_is_tried_again_is_counted_each_time() -> None:
    cluster, counts = FlakyCluster(), Counts()
    client = Client(cluster.transport, cluster.clock, observer=counts)
    await cluster.begin()
    cluster.transport.refuse(Refusal(429, headers={"retry-after": "1"}))

    await client.get(Namespace, "default")

    assert [("GET", "namespaces", 429), ("GET", "namespaces", 200)] == counts.seen
