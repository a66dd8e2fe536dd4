"""The client tells which release the API server is of, or why it cannot."""

from contextlib import AbstractAsyncContextManager

import pytest

from helpers.clusters import in_virtual_time
from karpenter.clock import running_clock
from karpenter.kube.client import Client
from karpenter.kube.errors import ForbiddenError, KubeError
from karpenter.kube.transport import Request, Response, Stream
from karpenter_sandbox.kinds.served import version_info
from unit.kube.flaky import FlakyCluster


class Saying:
    """A server that says the same to everybody, and who counts the requests."""

    def __init__(self, status: int, body: bytes) -> None:
        self._answer = Response(status, body, {})
        self.counted: list[tuple[str, str, int]] = []

    async def send(self, request: Request) -> Response:
        return self._answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    async def close(self) -> None:
        return

    def request(self, method: str, resource: str, status: int, seconds: float) -> None:
        self.counted.append((method, resource, status))


@in_virtual_time
async def test_the_version_of_the_server() -> None:
    assert version_info()["gitVersion"] == await FlakyCluster().kube.version()


@in_virtual_time
async def test_asking_for_the_version_is_counted_like_any_request() -> None:
    server = Saying(200, b'{"major": "1", "minor": "31+", "gitVersion": "v1.31.2-eks-7f9249a"}')
    client = Client(server, running_clock(), observer=server)

    assert "v1.31.2-eks-7f9249a" == await client.version()
    assert [("GET", "version", 200)] == server.counted


@pytest.mark.parametrize(
    ("status", "body", "expected", "says"),
    [
        pytest.param(
            403, b'{"message": "not for you"}', ForbiddenError, "not for you", id="a refusal"
        ),
        pytest.param(200, b"<html>", KubeError, "/version cannot be read", id="no JSON"),
        pytest.param(200, b"{}", KubeError, "/version cannot be read", id="no version in it"),
    ],
)
def test_why_the_version_is_not_known(
    status: int, body: bytes, expected: type[KubeError], says: str
) -> None:
    @in_virtual_time
    async def run() -> None:
        with pytest.raises(expected, match=says):
            await Client(Saying(status, body), running_clock()).version()

    run()
