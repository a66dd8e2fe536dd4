"""Requests are neither sent too often nor repeated where that could do harm."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.clusters import in_virtual_time
from karpenter.clock import run_virtual, running_clock
from karpenter.kube.errors import (
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    KubeError,
    ServerError,
    TooManyRequestsError,
)
from karpenter.kube.limiter import Limiter
from karpenter.kube.retry import RETRIES, Backoff, delay_before_retry
from karpenter.kube.transport import Request

GET = Request("GET", "/api/v1/pods")
PATCH = Request("PATCH", "/api/v1/nodes/a")
EVICTION = Request("POST", "/api/v1/namespaces/default/pods/web/eviction")
LOST = ConnectionLostError("lost")
FAULT = ServerError(500, "oops")
BUSY = TooManyRequestsError(429, "busy", retry_after=3.0)


async def moments(qps: float, burst: int, count: int) -> list[float]:
    """When each of several callers that ask at once is let through."""
    clock = running_clock()
    limiter = Limiter(clock, qps, burst)
    passed: list[tuple[int, float]] = []

    async def ask(index: int) -> None:
        await limiter.take()
        passed.append((index, clock.monotonic()))

    await asyncio.gather(*(ask(index) for index in range(count)))
    assert list(range(count)) == [index for index, _ in passed], "first come, first served"
    return [moment for _, moment in passed]


@in_virtual_time
async def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    assert [0.0, 0.0, 0.0, 0.5, 1.0] == pytest.approx(await moments(2.0, 3, 5))


@settings(max_examples=50, deadline=None)
@given(st.floats(0.5, 500), st.integers(1, 50), st.integers(1, 120))
def test_no_stretch_of_time_holds_more_than_it_may(qps: float, burst: int, count: int) -> None:
    passed = run_virtual(moments(qps, burst, count))

    for first in range(count):
        for last in range(first, count):
            allowed = burst + (passed[last] - passed[first]) * qps
            assert last - first + 1 <= allowed + 1e-6


@in_virtual_time
async def test_the_bucket_fills_again_but_not_beyond_its_size() -> None:
    clock = running_clock()
    limiter = Limiter(clock, 1.0, 2)
    await limiter.take()
    await clock.sleep(100)
    began = clock.monotonic()
    for _ in range(3):
        await limiter.take()

    assert 1.0 == pytest.approx(clock.monotonic() - began)


@in_virtual_time
async def test_who_gives_up_waiting_gives_its_place_back() -> None:
    clock = running_clock()
    limiter = Limiter(clock, 1.0, 1)
    await limiter.take()
    impatient = asyncio.ensure_future(limiter.take())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    await limiter.take()

    assert 1.0 == pytest.approx(clock.monotonic())


@pytest.mark.parametrize(("qps", "burst"), [(0.0, 1), (1.0, 0), (-1.0, 5)])
@in_virtual_time
async def test_a_limit_that_lets_nothing_through_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="lets at least some through"):
        Limiter(running_clock(), qps, burst)


@pytest.mark.parametrize(
    ("error", "request_", "delay"),
    [
        pytest.param(LOST, GET, 0.2, id="reading after a lost connection is repeated"),
        pytest.param(LOST, PATCH, None, id="a write whose answer is lost may have happened"),
        pytest.param(FAULT, GET, 0.2, id="reading after a fault of the server is repeated"),
        pytest.param(FAULT, PATCH, None, id="a write after a fault may have happened"),
        pytest.param(
            ServerError(503, "later", retry_after=7.0), GET, 7.0, id="a server may say when"
        ),
        pytest.param(BUSY, GET, 3.0, id="a busy server is asked again when it says"),
        pytest.param(BUSY, PATCH, 3.0, id="what a busy server refused has not happened"),
        pytest.param(BUSY, EVICTION, None, id="a disruption budget is the caller's to wait for"),
        pytest.param(
            TooManyRequestsError(429, "no"), GET, None, id="429 without a time goes to the caller"
        ),
        pytest.param(
            TooManyRequestsError(429, "no", retry_after=3600.0),
            GET,
            None,
            id="an hour is too long to wait inside a request",
        ),
        pytest.param(ConflictError(409, "no"), GET, None, id="a conflict means: look again"),
        pytest.param(ForbiddenError(403, "no"), GET, None, id="a refusal is an answer"),
    ],
)
def test_what_is_sent_again(error: KubeError, request_: Request, delay: float | None) -> None:
    assert delay == delay_before_retry(0, error, request_)


@pytest.mark.parametrize("error", [LOST, FAULT, BUSY])
def test_nothing_is_sent_again_for_ever(error: KubeError) -> None:
    tries = [delay_before_retry(attempt, error, GET) for attempt in range(RETRIES + 1)]

    assert None not in tries[:-1]
    assert tries[-1] is None


def test_a_backoff_doubles_to_its_limit_and_begins_anew() -> None:
    backoff = Backoff(random.Random(1), first=0.8, longest=30.0)
    delays = [backoff.next() for _ in range(8)]
    backoff.reset()
    again = backoff.next()

    for expected, delay in zip([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0], delays, strict=True):
        assert 0.75 * expected <= delay <= 1.25 * expected
    assert again <= 1.0
