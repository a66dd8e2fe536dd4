"""``karpenter controller`` on a simulated AWS: how it starts, or why not, and what it serves."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from karpenter.clock import SystemClock
from karpenter.cloud.aws.simulated.simulated_aws import SimulatedAws, running_simulated_aws
from karpenter.kube.client import Client
from karpenter.operator import run
from karpenter.settings import Settings, read_settings
from karpenter.telemetry import recording_logger
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig
from karpenter_sandbox.server.transport import MemoryTransport

pytestmark = pytest.mark.storm


@dataclass
class PassInputs:
    """What a controller is started on."""

    world: SimulatedAws
    settings: Settings
    environment: dict[str, str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def ground(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PassInputs]:
    """A cluster that answers, and an account."""
    clock, kubeconfig = SystemClock(), folder / "kubeconfig"
    ports = {"metrics_port": str(free_port()), "health_probe_port": str(free_port())}
    settings = read_settings({}, {"disable_leader_election": "true", **ports})
    cluster = Cluster(clock)
    server = Server(cluster.api, host="127.0.0.1", port=0, token=new_token())
    kube = Client(MemoryTransport(cluster.api), clock)
    async with serving(server), running_simulated_aws(clock, kube) as world:
        write_kubeconfig(server, kubeconfig)
        monkeypatch.setattr(run, "load_provider", lambda _: world.make_provider)
        yield PassInputs(world, settings, {"KUBECONFIG": str(kubeconfig), "CLOUD_PROVIDER": "aws"})


async def test_the_controller_serves_the_metrics_of_its_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = recording_logger()
    async with ground(tmp_path, monkeypatch) as on:
        address = f"http://127.0.0.1:{on.settings.metrics_port}/metrics"
        async with (
            run._assembled(on.settings, on.environment, log, ""),
            aiohttp.ClientSession() as session,
            session.get(address) as answer,
        ):
            text = await answer.text()

    asked = 'aws_sdk_go_request_total{action="DescribeInstanceTypes",code="200",service="ec2"}'
    assert asked in text
    assert "# TYPE karpenter_interruption_message_queue_duration_seconds histogram" in text
    assert "karpenter_build_info{" in text


async def test_a_provider_that_may_not_work_keeps_the_controller_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, _ = recording_logger()
    async with ground(tmp_path, monkeypatch) as on:
        on.world.account.faults.fail("DescribeInstanceTypes", "UnauthorizedOperation")
        code = await run.run_controller(on.settings, on.environment, log)

    said = capsys.readouterr().err
    assert (1, 1) == (code, said.count("\n"))
    assert said.startswith("error: EC2 refuses DescribeInstanceTypes in us-west-2: Unauthorized")
