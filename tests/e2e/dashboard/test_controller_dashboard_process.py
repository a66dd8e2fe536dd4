"""The dashboard of ``karpenter controller`` as a process, with pages that watch while a thousand pods come."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec
import pytest

from helpers.autoscaler import deployment, kwok_class, kwok_pool
from helpers.dashboard import Page
from helpers.kubectl import needs_kubectl
from helpers.real_cluster import Kubectl, sandbox_process
from karpenter.dashboard.contract import View

pytestmark = [pytest.mark.slow, needs_kubectl]

PODS = 1000
READERS = 5
PATIENCE = 300.0  # for a thousand pods on a busy machine; a step that needs it has failed
TOKEN = "a-token-that-somebody-chose-with-care"
HEADERS = {"Karpenter-Token": TOKEN}
WORKER = b"karpenter.dashboard.answers.worker"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Kubectl]:
    """A sandbox without controllers, as a process of its own."""
    kubeconfig, log = tmp_path / "kubeconfig", tmp_path / "sandbox.log"
    command = [sys.executable, "-m", "karpenter", "sandbox", "--no-controllers", "--no-dashboard"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(kubeconfig)], stdout=out, stderr=subprocess.STDOUT
        )
        with sandbox_process(process, kubeconfig, log) as kubectl:
            yield kubectl


@contextmanager
def controller(folder: Path, kubeconfig: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A controller with a dashboard; it ends in order after the block."""
    (folder / "token").write_text(TOKEN)
    flags = {
        "metrics-port": 0,
        "health-probe-port": 0,
        "leader-election-namespace": "default",
        "dashboard-port": port,
        "dashboard-token-file": folder / "token",
    }
    with (folder / "controller.log").open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "karpenter", "controller"),
                *(f"--{name}={value}" for name, value in flags.items()),
            ],
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert 0 == process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
    log = (folder / "controller.log").read_text("utf-8")
    assert "Traceback" not in log
    assert TOKEN not in log


class Reader:
    """A page that follows the stream from a view on, and fetches the view again where it is told to."""

    def __init__(self, session: aiohttp.ClientSession, api: str) -> None:
        self._session = session
        self._api = api
        self.page: Page | None = None
        self.events = 0

    async def fetched(self) -> View:
        """A view that is new."""
        async with self._session.get(f"{self._api}/view") as answer:
            assert answer.status == HTTPStatus.OK
            return msgspec.json.decode(await answer.read(), type=View)

    async def follow(self) -> None:
        """Follow until cancelled."""
        while True:
            self.page = Page(await self.fetched())
            view = self.page.view
            since = f"{view.epoch}-{view.seq}"
            async with self._session.get(f"{self._api}/stream", params={"since": since}) as answer:
                assert answer.status == HTTPStatus.OK
                await self._read(answer, self.page)

    async def _read(self, answer: aiohttp.ClientResponse, page: Page) -> None:
        waiting = b""
        async for chunk in answer.content.iter_any():
            whole, end, waiting = (waiting + chunk).rpartition(b"\n\n")
            page.read(whole + end)
            self.events = len(page.events)
            if page.has_to_fetch:
                return

    async def has_the_same_view(self) -> bool:
        """Whether the page has, after a moment at the latest, what a new one would fetch."""
        fresh = await self.fetched()
        for _ in range(100):
            assert self.page is not None
            held = self.page.view
            if (held.epoch, held.seq) == (fresh.epoch, fresh.seq):
                assert msgspec.json.encode(held) == msgspec.json.encode(fresh)
                return True
            await asyncio.sleep(0.05)
        return False


async def ask_for_plans(session: aiohttp.ClientSession, api: str, statuses: list[int]) -> None:
    """Ask for the plan each second, until cancelled."""
    while True:
        async with session.get(f"{api}/plan") as answer:
            statuses.append(answer.status)
            await answer.read()
        await asyncio.sleep(1)


def workers(process: subprocess.Popen[bytes]) -> list[int]:
    """The planning processes of a controller."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    children = " ".join((task / "children").read_text() for task in tasks).split()
    return [int(each) for each in children if WORKER in command_of(each)]


def command_of(number: str) -> bytes:
    """The command line of a process; empty if it has just ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{number}/cmdline").read_bytes()
    return b""


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not await holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        await asyncio.sleep(0.5)


@pytest.mark.case("DASH-40")
async def test_five_pages_watch_while_a_thousand_pods_get_their_nodes(
    cluster: Kubectl, tmp_path: Path
) -> None:
    pool = kwok_pool("general", disruption={"consolidateAfter": "Never"})
    items = [kwok_class(), pool, deployment("web", 0)]
    objects = {"apiVersion": "v1", "kind": "List", "items": items}
    cluster("apply", "-f", "-", given=msgspec.json.encode(objects).decode())
    port = free_port()
    api, statuses = f"http://127.0.0.1:{port}/api/v1", list[int]()

    with controller(tmp_path, cluster.kubeconfig, port) as process:
        async with aiohttp.ClientSession(headers=HEADERS) as session:
            await watched(cluster, process, session, api, statuses)


async def is_serving(session: aiohttp.ClientSession, api: str) -> bool:
    """Whether the dashboard answers."""
    try:
        async with session.get(f"{api}/about") as answer:
            return answer.status == HTTPStatus.OK
    except aiohttp.ClientConnectionError:
        return False


async def watched(
    cluster: Kubectl,
    process: subprocess.Popen[bytes],
    session: aiohttp.ClientSession,
    api: str,
    statuses: list[int],
) -> None:
    """Scale up with pages that watch, and see what they have at the end."""
    await until(lambda: is_serving(session, api), "the dashboard answers")
    readers = [Reader(session, api) for _ in range(READERS)]
    tasks = [asyncio.create_task(reader.follow()) for reader in readers]
    asking = asyncio.create_task(ask_for_plans(session, api, statuses))
    cluster("scale", "deployment", "web", f"--replicas={PODS}")

    async def all_run() -> bool:
        return (await readers[0].fetched()).totals.pod_states.get("Running") == PODS

    await until(all_run, "all pods run")
    assert HTTPStatus.OK in statuses
    assert set(statuses) <= {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}
    assert len(workers(process)) == 1

    claims = cluster.items("nodeclaims")
    nodes = {each["metadata"]["name"] for each in cluster.items("nodes")}
    assert {each["status"]["nodeName"] for each in claims} == nodes
    for reader in readers:
        await until(reader.has_the_same_view, "a page shows what a new one would")
        assert reader.events
    assert not any(task.done() for task in (*tasks, asking))

    for task in (*tasks, asking):
        task.cancel()
    await asyncio.gather(*tasks, asking, return_exceptions=True)

    async def has_no_worker() -> bool:
        return not workers(process)

    await until(has_no_worker, "the process that plans has ended")
