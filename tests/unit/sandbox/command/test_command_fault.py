"""``karpenter sandbox fault`` gives the simulated AWS of a running sandbox a bad day."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import Ran, run
from karpenter.clock import SystemClock
from karpenter.cloud.aws.ec2.errors import AwsThrottledError, AwsUnauthorizedError
from karpenter.cloud.aws.provider import AwsProvider
from karpenter.cloud.registry import ProviderContext
from karpenter.kube.client import Client
from karpenter.settings import Settings
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.command.aws import simulated_aws
from karpenter_sandbox.command.cloud import Account
from karpenter_sandbox.initial_objects import NodeShape, new_node
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig
from karpenter_sandbox.server.transport import MemoryTransport
from karpenter_sandbox.store.store import Key

FAULTS = Key("", "configmaps", "karpenter", "aws-faults")


@dataclass
class Running:
    """A sandbox with a simulated AWS, as a second terminal sees it."""

    cluster: Cluster
    provider: AwsProvider
    said: list[str]
    kubeconfig: Path

    async def fault(self, *words: str) -> Ran:
        options = ("--kubeconfig", str(self.kubeconfig))
        return await asyncio.to_thread(run, "sandbox", "fault", *words, *options)

    async def call(self, operation: str, **parameters: Any) -> Any:
        calls = self.provider.parts.base.calls
        return await calls.call("ec2", operation, retries=False, **parameters)

    @property
    def data(self) -> Any:
        held = self.cluster.store.get(FAULTS)
        assert held is not None
        return held.get("data") or {}


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Running]:
    cluster = Cluster(SystemClock())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}}
    await cluster.client.create(namespace)
    kube = Client(MemoryTransport(cluster.api), cluster.clock)
    context = ProviderContext(kube, cluster.clock, Settings(), {}, random.Random(0))
    said: list[str] = []
    kubeconfig = folder / "kubeconfig"
    async with (
        serving(Server(cluster.api, token=new_token())) as server,
        simulated_aws(cluster, context, Account(), said.append, has_example=False) as provider,
    ):
        assert isinstance(provider, AwsProvider)
        write_kubeconfig(server, kubeconfig)
        yield Running(cluster, provider, said, kubeconfig)
    assert cluster.store.get(FAULTS) is None


async def test_actions_are_throttled_and_denied_at_once_and_until_undone(tmp_path: Path) -> None:
    async with running(tmp_path) as box:
        throttled = await box.fault("throttled", "ec2:DescribeSubnets")
        denied = await box.fault("denied", "DescribeImages", "TerminateInstances")
        with pytest.raises(AwsThrottledError, match="RequestLimitExceeded"):
            await box.call("DescribeSubnets")
        with pytest.raises(AwsUnauthorizedError, match="UnauthorizedOperation"):
            await box.call("DescribeImages", Owners=["self"])
        listed = await box.fault("--list")
        undone = await box.fault("denied", "DescribeImages", "--undo")
        await box.call("DescribeImages", Owners=["self"])
        rest = await box.fault("--undo")
        await box.call("DescribeSubnets")
        after = await box.fault()

        assert (
            "AWS throttles DescribeSubnets: every call is answered with RequestLimitExceeded\n"
            == (throttled.out)
        )
        assert [
            "AWS denies DescribeImages: every call is answered with UnauthorizedOperation",
            "AWS denies TerminateInstances: every call is answered with UnauthorizedOperation",
        ] == denied.out.splitlines()
        assert [
            "throttled  DescribeSubnets",
            "denied     DescribeImages",
            "denied     TerminateInstances",
        ] == listed.out.splitlines()
        assert "no longer denied: DescribeImages\n" == undone.out
        assert [
            "no longer throttled: DescribeSubnets",
            "no longer denied: TerminateInstances",
        ] == rest.out.splitlines()
        assert "nothing is wrong with this AWS\n" == after.out
        assert {} == box.data
        assert [line[9:] for line in box.said] == [
            "! AWS throttles DescribeSubnets: every call is answered with RequestLimitExceeded",
            "! AWS denies DescribeImages: every call is answered with UnauthorizedOperation",
            "! AWS denies TerminateInstances: every call is answered with UnauthorizedOperation",
            "  over: AWS denies DescribeImages: every call is answered with UnauthorizedOperation",
            (
                "  over: AWS throttles DescribeSubnets: every call is answered with"
                " RequestLimitExceeded"
            ),
            (
                "  over: AWS denies TerminateInstances: every call is answered with"
                " UnauthorizedOperation"
            ),
        ]


async def test_a_zone_is_lost_with_its_nodes(tmp_path: Path) -> None:
    async with running(tmp_path) as box:
        for number, zone in enumerate(("us-west-2a", "us-west-2a", "us-west-2b")):
            await box.cluster.client.create(new_node(number, NodeShape(zones=(zone,))))
        lost = await box.fault("lost-zone", "us-west-2a")
        now = box.cluster.clock.now()
        nodes = box.cluster.store.list("", "nodes")
        silent = [box.cluster.machines.fault(node, now) for node in nodes]
        undone = await box.fault("lost-zone", "--undo")

        assert (
            "us-west-2a is lost: nothing can be launched there, and the kubelets of 2 nodes fall"
            " silent\n" == lost.out
        )
        assert ["unreachable", "unreachable", None] == silent
        assert "no longer lost: us-west-2a\n" == undone.out
        assert not any(box.cluster.machines.fault(node, now) for node in nodes)


async def test_offerings_are_sold_out_beside_those_that_are_already(tmp_path: Path) -> None:
    async with running(tmp_path) as box:
        first = await box.fault("sold-out", "m5.*/us-west-2a/spot")
        await box.fault("sold-out", "*/*/reserved", "m5.*/us-west-2a/spot")

        assert first.out.startswith("EC2 is sold out of m5.*/us-west-2a/spot: ")
        assert first.out.endswith(" types; launches find out when they ask for it\n")
        assert {"sold-out": "*/*/reserved, m5.*/us-west-2a/spot"} == box.data


async def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    cases = {
        ("sold-out", "m5.large/*/spot", "m5.lrge/*/spot"): (
            "there is no instance type m5.lrge in us-west-2; did you mean m5.large?"
        ),
        ("lost-zone", "us-west-2d"): (
            "there is no zone us-west-2d in this account; did you mean us-west-2c?"
        ),
        ("throttled", "CreateFlet"): (
            "there is no action CreateFlet that the controllers ask for; did you mean CreateFleet?"
        ),
        ("throttle", "CreateFleet"): (
            "there is no kind of fault throttle; did you mean throttled?"
        ),
        ("denied",): "name what is denied, such as RunInstances",
        ("denied", "RunInstances", "--undo"): (
            "RunInstances is not denied; karpenter sandbox fault --list shows what is wrong"
        ),
        ("--list", "denied"): "--list shows everything that is wrong, and goes with nothing else",
    }
    async with running(tmp_path) as box:
        ran = {words: await box.fault(*words) for words in cases}

        assert {words: (2, f"error: {told}\n") for words, told in cases.items()} == {
            words: (each.code, each.err) for words, each in ran.items()
        }
        assert ({}, []) == (box.data, box.said)


async def test_an_edit_by_hand_is_read_too_and_what_is_wrong_with_it_said(tmp_path: Path) -> None:
    async with running(tmp_path) as box:
        patch = {"data": {"throttled": "DescribeSubnets", "lost-zone": "moon"}}
        await box.cluster.client.patch("merge", "v1", "ConfigMap", "karpenter", "aws-faults", patch)
        with pytest.raises(AwsThrottledError):
            await box.call("DescribeSubnets")
        await box.cluster.client.delete("v1", "ConfigMap", "karpenter", "aws-faults")
        await box.call("DescribeSubnets")

        assert [
            "! AWS throttles DescribeSubnets: every call is answered with RequestLimitExceeded",
            (
                "! ConfigMap karpenter/aws-faults: lost-zone: there is no zone moon in this account;"
                " there are us-west-2a, us-west-2b, us-west-2c"
            ),
            (
                "  over: AWS throttles DescribeSubnets: every call is answered with"
                " RequestLimitExceeded"
            ),
        ] == [line[9:] for line in box.said]


async def test_a_sandbox_of_another_cloud_has_no_bad_days_of_aws(tmp_path: Path) -> None:
    cluster = Cluster(SystemClock())
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(Server(cluster.api, token=new_token())) as server:
        write_kubeconfig(server, kubeconfig)
        words = ("sandbox", "fault", "--kubeconfig", str(kubeconfig))
        ran = await asyncio.to_thread(run, *words)

    assert (
        2,
        (
            "error: this cluster has no simulated AWS; karpenter sandbox --provider aws starts one that"
            " has\n"
        ),
    ) == (ran.code, ran.err)


def test_without_a_kubeconfig_it_asks_for_one(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"

    ran = run("sandbox", "fault", "--undo", "--kubeconfig", str(missing))

    assert 2 == ran.code
    assert ran.err.startswith(f"error: {missing} does not exist; name the kubeconfig of a running")


async def test_the_cluster_of_kubeconfig_is_meant_and_left_alone_if_it_is_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as box:
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}{os.pathsep}{box.kubeconfig}")
        listed = await asyncio.to_thread(run, "sandbox", "fault", "--list")
        with monkeypatch.context() as patched:
            patched.setattr("karpenter_sandbox.command.running.is_sandbox", _never)
            refused = await asyncio.to_thread(run, "sandbox", "fault", "lost-zone", "us-west-2a")
        after = await asyncio.to_thread(run, "sandbox", "fault", "--list")

    assert (0, "nothing is wrong with this AWS\n") == (listed.code, listed.out)
    assert 2 == refused.code
    assert "leads to a cluster that is no sandbox; nothing is changed" in refused.err
    assert listed.out == after.out


async def _never(_: object) -> bool:
    return False
