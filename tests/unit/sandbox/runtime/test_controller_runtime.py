"""What controllers stand on: mirrors that are never behind, queues that never forget."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from helpers.clusters import in_virtual_time, running
from karpenter.clock import run_virtual, running_clock
from karpenter.kube.workqueue import WorkQueue
from karpenter_sandbox.backend import Backend, Identity
from karpenter_sandbox.client import Client
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.runtime.api_client import ApiClient
from karpenter_sandbox.runtime.events import NORMAL, WARNING, Recorder
from karpenter_sandbox.runtime.informer import Informer, ObjectKey
from karpenter_sandbox.runtime.runtime import (
    Controller,
    Runtime,
    controller_of,
    controller_uids,
    ignoring_missing,
)
from karpenter_sandbox.status import ApiError
from karpenter_sandbox.store.store import Store

Json = dict[str, Any]


def config_map(name: str, namespace: str = "default", **data: str) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def new_client(*, history: int = 8192) -> Client:
    client = Client(Backend(Store(history=history), Registry(), running_clock(), Identity(1)))
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    return client


class TestWorkQueue:
    @in_virtual_time
    async def test_keys_come_in_order_and_each_once(self) -> None:
        queue: WorkQueue[str] = WorkQueue(running_clock())
        for key in ("a", "b", "a", "c", "b"):
            queue.add(key)

        assert ["a", "b", "c"] == [await queue.get() for _ in range(3)]
        assert 0 == len(queue)

    @in_virtual_time
    async def test_a_key_is_not_worked_on_twice_at_a_time(self) -> None:
        queue: WorkQueue[str] = WorkQueue(running_clock())
        queue.add("a")
        taken = await queue.get()
        queue.add("a")
        queue.add("b")
        other = await queue.get()
        queue.done(taken)

        assert ("b", "a") == (other, await queue.get())

    @in_virtual_time
    async def test_a_key_that_was_not_added_again_is_done_with(self) -> None:
        queue: WorkQueue[str] = WorkQueue(running_clock())
        queue.add("a")
        queue.done(await queue.get())

        assert 0 == len(queue)

    @in_virtual_time
    async def test_a_key_for_later_comes_later(self) -> None:
        clock = running_clock()
        queue: WorkQueue[str] = WorkQueue(clock)
        queue.add_after("a", 30)
        key = await queue.get()

        assert ("a", 30.0) == (key, clock.monotonic())

    @in_virtual_time
    async def test_the_earliest_of_several_times_counts(self) -> None:
        clock = running_clock()
        queue: WorkQueue[str] = WorkQueue(clock)
        for seconds in (30, 10, 20):
            queue.add_after("a", seconds)
        await queue.get()

        assert 10.0 == clock.monotonic()

    @in_virtual_time
    async def test_failures_in_a_row_wait_longer_until_one_success(self) -> None:
        queue: WorkQueue[str] = WorkQueue(running_clock())
        waits = [queue.retry("a") for _ in range(4)]
        queue.forget("a")

        assert [0.005, 0.01, 0.02, 0.04] == waits
        assert 0.005 == queue.retry("a")

    @in_virtual_time
    async def test_no_failure_waits_for_ever(self) -> None:
        queue: WorkQueue[str] = WorkQueue(running_clock())

        assert 1000.0 == max(queue.retry("a") for _ in range(50))

    @in_virtual_time
    async def test_a_closed_queue_forgets_what_was_for_later(self) -> None:
        queue: WorkQueue[str] = WorkQueue(running_clock())
        queue.add_after("a", 30)
        queue.clear()
        await asyncio.sleep(60)

        assert 0 == len(queue)

    @in_virtual_time
    async def test_several_workers_share_the_work(self) -> None:
        clock = running_clock()
        queue: WorkQueue[int] = WorkQueue(clock)
        done: list[int] = []

        async def work() -> None:
            while True:
                key = await queue.get()
                await clock.sleep(1)
                done.append(key)
                queue.done(key)

        async with running(work()), running(work()):
            for number in range(4):
                queue.add(number)
            await clock.sleep(2.5)

        assert [0, 1, 2, 3] == sorted(done)


class TestInformer:
    @in_virtual_time
    async def test_what_was_there_is_seen(self) -> None:
        client = await new_client()
        await client.create(config_map("a"))
        informer = Informer(client, "v1", "configmaps")
        async with running(informer.run(running_clock())):
            await informer.synced.wait()

            assert [("default", "a")] == informer.keys()

    @in_virtual_time
    async def test_reads_are_never_behind(self) -> None:
        client = await new_client()
        informer = Informer(client, "v1", "configmaps")
        async with running(informer.run(running_clock())):
            await informer.synced.wait()
            await client.create(config_map("a", x="1"))
            created = informer.get("default", "a")
            await client.patch("merge", "v1", "configmaps", "default", "a", {"data": {"x": "2"}})
            changed = informer.get("default", "a")
            await client.delete("v1", "configmaps", "default", "a")

            assert created is not None
            assert changed is not None
            assert ("1", "2") == (created["data"]["x"], changed["data"]["x"])
            assert (None, 0) == (informer.get("default", "a"), len(informer))

    @in_virtual_time
    async def test_changes_are_told_with_what_was_before(self) -> None:
        client = await new_client()
        await client.create(config_map("a", x="1"))
        informer = Informer(client, "v1", "configmaps")
        told: list[tuple[str | None, str | None]] = []

        def value(obj: Json | None) -> str | None:
            return obj["data"]["x"] if obj is not None else None

        informer.on_change(lambda old, new: told.append((value(old), value(new))))
        async with running(informer.run(running_clock())):
            await informer.synced.wait()
            await client.patch("merge", "v1", "configmaps", "default", "a", {"data": {"x": "2"}})
            await client.delete("v1", "configmaps", "default", "a")
            await asyncio.sleep(1)

        assert [(None, "1"), ("1", "2"), ("2", None)] == told

    @in_virtual_time
    async def test_who_comes_late_is_told_of_everything_there_is(self) -> None:
        client = await new_client()
        await client.create(config_map("a"))
        informer = Informer(client, "v1", "configmaps")
        async with running(informer.run(running_clock())):
            await informer.synced.wait()
            told: list[Json | None] = []
            informer.on_change(lambda old, new: told.append(new))

            assert ["a"] == [obj["metadata"]["name"] for obj in told if obj]

    @in_virtual_time
    async def test_a_handler_that_reads_sees_no_future(self) -> None:
        client = await new_client()
        informer = Informer(client, "v1", "configmaps")
        seen: list[int] = []
        async with running(informer.run(running_clock())):
            await informer.synced.wait()
            informer.on_change(lambda old, new: seen.append(len(informer)))
            for name in ("a", "b", "c"):
                await client.create(config_map(name))
            informer.refresh()

        assert [1, 2, 3] == seen

    @in_virtual_time
    async def test_an_index_follows_every_change(self) -> None:
        client = await new_client()
        await client.create(config_map("a", team="x"))
        informer = Informer(client, "v1", "configmaps")
        informer.add_index("team", lambda obj: (obj["data"]["team"],))
        async with running(informer.run(running_clock())):
            await informer.synced.wait()
            await client.create(config_map("b", team="y"))
            await client.patch("merge", "v1", "configmaps", "default", "a", {"data": {"team": "y"}})
            found = [obj["metadata"]["name"] for obj in informer.by_index("team", "y")]
            await client.delete("v1", "configmaps", "default", "b")

            assert ["a", "b"] == sorted(found)
            assert [] == informer.by_index("team", "x")
            assert 1 == len(informer.by_index("team", "y"))

    @in_virtual_time
    async def test_an_index_made_late_knows_everything(self) -> None:
        client = await new_client()
        await client.create(config_map("a", team="x"))
        informer = Informer(client, "v1", "configmaps")
        async with running(informer.run(running_clock())):
            await informer.synced.wait()
            informer.add_index("team", lambda obj: (obj["data"]["team"],))

            assert 1 == len(informer.by_index("team", "x"))

    @in_virtual_time
    async def test_a_namespace_can_be_looked_at_alone(self) -> None:
        client = await new_client()
        await client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        )
        await client.create(config_map("a"))
        await client.create(config_map("b", "other"))
        informer = Informer(client, "v1", "configmaps")
        async with running(informer.run(running_clock())):
            await informer.synced.wait()

            assert ["b"] == [obj["metadata"]["name"] for obj in informer.list("other")]

    @in_virtual_time
    async def test_lost_history_is_made_up_for_deletions_included(self) -> None:
        client = await new_client(history=4)
        for name in ("kept", "gone"):
            await client.create(config_map(name, x="0"))
        informer = Informer(client, "v1", "configmaps")
        told: list[tuple[str, bool]] = []

        def tell(old: Json | None, new: Json | None) -> None:
            obj = new or old
            assert obj is not None
            told.append((obj["metadata"]["name"], new is not None))

        async with running(informer.run(running_clock())):
            await informer.synced.wait()
            informer.on_change(tell)
            told.clear()
            await client.delete("v1", "configmaps", "default", "gone")
            for number in range(20):
                patch = {"data": {"x": str(number)}}
                await client.patch("merge", "v1", "configmaps", "default", "kept", patch)
            await asyncio.sleep(5)
            kept = informer.get("default", "kept")

            assert [("gone", False), ("kept", True)] == told
            assert kept is not None
            assert "19" == kept["data"]["x"]

    @in_virtual_time
    async def test_a_list_that_fails_is_tried_again(self) -> None:
        client = await new_client()
        flaky = Flaky(client)
        await client.create(config_map("a"))
        informer = Informer(cast(ApiClient, flaky), "v1", "configmaps")
        async with running(informer.run(running_clock())):
            await asyncio.sleep(5)

            assert (3, 1) == (flaky.calls, len(informer))


@dataclass
class Flaky:
    """A client whose first two lists fail."""

    client: Client
    calls: int = 0

    async def list(
        self, api_version: str, resource: str, namespace: str | None = None
    ) -> tuple[list[Json], str]:
        self.calls += 1
        if self.calls < 3:
            raise ApiError(500, "InternalError", "not now")
        return await self.client.list(api_version, resource, namespace)

    def watch(
        self,
        api_version: str,
        resource: str,
        namespace: str | None = None,
        *,
        resource_version: str,
    ) -> Any:
        return self.client.watch(
            api_version, resource, namespace, resource_version=resource_version
        )


class Recording(Controller):
    """Notes what it is asked for, and fails when told to."""

    name = "recording"

    def __init__(self, runtime: Runtime, failures: Sequence[Exception] = ()) -> None:
        super().__init__(runtime)
        self.maps = runtime.informer("v1", "configmaps")
        self.follow(self.maps)
        self.failures = list(failures)
        self.seen: list[tuple[float, str]] = []
        self.again: float | None = None

    async def reconcile(self, key: ObjectKey) -> float | None:
        self.seen.append((self.clock.monotonic(), key[1]))
        if self.failures:
            raise self.failures.pop(0)
        return self.again


class Ticking(Controller):
    name = "ticking"
    period = 60.0

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.ticks: list[float] = []

    async def tick(self) -> None:
        self.ticks.append(self.clock.monotonic())


class TestController:
    @in_virtual_time
    async def test_every_change_is_looked_at(self) -> None:
        client = await new_client()
        await client.create(config_map("a"))
        runtime = Runtime(client, running_clock())
        controller = Recording(runtime)
        runtime.add(controller)
        async with running(runtime.run()):
            await runtime.started.wait()
            await client.create(config_map("b"))
            await asyncio.sleep(1)

        assert ["a", "b"] == [name for _, name in controller.seen]

    @in_virtual_time
    async def test_it_looks_again_when_it_asked_to(self) -> None:
        client = await new_client()
        await client.create(config_map("a"))
        runtime = Runtime(client, running_clock())
        controller = Recording(runtime)
        controller.again = 30
        runtime.add(controller)
        async with running(runtime.run()):
            await asyncio.sleep(65)

        assert [0.0, 30.0, 60.0] == [at for at, _ in controller.seen]

    @in_virtual_time
    async def test_what_failed_is_tried_again(self) -> None:
        client = await new_client()
        await client.create(config_map("a"))
        runtime = Runtime(client, running_clock())
        controller = Recording(runtime, [ApiError(409, "Conflict", "no")] * 3)
        runtime.add(controller)
        async with running(runtime.run()):
            await asyncio.sleep(1)

        assert pytest.approx([0.0, 0.005, 0.015, 0.035]) == [at for at, _ in controller.seen]

    def test_an_error_nobody_foresaw_ends_a_strict_run(self) -> None:
        async def main() -> None:
            client = await new_client()
            await client.create(config_map("a"))
            runtime = Runtime(client, running_clock(), is_strict=True)
            runtime.add(Recording(runtime, [ZeroDivisionError("oh")]))
            await runtime.run()

        with pytest.raises(ExceptionGroup) as caught:
            run_virtual(main())
        assert caught.group_contains(ZeroDivisionError)

    def test_an_error_nobody_foresaw_is_logged_otherwise(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def main() -> int:
            client = await new_client()
            await client.create(config_map("a"))
            runtime = Runtime(client, running_clock())
            controller = Recording(runtime, [ZeroDivisionError("oh")])
            runtime.add(controller)
            async with running(runtime.run()):
                await asyncio.sleep(1)
            return len(controller.seen)

        with caplog.at_level(logging.ERROR):
            tries = run_virtual(main())

        assert 2 == tries
        assert ["recording: default/a: oh"] == [record.message for record in caplog.records]

    @in_virtual_time
    async def test_periodic_work_is_done_from_the_start(self) -> None:
        runtime = Runtime(await new_client(), running_clock())
        controller = Ticking(runtime)
        runtime.add(controller)
        async with running(runtime.run()):
            await asyncio.sleep(150)

        assert [0.0, 60.0, 120.0] == controller.ticks

    @in_virtual_time
    async def test_mirrors_are_shared(self) -> None:
        runtime = Runtime(await new_client(), running_clock())

        assert runtime.informer("v1", "pods") is runtime.informer("v1", "pods")

    @in_virtual_time
    async def test_a_mirror_cannot_be_asked_for_too_late(self) -> None:
        runtime = Runtime(await new_client(), running_clock())
        async with running(runtime.run()):
            await runtime.started.wait()

            with pytest.raises(RuntimeError, match="before the start"):
                runtime.informer("v1", "pods")

    @in_virtual_time
    async def test_other_work_runs_beside_the_controllers(self) -> None:
        runtime = Runtime(await new_client(), running_clock())
        did = asyncio.Event()

        async def work() -> None:
            did.set()

        runtime.add_task("work", work)
        async with running(runtime.run()):
            await asyncio.sleep(1)

        assert did.is_set()

    def test_the_managing_owner_is_found(self) -> None:
        owner = {"kind": "ReplicaSet", "uid": "1", "controller": True}
        obj = {"metadata": {"ownerReferences": [{"kind": "Other", "uid": "2"}, owner]}}

        assert (owner, ("1",)) == (controller_of(obj), controller_uids(obj))
        assert (None, ()) == (controller_of({"metadata": {}}), controller_uids({"metadata": {}}))

    @in_virtual_time
    async def test_what_is_gone_already_is_no_failure(self) -> None:
        client = await new_client()

        await ignoring_missing(client.delete("v1", "configmaps", "default", "a"))
        await client.create(config_map("a"))
        with pytest.raises(ApiError, match="already exists"):
            await ignoring_missing(client.create(config_map("a")))


class TestEvents:
    async def events(self, client: Client) -> list[Json]:
        await asyncio.sleep(1)
        items, _ = await client.list("v1", "events")
        return items

    @in_virtual_time
    async def test_the_older_form_counts_repetitions(self) -> None:
        client = await new_client()
        recorder = Recorder(client, running_clock(), "tester")
        obj = await client.create(config_map("a"))
        async with running(recorder.run()):
            recorder.emit(obj, NORMAL, "Did", "this")
            await asyncio.sleep(60)
            recorder.emit(obj, NORMAL, "Did", "this")
            (event,) = await self.events(client)

        assert (2, "2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z") == (
            event["count"],
            event["firstTimestamp"],
            event["lastTimestamp"],
        )
        assert ({"component": "tester"}, "a") == (event["source"], event["involvedObject"]["name"])

    @in_virtual_time
    async def test_other_words_are_another_event_in_the_older_form(self) -> None:
        client = await new_client()
        recorder = Recorder(client, running_clock(), "tester")
        obj = await client.create(config_map("a"))
        async with running(recorder.run()):
            recorder.emit(obj, NORMAL, "Did", "this")
            recorder.emit(obj, NORMAL, "Did", "that")

            assert 2 == len(await self.events(client))

    @in_virtual_time
    async def test_the_newer_form_makes_a_series(self) -> None:
        client = await new_client()
        recorder = Recorder(client, running_clock(), "tester")
        obj = await client.create(config_map("a"))
        async with running(recorder.run()):
            for _ in range(3):
                recorder.emit_series(obj, WARNING, "No", "room", action="Placing")
            (event,) = await self.events(client)

        assert (2, "Placing", "tester") == (
            event["series"]["count"],
            event["action"],
            event["reportingComponent"],
        )

    @in_virtual_time
    async def test_a_series_ends_after_six_minutes(self) -> None:
        client = await new_client()
        recorder = Recorder(client, running_clock(), "tester")
        obj = await client.create(config_map("a"))
        async with running(recorder.run()):
            recorder.emit_series(obj, WARNING, "No", "room", action="Placing")
            await asyncio.sleep(361)
            recorder.emit_series(obj, WARNING, "No", "room", action="Placing")

            assert 2 == len(await self.events(client))

    @in_virtual_time
    async def test_an_event_that_is_gone_after_an_hour_is_written_anew(self) -> None:
        client = await new_client()
        recorder = Recorder(client, running_clock(), "tester")
        obj = await client.create(config_map("a"))
        async with running(recorder.run()):
            recorder.emit(obj, NORMAL, "Did", "this")
            (first,) = await self.events(client)
            await client.delete("v1", "events", "default", first["metadata"]["name"])
            await asyncio.sleep(3601)
            recorder.emit(obj, NORMAL, "Did", "this")
            (event,) = await self.events(client)

        assert (1, "2030-01-01T01:00:02Z") == (event["count"], event["firstTimestamp"])

    @in_virtual_time
    async def test_events_that_are_gone_are_forgotten(self) -> None:
        client = await new_client()
        recorder = Recorder(client, running_clock(), "tester")
        obj = await client.create(config_map("a"))
        for number in range(50):
            recorder.emit(obj, NORMAL, "Did", f"{number}")
            recorder.emit_series(obj, NORMAL, f"Do{number}", "it", action="Doing")
        before = len(recorder._written)
        await asyncio.sleep(3601)
        recorder.emit(obj, NORMAL, "Did", "another")

        assert (100, 1) == (before, len(recorder._written))

    @in_virtual_time
    async def test_a_long_message_is_cut(self) -> None:
        client = await new_client()
        recorder = Recorder(client, running_clock(), "tester")
        obj = await client.create(config_map("a"))
        async with running(recorder.run()):
            recorder.emit(obj, NORMAL, "Long", "x" * 5000)
            (event,) = await self.events(client)

        assert 1024 == len(event["message"])

    @in_virtual_time
    async def test_an_event_that_cannot_be_written_holds_up_no_other(self) -> None:
        client = await new_client()
        recorder = Recorder(client, running_clock(), "tester")
        nowhere = config_map("a", "nowhere")
        obj = await client.create(config_map("b"))
        async with running(recorder.run()):
            recorder.emit(nowhere, NORMAL, "Lost", "this")
            recorder.emit(obj, NORMAL, "Did", "that")

            assert ["Did"] == [event["reason"] for event in await self.events(client)]

    @in_virtual_time
    async def test_what_a_recorder_keeps_is_what_the_api_would_have_kept(self) -> None:
        client = await new_client()
        obj = await client.create(config_map("a"))
        noting = _Noting(client)
        recorder = Recorder(noting, running_clock(), "tester")
        async with running(recorder.run()):
            recorder.emit(obj, NORMAL, "Did", "this", host="here")
            recorder.emit_series(obj, WARNING, "No", "room", action="Placing", related=obj)
            await asyncio.sleep(1)

        kept, made = [], []
        for body in noting.told:
            await client.record(body)
            kept.append(await self._taken(client, body))
            await client.create(body)
            made.append(await self._taken(client, body))

        assert 2 == len(kept)
        assert made == kept

    @staticmethod
    async def _taken(client: Client, body: Json) -> Json:
        """Take an event away again, and return it without what is new every time."""
        metadata = body["metadata"]
        event = await client.delete("v1", "events", metadata["namespace"], metadata["name"])
        unique = {"resourceVersion", "uid"}
        rest = {key: value for key, value in event["metadata"].items() if key not in unique}
        return {**event, "metadata": rest}


class _Noting(Client):
    """A client that only notes the events it is given."""

    def __init__(self, client: Client) -> None:
        self.told: list[Json] = []

    async def record(self, event: Json) -> None:
        self.told.append(event)
