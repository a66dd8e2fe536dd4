"""``karpenter sandbox interrupt`` says in one sentence why it cannot do what is asked."""

import asyncio
from pathlib import Path

import pytest

from karpenter.cli.sandbox_aws import INTERRUPT
from karpenter.clock import SystemClock
from karpenter.cloud.aws.messages import NO_OP, parse
from karpenter.cloud.aws.simulated.world import ANNOUNCEMENTS, announcement
from karpenter.sandbox.cluster import Cluster
from karpenter.sandbox.seeds import NodeShape, new_node
from karpenter.sandbox.server import Server, new_token, serving, write_kubeconfig
from karpenter.sandbox.store import Key
from unit.cli.commands import run


def test_without_a_kubeconfig_it_asks_for_one(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"

    ran = run("sandbox", "interrupt", "node-1", "--kubeconfig", str(missing))

    assert 2 == ran.code
    assert f"error: {missing} does not exist; name the kubeconfig of a running sandbox\n" == ran.err


async def test_a_node_that_is_no_instance_of_ec2_cannot_be_taken_back(tmp_path: Path) -> None:
    cluster = Cluster(SystemClock())
    await cluster.client.create(new_node(1, NodeShape()))
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(Server(cluster.api, token=new_token())) as server:
        write_kubeconfig(server, kubeconfig)

        ran = await asyncio.to_thread(
            run, "sandbox", "interrupt", "node-1", "--kubeconfig", str(kubeconfig)
        )

    assert 2 == ran.code
    assert [
        "error: node node-1 is no instance of EC2; karpenter sandbox --provider aws makes such"
    ] == ran.errors


async def test_what_is_announced_is_written_on_the_node_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(SystemClock())
    node = new_node(1, NodeShape())
    node["spec"]["providerID"] = "aws:///us-west-2a/i-0123"
    await cluster.client.create(node)
    kubeconfig = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    async with serving(Server(cluster.api, token=new_token())) as server:
        write_kubeconfig(server, kubeconfig)

        ran = await asyncio.to_thread(run, "sandbox", "interrupt", "node-1", "--event", "rebalance")

    assert (0, "AWS announces rebalance for i-0123, the instance of node node-1\n") == (
        ran.code,
        ran.out,
    )
    stored = cluster.store.get(Key("", "nodes", "", "node-1"))
    assert stored is not None
    assert "rebalance" == stored["metadata"]["annotations"][INTERRUPT]


@pytest.mark.parametrize("event", ANNOUNCEMENTS)
def test_every_announcement_is_one_that_the_controller_understands(event: str) -> None:
    body = announcement(event, "i-0123", SystemClock())

    message = parse(body)

    assert (("i-0123",), True) == (message.instance_ids, message.kind != NO_OP)


def test_the_events_of_the_command_are_those_of_the_account() -> None:
    ran = run("sandbox", "interrupt", "node-1", "--event", "none")

    assert all(f"'{event}'" in ran.err for event in ANNOUNCEMENTS)
