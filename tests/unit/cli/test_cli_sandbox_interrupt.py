"""``karpenter sandbox interrupt`` says in one sentence why it cannot do what is asked."""

import asyncio
from pathlib import Path

from karpenter.clock import SystemClock
from karpenter.sandbox.cluster import Cluster
from karpenter.sandbox.seeds import NodeShape, new_node
from karpenter.sandbox.server import Server, new_token, serving, write_kubeconfig
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
