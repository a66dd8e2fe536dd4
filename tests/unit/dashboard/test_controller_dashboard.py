"""How a controller is told to serve the dashboard, and who may learn the token."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from helpers.commands import run
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.cli.controller_flags import FLAGS
from karpenter.clock import SystemClock, running_clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.controllers.manager import Process
from karpenter.controllers.mirrors import Mirrors, kinds_to_follow
from karpenter.dashboard.attendance import AFTERWARDS, Attendance
from karpenter.dashboard.homes.controller import ControllerDashboard, dashboard_of
from karpenter.dashboard.server.entrance import SHORTEST_TOKEN
from karpenter.kube.client import Client
from karpenter.kube.events import Recorder
from karpenter.kube.read_only import ReadOnlyClient
from karpenter.operator.beside import Running
from karpenter.operator.run import StartError
from karpenter.settings import Settings
from karpenter.telemetry import Metrics, recording_logger
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.server.transport import MemoryTransport

LONG = "a-token-that-somebody-chose-with-care"
PORT = 8765


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{LONG}\n")
    return path


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of this machine counts."""
    for flag in FLAGS:
        monkeypatch.delenv(flag.variable, raising=False)


def dashboard(*, is_on_terminal: bool = False, **settings: Any) -> ControllerDashboard:
    made = dashboard_of(
        Settings(**{"dashboard_port": PORT, **settings}), is_on_terminal=is_on_terminal
    )
    assert isinstance(made, ControllerDashboard)
    return made


def test_a_token_file_is_all_that_a_pod_needs(token: Path) -> None:
    place = dashboard(dashboard_token_file=str(token)).place

    assert ("127.0.0.1", PORT, False) == (place.host, place.port, place.takes_next)
    assert LONG == place.token


def test_a_terminal_is_shown_a_token_that_is_new_every_time() -> None:
    assert "" == dashboard(is_on_terminal=True).place.token


def test_names_are_separated_by_commas(token: Path) -> None:
    made = dashboard(
        dashboard_host="0.0.0.0",
        dashboard_token_file=str(token),
        dashboard_allow_host="karpenter.example.com, karpenter ,",
    )

    assert ("karpenter.example.com", "karpenter") == made.place.hosts
    assert "DASHBOARD_TLS_CERT and DASHBOARD_TLS_KEY" in made.entrance.warning


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param([], "nobody could know the token of the dashboard", id="no terminal"),
        pytest.param(["--dashboard-token-file=SHORT"], "has 5 characters", id="short token"),
        pytest.param(["--dashboard-token-file=/nowhere"], "no such file", id="no file"),
        pytest.param(
            ["--dashboard-host=0.0.0.0"],
            "DASHBOARD_HOST 0.0.0.0 opens the dashboard to the network: give it a token",
            id="network without token",
        ),
        pytest.param(
            ["--dashboard-host=0.0.0.0", "--dashboard-token-file=TOKEN"],
            "DASHBOARD_HOST 0.0.0.0 opens the dashboard to the network: name what it is called",
            id="network without name",
        ),
        pytest.param(
            ["--dashboard-token-file=TOKEN", "--dashboard-tls-cert=/nowhere"],
            "DASHBOARD_TLS_KEY is missing",
            id="certificate without key",
        ),
        pytest.param(["--dashboard-port=70000"], "70000 is not a port", id="no port"),
        pytest.param(["--dashboard-port=-1"], "-1 is not a port", id="negative"),
        pytest.param(["--dashboard-port=tcp"], "'tcp' is not a whole number", id="no number"),
    ],
)
def test_what_cannot_be_served_is_refused_with_one_sentence(
    flags: list[str], said: str, token: Path, tmp_path: Path
) -> None:
    (tmp_path / "short").write_text("12345\n")
    given = [flag.replace("SHORT", str(tmp_path / "short")) for flag in flags]
    given = [flag.replace("TOKEN", str(token)) for flag in given]
    port = [] if any("port=" in flag for flag in flags) else [f"--dashboard-port={PORT}"]

    ended = run("controller", *port, *given)

    assert 2 == ended.code
    (error,) = ended.errors
    assert said in error
    assert [error] == ended.err.splitlines()


def beside(clock: SystemClock) -> tuple[Running, list[dict[str, Any]]]:
    """A process as it is shown to what is served beside it, and the lines of its log."""
    log, lines = recording_logger()
    rng = random.Random(1)
    kube = Client(MemoryTransport(Cluster(clock).api), clock)
    process = Process(
        kube=kube,
        cloud=KwokProvider(kube, clock, built_in()),
        clock=clock,
        settings=Settings(dashboard_port=PORT),
        recorder=Recorder(kube, clock, rng=rng),
        metrics=Metrics(),
        log=log,
        rng=rng,
    )
    required, optional = kinds_to_follow(process.settings, (KWOKNodeClass,))
    mirrors = Mirrors(kube, clock, required, optional, rng=rng)
    reads = ReadOnlyClient(MemoryTransport(Cluster(clock).api), clock)
    return Running(process, mirrors, reads, None), lines


async def test_a_new_token_is_printed_and_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    shown, lines = beside(SystemClock())
    async with dashboard(dashboard_port=0, is_on_terminal=True)(shown) as address:
        pass

    assert f"Watch the cluster in a browser: {address.url}\n" == capsys.readouterr().out
    assert len(address.token) >= SHORTEST_TOKEN
    assert address.token not in repr(lines)


async def test_a_token_of_a_file_is_neither_printed_nor_logged(
    token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, lines = beside(SystemClock())
    async with dashboard(dashboard_port=0, dashboard_token_file=str(token))(shown) as address:
        pass

    assert LONG == address.token
    assert "" == capsys.readouterr().out
    assert LONG not in repr(lines)
    assert f"http://127.0.0.1:{address.port}/" in repr(lines)


async def test_a_port_that_is_taken_ends_the_start(token: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        made = dashboard(dashboard_port=port, dashboard_token_file=str(token))
        shown, _ = beside(SystemClock())
        with pytest.raises(StartError, match=f"port {port} is taken.*DASHBOARD_PORT"):
            async with made(shown):
                pass


class TestAttendance:
    """When a dashboard beside controllers has something to do."""

    @staticmethod
    @asynccontextmanager
    async def attended() -> AsyncIterator[tuple[Attendance, list[float]]]:
        """An attendance, and the times at which it began and ended to be awake."""
        clock, times = running_clock(), list[float]()
        made = Attendance(clock)

        @asynccontextmanager
        async def period() -> AsyncIterator[None]:
            times.append(clock.monotonic())
            yield
            times.append(clock.monotonic())

        task = asyncio.create_task(made.run(period))
        begun = clock.monotonic()
        try:
            yield made, times
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            times[:] = [each - begun for each in times]

    @in_virtual_time
    async def test_a_question_keeps_it_awake_for_an_hour(self) -> None:
        async with self.attended() as (made, times):
            await asyncio.sleep(100)
            made.note()
            await asyncio.sleep(3 * AFTERWARDS)
            assert not made.awake.is_set()
        assert [100, 100 + AFTERWARDS] == times

    @in_virtual_time
    async def test_the_hour_begins_when_the_last_client_has_gone(self) -> None:
        async with self.attended() as (made, times):
            with made.present():
                await asyncio.sleep(50)
                with made.present():
                    await asyncio.sleep(5 * AFTERWARDS)
                await asyncio.sleep(50)
            await asyncio.sleep(3 * AFTERWARDS)
        assert [0, 100 + 6 * AFTERWARDS] == times

    @in_virtual_time
    async def test_another_client_begins_another_time(self) -> None:
        async with self.attended() as (made, times):
            for _ in range(2):
                made.note()
                await asyncio.sleep(2 * AFTERWARDS)
        assert [0, AFTERWARDS, 2 * AFTERWARDS, 3 * AFTERWARDS] == times
