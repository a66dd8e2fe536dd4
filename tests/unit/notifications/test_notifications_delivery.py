"""Delivery in virtual time: what sinks answer, floods, outages, and what they never delay."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from karpenter.clock import Clock, run_virtual, running_clock
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Draft, Kind, Outcome, Severity, encoded
from karpenter.notifications.channels import ChannelDependencies, UnsentError, open_channel
from karpenter.notifications.config import SinkConfig
from karpenter.notifications.notifier import LONGEST_FLUSH, Notifier
from karpenter.notifications.retrying import Answer
from karpenter.telemetry import Metrics, recording_logger
from karpenter.telemetry.logs import Entry

SECRET = "https://hooks.example.com/services/T0/very-secret"
OK = Answer(200)


@dataclass
class FakePoster:
    """A sink: answers as a script says, then with 200, and keeps what it was sent."""

    clock: Clock
    answers: list[Answer | float | Exception] = field(default_factory=list)  # a float: that slow
    sent: list[tuple[float, dict[str, Any], Mapping[str, str]]] = field(default_factory=list)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        assert url == SECRET
        self.sent.append((self.clock.monotonic(), json.loads(body), headers))
        answer = self.answers.pop(0) if self.answers else OK
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            await self.clock.sleep(answer)
            return OK
        return answer

    async def close(self) -> None:
        pass

    @property
    def ids(self) -> list[str]:
        return [body["id"] for _, body, _ in self.sent]

    @property
    def times(self) -> list[float]:
        return [round(at, 2) for at, _, _ in self.sent]


@dataclass
class Run:
    """A notifier at work."""

    clock: Clock
    decisions: DecisionLog
    poster: FakePoster
    metrics: Metrics
    lines: list[Entry]
    notifier: Notifier
    task: asyncio.Task[None]

    def decide(self, name: str = "a", **changes: Any) -> str:
        values: dict[str, Any] = {
            "kind": Kind.INTERRUPT,
            "outcome": Outcome.BEGUN,
            "reason": "SpotInterrupted",
            "text": f"{name} is interrupted",
            "objects": (f"NodeClaim/{name}",),
        }
        return self.decisions.add(self.clock.now(), Draft(**(values | changes))).id

    async def decide_apart(self, first: float, second: float) -> None:
        """Make two decisions, and let some seconds pass after each."""
        self.decide("a")
        await self.clock.sleep(first)
        self.decide("b")
        await self.clock.sleep(second)

    def counted(self) -> dict[str, float]:
        return {
            sample.labels["outcome"]: sample.value
            for family in self.metrics.notifications_total.collect()
            for sample in family.samples
            if sample.value
        }


@asynccontextmanager
async def notified(
    folder: Path, *answers: Answer | float | Exception, **sink: Any
) -> AsyncIterator[Run]:
    clock = running_clock()
    (folder / "url").write_text(f"{SECRET}\n")
    config = {"name": "hook", "type": "webhook", "urlFile": str(folder / "url"), **sink}
    path = folder / "notifications.yaml"
    path.write_text(json.dumps({"sinks": [config]}))
    poster = FakePoster(clock, list(answers))
    around = ChannelDependencies("prod", clock, {})
    log, lines = recording_logger()
    decisions, metrics = DecisionLog(epoch="7f3c"), Metrics()

    def opened(sink: SinkConfig) -> Any:
        return open_channel(sink, around, poster)

    notifier = Notifier(
        str(path),
        decisions,
        opened,
        clock=clock,
        log=log,
        metrics=metrics,
        rng=random.Random(1),
    )
    task = asyncio.create_task(notifier.run())
    await clock.sleep(0.001)
    try:
        yield Run(clock, decisions, poster, metrics, lines, notifier, task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def in_virtual_time(test: Callable[[Path], Awaitable[None]]) -> Callable[[Path], None]:
    def wrapped(tmp_path: Path) -> None:
        async def main() -> None:
            await test(tmp_path)

        run_virtual(main())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


def warnings(run: Run) -> list[Entry]:
    return [line for line in run.lines if line["level"] == "warning"]


@pytest.mark.case("OPS-38")
@in_virtual_time
async def test_a_sink_that_answers_200_is_sent_one_message(folder: Path) -> None:
    async with notified(folder) as run:
        number = run.decide()
        await run.clock.sleep(1000)

        ((_, event, headers),) = run.poster.sent
        assert {
            "specversion": "1.0",
            "type": "sh.karpenter.decision.interrupt.v1",
            "source": "/clusters/prod",
            "id": number,
            "subject": "NodeClaim/a",
        }.items() <= event.items()
        (record,) = run.decisions.newest()
        assert json.loads(encoded(record)) == event["data"]
        assert event["time"] == event["data"]["at"]
        assert "application/cloudevents+json; charset=utf-8" == headers["Content-Type"]
        assert {"sent": 1.0} == run.counted()


@pytest.mark.case("OPS-38")
@in_virtual_time
async def test_a_sink_that_fails_three_times_is_tried_again_with_the_same_id(folder: Path) -> None:
    async with notified(folder, Answer(500), Answer(502), Answer(503)) as run:
        number = run.decide()
        await run.clock.sleep(100)

        assert [number] * 4 == run.poster.ids
        first, second, third = (
            b - a for a, b in zip(run.poster.times, run.poster.times[1:], strict=False)
        )
        assert 1.0 <= first <= 1.5
        assert 2.0 <= second <= 3.0
        assert 4.0 <= third <= 6.0
        assert {"sent": 1.0} == run.counted()
        assert [] == warnings(run)


@pytest.mark.case("OPS-38")
@pytest.mark.parametrize("status", [400, 401, 404, 410, 301, 302, 307, 308])
def test_a_final_answer_is_counted_and_the_message_given_up(tmp_path: Path, status: int) -> None:
    async def main() -> None:
        async with notified(tmp_path, Answer(status, {"location": "https://evil.example"})) as run:
            run.decide()
            await run.clock.sleep(1000)

            assert 1 == len(run.poster.sent)
            assert {"failed": 1.0} == run.counted()
            (line,) = warnings(run)
            assert f"hooks.example.com answered {status}" == line["error"]
            assert "very-secret" not in str(run.lines)

    run_virtual(main())


@pytest.mark.case("OPS-38")
@in_virtual_time
async def test_a_sink_that_hangs_times_out_and_is_given_up_after_15_minutes(folder: Path) -> None:
    async with notified(folder, *[3600.0] * 50) as run:
        number = run.decide()
        await run.clock.sleep(3600)

        assert {number} == set(run.poster.ids)
        assert run.poster.times[-1] <= 900.0
        assert 7 <= len(run.poster.ids) <= 12
        assert {"failed": 1.0} == run.counted()
        (line,) = warnings(run)
        assert "hooks.example.com did not answer in time; given up after" in line["error"]


@pytest.mark.case("OPS-38")
@in_virtual_time
async def test_retry_after_holds_back_the_whole_sink(folder: Path) -> None:
    async with notified(folder, Answer(429, {"retry-after": "120"})) as run:
        await run.decide_apart(1, 300)

        assert 3 == len(run.poster.sent)
        assert all(at >= 120.0 for at in run.poster.times[1:])
        assert {"sent": 2.0} == run.counted()


@in_virtual_time
async def test_retry_after_beyond_15_minutes_gives_the_message_up(folder: Path) -> None:
    async with notified(folder, Answer(503, {"retry-after": "86400"})) as run:
        await run.decide_apart(60, 60)

        assert {"failed": 1.0, "sent": 1.0} == run.counted()


@in_virtual_time
async def test_one_message_that_fails_does_not_hold_up_the_next(folder: Path) -> None:
    async with notified(folder, Answer(500)) as run:
        first, second = run.decide("a"), run.decide("b")
        await run.clock.sleep(10)

        assert [first, second, first] == run.poster.ids


@in_virtual_time
async def test_an_unreachable_sink_is_tried_again(folder: Path) -> None:
    async with notified(folder, UnsentError("hooks.example.com: cannot connect")) as run:
        run.decide()
        await run.clock.sleep(10)

        assert {"sent": 1.0} == run.counted()


@pytest.mark.case("OPS-39")
@in_virtual_time
async def test_500_interruptions_are_20_messages_and_a_digest(folder: Path) -> None:
    async with notified(folder) as run:
        began = run.clock.monotonic()
        for number in range(500):
            run.decide(f"node-{number}")
            await run.clock.sleep(0.02)
        # Deciding took exactly the pauses between the decisions
        assert 10.0 == pytest.approx(run.clock.monotonic() - began)
        await run.clock.sleep(300)

        single = [body for _, body, _ in run.poster.sent if "digest" not in body["type"]]
        digests = [body for _, body, _ in run.poster.sent if "digest" in body["type"]]
        assert 20 == len(single)
        assert [480] == [body["data"]["count"] for body in digests]
        assert "and 480 more: 480 Interrupt" == digests[0]["data"]["text"]
        assert 10 == len(digests[0]["data"]["records"])
        assert {"sent": 500.0} == run.counted()


@pytest.mark.case("OPS-39")
@in_virtual_time
async def test_decisions_are_not_delayed_and_memory_is_bounded_while_a_sink_hangs(
    folder: Path,
) -> None:
    async with notified(folder, *[1e9] * 10_000) as run:
        began = run.clock.monotonic()
        for number in range(5000):
            run.decide(f"node-{number}")
            await run.clock.sleep(1.0)
        assert 5000.0 == pytest.approx(run.clock.monotonic() - began)

        (worker,) = (each for each, _ in run.notifier._workers.values())
        assert len(worker._outbox) <= 1001
        assert len(worker._outbox._repeats) <= 4096
        run.poster.answers.clear()
        await run.clock.sleep(3600)
        assert 5000.0 == sum(run.counted().values())


@in_virtual_time
async def test_what_happens_within_a_digest_is_one_message(folder: Path) -> None:
    async with notified(folder, digest="1m") as run:
        run.decide("a")
        await run.clock.sleep(30)
        run.decide("b")
        run.decide("c", kind=Kind.LIMIT, reason="LimitExceeded")
        await run.clock.sleep(100)
        alone = run.decide("d")
        await run.clock.sleep(100)

        digest, single = (body for _, body, _ in run.poster.sent)
        assert "3 decisions: 2 Interrupt, 1 Limit" == digest["data"]["text"]
        assert alone == single["id"]
        assert 60.0 == pytest.approx(run.poster.times[0], abs=0.1)
        assert {"sent": 4.0} == run.counted()


@in_virtual_time
async def test_the_same_object_and_reason_is_told_once_in_ten_minutes(folder: Path) -> None:
    async with notified(folder) as run:
        for _ in range(22):
            run.decide("a")
            await run.clock.sleep(60)

        assert [0, 600, 1200] == [round(at) for at in run.poster.times]
        assert {"sent": 3.0, "suppressed": 19.0} == run.counted()


@in_virtual_time
async def test_what_becomes_more_severe_is_told_again(folder: Path) -> None:
    async with notified(folder, match={"kinds": ["Refuse"]}) as run:
        for severity in ("info", "info", "warning", "warning", "info"):
            run.decide("a", kind=Kind.REFUSE, severity=Severity(severity))
            await run.clock.sleep(10)

        assert ["info", "warning"] == [body["data"]["severity"] for _, body, _ in run.poster.sent]


@in_virtual_time
async def test_messages_of_a_long_outage_are_paced_when_it_is_over(folder: Path) -> None:
    async with notified(folder, *[Answer(503)] * 400) as run:
        for number in range(100):
            run.decide(f"node-{number}")
            await run.clock.sleep(2)
        run.poster.answers.clear()
        run.poster.sent.clear()
        await run.clock.sleep(1800)

        in_a_second = Counter(int(at) for at in run.poster.times)
        assert max(in_a_second.values()) <= 21
        assert 100.0 == sum(run.counted().values())
        assert len(run.poster.ids) == len(set(run.poster.ids))


@in_virtual_time
async def test_a_shutdown_sends_what_waits_and_is_held_up_for_two_seconds_at_most(
    folder: Path,
) -> None:
    async with notified(folder, digest="10m") as run:
        run.decide("a")
        run.decide("b")
        await run.clock.sleep(1)
        began = run.clock.monotonic()
        await run.notifier.flush()

        assert ["2 decisions: 2 Interrupt"] == [
            body["data"]["text"] for _, body, _ in run.poster.sent
        ]
        assert run.clock.monotonic() - began < 0.5

    async with notified(folder, 3600.0) as run:
        run.decide("a")
        began = run.clock.monotonic()
        await run.notifier.flush()
        run.task.cancel()
        await asyncio.gather(run.task, return_exceptions=True)

        assert LONGEST_FLUSH <= run.clock.monotonic() - began <= 2.0


@in_virtual_time
async def test_nothing_is_sent_after_the_term_is_over(folder: Path) -> None:
    async with notified(folder) as run:
        run.decide("a")
        await run.clock.sleep(1)
        run.task.cancel()
        await asyncio.gather(run.task, return_exceptions=True)
        run.decide("b")
        await run.clock.sleep(100)

        assert 1 == len(run.poster.sent)


@in_virtual_time
async def test_a_file_is_used_as_it_becomes_and_a_bad_one_is_told_once(folder: Path) -> None:
    path = folder / "notifications.yaml"
    async with notified(folder) as run:
        good = path.read_text()
        path.write_text("sinks:\n- name: hook\n  type: webhok\n")
        await run.clock.sleep(60)
        run.decide("a")
        await run.clock.sleep(1)
        assert 1 == len(run.poster.sent)
        told = [line for line in run.lines if line["level"] == "error"]
        assert [
            (
                f"{path}:3: sinks[0].type: 'webhok' is none of slack, webhook or sns;"
                " did you mean webhook?"
            )
        ] == [line["error"] for line in told]

        path.write_text(good.replace('"hook"', '"other"'))
        await run.clock.sleep(10)
        run.decide("b")
        path.unlink()
        await run.clock.sleep(60)
        run.decide("c")
        await run.clock.sleep(1)
        assert 3 == len(run.poster.sent)
        assert 2 == len([line for line in run.lines if line["level"] == "error"])


@in_virtual_time
async def test_a_sink_that_is_not_changed_keeps_what_waits(folder: Path) -> None:
    path = folder / "notifications.yaml"
    async with notified(folder, digest="1m") as run:
        run.decide("a")
        document = json.loads(path.read_text())
        document["sinks"].append({**document["sinks"][0], "name": "second", "digest": "2m"})
        path.write_text(json.dumps(document))
        await run.clock.sleep(100)

        assert 1 == len(run.poster.sent)


@in_virtual_time
async def test_an_address_that_is_rotated_or_missing_is_read_again_for_each_try(
    folder: Path,
) -> None:
    async with notified(folder) as run:
        (folder / "url").unlink()
        run.decide()
        await run.clock.sleep(20)
        assert [] == run.poster.sent
        (folder / "url").write_text(SECRET)
        await run.clock.sleep(60)

        assert {"sent": 1.0} == run.counted()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (
            "http://hooks.example.com/secret",
            "holds a plain http address of hooks.example.com; use https",
        ),
        ("not an address", "holds no address that begins with https://"),
        ("file:///etc/passwd", "holds no address that begins with https://"),
    ],
)
def test_an_address_that_must_not_be_used(tmp_path: Path, url: str, problem: str) -> None:
    async def main() -> None:
        async with notified(tmp_path) as run:
            (tmp_path / "url").write_text(url)
            run.decide()
            await run.clock.sleep(60)

            assert [] == run.poster.sent
            assert [f"{tmp_path / 'url'} {problem}"] == [line["error"] for line in warnings(run)]

    run_virtual(main())


@pytest.mark.case("OPS-42")
@in_virtual_time
async def test_a_leader_killed_before_sending_loses_the_message_and_repeats_none_under_another_id(
    folder: Path,
) -> None:
    about: dict[str, Any] = {"identity": ("uid-of-claim-a",)}
    async with notified(folder, 3600.0) as leader:
        first = leader.decide("a", **about)
        leader.decide("b")  # is never sent: the first one hangs
        await leader.clock.sleep(1)
        leader.task.cancel()  # killed
        await asyncio.gather(leader.task, return_exceptions=True)
    tried = leader.poster.ids
    async with notified(folder) as successor:
        second = successor.decide("a", **about)  # the message of the queue comes to it as well
        successor.decide("c")
        await successor.clock.sleep(60)

        assert first == second
        assert [first] == tried
        assert {"NodeClaim/a": {first}} == {
            subject: ids
            for subject, ids in by_subject(leader, successor).items()
            if subject == "NodeClaim/a"
        }
        assert all(len(ids) == 1 for ids in by_subject(leader, successor).values())
        assert "NodeClaim/b" not in by_subject(successor)
        assert {"sent": 2.0} == successor.counted()


def by_subject(*runs: Run) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for run in runs:
        for _, body, _ in run.poster.sent:
            found.setdefault(body["subject"], set()).add(body["id"])
    return found
