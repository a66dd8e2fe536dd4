"""Calls keep out of each other's way: a pace for each operation, threads for each service."""

import asyncio
import http.server
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from helpers.aws_fakes import ENVIRONMENT, REGION, FakeAws, moto_cloud
from helpers.clusters import in_virtual_time
from karpenter.clock import SystemClock, running_clock
from karpenter.cloud.aws.ec2.calls import AwsCalls, check_connection, open_calls
from karpenter.cloud.aws.ec2.errors import AwsError, AwsThrottledError, error_of
from karpenter.cloud.aws.ec2.pace import Pace
from karpenter.cloud.registry import ProviderError

THROTTLED = error_of("RequestLimitExceeded", "too many", "DescribeSubnets", 503, service="ec2")


@in_virtual_time
async def test_throttled_describes_do_not_hold_up_a_termination() -> None:
    clock = running_clock()
    with moto_cloud(clock) as aws:
        aws.fail("ec2", "DescribeSubnets", "RequestLimitExceeded", status=503, times=200)
        described = [asyncio.ensure_future(_quietly(aws, "DescribeSubnets")) for _ in range(40)]
        await clock.sleep(3.0)
        began = clock.monotonic()
        with pytest.raises(AwsError, match=r"InvalidInstanceID\.NotFound"):
            await aws.call("ec2", "TerminateInstances", InstanceIds=["i-0123456789abcdef0"])

        assert began == clock.monotonic()
        await asyncio.gather(*described)


async def _quietly(aws: FakeAws, operation: str) -> None:
    try:
        await aws.call("ec2", operation)
    except AwsThrottledError:
        return


@in_virtual_time
async def test_refusals_of_the_same_second_are_one_complaint() -> None:
    clock = running_clock()
    pace = Pace(clock)
    await clock.sleep(5.0)
    for _ in range(40):
        pace.note(THROTTLED)
    began = clock.monotonic()
    for _ in range(20):
        await pace.take()

    # at 20 a second and not at the slowest rate there is
    assert clock.monotonic() - began <= 1.1


@in_virtual_time
async def test_a_complaint_a_second_later_halves_the_rate() -> None:
    clock = running_clock()
    pace = Pace(clock)
    took = []
    for _ in range(4):
        pace.note(THROTTLED)
        await pace.take()
        began = clock.monotonic()
        await pace.take()
        took.append(clock.monotonic() - began)
        await clock.sleep(1.0)

    assert took == sorted(took)
    assert took[-1] > 2 * took[0]


@in_virtual_time
async def test_who_waits_goes_as_soon_as_the_rate_has_grown() -> None:
    clock = running_clock()
    pace = Pace(clock)
    for _ in range(9):
        pace.note(THROTTLED)
        await clock.sleep(1.0)
    began = clock.monotonic()
    went: list[int] = []

    async def go(number: int) -> None:
        await pace.take()
        went.append(number)

    await asyncio.gather(*(go(number) for number in range(100)))

    # at the rate of the first moment this would be more than a minute
    assert clock.monotonic() - began < 20.0
    assert list(range(100)) == went


@in_virtual_time
async def test_who_stops_waiting_costs_the_others_nothing() -> None:
    clock = running_clock()
    pace = Pace(clock)
    pace.note(THROTTLED)
    await pace.take()
    waiting = [asyncio.ensure_future(pace.take()) for _ in range(50)]
    await clock.sleep(0.01)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    began = clock.monotonic()
    await pace.take()

    assert clock.monotonic() - began <= 0.06


class _Session:
    """Makes clients; descriptions of some services are never answered."""

    region_name = REGION

    def __init__(self, *hanging: str) -> None:
        self.released = threading.Event()
        self.patience: dict[str, set[float]] = {}
        self._hanging = hanging

    def client(self, service: str, *, config: Any, **_: Any) -> Any:
        self.patience.setdefault(service, set()).add(config.read_timeout)
        return _Client(self.released if service in self._hanging else None)


class _Model:
    idempotent_members: tuple[str, ...] = ()


class _Client:
    def __init__(self, released: threading.Event | None) -> None:
        self._released = released
        self.meta = self
        self.service_model = self

    def operation_model(self, operation: str) -> _Model:
        return _Model()

    def __getattr__(self, method: str) -> Any:
        def call(**_: Any) -> dict[str, Any]:
            if self._released is not None and method.startswith("describe"):
                assert self._released.wait(60.0)
            return {"answered": method}

        return call


@pytest.mark.parametrize(
    ("service", "operation", "method"),
    [
        pytest.param("sqs", "ReceiveMessage", "receive_message", id="messages"),
        pytest.param("ec2", "TerminateInstances", "terminate_instances", id="changes of EC2"),
    ],
)
async def test_nothing_waits_behind_descriptions_that_hang(
    service: str, operation: str, method: str
) -> None:
    session = _Session("ec2")
    calls = AwsCalls(session, SystemClock(), random.Random(1), workers=2)
    hanging = [asyncio.ensure_future(calls.call("ec2", "DescribeSubnets")) for _ in range(5)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(30.0):
            answer = await calls.call(service, operation)
        assert {"answered": method} == answer
        assert not any(each.done() for each in hanging)
    finally:
        session.released.set()
        await asyncio.gather(*hanging)
        await calls.close()


async def test_a_fleet_may_take_minutes_to_answer_and_nothing_else_may() -> None:
    session = _Session()
    calls = AwsCalls(session, SystemClock(), random.Random(1))
    await calls.call("ec2", "DescribeSubnets")
    before = set(session.patience["ec2"])
    await calls.call("ec2", "CreateFleet")
    await calls.call("sqs", "ReceiveMessage")
    await calls.close()

    assert {60.0} == before
    assert {60.0, 240.0} == session.patience["ec2"]
    assert {60.0} == session.patience["sqs"]


class _Ec2(http.server.BaseHTTPRequestHandler):
    """Answers as EC2 does in a region nobody has heard of."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b"<DescribeSubnetsResponse><subnetSet/></DescribeSubnetsResponse>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        return


@contextmanager
def _listening() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Ec2)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"])
async def test_a_region_boto3_does_not_know_works_where_users_say_where_it_is(name: str) -> None:
    with _listening() as address:
        environment = {**ENVIRONMENT, "AWS_REGION": "eu-moon-1", name: address}
        with patch.dict("os.environ", environment):
            calls = open_calls(environment, SystemClock(), random.Random(1))
            answer = await calls.call("ec2", "DescribeSubnets")
            await calls.close()

    assert "eu-moon-1" == calls.region
    assert [] == answer["Subnets"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="nobody says where it is"),
        pytest.param({"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:1"}, id="only a queue is named"),
        pytest.param(
            {
                "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
                "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
            },
            id="what is named is not used",
        ),
    ],
)
def test_a_region_boto3_does_not_know_is_one_sentence(more: dict[str, str]) -> None:
    environment = {**ENVIRONMENT, "AWS_REGION": "eu-moon-1", **more}
    with (
        patch.dict("os.environ", environment),
        pytest.raises(ProviderError, match="eu-moon-1 is not a region boto3 knows; correct it"),
    ):
        open_calls(environment, SystemClock(), random.Random(1))


def test_a_region_that_cannot_be_one_is_refused_wherever_it_is() -> None:
    environment = {**ENVIRONMENT, "AWS_REGION": "us west 2", "AWS_ENDPOINT_URL": "http://[::1]:1"}
    with (
        patch.dict("os.environ", environment),
        pytest.raises(ProviderError, match="AWS_REGION: us west 2 is not a region"),
    ):
        open_calls(environment, SystemClock(), random.Random(1))


async def test_an_endpoint_that_is_none_is_one_sentence() -> None:
    environment = {**ENVIRONMENT, "AWS_ENDPOINT_URL": "nonsense"}
    with patch.dict("os.environ", environment):
        calls = open_calls(environment, SystemClock(), random.Random(1))
        with pytest.raises(
            ProviderError, match=r"EC2 cannot be reached .*AWS_ENDPOINT_URL"
        ) as told:
            await check_connection(calls)
        await calls.close()

    assert "\n" not in str(told.value)
