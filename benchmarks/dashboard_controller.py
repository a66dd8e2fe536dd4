"""What pages that watch the dashboard of a controller cost its controllers.

    python -m benchmarks dashboard_controller            1,000 pods, three rounds: six minutes
    python -m benchmarks dashboard_controller --smoke    20 pods, once

A sandbox and ``karpenter controller`` run as processes of their own, new ones for each round, and a
Deployment is scaled up: once with nobody looking, once with five clients that read the stream and ask for
the plan each second. Compared is the time from the change to the last NodeClaim. With ten clients the
longest turns of the controller's event loop are looked at, as it logs them itself.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.api.workloads import Deployment
from karpenter.clock import SystemClock
from karpenter.kube.access.config import load_config
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport

PODS, SMOKE_PODS = 1000, 20
ROUNDS: Final = 3
CLIENTS, MANY_CLIENTS = 5, 10
LARGEST_SLOWDOWN: Final = 0.05
LONGEST_TURN: Final = 0.05  # seconds on the processor; the loop logs turns from there on
_TOKEN: Final = "a-token-that-somebody-chose-with-care"
_QUIET: Final = 12.0  # seconds without a new claim, after which there is none to come
_PATIENCE: Final = 180.0
_POLL: Final = 0.25

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One Deployment that was scaled up."""

    clients: int
    seconds: float  # until the last claim
    used: float  # of the processor by the controllers meanwhile, in seconds
    claims: int
    turns: tuple[float, ...]  # of the event loop, those of 50 ms and more, in seconds
    processor: tuple[float, ...]  # the same without waiting for other threads and processes


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds."""

    alone: float
    watched: float
    slowdown: float  # a share
    alone_processor: float  # of the controller's process until the last claim
    watched_processor: float  # the same, with that of the views and without that of the plans
    longest_turn: float  # with ten clients
    longest_turn_processor: float
    longest_turn_alone: float

    @property
    def is_enough(self) -> bool:
        """Whether the promises are kept."""
        return self.slowdown < LARGEST_SLOWDOWN and self.longest_turn_processor <= max(
            LONGEST_TURN, self.longest_turn_alone
        )


def main() -> int:
    parser = options("Measure what watching costs the controllers.", smoke="20 pods, once")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    figures = _measured(arguments)
    if arguments.json:
        print(json.dumps(asdict(figures), indent=2))
    else:
        _show(figures)
    return 0 if figures.is_enough or arguments.smoke else 1


def _measured(arguments: argparse.Namespace) -> Figures:
    pods = SMOKE_PODS if arguments.smoke else PODS
    rounds = 1 if arguments.smoke else arguments.rounds
    alone, watched = list[Run](), list[Run]()
    for number in range(rounds):
        # One after the other, and in turn first, so that a machine that slows down does not decide
        for runs, clients in ((alone, 0), (watched, CLIENTS))[:: 1 if number % 2 else -1]:
            runs.append(asyncio.run(_run(pods, clients)))
    many = asyncio.run(_run(pods, MANY_CLIENTS))
    before, beside = (statistics.median(run.seconds for run in runs) for runs in (alone, watched))
    return Figures(
        alone=before,
        watched=beside,
        slowdown=beside / before - 1,
        alone_processor=statistics.median(run.used for run in alone),
        watched_processor=statistics.median(run.used for run in watched),
        longest_turn=max(many.turns, default=0.0),
        longest_turn_processor=max(many.processor, default=0.0),
        longest_turn_alone=max((turn for run in alone for turn in run.processor), default=0.0),
    )


async def _run(pods: int, clients: int) -> Run:
    """Scale up a new cluster with clients that watch."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with _sandbox(folder) as kubeconfig, _controller(folder, kubeconfig) as (port, pid):
            async with _connected(kubeconfig) as kube, _watching(port, clients):
                await asyncio.sleep(2)
                begun, used = time.time(), _used(pid)
                await kube.patch(Deployment, "web", {"spec": {"replicas": pods}}, "default")
                made, until = await _claims(folder / "controller.log", pid)
        lines = [*_lines(folder / "controller.log")]
    # The first turns are those of the start
    slow = [line for line in lines if line["message"] == "event loop held up"]
    slow = [line for line in slow if _at(line) >= begun]
    return Run(
        clients,
        max(made) - begun,
        until - used,
        len(made),
        tuple(line["seconds"] for line in slow),
        tuple(line["processor"] for line in slow),
    )


async def _claims(log: Path, pid: int) -> tuple[list[float], float]:
    """When claims were made, once there are no further ones, and the processor time until then."""
    deadline, used, known = time.monotonic() + _PATIENCE, 0.0, 0
    while True:
        made = [_at(line) for line in _lines(log) if line["message"] == "created nodeclaim"]
        if len(made) > known:
            known, used = len(made), _used(pid)
        if made and time.time() - max(made) > _QUIET:
            return made, used
        if time.monotonic() > deadline:
            raise SystemExit(f"claims were still being made after {_PATIENCE:.0f} s")
        await asyncio.sleep(_POLL)


def _at(line: Json) -> float:
    return datetime.fromisoformat(line["time"]).timestamp()


def _lines(log: Path) -> Iterator[Json]:
    for text in log.read_text("utf-8").splitlines():
        if text.startswith("{") and text.endswith("}"):
            yield json.loads(text)


@contextmanager
def _sandbox(folder: Path) -> Iterator[Path]:
    """A cluster without controllers, with a pool of small nodes and an empty Deployment."""
    kubeconfig, manifests = folder / "kubeconfig", folder / "manifests.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects()}))
    flags = ["--no-controllers", "--no-dashboard", f"--load={manifests}"]
    with _process(folder / "sandbox.log", "sandbox", *flags, f"--kubeconfig={kubeconfig}"):
        _until(kubeconfig.exists, "the sandbox did not start")
        yield kubeconfig


@contextmanager
def _controller(folder: Path, kubeconfig: Path) -> Iterator[tuple[int, int]]:
    """The controllers with a dashboard: its port, and the number of the process."""
    (folder / "token").write_text(_TOKEN)
    port = _free_port()
    flags = {
        "metrics-port": 0,
        "health-probe-port": 0,
        "leader-election-namespace": "default",
        "log-level": "debug",
        "dashboard-port": port,
        "dashboard-token-file": folder / "token",
    }
    log = folder / "controller.log"
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    environment = {"KUBECONFIG": str(kubeconfig)}
    with _process(log, "controller", *arguments, environment=environment) as pid:
        _until(lambda: '"became leader"' in log.read_text("utf-8"), "the controller does not lead")
        yield port, pid


def _used(pid: int) -> float:
    """How long a process was on the processor, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _process(
    log: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[int]:
    """A command of the program, ended in order; its number is given."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "karpenter", *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
    try:
        yield process.pid
        process.send_signal(signal.SIGINT)
        process.wait(_PATIENCE)
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def _connected(kubeconfig: Path) -> AsyncIterator[Client]:
    clock, environment = SystemClock(), {"KUBECONFIG": str(kubeconfig)}
    transport = HttpTransport(
        load_config(environment), clock, user_agent="benchmark", environment=environment
    )
    try:
        yield Client(transport, clock)
    finally:
        await transport.close()


@asynccontextmanager
async def _watching(port: int, clients: int) -> AsyncIterator[None]:
    """Clients that read the stream, one of which asks for the plan each second."""
    api = f"http://127.0.0.1:{port}/api/v1"
    async with aiohttp.ClientSession(headers={"Karpenter-Token": _TOKEN}) as session:
        tasks = [asyncio.create_task(_read(session, api)) for _ in range(clients)]
        if clients:
            tasks.append(asyncio.create_task(_ask(session, api)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _read(session: aiohttp.ClientSession, api: str) -> None:
    async with session.get(f"{api}/stream") as answer:
        async for _ in answer.content.iter_any():
            pass


async def _ask(session: aiohttp.ClientSession, api: str) -> None:
    while True:
        async with session.get(f"{api}/plan") as answer:
            await answer.read()
        await asyncio.sleep(1)


def _until(holds: Any, otherwise: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(otherwise)
        time.sleep(_POLL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _objects() -> list[Json]:
    """A pool of nodes of 2 and 4 cpu, so that there are hundreds of claims, and its class."""
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    small = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4"]}
    template = {"nodeClassRef": reference, "requirements": [small], "expireAfter": "Never"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    labels = {"app": "web"}
    return [
        {
            "apiVersion": "karpenter.kwok.sh/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": "default"},
            "spec": {},
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "general"},
            "spec": {
                "template": {"spec": template},
                "disruption": {"consolidateAfter": "Never"},
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
    ]


def _show(figures: Figures) -> None:
    table = Table("what", "figure", "promise")
    table.add_row("time to the last claim, nobody looks", f"{figures.alone:.2f} s", "")
    table.add_row(
        f"the same with {CLIENTS} clients and a plan each second",
        f"{figures.watched:.2f} s, {figures.slowdown:+.1%}",
        f"less than {LARGEST_SLOWDOWN:+.0%}",
    )
    table.add_row(
        f"processor time of the controller until then, alone and with {CLIENTS} clients",
        f"{figures.alone_processor:.2f} s, {figures.watched_processor:.2f} s",
        "",
    )
    table.add_row(
        f"longest turn of the event loop, {MANY_CLIENTS} clients",
        f"{figures.longest_turn * 1000:.0f} ms, {figures.longest_turn_processor * 1000:.0f} ms of the"
        " processor",
        f"{LONGEST_TURN * 1000:.0f} ms, or as long as without clients",
    )
    table.add_row(
        "the same without clients, of the processor",
        f"{figures.longest_turn_alone * 1000:.0f} ms",
        "",
    )
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
