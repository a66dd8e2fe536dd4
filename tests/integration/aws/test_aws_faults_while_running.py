"""Whatever AWS does wrong, pods run in the end, events report it, and no instance is left over."""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from helpers.autoscaler import deployment
from helpers.aws_sandbox import SERVICES, AwsSandbox, aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from karpenter.cloud.aws.housekeeping.memory_discovery import MemoryDiscovery
from karpenter.cloud.aws.housekeeping.tagging import NAME, Tagging
from karpenter.cloud.aws.interruption import status_poller

pytestmark = pytest.mark.storm

PODS = 6
CHANGES = (
    "CreateInstanceProfile",
    "AddRoleToInstanceProfile",
    "CreateLaunchTemplate",
    "CreateFleet",
    "CreateTags",
    "TerminateInstances",
    "DeleteLaunchTemplate",
    "RemoveRoleFromInstanceProfile",
    "DeleteInstanceProfile",
)
READS = ("DescribeInstances", "DescribeLaunchTemplates", "DescribeSubnets", "DescribeImages")


def throttled(box: AwsSandbox) -> None:
    for operation in (*CHANGES, *READS):
        box.account.faults.throttle(operation, times=5)


def out_of_reach(box: AwsSandbox) -> None:
    for operation in CHANGES:
        box.account.faults.lose_answer(operation, times=3)


def invisible(box: AwsSandbox) -> None:
    box.account.faults.invisible_seconds = 10.0


def in_part(box: AwsSandbox) -> None:
    box.account.faults.most_per_fleet = 1


def short_of_subnets(box: AwsSandbox) -> None:
    for zone in ("us-west-2a", "us-west-2b"):
        box.account.client("ec2").delete_subnet(SubnetId=box.account.subnets[zone])


async def has_started(box: AwsSandbox) -> None:
    """Wait until launches can begin."""
    run = box.run
    await run.until(lambda: bool(run.manager and run.manager.context) and bool(box.providers))
    await run.pass_time(10)


async def emptied(box: AwsSandbox) -> None:
    """Let pods, nodes, the pool and the class go."""
    run = box.run
    await run.scale("app", 0)
    await run.until(lambda: not run.nodes and not run.claims, seconds=1800)
    await run.client.delete("karpenter.sh/v1", "NodePool", None, "default")
    await box.remove_class()
    await run.pass_time(130)


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(throttled, id="every call is throttled"),
        pytest.param(out_of_reach, id="answers are lost"),
        pytest.param(invisible, id="instances cannot be seen for ten seconds"),
        pytest.param(in_part, id="fleets are fulfilled in part"),
        pytest.param(short_of_subnets, id="subnets are deleted in the middle of launches"),
    ],
)
@in_virtual_time
async def test_pods_run_and_nothing_is_left(happens: Callable[[AwsSandbox], None]) -> None:
    async with aws_sandbox(ec2_pool()) as box:
        run = box.run
        await has_started(box)
        await run.apply(deployment("app", PODS, cpu="1500m"))
        await run.until(lambda: bool(run.claims), step=0.001)
        assert 0 == box.count("CreateFleet")
        happens(box)
        await run.until(lambda: len(run.running) == PODS, seconds=1800)
        await run.until(lambda: len(box.machines) == len(run.claims) == len(run.nodes))

        await emptied(box)
        assert {} == box.left_behind()
        assert has_been_felt(happens, box)
        assert SERVICES >= {made.service for made in box.calls}


def has_been_felt(happens: Callable[[AwsSandbox], None], box: AwsSandbox) -> bool:
    """Whether the fault did affect launches."""
    fleets = [made for made in box.calls if made.operation == "CreateFleet"]
    if happens in (throttled, out_of_reach):
        return any(made.attempts > 1 for made in fleets)
    if happens is short_of_subnets:
        lost = {box.account.subnets[zone] for zone in ("us-west-2a", "us-west-2b")}
        return any(
            override["SubnetId"] in lost
            for config in fleets[0].parameters["LaunchTemplateConfigs"]
            for override in config["Overrides"]
        )
    return True


@in_virtual_time
async def test_credentials_that_expire_are_told_and_pods_run_once_they_are_renewed() -> None:
    async with aws_sandbox(ec2_pool()) as box:
        run = box.run
        await has_started(box)
        for operation in (*CHANGES, *READS, "ReceiveMessage", "GetParameter"):
            box.account.faults.fail(operation, "ExpiredToken", status=403, times=10_000)
        await run.apply(deployment("app", PODS, cpu="1500m"))
        await run.pass_time(120)
        assert [] == run.running
        assert [] == box.machines
        told = [
            condition["message"]
            for claim in run.claims
            for condition in claim["status"]["conditions"]
            if condition["type"] == "Launched"
        ]
        assert told
        assert all("ExpiredToken" in each and "\n" not in each for each in told)

        box.account.faults.clear()
        await run.until(lambda: len(run.running) == PODS, seconds=1800)
        await emptied(box)
        assert {} == box.left_behind()


@in_virtual_time
async def test_a_dead_host_is_gone_in_minutes_though_it_drained_behind_a_budget_before() -> None:
    guard = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "app"}}},
    }
    async with aws_sandbox(ec2_pool(), guard) as box:
        run = box.run
        await has_started(box)
        await run.apply(deployment("app", 1, cpu="1500m"))
        await run.until(lambda: len(run.running) == 1, seconds=600)
        (dead,) = box.machines
        event = {"Code": "instance-retirement", "Description": "The instance is degraded"}
        box.account.gaps.statuses.append({"InstanceId": dead, "Events": [event]})
        await run.pass_time(600)
        assert dead in box.machines  # the node drains, and a PDB blocks the eviction of its pod
        detail = {"Name": "reachability", "Status": "failed", "ImpairedSince": run.clock.now()}
        box.account.gaps.statuses[0]["SystemStatus"] = {"Status": "impaired", "Details": [detail]}
        await run.until(lambda: dead not in box.machines, seconds=360)
        await run.until(lambda: len(run.running) == 1, seconds=600)


@in_virtual_time
async def test_what_works_in_the_background_goes_on_after_errors_nobody_foresaw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised, went_well = Counter[str](), Counter[str]()

    def trouble(owner: Any, name: str) -> None:
        works = getattr(owner, name)

        @functools.wraps(works)
        def hostile(*args: Any) -> Any:
            if raised[name] < 2:
                raised[name] += 1
                raise RecursionError(f"trouble of {name}")
            went_well[name] += 1
            return works(*args)

        monkeypatch.setattr(owner, name, hostile)

    trouble(Tagging, "tag")
    trouble(MemoryDiscovery, "learn")
    trouble(status_poller, "problems")
    apart = {
        "labelSelector": {"matchLabels": {"app": "app"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    async with aws_sandbox(ec2_pool()) as box:
        run = box.run
        await has_started(box)
        await run.apply(deployment("app", 4, affinity=rule))
        await run.until(lambda: len(run.running) == 4)
        await run.until(lambda: sorted(tagged(box)) == sorted(box.machines))
        failing = box.machines[0]
        event = {"Code": "instance-retirement", "Description": "The instance is degraded"}
        box.account.gaps.statuses.append({"InstanceId": failing, "Events": [event]})
        await run.until(lambda: failing not in box.machines, seconds=1800)
        await run.until(lambda: len(run.running) == 4)

    assert {"tag": 2, "learn": 2, "problems": 2} == raised
    assert went_well.keys() == raised.keys()


def tagged(box: AwsSandbox) -> list[str]:
    """The instances that say which node they are."""
    return [
        entry["InstanceId"]
        for entry in box.account.running()
        if any(tag["Key"] == NAME for tag in entry.get("Tags", ()))
    ]
