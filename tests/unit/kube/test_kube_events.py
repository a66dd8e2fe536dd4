"""Users hear what happens to their objects, and no more than they can bear."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from helpers.clusters import in_virtual_time, running
from helpers.server import pod as pod_manifest
from karpenter.api.codec import convert_as
from karpenter.api.meta import ObjectReference
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.kube.events import MOST_REMEMBERED, NOMINATED, NORMAL, WARNING, Event, Recorder
from unit.kube.flaky import FlakyCluster, Refusal


class Recording:
    """A recorder at work."""

    def __init__(self, cluster: FlakyCluster, **options: Any) -> None:
        self.cluster = cluster
        self.recorder = Recorder(cluster.kube, cluster.clock, rng=random.Random(3), **options)
        self.pod = convert_as({}, Pod)

    def say(self, message: str = "hello", **parts: Any) -> None:
        parts = {"target": self.pod, "type": NORMAL, "reason": "Greeting", **parts}
        self.recorder.publish(Event(message=message, **parts))

    async def pass_time(self, seconds: float = 1.0) -> None:
        await self.cluster.clock.sleep(seconds)

    async def written(self) -> list[dict[str, Any]]:
        items, _ = await self.cluster.direct.list("v1", "Event")
        return sorted(items, key=lambda event: event["metadata"]["name"])

    async def counts(self) -> list[tuple[str, int]]:
        return [(event["message"], event["count"]) for event in await self.written()]


@asynccontextmanager
async def recording(**options: Any) -> AsyncIterator[Recording]:
    cluster = FlakyCluster()
    await cluster.begin("team")
    made = Recording(cluster, **options)
    stored = await cluster.direct.create(pod_manifest("web"))
    made.pod = convert_as(stored, Pod)
    async with running(made.recorder.run()):
        yield made


@in_virtual_time
async def test_an_event_names_its_object_and_its_author() -> None:
    async with recording(component="karpenter", instance="karpenter-0") as it:
        it.say("no room", type=WARNING, reason="FailedScheduling")
        await it.pass_time()
        (event,) = await it.written()

        involved = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "web",
            "uid": it.pod.metadata.uid,
            "resourceVersion": it.pod.metadata.resource_version,
        }
        assert involved == event["involvedObject"]
        assert ("Warning", "FailedScheduling") == (event["type"], event["reason"])
        assert "no room" == event["message"]
        assert {"component": "karpenter"} == event["source"]
        assert "karpenter" == event["reportingComponent"]
        assert "karpenter-0" == event["reportingInstance"]
        assert event["firstTimestamp"] == event["lastTimestamp"] == "2030-01-01T00:00:00Z"
        assert "default" == event["metadata"]["namespace"]
        assert event["metadata"]["name"].startswith("web.")


@pytest.mark.parametrize(
    ("target", "namespace"),
    [
        pytest.param(
            convert_as({"metadata": {"name": "node-1", "uid": "u"}}, Node),
            "default",
            id="events of a cluster-scoped object stand in default",
        ),
        pytest.param(
            ObjectReference(api_version="v1", kind="Pod", namespace="team", name="a", uid="u"),
            "team",
            id="events of a namespaced object stand beside it",
        ),
    ],
)
def test_where_events_are_kept(target: Any, namespace: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with recording() as it:
            it.say(target=target)
            await it.pass_time()
            (event,) = await it.written()

            assert namespace == event["metadata"]["namespace"]
            assert target.kind == event["involvedObject"]["kind"]

    scenario()


@in_virtual_time
async def test_the_same_values_are_told_once_in_two_minutes() -> None:
    async with recording() as it:
        for index in range(3):
            it.say(f"message {index}", dedupe=("uid-1",))
        it.say("another object", dedupe=("uid-2",))
        it.say("another reason", reason="Parting", dedupe=("uid-1",))
        await it.pass_time(121)
        it.say("later", dedupe=("uid-1",))
        await it.pass_time()

        expected = ["message 0", "another object", "another reason", "later"]
        assert expected == [message for message, _ in await it.counts()]


@in_virtual_time
async def test_an_event_may_ask_for_another_time_of_rest() -> None:
    async with recording() as it:
        it.say("first", dedupe=("uid",), dedupe_seconds=300.0)
        await it.pass_time(200)
        it.say("too early", dedupe=("uid",), dedupe_seconds=300.0)
        await it.pass_time(101)
        it.say("again", dedupe=("uid",), dedupe_seconds=300.0)
        await it.pass_time()

        assert ["first", "again"] == [message for message, _ in await it.counts()]


@in_virtual_time
async def test_what_is_said_again_is_counted() -> None:
    async with recording() as it:
        for _ in range(4):
            it.say()
            await it.pass_time(30)
        (event,) = await it.written()

        assert 4 == event["count"]
        assert "2030-01-01T00:00:00Z" == event["firstTimestamp"]
        assert "2030-01-01T00:01:30Z" == event["lastTimestamp"]


@in_virtual_time
async def test_more_than_ten_similar_events_are_folded() -> None:
    async with recording() as it:
        for index in range(14):
            it.say(f"message {index}")
            await it.pass_time()
        counts = await it.counts()

        assert [(f"message {index}", 1) for index in range(10)] == counts[:10]
        assert [("(combined from similar events): message 13", 4)] == counts[10:]


@in_virtual_time
async def test_after_ten_quiet_minutes_events_are_not_folded_any_more() -> None:
    async with recording() as it:
        for index in range(10):
            it.say(f"message {index}")
        await it.pass_time(601)
        it.say("message 10")
        await it.pass_time()

        assert ("message 10", 1) == (await it.counts())[-1]


@in_virtual_time
async def test_one_object_is_told_of_25_times_and_then_once_in_five_minutes() -> None:
    async with recording() as it:
        for _ in range(40):
            it.say()
        await it.pass_time()
        at_once = await it.counts()
        await it.pass_time(301)
        for _ in range(5):
            it.say()
        await it.pass_time()

        assert [("hello", 25)] == at_once
        assert [("hello", 26)] == await it.counts()


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"reason": NOMINATED}, id="by their reason"),
        pytest.param({"limiter_name": NOMINATED}, id="by the name of the limit"),
    ],
)
def test_nominations_of_all_pods_share_one_limit(parts: dict[str, str]) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with recording() as it:
            for index in range(30):
                it.say(target=some_pod(index), **parts)
            await it.pass_time(1)
            at_once = len(await it.written())
            for index in range(30, 60):
                it.say(target=some_pod(index), **parts)
            await it.pass_time()

            assert 10 == at_once
            assert 15 == len(await it.written())

    scenario()


def some_pod(index: int) -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="Pod", namespace="default", name=f"p{index}", uid=f"u{index}"
    )


@in_virtual_time
async def test_an_event_that_was_removed_meanwhile_is_written_anew() -> None:
    async with recording() as it:
        it.say()
        await it.pass_time()
        (event,) = await it.written()
        await it.cluster.direct.delete("v1", "Event", "default", event["metadata"]["name"])
        it.say()
        await it.pass_time()

        assert [("hello", 1)] == await it.counts()


@in_virtual_time
async def test_a_server_in_trouble_is_tried_again() -> None:
    async with recording() as it:
        it.cluster.transport.refuse(
            Refusal(500, times=3, where=lambda request: request.method == "POST")
        )
        it.say()
        await it.pass_time(30)

        assert [("hello", 1)] == await it.counts()
        assert 0 == it.recorder.dropped


@in_virtual_time
async def test_a_refused_event_is_dropped_and_the_next_one_written() -> None:
    async with recording() as it:
        it.cluster.transport.refuse(Refusal(403, where=lambda request: request.method == "POST"))
        it.say("secret")
        it.say("public")
        await it.pass_time()

        assert [("public", 1)] == await it.counts()
        assert 1 == it.recorder.dropped


@in_virtual_time
async def test_when_nothing_can_be_written_the_oldest_are_dropped() -> None:
    async with recording(queue_size=5) as it:
        it.cluster.transport.is_cut = True
        for index in range(12):
            it.say(reason=f"Reason{index}")
        it.cluster.transport.is_cut = False
        await it.pass_time()

        reasons = [event["reason"] for event in await it.written()]
        assert [f"Reason{index}" for index in range(7, 12)] == reasons
        assert 7 == it.recorder.dropped


@in_virtual_time
async def test_a_long_message_is_shortened() -> None:
    async with recording() as it:
        it.say("ü" * 2000)
        await it.pass_time()
        ((message, _),) = await it.counts()

        assert len(message.encode()) <= 1024
        assert message.endswith("ü...")


@in_virtual_time
async def test_what_is_remembered_is_bounded() -> None:
    async with recording() as it:
        for index in range(MOST_REMEMBERED + 500):
            about = ObjectReference(kind="Pod", namespace="default", name="p", uid=f"u{index}")
            it.say(target=about, dedupe=(f"u{index}",))
        recorder = it.recorder

        for memory in (recorder._dedupe, recorder._spam, recorder._correlator):
            assert MOST_REMEMBERED == len(memory)
        assert len(recorder._queue) <= 1000


@in_virtual_time
async def test_what_no_limit_needs_any_more_is_forgotten() -> None:
    async with recording() as it:
        memories = (it.recorder._dedupe, it.recorder._spam, it.recorder._correlator)
        for index in range(100):
            it.say(target=some_pod(index), dedupe=(f"u{index}",))
        before = [len(memory) for memory in memories]
        # events last an hour, and the limit of one object is whole again after two
        await it.pass_time(3 * 3600)
        it.say(dedupe=("another",))

        assert [100, 100, 100] == before
        assert [1, 1, 1] == [len(memory) for memory in memories]


@in_virtual_time
async def test_forgetting_lets_no_limit_be_passed() -> None:
    async with recording() as it:
        for minute in range(0, 240, 5):
            for index in range(30):
                it.say(f"{minute} {index}", reason=f"Reason{index}")
            it.say(target=some_pod(minute))
            await it.pass_time(300)

        about_the_pod = [e for e in await it.written() if e["involvedObject"]["name"] == "web"]
        # 25 at once, and one for every five minutes
        assert 25 + 47 == sum(event["count"] for event in about_the_pod)
