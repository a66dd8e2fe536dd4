"""The store: versions, history, watches that follow it, and lists that go back in it."""

import asyncio
from typing import Any

import pytest

from karpenter_sandbox.store.errors import (
    AlreadyExistsError,
    ConflictError,
    Gone,
    MissingError,
    NotYet,
)
from karpenter_sandbox.store.store import Event, Key, Store


def key(name: str, namespace: str = "default") -> Key:
    return Key("", "pods", namespace, name)


def obj(name: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **parts}


def seen(events: list[Event]) -> list[tuple[str, str, int]]:
    return [(event.type, event.stored.key.name, event.rv) for event in events]


class TestChanges:
    def test_every_change_takes_the_next_version_whatever_the_resource(self) -> None:
        store = Store()

        first = store.create(key("a"), obj("a"))
        second = store.create(Key("apps", "deployments", "default", "a"), obj("a"))
        third = store.replace(key("a"), obj("a", x=1))
        last = store.remove(key("a"))

        versions = [o["metadata"]["resourceVersion"] for o in (first, second, third, last)]
        assert ["2", "3", "4", "5"] == versions
        assert 5 == store.resource_version

    def test_what_is_handed_in_may_change_later_without_changing_what_is_stored(self) -> None:
        store, given = Store(), obj("a", spec={"x": 1})

        store.create(key("a"), given)
        given["spec"]["x"] = 2

        assert {"x": 1} == (store.get(key("a")) or {})["spec"]

    def test_a_key_is_taken_once(self) -> None:
        store = Store()
        store.create(key("a"), obj("a"))

        with pytest.raises(AlreadyExistsError):
            store.create(key("a"), obj("a"))

    def test_an_object_that_is_no_json_changes_nothing(self) -> None:
        store = Store()

        with pytest.raises(TypeError):
            store.create(key("a"), obj("a", spec=object()))

        assert 1 == store.resource_version
        assert [] == store.list("", "pods")

    def test_replacing_what_is_not_there_is_refused(self) -> None:
        with pytest.raises(MissingError):
            Store().replace(key("a"), obj("a"))

    def test_an_outdated_version_is_refused(self) -> None:
        store = Store()
        store.create(key("a"), obj("a"))
        store.replace(key("a"), obj("a"))

        with pytest.raises(ConflictError) as caught:
            store.replace(key("a"), obj("a"), expected_rv="2")

        assert ("2", "3") == (caught.value.expected, caught.value.actual)


class TestLists:
    def test_objects_come_in_the_order_of_namespace_and_name(self) -> None:
        store = Store()
        for name, namespace in (("b", "two"), ("a", "two"), ("c", "one"), ("a", "two-more")):
            store.create(key(name, namespace), obj(name))

        everything = [(s.key.namespace, s.key.name) for s in store.entries("", "pods")]
        inside = [s.key.name for s in store.entries("", "pods", "two")]

        assert [("one", "c"), ("two", "a"), ("two", "b"), ("two-more", "a")] == everything
        assert ["a", "b"] == inside

    def test_a_list_goes_back_to_an_earlier_version(self) -> None:
        store = Store()
        store.create(key("kept"), obj("kept", n=1))
        store.create(key("gone"), obj("gone"))
        then = store.resource_version
        store.remove(key("gone"))
        store.replace(key("kept"), obj("kept", n=2))
        store.create(key("new"), obj("new"))

        before = store.entries("", "pods", rv=then)

        assert ["gone", "kept"] == [stored.key.name for stored in before]
        assert [None, 1] == [stored.obj.get("n") for stored in before]

    def test_a_version_older_than_the_history_is_gone(self) -> None:
        store = Store(history=2)
        for number in range(8):
            store.create(key(f"p{number}"), obj(f"p{number}"))

        with pytest.raises(Gone):
            store.entries("", "pods", rv=2)

    def test_a_version_of_the_future_is_not_there_yet(self) -> None:
        with pytest.raises(NotYet):
            Store().entries("", "pods", rv=99)


class TestWatches:
    def test_a_watch_sees_what_happens_after_its_version(self) -> None:
        store = Store()
        store.create(key("a"), obj("a"))
        watch = store.watch("", "pods", None, store.resource_version)

        store.replace(key("a"), obj("a"))
        store.remove(key("a"))

        assert [("MODIFIED", "a", 3), ("DELETED", "a", 4)] == seen(watch.ready())
        assert [] == watch.ready()

    def test_a_watch_of_a_namespace_sees_nothing_else(self) -> None:
        store = Store()
        watch = store.watch("", "pods", "one", store.resource_version)

        store.create(key("a", "two"), obj("a"))
        store.create(key("b", "one"), obj("b"))

        assert ["b"] == [event.stored.key.name for event in watch.ready()]

    def test_a_watch_from_before_the_history_is_gone(self) -> None:
        store = Store(history=2)
        for number in range(8):
            store.create(key(f"p{number}"), obj(f"p{number}"))

        with pytest.raises(Gone) as caught:
            store.watch("", "pods", None, 1)

        assert "too old resource version: 1 (" in str(caught.value)

    def test_a_reader_that_falls_behind_is_told_so(self) -> None:
        store = Store(history=2)
        watch = store.watch("", "pods", None, store.resource_version)
        for number in range(8):
            store.create(key(f"p{number}"), obj(f"p{number}"))

        with pytest.raises(Gone):
            watch.ready()

    def test_compaction_drops_what_is_older_than_the_one_before(self) -> None:
        store = Store()
        for number in range(1000):
            store.create(key(f"old{number}"), obj("old"))
        store.compact()
        for number in range(600):
            store.create(key(f"new{number}"), obj("new"))
        watch = store.watch("", "pods", None, store.resource_version - 600)
        store.compact()

        assert 600 == len(store.collection("", "pods").events)
        assert 600 == len(watch.ready())
        assert 1600 == store.count("", "pods")
        with pytest.raises(Gone):
            store.watch("", "pods", None, 100)

    def test_compaction_keeps_the_latest_changes_of_a_slow_resource(self) -> None:
        store = Store()
        store.create(key("a"), obj("a"))
        began = store.resource_version
        for number in range(300):
            store.replace(key("a"), obj("a", n=number))
        for _ in range(3):
            store.compact()

        assert 300 == len(store.watch("", "pods", None, began).ready())
        assert [0] == [entry.obj["n"] for entry in store.entries("", "pods", rv=began + 1)]

    async def test_waiting_ends_with_the_next_change(self) -> None:
        store = Store()
        watch = store.watch("", "pods", None, store.resource_version)
        waiting = asyncio.create_task(watch.batch())
        await asyncio.sleep(0)

        store.create(key("a"), obj("a"))

        assert [("ADDED", "a", 2)] == seen(await waiting)

    async def test_iterating_yields_one_change_after_the_other(self) -> None:
        store = Store()
        watch = store.watch("", "pods", None, store.resource_version)
        store.create(key("a"), obj("a"))
        store.create(key("b"), obj("b"))

        names = [(await anext(watch)).stored.key.name for _ in range(2)]

        assert ["a", "b"] == names

    async def test_watches_end_when_the_resource_is_dropped(self) -> None:
        store = Store()
        watch = store.watch("", "pods", None, store.resource_version)
        waiting = asyncio.create_task(watch.batch())
        await asyncio.sleep(0)

        store.drop("", "pods")

        assert [] == await waiting

    async def test_a_cancelled_wait_leaves_nothing_behind(self) -> None:
        store = Store()
        watch = store.watch("", "pods", None, store.resource_version)
        waiting = asyncio.create_task(watch.batch())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

        assert {} == store.collection("", "pods")._waiting

    def test_a_deleted_object_carries_the_version_of_its_deletion(self) -> None:
        store = Store()
        store.create(key("a"), obj("a"))
        watch = store.watch("", "pods", None, store.resource_version)

        store.remove(key("a"))

        assert ["3"] == [event.obj["metadata"]["resourceVersion"] for event in watch.ready()]

    def test_old_events_are_read_again_after_their_parsed_objects_were_given_up(self) -> None:
        store = Store()
        store.create(key("a"), obj("a", n=0))
        watch = store.watch("", "pods", None, store.resource_version)
        for number in range(1, 1200):
            store.replace(key("a"), obj("a", n=number))

        assert list(range(1, 1200)) == [event.obj["n"] for event in watch.ready()]

    def test_what_was_current_for_long_and_is_replaced_is_not_kept_parsed(self) -> None:
        store = Store()
        first = store.add(key("a"), obj("a"))
        for number in range(600):
            store.create(key(f"b{number}"), obj("b"))
        assert first.obj["metadata"]["name"] == "a"
        store.replace(key("a"), obj("a", n=1))
        for number in range(600):
            store.create(key(f"c{number}"), obj("c"))

        assert first._obj is None
