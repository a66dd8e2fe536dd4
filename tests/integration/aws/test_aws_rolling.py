"""Nodes on a simulated AWS are replaced when they should be, one by one, and only our own."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from moto.backends import get_backend

from helpers.autoscaler import deployment
from helpers.aws_fakes import Account
from helpers.aws_sandbox import AwsSandbox, aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from karpenter.api.node_classes import ec2_labels
from karpenter.clock import EPOCH
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.ec2.tags import cluster_tag
from karpenter.cloud.aws.simulated.account import ACCOUNT
from karpenter.cloud.aws.simulated.simulated_aws import announcement
from karpenter.model import labels

pytestmark = pytest.mark.storm

JsonObject = dict[str, Any]
# No interruptions in these tests, and moto is slow to poll an empty queue
QUIET = {"INTERRUPTION_QUEUE": ""}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": {"app": "app"}}}
        ]
    }
}


def images(box: AwsSandbox) -> set[str]:
    """The images the nodes have booted."""
    return {claim["status"].get("imageID", "") for claim in box.run.claims}


def names(box: AwsSandbox) -> set[str]:
    return {claim["metadata"]["name"] for claim in box.run.claims}


def leaving(box: AwsSandbox) -> set[str]:
    """The claims that are deleted or marked for disruption, and whose instance still runs."""
    tainted = {
        node["metadata"]["name"]
        for node in box.run.nodes
        if any(taint["key"] == labels.DISRUPTED for taint in node["spec"].get("taints", ()))
    }
    return {
        claim["metadata"]["name"]
        for claim in box.run.claims
        if ("deletionTimestamp" in claim["metadata"] or claim["status"].get("nodeName") in tainted)
        and "InstanceTerminating" not in {c["type"] for c in claim["status"]["conditions"]}
    }


async def started(box: AwsSandbox, replicas: int, **pod: Any) -> None:
    """Let pods run, each on a node of its own."""
    await box.run.apply(deployment("app", replicas, affinity=APART, **pod))
    await box.run.until(lambda: len(box.run.running) == replicas)
    assert replicas == len(box.run.nodes)


async def watch(box: AwsSandbox, holds: Callable[[], bool], seconds: float) -> int:
    """Let time pass until something holds, and say how many claims were leaving at most."""
    most = 0
    deadline = box.run.clock.monotonic() + seconds
    while not holds():
        assert box.run.clock.monotonic() < deadline, f"not within {seconds:g} s"
        await box.run.pass_time(1)
        most = max(most, len(leaving(box)))
    return most


def selecting_by_tag(box: AwsSandbox) -> JsonObject:
    """A node class whose images are those with a tag."""
    (node_class,) = box.world.first_objects()
    terms = {"amiFamily": "AL2023", "amiSelectorTerms": [{"tags": {"team": "blue"}}]}
    node_class["spec"] |= terms
    return node_class


@pytest.mark.row("S0-41", "S2-65")
@in_virtual_time
async def test_a_node_that_expires_is_replaced_on_the_newest_image() -> None:
    async with aws_sandbox(has_class=False, environment=QUIET) as box:
        owner = Account()
        owner.image("ami-1", "first", created=EPOCH, tags={"team": "blue"})
        # only expiry removes a node: the budget allows no disruption at all
        expiring = ec2_pool(template={"expireAfter": "10m"}, budgets=[{"nodes": "0"}])
        await box.run.apply(selecting_by_tag(box), expiring)
        await started(box, 1)
        first = names(box)
        owner.image("ami-2", "second", created=box.run.clock.now(), tags={"team": "blue"})

        await box.run.pass_time(540)
        assert (first, {"ami-1"}) == (names(box), images(box))
        await box.run.until(lambda: not names(box) & first, seconds=300)
        await box.run.until(lambda: len(box.run.running) == 1)

        assert {"ami-2"} == images(box)


@pytest.mark.row("S2-81")
@in_virtual_time
async def test_an_upgrade_of_the_cluster_rolls_nodes_to_its_version_within_the_budget() -> None:
    by_eks = {**QUIET, "EKS_CONTROL_PLANE": "true"}
    async with aws_sandbox(ec2_pool(budgets=[{"nodes": "1"}]), environment=by_eks) as box:
        await started(box, 3)
        first, before = names(box), images(box)
        clusters = get_backend("eks")[ACCOUNT][box.account.region]
        clusters.clusters[box.account.cluster].version = "1.34"

        most = await watch(box, lambda: not names(box) & first, 1800)
        await box.run.until(lambda: len(box.run.running) == 3)

        assert 1 == most
        assert {"1.33"} == {version_of(box, each) for each in before}
        assert {"1.34"} == {version_of(box, each) for each in images(box)}
        reasons = {reason for _, reason, _ in box.run.events}
        assert "DisruptionTerminating" in reasons


def version_of(box: AwsSandbox, image: str) -> str:
    """The version of Kubernetes an image was published for."""
    name = str(box.account.gaps.images[image]["Name"])
    return name.removeprefix("eks-optimized-ami-").partition("-")[0]


@pytest.mark.row("S2-82")
@in_virtual_time
async def test_a_new_image_with_the_tag_and_another_selector_each_roll_the_nodes() -> None:
    async with aws_sandbox(has_class=False, environment=QUIET) as box:
        owner = Account()
        owner.image("ami-1", "first", created=EPOCH, tags={"team": "blue"})
        await box.run.apply(selecting_by_tag(box), ec2_pool())
        await started(box, 1)
        assert {"ami-1"} == images(box)

        created = box.run.clock.now()
        owner.image("ami-2", "second", created=created, tags={"team": "blue"})
        owner.image("ami-3", "third", created=EPOCH, tags={"team": "red"})
        await box.run.until(lambda: images(box) == {"ami-2"}, seconds=1200)

        await box.change_class(amiSelectorTerms=[{"tags": {"team": "red"}}])
        await box.run.until(lambda: images(box) == {"ami-3"}, seconds=1200)
        await box.run.until(lambda: len(box.run.running) == 1)

        assert 1 == len(box.machines)


@pytest.mark.row("S2-88")
@in_virtual_time
async def test_an_interrupted_node_is_counted_once_and_others_wait_for_it() -> None:
    async with aws_sandbox(ec2_pool(budgets=[{"nodes": "1"}])) as box:
        await started(box, 2, terminationGracePeriodSeconds=90)
        first = names(box)
        interrupted = sorted(box.run.claims, key=lambda claim: claim["metadata"]["name"])[0]
        name = interrupted["metadata"]["name"]
        await box.world.interrupt(interrupted["status"]["nodeName"])
        await box.world.interrupt(interrupted["status"]["nodeName"])
        # both nodes drift while one of them is on its way out already
        await box.change_class(userData="#!/bin/bash\necho again\n")
        await box.run.until(lambda: leaving(box) == {name}, seconds=30)
        others = first - {name}

        most = await watch(box, lambda: name not in names(box), 600)
        assert 1 == most
        await watch(box, lambda: not names(box) & others, 1800)
        await box.run.until(lambda: len(box.run.running) == 2)

        text = b"".join(box.provider.parts.base.telemetry.pieces()).decode()
        counted = [line for line in text.splitlines() if "nodeclaims_disrupted_total{" in line]
        assert 1 == len([each for each in counted if 'reason="spot_interrupted"' in each])
        (by_interruption,) = [each for each in counted if "spot_interrupted" in each]
        assert by_interruption.endswith(" 1.0")


def tags(**held: str) -> list[JsonObject]:
    listed = [{"Key": key, "Value": value} for key, value in held.items()]
    return [{"ResourceType": "instance", "Tags": listed}]


@pytest.mark.case("AWS-118")
@pytest.mark.row("S2-23", "S2-40")
@pytest.mark.parametrize(
    "lost", [cluster_tag("sandbox"), labels.NODEPOOL], ids=["the cluster's tag", "the pool's tag"]
)
@in_virtual_time
async def test_what_is_not_tagged_as_ours_is_never_touched(lost: str) -> None:
    async with aws_sandbox(ec2_pool(), environment=QUIET) as box:
        ec2 = box.account.client("ec2")
        subnet = box.account.subnets["us-west-2a"]
        foreign: list[str] = []
        for held in (
            {},
            {
                cluster_tag("other"): "owned",
                labels.NODEPOOL: "default",
                ec2_labels.NODE_CLASS: "default",
                ec2_labels.EKS_CLUSTER_NAME_TAG: "other",
            },
        ):
            more = {"TagSpecifications": tags(**held)} if held else {}
            made = ec2.run_instances(
                ImageId="ami-1", MinCount=1, MaxCount=1, SubnetId=subnet, **more
            )
            foreign.append(made["Instances"][0]["InstanceId"])
        await started(box, 2)
        kept = instance_id_of(box.run.claims[0]["status"]["providerID"])
        ec2.delete_tags(Resources=[kept], Tags=[{"Key": lost}])

        await box.run.client.delete("karpenter.sh/v1", "NodePool", None, "default")
        await box.run.until(lambda: not box.run.claims, seconds=900)
        await box.run.pass_time(300)

        assert sorted([*foreign, kept]) == sorted(box.machines)
        ended = [
            each
            for made in box.calls
            if made.operation == "TerminateInstances"
            for each in made.parameters["InstanceIds"]
        ]
        assert not {*foreign, kept} & set(ended)


@pytest.mark.case("AWS-117")
@in_virtual_time
async def test_an_instance_nobody_knows_is_terminated_when_it_is_old_enough() -> None:
    async with aws_sandbox(ec2_pool(), environment=QUIET) as box:
        run = box.run
        await run.apply(deployment("app", 1))
        await run.until(lambda: any(c["status"].get("providerID") for c in run.claims))
        (claim,) = run.claims
        born = run.clock.now()
        await run.scale("app", 0)
        group, kind, name = "karpenter.sh/v1", "NodeClaim", claim["metadata"]["name"]
        await run.client.patch("merge", group, kind, None, name, {"metadata": {"finalizers": []}})
        await run.client.delete(group, kind, None, name)
        orphan = instance_id_of(claim["status"]["providerID"])

        def age() -> float:
            return (run.clock.now() - born).total_seconds()

        await run.until(lambda: age() >= 24)
        assert ([orphan], 1, []) == (box.machines, len(run.nodes), run.claims)
        await run.until(lambda: age() >= 45)

        assert ([], []) == (box.machines, run.nodes)


def message(source: str, detail_type: str, **detail: Any) -> str:
    body = {"version": "0", "source": source, "detail-type": detail_type, "detail": detail}
    return json.dumps({**body, "time": "2030-01-01T00:00:00Z"})


def change_of_state(state: str, instance_id: str) -> str:
    kind = "EC2 Instance State-change Notification"
    return message("aws.ec2", kind, state=state, **{"instance-id": instance_id})


def scheduled_change(instance_id: str) -> str:
    return message(
        "aws.health",
        "AWS Health Event",
        service="EC2",
        eventTypeCategory="scheduledChange",
        affectedEntities=[{"entityValue": instance_id}],
    )


async def announced(box: AwsSandbox, text: Callable[[str], str], reason: str) -> None:
    """Let AWS announce something about the one node there is, and follow what becomes of it."""
    run = box.run
    await run.until(lambda: len(run.running) == 1 and len(run.nodes) == 1)
    (claim,), (node,) = run.claims, run.nodes
    going = claim["metadata"]["name"]
    box.account.send(text(instance_id_of(claim["status"]["providerID"])))
    await run.until(lambda: going in leaving(box), seconds=10)
    # the replacement is on its way while pods still leave
    await run.until(lambda: len(names(box)) == 2, seconds=10)
    assert is_cordoned(box, node["metadata"]["name"])
    await run.until(lambda: going not in names(box), seconds=120)
    told = {(kind, why) for kind, why, _ in run.events}
    assert {("NodeClaim", reason), ("Node", reason)} <= told


@pytest.mark.row("S2-86")
@in_virtual_time
async def test_each_announcement_cordons_drains_and_replaces_the_node() -> None:
    async with aws_sandbox(ec2_pool()) as box:
        clock = box.run.clock
        await started(box, 1, terminationGracePeriodSeconds=10)
        await announced(box, lambda each: announcement("spot", each, clock), "SpotInterrupted")
        await announced(box, scheduled_change, "InstanceUnhealthy")
        await announced(box, lambda each: change_of_state("stopping", each), "InstanceStopping")
        await announced(
            box, lambda each: change_of_state("shutting-down", each), "InstanceTerminating"
        )
        await box.run.until(lambda: len(box.run.running) == 1 == len(box.machines))


def is_cordoned(box: AwsSandbox, name: str) -> bool:
    """Whether no more pods come to a node."""
    return any(
        taint["key"] == labels.DISRUPTED
        for node in box.run.nodes
        if node["metadata"]["name"] == name
        for taint in node["spec"].get("taints", ())
    )
