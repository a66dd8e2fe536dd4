"""``karpenter sandbox interrupt`` says in one sentence what it does, or why it cannot."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import Ran, run
from karpenter.clock import SystemClock
from karpenter.cloud.aws.interruption.messages import NO_OP, parse
from karpenter.cloud.aws.simulated.simulated_aws import ANNOUNCEMENTS, announcement
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.command.aws import INTERRUPT
from karpenter_sandbox.command.interrupt import _EVENTS
from karpenter_sandbox.initial_objects import NodeShape, new_node
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig
from karpenter_sandbox.store.store import Key


@pytest.mark.parametrize(
    ("options", "file"),
    [
        pytest.param(["--kubeconfig", "named"], "named", id="that was named"),
        pytest.param([], "karpenter.kubeconfig", id="that a sandbox writes"),
    ],
)
def test_without_a_kubeconfig_it_asks_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)

    ran = run("sandbox", "interrupt", "node-1", *options)

    assert 2 == ran.code
    assert (
        f"error: {file} does not exist; name the kubeconfig of a running sandbox with --kubeconfig,"
        " or set KUBECONFIG\n"
    ) == ran.err


async def test_a_cluster_that_is_no_sandbox_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(SystemClock())
    await cluster.client.create(instance_node())
    kubeconfig = tmp_path / "kubeconfig"
    monkeypatch.setattr("karpenter.inquiry.live._SANDBOX", "+something-else")
    ran = await interrupted(cluster, kubeconfig)

    assert 2 == ran.code
    assert [
        f"error: {kubeconfig} leads to a cluster that is no sandbox; nothing is changed"
    ] == ran.errors
    assert INTERRUPT not in annotations(cluster)


async def interrupted(cluster: Cluster, kubeconfig: Path) -> Ran:
    async with serving(Server(cluster.api, token=new_token())) as server:
        write_kubeconfig(server, kubeconfig)

        return await asyncio.to_thread(
            run, "sandbox", "interrupt", "node-1", "--kubeconfig", str(kubeconfig)
        )


def instance_node() -> dict[str, Any]:
    node = new_node(1, NodeShape())
    node["spec"]["providerID"] = "aws:///us-west-2a/i-0123"
    return node


def annotations(cluster: Cluster) -> dict[str, str]:
    stored = cluster.store.get(Key("", "nodes", "", "node-1"))
    assert stored is not None
    return dict(stored["metadata"].get("annotations") or {})


async def test_a_node_that_is_no_instance_of_ec2_cannot_be_taken_back(tmp_path: Path) -> None:
    cluster = Cluster(SystemClock())
    await cluster.client.create(new_node(1, NodeShape()))
    kubeconfig = tmp_path / "kubeconfig"
    ran = await interrupted(cluster, kubeconfig)

    assert 2 == ran.code
    assert [
        "error: node node-1 is no instance of EC2; karpenter sandbox --provider aws makes such"
    ] == ran.errors


@pytest.mark.parametrize(
    ("event", "told"),
    [
        pytest.param(
            "rebalance",
            "a rebalance recommendation of i-0123, the instance of node node-1: the controllers"
            " record an event, and remove the node only where its NodePool has the annotation"
            " karpenter.k8s.aws/act-on-rebalance-recommendation.",
            id="an advice",
        ),
        pytest.param(
            "stopping",
            "the stop of i-0123, the instance of node node-1: the controllers delete its NodeClaim,"
            " drain the node and replace what its pods need.",
            id="the end of an instance",
        ),
    ],
)
async def test_what_is_announced_is_written_on_the_node_and_said_with_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, told: str
) -> None:
    cluster = Cluster(SystemClock())
    await cluster.client.create(instance_node())
    kubeconfig = tmp_path / "kubeconfig"
    # Several files, of which kubectl too passes over those that are not there
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "absent"), str(kubeconfig)]))
    async with serving(Server(cluster.api, token=new_token())) as server:
        write_kubeconfig(server, kubeconfig)

        ran = await asyncio.to_thread(run, "sandbox", "interrupt", "node-1", "--event", event)

    assert (0, f"AWS announces {told}\n") == (ran.code, ran.out)
    assert event == annotations(cluster)[INTERRUPT]


async def test_a_kubeconfig_that_is_named_counts_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(SystemClock())
    await cluster.client.create(instance_node())
    kubeconfig = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    ran = await interrupted(cluster, kubeconfig)

    assert 0 == ran.code
    assert "spot" == annotations(cluster)[INTERRUPT]


def test_every_announcement_has_its_sentence() -> None:
    assert set(ANNOUNCEMENTS) == set(_EVENTS)


@pytest.mark.parametrize("event", ANNOUNCEMENTS)
def test_every_announcement_is_one_that_the_controller_understands(event: str) -> None:
    body = announcement(event, "i-0123", SystemClock())

    message = parse(body)

    assert (("i-0123",), True) == (message.instance_ids, message.kind != NO_OP)


def test_the_events_of_the_command_are_those_of_the_account() -> None:
    ran = run("sandbox", "interrupt", "node-1", "--event", "none")

    assert all(f"'{event}'" in ran.err for event in ANNOUNCEMENTS)
