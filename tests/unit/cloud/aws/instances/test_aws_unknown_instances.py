"""One instance EC2 does not know, or will not end, does not spoil a call for hundreds of others."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.aws_fakes import CLUSTER, FakeAws, moto_cloud
from helpers.clusters import in_virtual_time
from karpenter.api.node_classes import ec2_labels
from karpenter.clock import running_clock
from karpenter.cloud.aws.ec2.errors import AwsError, AwsThrottledError, error_of
from karpenter.cloud.aws.ec2.tags import tag_list
from karpenter.cloud.aws.instances.instances import Instances
from karpenter.cloud.provider import InstanceNotFoundError
from karpenter.model import labels

TAGS = tag_list(
    {
        f"kubernetes.io/cluster/{CLUSTER}": "owned",
        ec2_labels.EKS_CLUSTER_NAME_TAG: CLUSTER,
        labels.NODEPOOL: "general",
        ec2_labels.NODE_CLASS: "default",
    }
)
Refusal = Callable[[Sequence[str], str], AwsError]  # of some instances, in an operation


def ids(count: int) -> list[str]:
    return [f"i-{number:017x}" for number in range(count)]


def as_ec2_says(unknown: Sequence[str], operation: str) -> AwsError:
    listed = ", ".join(unknown)
    text = (
        f"The instance IDs '{listed}' do not exist"
        if len(unknown) > 1
        else f"The instance ID '{listed}' does not exist"
    )
    return error_of("InvalidInstanceID.NotFound", text, operation, 400, service="ec2")


def one_at_a_time(unknown: Sequence[str], operation: str) -> AwsError:
    return as_ec2_says(unknown[:1], operation)


def without_names(unknown: Sequence[str], operation: str) -> AwsError:
    text = "some of them do not exist"
    return error_of("InvalidInstanceID.NotFound", text, operation, 400, service="ec2")


def malformed(unknown: Sequence[str], operation: str) -> AwsError:
    text = f'Invalid id: "{unknown[0]}" (expecting "i-...")'
    return error_of("InvalidInstanceID.Malformed", text, operation, 400, service="ec2")


def protected(refused: Sequence[str], operation: str) -> AwsError:
    text = (
        f"The instance '{refused[0]}' may not be terminated. Modify its 'disableApiTermination'"
        " instance attribute and try again."
    )
    return error_of("OperationNotPermitted", text, operation, 400, service="ec2")


class Ec2:
    """Instances, and how EC2 speaks of those it does not know or will not end."""

    def __init__(self, aws: FakeAws, known: Sequence[str], refuse: Refusal) -> None:
        self.alive = set(known)
        self.kept: set[str] = set()  # described like the others, and never ended
        self._refuse = refuse
        aws.fakes["ec2", "DescribeInstances"] = self._describe
        aws.fakes["ec2", "TerminateInstances"] = self._terminate

    def _describe(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = parameters["InstanceIds"]
        unknown = [each for each in asked if each not in self.alive]
        if unknown:
            raise self._refuse(unknown, "DescribeInstances")
        entries = [
            {"InstanceId": each, "State": {"Name": "running"}, "Tags": TAGS} for each in asked
        ]
        return {"Reservations": [{"Instances": entries}]}

    def _terminate(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = parameters["InstanceIds"]
        refused = [each for each in asked if each not in self.alive or each in self.kept]
        if refused:
            raise self._refuse(refused, "TerminateInstances")
        self.alive -= set(asked)
        return {
            "TerminatingInstances": [
                {"InstanceId": each, "CurrentState": {"Name": "shutting-down"}} for each in asked
            ]
        }


def instances_of(aws: FakeAws) -> Instances:
    return Instances(aws, running_clock(), CLUSTER, chooses_reservations=False)


async def end_all(instances: Instances, wanted: Sequence[str]) -> list[BaseException | None]:
    return await asyncio.gather(
        *(instances.terminate(each) for each in wanted), return_exceptions=True
    )


@in_virtual_time
async def test_500_deletions_with_one_unknown_instance_need_few_calls_and_no_time() -> None:
    clock = running_clock()
    with moto_cloud(clock) as aws:
        wanted = ids(500)
        ec2 = Ec2(aws, wanted[:200] + wanted[201:], as_ec2_says)
        began = clock.monotonic()
        results = await end_all(instances_of(aws), wanted)

        assert [wanted[200]] == [
            each
            for each, result in zip(wanted, results, strict=True)
            if isinstance(result, InstanceNotFoundError)
        ]
        assert 499 == results.count(None)
        assert set() == ec2.alive
        assert (2, 1) == (aws.count("DescribeInstances"), aws.count("TerminateInstances"))
        assert clock.monotonic() - began <= 1.0  # two windows, and nothing is retried


@in_virtual_time
async def test_an_instance_that_vanished_between_two_calls_spoils_nothing() -> None:
    with moto_cloud(running_clock()) as aws:
        wanted = ids(100)
        ec2 = Ec2(aws, wanted, as_ec2_says)
        described = aws.fakes["ec2", "DescribeInstances"]

        def describe_and_vanish(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
            answer = described(parameters)
            ec2.alive -= set(wanted[:3])
            return answer

        aws.fakes["ec2", "DescribeInstances"] = describe_and_vanish
        results = await end_all(instances_of(aws), wanted)

        assert [True] * 3 == [isinstance(each, InstanceNotFoundError) for each in results[:3]]
        assert [None] * 97 == results[3:]
        assert 2 == aws.count("TerminateInstances")


@pytest.mark.parametrize("refuse", [without_names, one_at_a_time, malformed])
def test_however_ec2_puts_it(refuse: Refusal) -> None:
    @in_virtual_time
    async def run() -> None:
        with moto_cloud(running_clock()) as aws:
            wanted = ids(256)
            Ec2(aws, [each for each in wanted if each not in wanted[7:9]], refuse)
            results = await end_all(instances_of(aws), wanted)

            unknown = [isinstance(each, InstanceNotFoundError) for each in results]
            assert [7, 8] == [place for place, each in enumerate(unknown) if each]
            assert 254 == results.count(None)
            assert 40 >= aws.count("DescribeInstances") + aws.count("TerminateInstances")

    run()


@in_virtual_time
async def test_an_instance_protected_from_termination_keeps_its_error_for_itself() -> None:
    with moto_cloud(running_clock()) as aws:
        wanted = ids(50)
        ec2 = Ec2(aws, wanted, protected)
        ec2.kept = {wanted[3], wanted[4]}
        results = await end_all(instances_of(aws), wanted)

        assert ec2.alive == {wanted[3], wanted[4]}
        assert ["OperationNotPermitted"] * 2 == [
            each.code for each in results if isinstance(each, AwsError)
        ]
        assert 48 == results.count(None)


@pytest.mark.parametrize(
    ("code", "status", "most"),
    [("RequestLimitExceeded", 503, 5), ("UnauthorizedOperation", 403, 1)],
)
def test_what_is_refused_for_all_is_not_asked_for_each(code: str, status: int, most: int) -> None:
    @in_virtual_time
    async def run() -> None:
        with moto_cloud(running_clock()) as aws:
            wanted = ids(500)
            Ec2(aws, wanted, as_ec2_says)
            aws.fail("ec2", "TerminateInstances", code, status=status, times=10_000)
            results = await end_all(instances_of(aws), wanted)

            assert {code} == {each.code for each in results if isinstance(each, AwsError)}
            attempts = [m.attempts for m in aws.made if m.operation == "TerminateInstances"]
            assert most == sum(attempts)

    run()


@in_virtual_time
async def test_what_an_answer_leaves_out_is_asked_for_once_more_together() -> None:
    with moto_cloud(running_clock()) as aws:
        wanted = ids(100)
        Ec2(aws, wanted, as_ec2_says)
        described = aws.fakes["ec2", "DescribeInstances"]
        ended = set(wanted[:30])

        def in_part(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
            asked = parameters["InstanceIds"]
            lost = ended | (set(wanted[30:40]) if len(asked) == 100 else set())
            return described({"InstanceIds": [each for each in asked if each not in lost]})

        aws.fakes["ec2", "DescribeInstances"] = in_part
        instances = instances_of(aws)
        results = await asyncio.gather(
            *(instances.get(each, cached=False) for each in wanted), return_exceptions=True
        )

        assert ended == {
            each
            for each, result in zip(wanted, results, strict=True)
            if isinstance(result, InstanceNotFoundError)
        }
        assert 2 == aws.count("DescribeInstances")


@in_virtual_time
async def test_a_busy_ec2_says_nothing_about_instances() -> None:
    with moto_cloud(running_clock()) as aws:
        Ec2(aws, ids(2), as_ec2_says)
        aws.fail("ec2", "DescribeInstances", "RequestLimitExceeded", status=503, times=100)

        with pytest.raises(AwsThrottledError):
            await instances_of(aws).get(ids(1)[0])


@given(
    st.integers(1, 40),
    st.sets(st.integers(0, 39)),
    st.sampled_from([as_ec2_says, one_at_a_time, without_names, malformed]),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_exactly_what_is_there_is_ended(count: int, missing: set[int], refuse: Refusal) -> None:
    @in_virtual_time
    async def run() -> None:
        with moto_cloud(running_clock()) as aws:
            wanted = ids(count)
            there = [each for place, each in enumerate(wanted) if place not in missing]
            ec2 = Ec2(aws, there, refuse)
            results = await end_all(instances_of(aws), wanted)

            assert set() == ec2.alive
            assert there == [
                each for each, result in zip(wanted, results, strict=True) if result is None
            ]

    run()
