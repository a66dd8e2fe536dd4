"""From Node Termination Handler on a simulated AWS: it reads its own queue, beside the controller's.

EventBridge feeds both queues with the same messages, about machines of node groups and of pools alike. The
handler stays with the groups; the controller handles each message about a machine of a pool once, and takes
nothing out of the handler's queue.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from helpers.autoscaler import Autoscaler, JsonObject, deployment
from helpers.aws_sandbox import AwsSandbox, aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from helpers.crashes import CrashingTransport, CrashPoint
from karpenter.cloud.aws.interruption.queue import ACT_ON_REBALANCE
from karpenter.cloud.aws.simulated.simulated_aws import announcement
from karpenter_sandbox.initial_objects import NodeShape, new_node

pytestmark = pytest.mark.storm

THEIRS: Final = "node-termination-handler"
GROUP: Final = "eks.amazonaws.com/nodegroup"
DELETE_CLAIM: Final = "DELETE /apis/karpenter.sh/v1/nodeclaims/"
POOL: Final = "karpenter.sh/nodepool"


def first_of_a_hook() -> dict[str, Any]:
    """What an Auto Scaling group sends when a hook is made."""
    return {"Event": "autoscaling:TEST_NOTIFICATION", "AutoScalingGroupName": "workers"}


def lifecycle_action(instance: str) -> dict[str, Any]:
    """What an Auto Scaling group tells the handler about an instance that it ends."""
    return {
        "version": "0",
        "id": "1",
        "detail-type": "EC2 Instance-terminate Lifecycle Action",
        "source": "aws.autoscaling",
        "time": "2030-01-01T00:00:00Z",
        "region": "us-west-2",
        "detail": {
            "LifecycleActionToken": "0befcbdb",
            "AutoScalingGroupName": "workers",
            "LifecycleHookName": "handler",
            "EC2InstanceId": instance,
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
        },
    }


async def node_of_a_group(box: AwsSandbox) -> tuple[str, str]:
    """A machine that a node group has made: its instance, and the name of its node."""
    ec2 = box.account.client("ec2")
    image = ec2.register_image(Name="workers")["ImageId"]
    (made,) = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    node = new_node(1, NodeShape(labels={GROUP: "workers"}))
    node["spec"]["providerID"] = f"aws:///us-west-2a/{made['InstanceId']}"
    await box.run.client.create(node)
    return made["InstanceId"], node["metadata"]["name"]


def objects() -> Iterator[JsonObject]:
    """Two pools, one of which asks to act on recommendations, with a Deployment each."""
    for name in ("calm", "eager"):
        pool = ec2_pool(name=name, consolidateAfter="Never")
        if name == "eager":
            pool["metadata"]["annotations"] = {ACT_ON_REBALANCE: "true"}
        yield pool
        yield deployment(name, 2, cpu="1", nodeSelector={POOL: name})


class Queues:
    """Both queues, fed alike."""

    def __init__(self, box: AwsSandbox) -> None:
        self._box = box
        self._sqs = box.account.client("sqs")
        self._theirs = self._sqs.create_queue(QueueName=THEIRS)["QueueUrl"]
        self._ours = self._sqs.get_queue_url(QueueName=box.account.cluster)["QueueUrl"]

    def send(self, body: str | dict[str, Any]) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        for url in (self._ours, self._theirs):
            self._sqs.send_message(QueueUrl=url, MessageBody=text)

    def announce(self, event: str, instance: str) -> None:
        self.send(announcement(event, instance, self._box.run.clock))

    def left_in_ours(self) -> int:
        """The messages in the controller's queue, in hand or not."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self._sqs.get_queue_attributes(QueueUrl=self._ours, AttributeNames=names)
        return sum(int(each) for each in found["Attributes"].values())

    def read_by_the_handler(self) -> list[str]:
        """Let the handler take everything out of its queue; what there was."""
        found: list[str] = []
        while True:
            answer = self._sqs.receive_message(QueueUrl=self._theirs, MaxNumberOfMessages=10)
            if not answer.get("Messages"):
                return found
            for each in answer["Messages"]:
                found.append(each["Body"])
                self._sqs.delete_message(QueueUrl=self._theirs, ReceiptHandle=each["ReceiptHandle"])


def instances(run: Autoscaler, pool: str) -> dict[str, str]:
    """Instance and claim of the machines of a pool."""
    return {
        claim["status"]["providerID"].rpartition("/")[2]: claim["metadata"]["name"]
        for claim in run.claims
        if claim["metadata"]["labels"][POOL] == pool
    }


def reasons(run: Autoscaler, claim: str) -> list[str]:
    """The reasons of a claim's events."""
    return [
        event["reason"]
        for event in run.objects("", "events")
        if event["involvedObject"]["name"] == claim
    ]


@pytest.mark.case("OPS-49")
@in_virtual_time
async def test_both_queues_get_every_message_and_each_is_handled_once() -> None:
    writes = CrashPoint(at=-1)
    async with aws_sandbox(
        starts=False, wrap=lambda inner: CrashingTransport(inner, writes)
    ) as box:
        run = box.run
        of_group, group_node = await node_of_a_group(box)
        await run.apply(*objects())
        run.start()
        await run.until(lambda: len(run.running) == 4)
        queues = Queues(box)
        ((calm, calm_claim), *_) = instances(run, "calm").items()
        ((eager, eager_claim), *_) = instances(run, "eager").items()

        # rebalance recommendations: an event for the one pool, an interruption for the other
        queues.announce("rebalance", calm)
        queues.announce("rebalance", eager)
        # messages about instances of a group, lifecycle actions included, are for the handler alone
        queues.announce("spot", of_group)
        queues.announce("rebalance", of_group)
        queues.send(lifecycle_action(of_group))
        queues.send(first_of_a_hook())
        await run.until(lambda: eager not in instances(run, "eager"))
        await run.until(lambda: len(run.running) == 4)
        assert calm in instances(run, "calm")
        assert "SpotRebalanceRecommendation" in reasons(run, calm_claim)

        # a duplicate message: SQS delivers at least once
        queues.announce("spot", calm)
        queues.announce("spot", calm)
        await run.until(lambda: calm not in instances(run, "calm"))
        await run.until(lambda: len(run.running) == 4)
        await run.until(lambda: queues.left_in_ours() == 0)

        assert 8 == len(queues.read_by_the_handler())
        assert [] == queues.read_by_the_handler()
        deleted = [w.rpartition("/")[2] for w in writes.writes if w.startswith(DELETE_CLAIM)]
        assert sorted([calm_claim, eager_claim]) == sorted(deleted)
        assert "SpotInterrupted" in reasons(run, calm_claim)
        (kept,) = [node for node in run.nodes if node["metadata"]["name"] == group_node]
        assert not kept["spec"].get("taints")
        assert not kept["spec"].get("unschedulable")
        assert of_group in box.machines
        assert len(run.claims) + 1 == len(box.machines) == len(run.nodes)
