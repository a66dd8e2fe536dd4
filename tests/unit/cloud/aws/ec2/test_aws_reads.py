"""A program that only looks sends no call to AWS but reads."""

import importlib
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodePool
from karpenter.clock import SystemClock
from karpenter.cloud.aws.ec2.calls import AwsCalls, CompletedCall
from karpenter.cloud.aws.ec2.reads import AwsReadOnlyError, is_read, refuse_writes
from karpenter.cloud.registry import ProviderContext
from unit.cloud.aws.aws_bed import POOL, aws_cloud

POLICIES = Path(__file__).parents[5] / "docs" / "aws" / "policies"
REGION = "us-west-2"
CREDENTIALS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
# Not calls: other calls need them, and IAM checks them by itself
IMPLIED = {"iam:PassRole", "iam:TagInstanceProfile"}


def granted() -> Iterator[tuple[str, str]]:
    """The service and the name of every operation that the provider may use."""
    actions = {
        action
        for file in POLICIES.glob("*.json")
        for statement in json.loads(file.read_text("utf-8"))["Statement"]
        for action in statement["Action"]
    }
    for action in sorted(actions - IMPLIED):
        service, _, operation = action.partition(":")
        yield service, operation


def session() -> Any:
    """Credentials that nobody knows."""
    boto3 = importlib.import_module("boto3")
    return boto3.Session(region_name=REGION, **CREDENTIALS)


def sent_by(client: Any) -> list[str]:
    """Collects what a client is about to send, and keeps it from the network."""
    sent: list[str] = []

    def note(model: Any, **_details: Any) -> Any:
        sent.append(model.name)
        return type("Answer", (), {"status_code": 200, "headers": {}})(), {}

    client.meta.events.register_last("before-call", note)
    return sent


@cache  # the model of a service is slow to load
def reading_client(service: str) -> tuple[Any, list[str]]:
    """A client that only reads, and what it is about to send."""
    client = session().client(service)
    refuse_writes(client)
    return client, sent_by(client)


@pytest.mark.case("DASH-39")
@pytest.mark.parametrize(("service", "operation"), list(granted()))
def test_a_client_sends_reads_and_refuses_every_write_of_the_provider(
    service: str, operation: str
) -> None:
    client, sent = reading_client(service)
    sent.clear()
    model = client.meta.service_model.operation_model(operation)
    method = {name: each for each, name in client.meta.method_to_api_mapping.items()}[operation]
    shapes = model.input_shape.members if model.input_shape is not None else {}
    required = set(model.input_shape.required_members) if model.input_shape is not None else set()
    given = {name: _sample(shape) for name, shape in shapes.items() if name in required}

    if is_read(operation):
        getattr(client, method)(**given)
        assert sent == [operation]
    else:
        with pytest.raises(AwsReadOnlyError, match=f"{operation}: ReadOnly: not sent"):
            getattr(client, method)(**given)
        assert sent == []


def _sample(shape: Any) -> Any:
    """A value that a service's model accepts."""
    match shape.type_name:
        case "structure":
            return {name: _sample(shape.members[name]) for name in shape.required_members}
        case "list":
            return [_sample(shape.member)]
        case "map":
            return {}
        case "integer" | "long" | "float" | "double":
            return 1
        case "boolean":
            return True
        case _:
            return (
                shape.enum[0]
                if getattr(shape, "enum", None)
                else "x" * max(shape.metadata.get("min", 1), 1)
            )


@pytest.mark.case("DASH-39")
@in_virtual_time
async def test_a_write_that_is_forced_raises_before_it_is_sent() -> None:
    calls = AwsCalls(session(), SystemClock(), random.Random(1), only_reads=True)
    with pytest.raises(AwsReadOnlyError, match="this program only reads"):
        await calls.call("ec2", "RunInstances", ImageId="ami-1", MinCount=1, MaxCount=1)
    client = await calls._client("ec2", REGION)
    sent = sent_by(client)
    with pytest.raises(AwsReadOnlyError):
        client.run_instances(ImageId="ami-1", MinCount=1, MaxCount=1)
    assert sent == []
    await calls.call("ec2", "DescribeSubnets")
    assert sent == ["DescribeSubnets"]
    await calls.close()


@pytest.mark.case("DASH-39")
@in_virtual_time
async def test_listing_types_and_prices_takes_reads_alone_which_one_policy_grants() -> None:
    (statement,) = json.loads((POLICIES / "companion.json").read_text("utf-8"))["Statement"]
    async with aws_cloud() as cloud:
        made: list[CompletedCall] = []
        given = ProviderContext(
            cloud.kube,
            cloud.clock,
            cloud.settings,
            cloud.world.environment,
            random.Random(1),
            only_reads=True,
        )
        provider = cloud.world.make_provider(given, observe=made.append)
        await provider.refresh_prices()
        assert await provider.instance_types(await cloud.kube.get(NodePool, POOL))

        assert all(is_read(call.operation) for call in made)
        used = {f"{call.service}:{call.operation}" for call in made}
        assert used <= set(statement["Action"])
        assert {"ec2:DescribeInstanceTypes", "pricing:GetProducts"} <= used
    assert all(is_read(action.partition(":")[2]) for action in statement["Action"])
