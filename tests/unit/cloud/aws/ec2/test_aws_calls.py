"""Calls to AWS: errors by class, retries on the clock, one token per call, refusals at the start."""

import random
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

import pytest

from helpers.aws_fakes import ENVIRONMENT, FakeAws, moto_cloud
from helpers.clusters import in_virtual_time
from karpenter.clock import SystemClock, running_clock
from karpenter.cloud.aws.ec2 import calls as calls_module
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.ec2.calls import ATTEMPTS, check_connection, open_calls
from karpenter.cloud.aws.ec2.errors import (
    AwsAlreadyExistsError,
    AwsCapacityError,
    AwsCredentialsError,
    AwsDryRunPassed,
    AwsError,
    AwsNotFoundError,
    AwsServerError,
    AwsThrottledError,
    AwsUnauthorizedError,
    error_of,
)
from karpenter.cloud.provider import CloudError
from karpenter.cloud.registry import ProviderError


def on_moto(
    test: Callable[[FakeAws], Awaitable[None]],
) -> Callable[[], None]:
    """Run a test with an account, in virtual time."""

    @in_virtual_time
    async def run() -> None:
        with moto_cloud(running_clock()) as aws:
            await test(aws)

    run.__doc__ = test.__doc__
    return run


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InvalidInstanceID.NotFound", 400, AwsNotFoundError),
        ("ParameterNotFound", 400, AwsNotFoundError),
        ("AWS.SimpleQueueService.NonExistentQueue", 400, AwsNotFoundError),
        ("EntityAlreadyExists", 409, AwsAlreadyExistsError),
        ("InsufficientInstanceCapacity", 500, AwsCapacityError),
        ("UnauthorizedOperation", 403, AwsUnauthorizedError),
        ("ExpiredToken", 403, AwsCredentialsError),
        ("RequestLimitExceeded", 503, AwsThrottledError),
        ("InternalError", 500, AwsServerError),
        ("Strange", 502, AwsServerError),
        ("DryRunOperation", 412, AwsDryRunPassed),
        ("Strange", 400, AwsError),
    ],
)
def test_errors_have_a_class(code: str, status: int, kind: type[AwsError]) -> None:
    error = error_of(code, "so it is", "DescribeThings", status, service="ec2")

    assert kind is type(error)
    assert isinstance(error, CloudError)
    assert f"ec2 DescribeThings: {code}: so it is" == str(error)


@on_moto
async def test_what_may_work_later_is_tried_again_on_the_clock(aws: FakeAws) -> None:
    aws.fail("ec2", "DescribeSubnets", "RequestLimitExceeded", status=503, times=3)
    began = running_clock().monotonic()
    answer = await aws.call("ec2", "DescribeSubnets")

    assert answer["Subnets"]
    assert 1.75 <= running_clock().monotonic() - began <= 5.0
    assert [(4, "200")] == [(made.attempts, made.code) for made in aws.made]


@on_moto
async def test_in_the_end_the_error_is_handed_on(aws: FakeAws) -> None:
    aws.fail("ec2", "DescribeSubnets", "InternalError", status=500, times=9)

    with pytest.raises(AwsServerError):
        await aws.call("ec2", "DescribeSubnets")
    assert [(ATTEMPTS, "InternalError")] == [(made.attempts, made.code) for made in aws.made]


@on_moto
async def test_what_cannot_work_later_is_not_tried_again(aws: FakeAws) -> None:
    aws.fail("ec2", "DescribeSubnets", "UnauthorizedOperation", status=403)

    with pytest.raises(AwsUnauthorizedError):
        await aws.call("ec2", "DescribeSubnets")
    assert [1] == [made.attempts for made in aws.made]


@on_moto
async def test_retries_can_be_turned_off(aws: FakeAws) -> None:
    aws.fail("ec2", "DescribeSubnets", "RequestLimitExceeded", status=503)

    with pytest.raises(AwsThrottledError):
        await aws.call("ec2", "DescribeSubnets", retries=False)
    assert [1] == [made.attempts for made in aws.made]


@on_moto
async def test_after_a_complaint_calls_are_spaced_out(aws: FakeAws) -> None:
    clock = running_clock()
    aws.fail("ec2", "DescribeSubnets", "RequestLimitExceeded", status=503)
    await aws.call("ec2", "DescribeSubnets")
    began = clock.monotonic()
    for _ in range(20):
        await aws.call("ec2", "DescribeSubnets")
    slow = clock.monotonic() - began
    await clock.sleep(120.0)
    began = clock.monotonic()
    for _ in range(20):
        await aws.call("ec2", "DescribeSubnets")

    assert 0.5 <= slow <= 1.5
    assert began == clock.monotonic()


@on_moto
async def test_all_attempts_of_a_call_carry_the_same_token(aws: FakeAws) -> None:
    tokens = []

    def fleet(parameters: Any) -> dict[str, Any]:
        tokens.append(parameters["ClientToken"])
        if len(tokens) < 3:
            raise error_of("InternalError", "lost", "CreateFleet", 500)
        return {"Instances": []}

    aws.fakes["ec2", "CreateFleet"] = fleet
    request: dict[str, Any] = {
        "LaunchTemplateConfigs": [],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1},
    }
    await aws.call("ec2", "CreateFleet", **request)
    await aws.call("ec2", "CreateFleet", **request)

    assert 4 == len(tokens)
    assert 1 == len(set(tokens[:3]))
    assert 2 == len(set(tokens))


@on_moto
async def test_a_token_that_is_given_is_kept(aws: FakeAws) -> None:
    aws.fakes["ec2", "CreateFleet"] = lambda parameters: {"token": parameters["ClientToken"]}
    answer = await aws.call(
        "ec2",
        "CreateFleet",
        ClientToken="mine",
        LaunchTemplateConfigs=[],
        TargetCapacitySpecification={"TotalTargetCapacity": 1},
    )

    assert {"token": "mine"} == answer


@on_moto
async def test_moto_answers_are_errors_by_class_too(aws: FakeAws) -> None:
    with pytest.raises(AwsNotFoundError, match="GetParameter: ParameterNotFound"):
        await aws.call("ssm", "GetParameter", Name="/no/such")


@on_moto
async def test_a_malformed_call_is_one_sentence(aws: FakeAws) -> None:
    del aws.fakes["ec2", "DescribeInstanceTypes"]
    with patch("helpers.aws_fakes._validate"), pytest.raises(AwsError) as refused:
        await aws.call("ec2", "DescribeInstanceTypes", InstanceTypes="m5.large")

    assert "ParamValidation" == refused.value.code
    assert "\n" not in str(refused.value)


@on_moto
async def test_a_good_connection_is_found_good(aws: FakeAws) -> None:
    await check_connection(aws)

    assert ["DryRunOperation"] == [made.code for made in aws.made]


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        pytest.param("AuthFailure", "AWS does not accept these credentials", id="credentials"),
        pytest.param("UnauthorizedOperation", "check the IAM policy", id="permissions"),
    ],
)
def test_a_bad_connection_is_one_sentence(code: str, sentence: str) -> None:
    @on_moto
    async def run(aws: FakeAws) -> None:
        aws.fail("ec2", "DescribeInstanceTypes", code)
        with pytest.raises(ProviderError, match=sentence):
            await check_connection(aws)

    run()


def opened(environment: dict[str, str]) -> None:
    open_calls(environment, SystemClock(), random.Random(1))


def test_a_region_is_needed() -> None:
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/nonexistent"}
    with (
        patch.dict("os.environ", nowhere, clear=True),
        patch.object(calls_module, "_region_of_this_machine", return_value=None),
        pytest.raises(ProviderError, match="no AWS region is set; set AWS_REGION"),
    ):
        opened({})


def test_the_region_must_exist() -> None:
    with (
        patch.dict("os.environ", ENVIRONMENT),
        pytest.raises(ProviderError, match="AWS_REGION: us-wset-2 is not a region"),
    ):
        opened({"AWS_REGION": "us-wset-2"})


def test_credentials_are_needed() -> None:
    nobody = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    }
    with (
        patch.dict("os.environ", nobody, clear=True),
        pytest.raises(ProviderError, match="no AWS credentials were found; give this pod a role"),
    ):
        opened({"AWS_REGION": "us-west-2"})


def test_boto3_is_needed() -> None:
    with (
        patch.dict("sys.modules", {"boto3": None}),
        pytest.raises(ProviderError, match=r"needs boto3; install it with: pip install"),
    ):
        opened({})


@in_virtual_time
async def test_a_cache_forgets_in_time() -> None:
    clock = running_clock()
    cache: TtlCache[str, int] = TtlCache(clock, 60.0)
    cache.put("a", 1)
    cache.put("b", 2, seconds=10.0)
    await clock.sleep(59.0)
    before = dict(cache.items())
    await clock.sleep(1.0)

    assert {"a": 1} == before
    assert cache.get("a") is None
    assert "a" not in cache
    cache.put("c", 3)
    assert {"c": 3} == dict(cache.items())
