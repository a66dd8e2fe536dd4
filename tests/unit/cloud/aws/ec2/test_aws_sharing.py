"""Work that many want at once is done once, and nobody's impatience or failure spoils it."""

import asyncio

import pytest

from helpers.clusters import in_virtual_time
from karpenter.clock import running_clock
from karpenter.cloud.aws.ec2.cache import IdentityKey, Sharing


class Work:
    """Takes a second, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.begun = 0
        self._failures = failures

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        await running_clock().sleep(1.0)
        if number <= self._failures:
            raise ValueError(f"failure {number}")
        return number


@in_virtual_time
async def test_those_who_ask_at_the_same_time_share_one_result() -> None:
    work, sharing = Work(), Sharing[int]()
    found = await asyncio.gather(*(sharing.get("key", work) for _ in range(100)))

    assert ([1] * 100, 1) == (found, work.begun)


@in_virtual_time
async def test_what_differs_is_not_shared() -> None:
    work, sharing = Work(), Sharing[int]()

    found = await asyncio.gather(*(sharing.get(key, work) for key in ("one", "two")))

    assert [1, 2] == found


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        pytest.param(0, [1, 2, 3], id="nothing is kept"),
        pytest.param(2, [1, 2, 1], id="as many as asked for are kept"),
        pytest.param(1, [1, 2, 3], id="the oldest goes first"),
    ],
)
def test_what_is_kept(most: int, expected: list[int]) -> None:
    @in_virtual_time
    async def run() -> None:
        work, sharing = Work(), Sharing[int](most)

        assert expected == [await sharing.get(key, work) for key in ("one", "two", "one")]

    run()


@in_virtual_time
async def test_a_failure_is_told_to_all_and_tried_again_by_the_next() -> None:
    work, sharing = Work(failures=1), Sharing[int](8)
    found = await asyncio.gather(
        *(sharing.get("key", work) for _ in range(2)), return_exceptions=True
    )

    assert ["failure 1"] * 2 == [str(each) for each in found]
    assert 2 == await sharing.get("key", work)


@in_virtual_time
async def test_whoever_stops_waiting_does_not_end_it_for_others() -> None:
    work, sharing = Work(), Sharing[int]()
    first, second = (asyncio.ensure_future(sharing.get("key", work)) for _ in range(2))
    await running_clock().sleep(0.5)
    first.cancel()

    assert 1 == await second
    assert first.cancelled()


def test_a_thing_is_equal_to_itself_alone() -> None:
    one, other = [1], [1]

    assert IdentityKey(one) == IdentityKey(one)
    assert hash(IdentityKey(one)) == hash(IdentityKey(one))
    assert IdentityKey(one) != IdentityKey(other)
