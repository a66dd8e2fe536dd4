"""What AWS announces makes nodes go in good order; what it says twice or wrongly does no harm."""

import json
import re
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.nodes import Node
from karpenter.cloud.aws.interruption.claims import ClaimDeletions
from karpenter.cloud.aws.interruption.queue import ACT_ON_REBALANCE
from karpenter.cloud.aws.simulated.simulated_aws import NoSuchInstanceError, announcement
from karpenter.cloud.aws.types.unavailable import Place
from karpenter.decision_log.log import Say
from karpenter.kube.errors import ConnectionLostError, NotFoundError
from karpenter.model import labels
from karpenter.model.conditions import moment_of, timestamp
from unit.cloud.aws.aws_bed import POOL, AwsCloud, aws_cloud
from unit.cloud.aws.interruption.test_aws_messages import ec2, health, state


def instance_id(claim: NodeClaim) -> str:
    return claim.status.provider_id.rpartition("/")[2]


def about(text: str, *claims: NodeClaim) -> str:
    """A message about real instances, put in all at once: a real id may look like a stand-in."""
    real = {f"i-{number}": instance_id(claim) for number, claim in enumerate(claims, start=1)}
    return re.sub(r"i-\d\b", lambda found: real[found[0]], text)


async def is_going(cloud: AwsCloud, name: str) -> bool:
    try:
        claim = await cloud.kube.get(NodeClaim, name)
    except NotFoundError:
        return True
    return claim.metadata.deletion_timestamp is not None


def waiting(cloud: AwsCloud) -> int:
    """The messages that are in the queue, in hand or not."""
    sqs = cloud.account.client("sqs")
    url = sqs.get_queue_url(QueueName=cloud.account.cluster)["QueueUrl"]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(each) for each in found.values())


def received(cloud: AwsCloud, kind: str) -> float:
    metrics = cloud.provider.parts.base.metrics
    return float(metrics.received_messages.labels(kind)._value.get())


def deleted(cloud: AwsCloud) -> float:
    return float(cloud.provider.parts.base.metrics.deleted_messages._value.get())


@pytest.mark.case("AWS-120")
@pytest.mark.row("S2-30", "S2-86", "S2-02")
@in_virtual_time
async def test_a_spot_warning_makes_the_claim_go() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.send(announcement("spot", instance_id(claim), cloud.clock))
        await cloud.clock.sleep(5)

        assert await is_going(cloud, "one")
        assert (0, 1.0, 1.0) == (
            waiting(cloud),
            received(cloud, "spot_interrupted"),
            deleted(cloud),
        )
        held = claim.metadata.labels
        place = Place(held[labels.INSTANCE_TYPE], held[labels.ZONE], "spot")
        assert cloud.provider.parts.unavailable.is_unavailable(place)
        told = await cloud.events()
        assert ("SpotInterrupted", "NodeClaim") in told
        assert ("TerminatingOnInterruption", "NodeClaim") in told


@pytest.mark.parametrize(
    ("text", "type_", "reason", "words"),
    [
        pytest.param(
            ec2("EC2 Spot Instance Interruption Warning"),
            "Warning",
            "SpotInterrupted",
            "Spot interruption warning was triggered",
            id="spot",
        ),
        pytest.param(
            ec2("EC2 Instance Rebalance Recommendation"),
            "Normal",
            "SpotRebalanceRecommendation",
            "Spot rebalance recommendation was triggered",
            id="rebalance",
        ),
        pytest.param(
            state("stopping"), "Warning", "InstanceStopping", "Instance is stopping", id="stopping"
        ),
        pytest.param(
            state("terminated"),
            "Warning",
            "InstanceTerminating",
            "Instance is terminating",
            id="terminating",
        ),
        pytest.param(
            health("EC2", "scheduledChange", "i-1"),
            "Warning",
            "InstanceUnhealthy",
            "An unhealthy warning was triggered for the instance: AWS has announced a change to it",
            id="scheduled change",
        ),
    ],
)
@in_virtual_time
async def test_users_read_what_they_know_on_the_claim_and_on_a_node_of_the_same_name(
    text: str, type_: str, reason: str, words: str
) -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        body = {"metadata": {"name": "one"}, "spec": {"providerID": claim.status.provider_id}}
        await cloud.kube.create(Node, body)
        await cloud.clock.sleep(1)
        cloud.account.send(about(text, claim))
        await cloud.clock.sleep(5)

        assert [(kind, type_, reason, words) for kind in ("Node", "NodeClaim")] == (
            await cloud.told(reason)
        )
        goes = "TerminatingOnInterruption"
        said = "Interruption triggered termination for the"
        ends = [(kind, "Warning", goes, f"{said} {kind}") for kind in ("Node", "NodeClaim")]
        assert (ends if type_ == "Warning" else []) == await cloud.told(goes)


@pytest.mark.row("S2-86")
@pytest.mark.parametrize(
    ("text", "event"),
    [
        pytest.param(state("stopping"), "InstanceStopping", id="stopping"),
        pytest.param(state("terminated"), "InstanceTerminating", id="terminating"),
        pytest.param(
            health("EC2", "scheduledChange", "i-1"), "InstanceUnhealthy", id="scheduled change"
        ),
        pytest.param(
            ec2("EC2 Capacity Reservation Instance Interruption Warning"),
            "CapacityReservationInstanceInterrupted",
            id="AWS-129 capacity reservation",
        ),
    ],
)
@in_virtual_time
async def test_each_kind_of_announcement(text: str, event: str) -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.send(about(text, claim))
        await cloud.clock.sleep(5)

        assert await is_going(cloud, "one")
        assert (event, "NodeClaim") in await cloud.events()
        assert 0 == waiting(cloud)


@pytest.mark.case("AWS-122")
@in_virtual_time
async def test_a_health_event_about_two_instances_makes_both_claims_go() -> None:
    async with aws_cloud() as cloud:
        claims = [await cloud.launch(await cloud.claim(name)) for name in ("one", "two")]
        cloud.account.send(about(health("EC2", "scheduledChange", "i-1", "i-2"), *claims))
        await cloud.clock.sleep(5)

        assert [True, True] == [await is_going(cloud, name) for name in ("one", "two")]


@pytest.mark.case("AWS-121")
@pytest.mark.row("S2-89")
@in_virtual_time
async def test_a_rebalance_recommendation_is_told_and_nothing_more() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.send(about(ec2("EC2 Instance Rebalance Recommendation"), claim))
        await cloud.clock.sleep(5)

        assert not await is_going(cloud, "one")
        assert ("SpotRebalanceRecommendation", "NodeClaim") in await cloud.events()
        assert 0 == waiting(cloud)


@in_virtual_time
async def test_a_pool_can_ask_to_act_on_rebalance_recommendations() -> None:
    async with aws_cloud() as cloud:
        body = {"metadata": {"annotations": {ACT_ON_REBALANCE: "true"}}}
        await cloud.kube.patch(NodePool, POOL, body)
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.send(about(ec2("EC2 Instance Rebalance Recommendation"), claim))
        await cloud.clock.sleep(5)

        assert await is_going(cloud, "one")


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        pytest.param(state("running"), 1.0, id="AWS-123 a state that is no news"),
        pytest.param("nonsense", 0.0, id="AWS-124 no message at all"),
        pytest.param(json.dumps({"version": "0", "source": "x"}), 1.0, id="something unknown"),
    ],
)
@in_virtual_time
async def test_messages_that_mean_nothing_are_deleted(text: str, counted: float) -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.send(about(text, claim))
        await cloud.clock.sleep(5)

        assert not await is_going(cloud, "one")
        assert (0, counted) == (waiting(cloud), received(cloud, "no_op"))


@pytest.mark.case("AWS-126")
@in_virtual_time
async def test_an_instance_nobody_knows_is_no_obstacle() -> None:
    async with aws_cloud() as cloud:
        cloud.account.send(announcement("spot", "i-0123456789abcdef0", cloud.clock))
        await cloud.clock.sleep(5)

        assert 0 == waiting(cloud)


@in_virtual_time
async def test_a_message_that_cannot_be_deleted_is_acted_on_and_stays() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.faults.fail("DeleteMessage", "InternalError", status=500, times=5)
        cloud.account.send(announcement("spot", instance_id(claim), cloud.clock))
        await cloud.clock.sleep(4)

        assert await is_going(cloud, "one")
        assert 1 == waiting(cloud)


@in_virtual_time
async def test_the_same_message_twice_makes_a_claim_go_once() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        for _ in range(3):
            cloud.account.send(announcement("spot", instance_id(claim), cloud.clock))
        await cloud.clock.sleep(5)

        assert (0, 3.0) == (waiting(cloud), received(cloud, "spot_interrupted"))
        told = await cloud.events()
        assert 1 == told.count(("TerminatingOnInterruption", "NodeClaim"))


@pytest.mark.case("AWS-132")
@pytest.mark.row("S2-87")
@in_virtual_time
async def test_without_a_queue_nothing_asks_for_messages() -> None:
    async with aws_cloud() as cloud:
        await cloud.crash()
        cloud.world.environment = {**cloud.world.environment, "INTERRUPTION_QUEUE": ""}
        cloud.make()
        cloud.calls.clear()
        cloud.lead()
        await cloud.clock.sleep(130)

        assert "sqs" not in {made.service for made in cloud.calls}
        assert 3 <= cloud.count("DescribeInstanceStatus")


@in_virtual_time
async def test_a_queue_that_does_not_exist_is_told_and_waited_for() -> None:
    async with aws_cloud() as cloud:
        await cloud.crash()
        cloud.world.environment = {**cloud.world.environment, "INTERRUPTION_QUEUE": "nowhere"}
        cloud.make()
        cloud.lead()
        await cloud.clock.sleep(60)
        cloud.account.client("sqs").create_queue(QueueName="nowhere")
        before = cloud.count("ReceiveMessage")
        await cloud.clock.sleep(120)

        assert before < cloud.count("ReceiveMessage")


def failing(check: str, claim: NodeClaim, since: Any) -> dict[str, Any]:
    detail = {"Name": "reachability", "Status": "failed", "ImpairedSince": since}
    return {
        "InstanceId": instance_id(claim),
        check: {"Status": "impaired", "Details": [detail]},
    }


@pytest.mark.case("AWS-127")
@pytest.mark.parametrize("check", ["SystemStatus", "InstanceStatus"])
@in_virtual_time
async def test_an_instance_that_fails_its_check_for_two_minutes_goes_at_once(
    check: str,
) -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        poller_moment = 60 - cloud.clock.now().timestamp() % 60
        await cloud.clock.sleep(poller_moment)
        since = cloud.clock.now() - timedelta(seconds=1)
        cloud.account.gaps.statuses.append(failing(check, claim, since))

        await cloud.clock.sleep(110)
        assert not await is_going(cloud, "one")
        await cloud.clock.sleep(80)
        assert await is_going(cloud, "one")
        stored = await cloud.kube.get(NodeClaim, "one")
        assert labels.TERMINATION_TIMESTAMP in stored.metadata.annotations


@pytest.mark.case("AWS-128")
@in_virtual_time
async def test_a_scheduled_event_makes_a_node_go_in_good_order() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        event = {"Code": "instance-retirement", "Description": "The instance is degraded"}
        cloud.account.gaps.statuses.append({"InstanceId": instance_id(claim), "Events": [event]})
        await cloud.clock.sleep(65)

        assert await is_going(cloud, "one")
        stored = await cloud.kube.get(NodeClaim, "one")
        assert labels.TERMINATION_TIMESTAMP not in stored.metadata.annotations


RETIREMENT = {"Code": "instance-retirement", "Description": "The instance is degraded"}


def an_hour_ago(cloud: AwsCloud) -> Any:
    return cloud.clock.now() - timedelta(hours=1)


async def deadline(cloud: AwsCloud, name: str = "one") -> Any:
    stored = await cloud.kube.get(NodeClaim, name)
    return moment_of(stored.metadata.annotations.get(labels.TERMINATION_TIMESTAMP, ""))


@pytest.mark.parametrize("check", ["SystemStatus", "InstanceStatus"])
@in_virtual_time
async def test_a_check_that_fails_beside_a_scheduled_event_is_no_less_urgent(check: str) -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        status = failing(check, claim, an_hour_ago(cloud)) | {"Events": [RETIREMENT]}
        cloud.account.gaps.statuses.append(status)
        await cloud.clock.sleep(65)

        assert await is_going(cloud, "one")
        assert await deadline(cloud) <= cloud.clock.now()


@in_virtual_time
async def test_what_is_said_of_an_instance_in_several_answers_counts_together() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.gaps.statuses += [
            failing("SystemStatus", claim, an_hour_ago(cloud)),
            {"InstanceId": instance_id(claim), "Events": [RETIREMENT]},
        ]
        await cloud.clock.sleep(65)

        assert await deadline(cloud) <= cloud.clock.now()


@in_virtual_time
async def test_a_host_that_dies_while_its_node_drains_for_an_event_is_waited_for_no_longer() -> (
    None
):
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.gaps.statuses.append(
            {"InstanceId": instance_id(claim), "Events": [RETIREMENT]}
        )
        await cloud.clock.sleep(65)
        assert await is_going(cloud, "one")
        assert await deadline(cloud) is None
        cloud.account.gaps.statuses.append(failing("SystemStatus", claim, an_hour_ago(cloud)))
        await cloud.clock.sleep(65)

        assert await deadline(cloud) <= cloud.clock.now()
        counted = cloud.provider.parts.base.metrics.unhealthy
        assert [1.0, 1.0] == [
            counted.labels(category)._value.get() for category in ("SystemStatus", "EventStatus")
        ]


@in_virtual_time
async def test_a_host_that_dies_while_its_node_drains_for_any_reason_is_waited_for_no_longer() -> (
    None
):
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        await cloud.kube.delete(NodeClaim, "one")
        await cloud.clock.sleep(5)
        cloud.account.gaps.statuses.append(failing("InstanceStatus", claim, an_hour_ago(cloud)))
        await cloud.clock.sleep(65)

        assert await deadline(cloud) <= cloud.clock.now()
        first = await deadline(cloud)
        await cloud.clock.sleep(300)
        assert first == await deadline(cloud)


@pytest.mark.parametrize("hours", [1, -1])
@in_virtual_time
async def test_a_deadline_ahead_is_brought_forward_and_one_that_has_passed_stands(
    hours: int,
) -> None:
    async with aws_cloud() as cloud:
        before = timestamp(cloud.clock.now() + timedelta(hours=hours))
        written = {labels.TERMINATION_TIMESTAMP: str(before)}
        claim = await cloud.launch(await cloud.claim("one", annotations=written))
        cloud.account.gaps.statuses.append(failing("SystemStatus", claim, an_hour_ago(cloud)))
        await cloud.clock.sleep(65)

        found = await deadline(cloud)
        assert found <= cloud.clock.now()
        assert (hours < 0) == (found == moment_of(str(before)))


@in_virtual_time
async def test_a_claim_that_cannot_be_reached_does_not_keep_the_next_one() -> None:
    async with aws_cloud() as cloud:
        claims = [await cloud.launch(await cloud.claim(name)) for name in ("one", "two")]
        first, second = sorted(claims, key=instance_id)
        remove = cloud.provider.parts.claim_deletions.remove

        async def refuse_first(claim: NodeClaim, kind: str, *, forceful: bool = False) -> None:
            if claim.metadata.name == first.metadata.name:
                raise ConnectionLostError("the API server cannot be reached")
            await remove(claim, kind, forceful=forceful)

        with patch.object(ClaimDeletions, "remove", side_effect=refuse_first):
            for claim in (first, second):
                cloud.account.gaps.statuses.append(
                    failing("SystemStatus", claim, an_hour_ago(cloud))
                )
            await cloud.clock.sleep(65)

        assert not await is_going(cloud, first.metadata.name)
        assert await is_going(cloud, second.metadata.name)
        await cloud.clock.sleep(65)
        assert await is_going(cloud, first.metadata.name)


@in_virtual_time
async def test_an_event_that_is_over_is_no_reason_to_go() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        event = {"Code": "system-reboot", "Description": "[Completed] The system was rebooted"}
        cloud.account.gaps.statuses.append({"InstanceId": instance_id(claim), "Events": [event]})
        await cloud.clock.sleep(65)

        assert not await is_going(cloud, "one")


@in_virtual_time
async def test_a_poller_that_may_not_look_stops() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.fail("DescribeInstanceStatus", "UnauthorizedOperation")
        await cloud.clock.sleep(70)
        before = cloud.count("DescribeInstanceStatus")
        await cloud.clock.sleep(300)

        assert before == cloud.count("DescribeInstanceStatus")


@in_virtual_time
async def test_the_sandbox_interrupts_a_node_by_its_name() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        for name, provider_id in (("real", claim.status.provider_id), ("odd", "kwok://odd")):
            body = {"metadata": {"name": name}, "spec": {"providerID": provider_id}}
            await cloud.kube.create(Node, body)
        await cloud.world.interrupt("real")
        await cloud.clock.sleep(5)

        assert await is_going(cloud, "one")
        assert ("SpotInterrupted", "Node") in await cloud.events()
        with pytest.raises(NoSuchInstanceError):
            await cloud.world.interrupt("odd")


DEEP = json.dumps({"version": "0"})[:-1] + ',"detail":' + '{"a":' * 2000 + "1" + "}" * 2001


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(DEEP, id="nested 2,000 deep"),
        pytest.param("[" * 100_000, id="nested 100,000 deep"),
        pytest.param("\u0000\u2028", id="odd characters"),
        pytest.param('{"version":"0","time":"9999-12-31T23:59:59-14:00"}', id="the end of time"),
        pytest.param('{"version":"0","time":"0000-01-01T00:00:00Z"}', id="the year 0"),
    ],
)
@in_virtual_time
async def test_a_message_made_to_do_harm_is_deleted_and_the_others_are_acted_on(text: str) -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.send(text)
        cloud.account.send(about(ec2("EC2 Spot Instance Interruption Warning"), claim))
        await cloud.clock.sleep(5)

        assert await is_going(cloud, "one")
        assert 0 == waiting(cloud)


@in_virtual_time
async def test_a_message_that_nobody_foresaw_is_counted_logged_once_and_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with aws_cloud() as cloud:
        one = await cloud.launch(await cloud.claim("one"))
        two = await cloud.launch(await cloud.claim("two"))
        claim_deletions = cloud.provider.parts.claim_deletions
        announce = claim_deletions.announce

        def raising(claim: NodeClaim, kind: str, say: Say) -> None:
            if claim.metadata.name == "one":
                raise KeyError(kind)
            announce(claim, kind, say)

        monkeypatch.setattr(claim_deletions, "announce", raising)
        with capture_logs() as lines:
            for claim in (one, two):
                cloud.account.send(about(ec2("EC2 Spot Instance Interruption Warning"), claim))
            await cloud.clock.sleep(60)

        assert await is_going(cloud, "two")
        assert not await is_going(cloud, "one")
        assert 0 == waiting(cloud)
        failed = cloud.provider.parts.base.metrics.failed_messages._value.get()
        told = [x for x in lines if x["event"] == "interruption message not understood"]
        assert (1.0, 1) == (failed, len(told))
        assert "KeyError" in told[0]["error"]
