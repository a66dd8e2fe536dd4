"""What goes wrong inside a sandbox is seen, with controllers as without."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from karpenter.clock import run_virtual
from karpenter_sandbox.cluster import Cluster, virtual_cluster
from karpenter_sandbox.command.autoscaler import autoscaling
from karpenter_sandbox.command.cloud import CloudOptions
from karpenter_sandbox.command.live_view import EventFeed, show_logs
from karpenter_sandbox.server.api import Request


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, configuration = root.handlers[:], root.level, structlog.get_config()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**configuration)


def failing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a request meet an error that nobody foresaw."""

    def fail(*_args: object, **_more: object) -> None:
        raise ZeroDivisionError("oops")

    with monkeypatch.context() as patch:
        patch.setattr(cluster.store, "entries", fail)
        answer = cluster.api.handle(Request("GET", "/api/v1/pods"))
    assert 500 == answer.status


@pytest.mark.parametrize("has_controllers", [False, True])
def test_an_error_of_the_cluster_is_shown_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, has_controllers: bool
) -> None:
    feed = EventFeed()

    async def live() -> None:
        async with virtual_cluster() as cluster:
            show_logs(feed.add)
            if not has_controllers:
                failing(cluster, monkeypatch)
                return
            async with autoscaling(cluster, CloudOptions("kwok"), feed.add):
                await cluster.clock.sleep(5)
                feed.taken()
                failing(cluster, monkeypatch)

    run_virtual(live())
    lines = feed.taken()

    assert "         ! request failed: GET /api/v1/pods" == lines[0]
    assert "Traceback (most recent call last):" == lines[1].strip()
    assert "ZeroDivisionError: oops" == lines[-1].strip()
    assert not any("\n" in line for line in lines)


def test_a_quiet_cluster_with_controllers_has_nothing_to_say() -> None:
    feed = EventFeed()

    async def live() -> None:
        async with (
            virtual_cluster(nodes=1) as cluster,
            autoscaling(cluster, CloudOptions("kwok", has_example=True), feed.add),
        ):
            await cluster.clock.sleep(600)

    run_virtual(live())

    assert [] == [line for line in feed.taken() if line.lstrip().startswith("!")]
