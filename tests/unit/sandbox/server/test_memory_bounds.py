"""What a server remembers of its clients is bounded by size, not by number alone."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from helpers.server import Cluster, cluster, pod
from karpenter.admission.schemas.engine import builtin
from karpenter_sandbox.store import history
from karpenter_sandbox.store.errors import Gone
from karpenter_sandbox.store.store import Key, Store

MEGABYTE = 1024 * 1024
KEY = Key("", "configmaps", "default", "a")


def kept_by(work: Callable[[int], object], times: int = 40) -> int:
    """How much memory a work leaves behind that is done again and again."""
    work(0)  # and whatever is loaded for the first time
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1, times + 1):
            work(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


class TestHistory:
    def test_large_changes_are_few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(history, "HISTORY_BYTES", 4 * MEGABYTE)
        monkeypatch.setattr(history, "_PARSED_BYTES", MEGABYTE)
        store = Store()
        store.create(KEY, {"metadata": {"name": "a"}})

        def update(number: int) -> None:
            text = f"{number:010}" * (MEGABYTE // 10)
            # Whoever reads what it wrote makes the store parse it
            assert text == store.replace(KEY, {"metadata": {"name": "a"}, "text": text})["text"]

        kept = kept_by(update)

        # The history, the last parsed, and what the first of the history replaced
        assert kept < 9 * MEGABYTE

    def test_a_reader_that_falls_behind_by_so_much_is_told_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(history, "HISTORY_BYTES", 10_000)
        store = Store()
        store.create(KEY, {"metadata": {"name": "a"}})
        slow = store.watch("", "configmaps", None, store.resource_version)
        began = store.resource_version

        for _ in range(20):
            store.replace(KEY, {"metadata": {"name": "a"}, "text": "x" * 1000})
        late = store.resource_version - 3

        with pytest.raises(Gone):
            slow.ready()
        with pytest.raises(Gone):
            store.entries("", "configmaps", rv=began)
        assert 3 == len(store.watch("", "configmaps", None, late).ready())
        assert "x" * 1000 == store.entries("", "configmaps", rv=late)[0].obj["text"]

    def test_one_change_is_always_kept_however_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(history, "HISTORY_BYTES", 10)
        store = Store()
        watch = store.watch("", "configmaps", None, store.resource_version)

        for number in range(5):
            store.create(Key("", "configmaps", "default", f"a{number}"), {"metadata": {}})

            assert 1 == len(watch.ready())

    def test_small_changes_are_as_many_as_ever(self) -> None:
        store = Store(history=100)
        store.create(KEY, {"metadata": {"name": "a"}})
        began = store.resource_version

        for number in range(100):
            store.replace(KEY, {"metadata": {"name": "a"}, "number": number})

        assert 100 == len(store.watch("", "configmaps", None, began).ready())


@pytest.fixture
def api() -> Cluster:
    return cluster()


class TestRefusedTexts:
    """Whatever is refused, however large and however often, is forgotten."""

    @pytest.mark.parametrize("place", ["name", "label", "value", "annotation", "kind", "amount"])
    def test_leave_nothing_behind(self, api: Cluster, place: str) -> None:
        def ask(number: int) -> None:
            text = f"{number:06}!" * 6_000
            made = pod()
            metadata = made["metadata"]
            if place == "name":
                metadata["name"] = text
            elif place in {"label", "annotation"}:
                metadata[f"{place}s"] = {text: "x"}
            elif place == "value":
                metadata["labels"] = {"x": text}
            elif place == "kind":
                made["kind"] = text
            else:
                made["spec"]["containers"][0]["resources"] = {"limits": {"cpu": text}}
            answer = api.call("POST", "/api/v1/namespaces/default/pods", made)
            assert answer.status in {400, 422}

        assert kept_by(ask) < MEGABYTE // 4

    def test_nor_do_paths_of_columns(self, api: Cluster) -> None:
        from karpenter_sandbox.server.printing.jsonpath import parse

        def ask(number: int) -> None:
            parse(f".a{number}" * 1_000)

        assert kept_by(ask) < MEGABYTE // 4

    def test_nor_kinds_of_manifests(self) -> None:
        def ask(number: int) -> None:
            assert builtin(f"{number}/v1" * 20_000, "NodePool") is None

        assert kept_by(ask) < MEGABYTE // 4
