"""The log of a pod that stands for a program of the sandbox's own process."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.clusters import in_virtual_time
from helpers.server import Answer, Cluster, cluster, pod
from karpenter_sandbox.log_ring import LogRing, LogSource
from karpenter_sandbox.server.messages import WatchResponse

PODS = "/api/v1/namespaces/default/pods"
SCHEDULER = "of-this-process"
WEB = pod("web", schedulerName=SCHEDULER)


@pytest.fixture
def ring() -> LogRing:
    return LogRing()


@pytest.fixture
def api(ring: LogRing) -> Cluster:
    """A pod whose program has written a line every ten seconds, the last one just now."""
    api = cluster()
    api.backend.logs.append(LogSource("default", SCHEDULER, ring))
    api.create(WEB)
    for number in range(1, 5):
        api.clock.move(10)
        ring.write(api.clock.now(), f"line {number}\n")
    return api


def log(api: Cluster, name: str = "web", **query: str) -> Answer:
    return api.call("GET", f"{PODS}/{name}/log", **query)


def follow(api: Cluster, **query: str) -> AsyncGenerator[bytes, None]:
    answer = api.request("GET", f"{PODS}/web/log", headers={}, query={"follow": "true", **query})
    assert isinstance(answer, WatchResponse)
    assert "text/plain" == answer.headers["Content-Type"]
    return answer.stream.frames()


class TestWhatIsRead:
    def test_all_lines_are_plain_text(self, api: Cluster) -> None:
        answer = log(api)

        assert (200, b"line 1\nline 2\nline 3\nline 4\n") == (answer.status, answer.body)
        assert "text/plain" == answer.headers["Content-Type"]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            pytest.param({"container": "main"}, b"line 1\nline 2\nline 3\nline 4\n", id="named"),
            pytest.param({"tailLines": "2"}, b"line 3\nline 4\n", id="tail"),
            pytest.param({"tailLines": "0"}, b"", id="no tail"),
            pytest.param({"tailLines": "9"}, b"line 1\nline 2\nline 3\nline 4\n", id="long tail"),
            pytest.param({"limitBytes": "10"}, b"line 1\nlin", id="bytes"),
            pytest.param({"tailLines": "1", "limitBytes": "4"}, b"line", id="bytes of the tail"),
            pytest.param({"sinceSeconds": "10"}, b"line 3\nline 4\n", id="seconds"),
            pytest.param(
                {"sinceSeconds": "7000000000"}, b"line 1\nline 2\nline 3\nline 4\n", id="ages"
            ),
            pytest.param({"sinceTime": "2030-01-01T00:00:40Z"}, b"line 4\n", id="moment"),
            pytest.param({"sinceTime": "2030-01-01T01:00:30.5+01:00"}, b"line 4\n", id="zone"),
            pytest.param(
                {"timestamps": "true", "tailLines": "1"},
                b"2030-01-01T00:00:40.000000000Z line 4\n",
                id="timestamps",
            ),
            pytest.param({"follow": "false", "tailLines": "1"}, b"line 4\n", id="not followed"),
        ],
    )
    def test_options_choose_lines(
        self, api: Cluster, query: dict[str, str], expected: bytes
    ) -> None:
        answer = log(api, **query)

        assert (200, expected) == (answer.status, answer.body)

    @pytest.mark.parametrize(
        ("query", "status", "message"),
        [
            ({"container": "nope"}, 400, "container nope is not valid for pod web"),
            (
                {"previous": "true"},
                400,
                'previous terminated container "main" in pod "web" not found',
            ),
            (
                {"tailLines": "-1"},
                422,
                (
                    'PodLogOptions "web" is invalid: tailLines: Invalid value: -1:'
                    " must be greater than or equal to 0"
                ),
            ),
            (
                {"limitBytes": "0"},
                422,
                (
                    'PodLogOptions "web" is invalid: limitBytes: Invalid value: 0:'
                    " must be greater than 0"
                ),
            ),
            (
                {"sinceSeconds": "0"},
                422,
                (
                    'PodLogOptions "web" is invalid: sinceSeconds: Invalid value: 0:'
                    " must be greater than 0"
                ),
            ),
            ({"tailLines": "few"}, 400, 'strconv.ParseInt: parsing "few": invalid syntax'),
        ],
    )
    def test_wrong_options_are_refused(
        self, api: Cluster, query: dict[str, str], status: int, message: str
    ) -> None:
        answer = log(api, **query)

        assert (status, message) == (answer.status, answer.message)

    @pytest.mark.parametrize("text", ["yesterday", "2030-02-31T00:00:00Z", "2030-01-01"])
    def test_no_moment_to_begin_with(self, api: Cluster, text: str) -> None:
        answer = log(api, sinceTime=text)

        assert 400 == answer.status
        assert text in answer.message

    def test_one_beginning_at_most(self, api: Cluster) -> None:
        answer = log(api, sinceTime="2030-01-01T00:00:00Z", sinceSeconds="5")

        assert 422 == answer.status
        assert "at most one of `sinceTime` or `sinceSeconds` may be specified" in answer.message

    def test_one_of_several_containers_must_be_named(self, api: Cluster) -> None:
        containers = [{"name": name, "image": "nginx:1"} for name in ("a", "b")]
        api.create(pod("two", schedulerName=SCHEDULER, containers=containers))

        answer = log(api, "two")

        expected = "a container name must be specified for pod two, choose one of: [a b]"
        assert (400, expected) == (answer.status, answer.message)


class TestWhoseLogItIs:
    def test_other_pods_have_none(self, api: Cluster) -> None:
        api.create(pod("other"))

        answer = log(api, "other")

        assert (501, "NotImplemented") == (answer.status, answer.body["reason"])

    def test_nor_has_a_pod_that_is_not_there(self, api: Cluster) -> None:
        assert 501 == log(api, "missing").status

    @pytest.mark.parametrize(("method", "part"), [("POST", "log"), ("GET", "log/more")])
    def test_a_log_is_read_and_nothing_else(self, api: Cluster, method: str, part: str) -> None:
        assert 501 == api.call(method, f"{PODS}/web/{part}").status


class TestFollowing:
    @in_virtual_time
    async def test_new_lines_follow_the_kept_ones(self) -> None:
        ring = LogRing()
        api = following_api(ring)
        ring.write(api.clock.now(), "first")
        ring.write(api.clock.now(), "second")

        async with contextlib.aclosing(follow(api, tailLines="1")) as frames:
            seen = [await anext(frames)]
            waiting = asyncio.ensure_future(anext(frames))
            await asyncio.sleep(1)
            assert not waiting.done()
            ring.write(api.clock.now(), "third")
            seen.append(await waiting)
            await asyncio.to_thread(ring.write, api.clock.now(), "of a thread")
            seen.append(await anext(frames))

        assert [b"second\n", b"third\n", b"of a thread\n"] == seen

    @in_virtual_time
    async def test_so_many_bytes_end_it(self) -> None:
        ring = LogRing()
        api = following_api(ring)
        ring.write(api.clock.now(), "first")

        frames = follow(api, limitBytes="8")
        seen = [await anext(frames)]
        ring.write(api.clock.now(), "second")
        seen += [frame async for frame in frames]

        assert [b"first\n", b"se"] == seen

    @in_virtual_time
    async def test_the_end_of_the_pod_ends_it(self) -> None:
        ring = LogRing()
        api = following_api(ring)
        ring.write(api.clock.now(), "first")

        frames = follow(api)
        seen = [await anext(frames)]
        api.call("DELETE", f"{PODS}/web")
        api.create(WEB)  # which is another one
        ring.wake()
        seen += [frame async for frame in frames]

        assert [b"first\n"] == seen


def following_api(ring: LogRing) -> Cluster:
    api = cluster()
    api.backend.logs.append(LogSource("default", SCHEDULER, ring))
    api.create(WEB)
    return api


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30)))
def test_a_ring_keeps_the_latest_lines_that_fit(texts: list[str]) -> None:
    ring = LogRing(most_bytes=64)
    begun = datetime(2030, 1, 1, tzinfo=UTC)
    lines = [f"{text}\n".encode() for text in texts]
    seen = 0
    for number, text in enumerate(texts):
        ring.write(begun + timedelta(seconds=number), text)
        new, seen = ring.since(seen)
        assert [lines[number]] == [line.data for line in new]

    kept = [line.data for line in ring.since(0)[0]]

    assert kept == lines[len(lines) - len(kept) :]
    assert sum(map(len, kept)) <= 64 or 1 == len(kept)
    if len(kept) < len(lines):  # no room for the one before
        assert sum(map(len, kept)) + len(lines[-len(kept) - 1]) > 64
