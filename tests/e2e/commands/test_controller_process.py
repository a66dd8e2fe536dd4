"""``karpenter controller`` as a process of its own: it starts, scales, answers, and stops in order."""

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from helpers.autoscaler import deployment, kwok_class, kwok_pool
from karpenter.clock import SystemClock
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig

pytestmark = pytest.mark.slow

PATIENCE = 60.0  # for one step; a step that needs it has failed
LEASE = "karpenter-leader-election"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Controller:
    """A running ``karpenter controller``."""

    process: Process
    metrics_port: int
    health_port: int
    lines: list[dict[str, Any]] = field(default_factory=list)

    async def until(self, message: str) -> dict[str, Any]:
        """Read lines until one has this message."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while text := await self.process.stdout.readline():
                self.lines.append(json.loads(text))
                if self.lines[-1]["message"] == message:
                    return self.lines[-1]
        assert self.process.stderr is not None
        raise AssertionError((await self.process.stderr.read()).decode())

    async def ask(self, port: int, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as response,
        ):
            return response.status, await response.text()

    async def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE):
            out, _ = await self.process.communicate()
        self.lines += [json.loads(line) for line in out.splitlines()]
        assert self.process.returncode is not None
        return self.process.returncode


@asynccontextmanager
async def sandbox(folder: Path) -> AsyncIterator[tuple[Cluster, Path]]:
    """A cluster with kubelets in this process, and the kubeconfig that leads to it."""
    cluster = Cluster(SystemClock())
    await cluster.start()
    try:
        server = Server(cluster.api, host="127.0.0.1", port=0, token=new_token())
        async with serving(server):
            kubeconfig = folder / "kubeconfig"
            write_kubeconfig(server, kubeconfig)
            yield cluster, kubeconfig
    finally:
        await cluster.stop()


@asynccontextmanager
async def controller(kubeconfig: Path, *flags: str) -> AsyncIterator[Controller]:
    metrics, health = free_port(), free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "karpenter",
        "controller",
        f"--metrics-port={metrics}",
        f"--health-probe-port={health}",
        "--leader-election-namespace=default",
        *flags,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "KARPENTER_COMMIT": "0123456789"},
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        yield Controller(process, metrics, health)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def holder(cluster: Cluster) -> str:
    (lease,) = [
        each
        for each in cluster.store.list("coordination.k8s.io", "leases")
        if each["metadata"]["name"] == LEASE
    ]
    return str(lease["spec"].get("holderIdentity") or "")


@pytest.mark.row("S2-16", "S2-76")
async def test_a_pod_becomes_a_node_and_a_signal_ends_it_in_order(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as (cluster, kubeconfig):
        limited = kwok_pool("default", limits={"cpu": "100"})
        for obj in (kwok_class(), limited, deployment("inflate", 1)):
            await cluster.client.create(obj)
        async with controller(kubeconfig, "--batch-idle-duration=100ms") as running:
            line = await running.until("initialized nodeclaim")
            ready = await running.ask(running.health_port, "/readyz?verbose")
            alive = await running.ask(running.health_port, "/healthz")
            _, metrics = await running.ask(running.metrics_port, "/metrics")
            holder_before = holder(cluster)
            code = await running.end(signal.SIGTERM)
        holder_after = holder(cluster)

    assert ("INFO", "0123456") == (line["level"], line["commit"])
    assert ("karpenter.sh", "NodeClaim", "") == (
        line["controllerGroup"],
        line["controllerKind"],
        line["namespace"],
    )
    assert {"name": line["name"]} == line["NodeClaim"]
    assert line["reconcileID"]
    expected = "[+]manager ok\n[+]crd ok\n[+]readyz ok\nreadyz check passed\n"
    assert ((200, expected), (200, "ok")) == (ready, alive)
    post = 'kind="NodeClaim",subresource="",verb="POST",version="v1"'
    for name in (
        "# TYPE karpenter_nodepools_usage gauge",
        'karpenter_nodepools_limit{nodepool="default",resource_type="cpu"} 100\n',
        "karpenter_nodeclaims_created_total{",
        "karpenter_nodes_allocatable{",
        "process_resident_memory_bytes ",
        'leader_election_master_status{name="karpenter-leader-election"} 1.0',
        f'client_go_request_duration_seconds_count{{group="karpenter.sh",{post}}} 1.0',
    ):
        assert name in metrics, name
    assert holder_before.startswith(f"{socket.gethostname()}_")
    assert (0, "") == (code, holder_after)
    assert "stopped" == running.lines[-1]["message"]


async def test_a_standby_is_ready_and_leads_as_soon_as_the_lease_is_given_back(
    tmp_path: Path,
) -> None:
    async with sandbox(tmp_path) as (_, kubeconfig), controller(kubeconfig) as first:
        await first.until("became leader")
        async with controller(kubeconfig) as second:
            await second.until("starting")
            ready = await second.ask(second.health_port, "/readyz")
            _, metrics = await second.ask(second.metrics_port, "/metrics")
            ended = await first.end(signal.SIGTERM)
            await second.until("became leader")
            ended_too = await second.end(signal.SIGINT)

    assert (200, "ok") == ready
    assert 'leader_election_master_status{name="karpenter-leader-election"} 0.0' in metrics
    assert (0, 0) == (ended, ended_too)


async def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        async with (
            sandbox(tmp_path) as (_, kubeconfig),
            controller(kubeconfig, f"--metrics-port={port}") as running,
        ):
            async with asyncio.timeout(PATIENCE):
                _, err = await running.process.communicate()

    assert 1 == running.process.returncode
    assert f"error: port {port} is taken; choose another with METRICS_PORT\n" == err.decode()
