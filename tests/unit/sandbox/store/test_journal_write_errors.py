"""A journal on bad days: the disk is full, a byte has flipped, the file is somewhere else."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.server import cluster, config_map, deployment
from karpenter.clock import run_virtual, running_clock
from karpenter_sandbox.cluster import Cluster, last_moment
from karpenter_sandbox.store import journal
from karpenter_sandbox.store.errors import NotKeptError
from karpenter_sandbox.store.journal import Journal, JournalError
from karpenter_sandbox.store.store import Store
from unit.sandbox.store.test_store_journal import content, key, obj, rewritten_early


def recorded(path: Path) -> Store:
    """A store with some history, written to ``path`` without being closed."""
    store = Store()
    Journal(path, store)
    store.create(key("kept"), obj("kept", n=1))
    store.replace(key("kept"), obj("kept", n=2))
    return store


def reopened(path: Path) -> Store:
    store = Store()
    Journal(path, store).close()
    return store


class FullDisk:
    """A disk with room for so many bytes more, below the journal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, file: int, data: bytes) -> int:
        """Write what there is room for."""
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(file, data[: self.room])
        self.room -= written
        return written


def on_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> tuple[Path, Store, FullDisk]:
    """A store with some history, whose disk has room for so many bytes more."""
    path = tmp_path / "cluster.journal"
    return path, recorded(path), FullDisk(monkeypatch, room)


class TestAFullDisk:
    @pytest.mark.parametrize("room", [0, 1, 40])
    def test_refuses_changes_and_lets_none_happen(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
    ) -> None:
        path = tmp_path / "cluster.journal"
        store = recorded(path)
        before, version = content(store), store.resource_version
        watch = store.watch("apps", "deployments", None, version)
        disk = FullDisk(monkeypatch, room)

        changes: list[Callable[[], object]] = [
            lambda: store.create(key("new"), obj("new")),
            lambda: store.replace(key("kept"), obj("kept", n=3)),
            lambda: store.remove(key("kept")),
        ]
        for change in changes:
            with pytest.raises(NotKeptError, match="No space left on device; changes are"):
                change()

        assert (before, version) == (content(store), store.resource_version)
        assert [] == watch.ready()
        disk.room = 10_000
        assert before == content(reopened(path))

    def test_once_there_is_room_again_everything_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        path, store, disk = on_full_disk(tmp_path, monkeypatch, 30)
        for number in range(3):
            with pytest.raises(NotKeptError):
                store.create(key(f"refused-{number}"), obj("refused"))
        disk.room = 10_000

        store.create(key("new"), obj("new"))

        assert 1 == len(caplog.records)
        assert content(store) == content(reopened(path))
        assert store.get(key("new")) is not None

    def test_is_said_once_while_short_changes_still_find_their_place(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        path, store, disk = on_full_disk(tmp_path, monkeypatch, 0)

        for number in range(10):
            disk.room = 400
            with pytest.raises(NotKeptError):
                store.create(key("long"), obj("long", text="x" * 1000))
            disk.room = 400
            store.replace(key("kept"), obj("kept", n=number))
        said = len(caplog.records)
        disk.room = 10_000
        store.create(key("long"), obj("long", text="x" * 1000))
        disk.room = 0
        with pytest.raises(NotKeptError):
            store.remove(key("long"))

        assert (1, 2) == (said, len(caplog.records))  # it was mended, and is full once more
        disk.room = 10_000
        assert content(store) == content(reopened(path))

    def test_is_the_answer_to_a_request(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        api = cluster()
        Journal(tmp_path / "cluster.journal", api.store)
        FullDisk(monkeypatch, 0)

        answer = api.call("POST", "/api/v1/namespaces/default/configmaps", config_map())

        assert (500, "InternalError") == (answer.status, answer.body["reason"])
        assert "No space left on device; changes are refused until this is" in answer.message
        assert 404 == api.get(config_map()).status
        assert [None] == [record.exc_info for record in caplog.records]

    def test_puts_off_shortening_the_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(journal, "_SMALLEST_REWRITE", 2000)
        path = tmp_path / "cluster.journal"
        store = Store()
        Journal(path, store)
        store.create(key("a"), obj("a", text="x" * 500))
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        opened = os.open

        def refuse(name: Any, *more: Any) -> int:
            if str(name).endswith(".rewriting"):
                raise full
            return opened(name, *more)

        monkeypatch.setattr(os, "open", refuse)
        for number in range(20):
            store.replace(key("a"), obj("a", text="x" * 500, n=number))
        grown = path.stat().st_size
        monkeypatch.setattr(os, "open", opened)
        for number in range(40):
            store.replace(key("a"), obj("a", text="x" * 500, n=number))

        assert grown > 10_000 > path.stat().st_size
        assert content(store) == content(reopened(path))

    def test_at_the_start_is_one_sentence(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        FullDisk(monkeypatch, 5)

        with pytest.raises(JournalError, match="No space left on device; make room, or choose"):
            Journal(tmp_path / "cluster.journal", Store())

        assert [] == list(tmp_path.iterdir())

    def test_for_a_while_holds_a_cluster_up_and_no_longer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def live() -> list[str]:
            clock = running_clock()
            path = tmp_path / "cluster.journal"
            # Strict, so that whatever is no plain refusal ends the run
            living = Cluster(clock, seed=1, data_file=path, is_strict=True)
            await living.start()
            try:
                await living.add_nodes(2)
                await living.client.create(deployment(replicas=3), namespace="default")
                await clock.sleep(0.5)
                disk = FullDisk(monkeypatch, 100)
                await clock.sleep(300)
                disk.room = 10**9
                await clock.sleep(300)
                pods, _ = await living.client.list("v1", "pods", "default")
                return [each["status"]["phase"] for each in pods]
            finally:
                await living.stop()

        phases = run_virtual(live())

        assert ["Running"] * 3 == phases
        said = [record.getMessage() for record in caplog.records]
        name = tmp_path / "cluster.journal"
        assert [f"{name}: No space left on device; changes are refused until this is fixed"] == said


def test_a_folder_that_cannot_be_written_out_does_not_part_the_store_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store = rewritten_early(tmp_path, monkeypatch)
    write_out = os.fsync

    def refuse(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        write_out(file)

    monkeypatch.setattr(os, "fsync", refuse)
    store.create(key("a"), obj("a"))
    for number in range(100):
        store.replace(key("a"), obj("a", n=number))

    assert content(store) == content(reopened(path))


class TestDamage:
    def flipped(self, path: Path, position: int) -> None:
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(bytes(data))

    @pytest.mark.parametrize("back", range(2, 60, 3))
    def test_of_the_last_line_is_said(self, tmp_path: Path, back: int) -> None:
        path = tmp_path / "cluster.journal"
        store = recorded(path)
        before = content(store)
        store.create(key("last"), obj("last"))

        self.flipped(path, -back)
        after = Store()
        opened = Journal(path, after)
        opened.close()

        assert before == content(after)
        assert opened.lost is not None
        assert f"{path} is damaged at byte " in opened.lost
        assert opened.lost.endswith("is lost; restore a copy if it matters")

    def test_names_the_object_that_was_changed(self, tmp_path: Path) -> None:
        path = tmp_path / "cluster.journal"
        store = recorded(path)
        size = path.stat().st_size
        store.create(key("last"), obj("last"))

        self.flipped(path, -4)
        opened = Journal(path, Store())
        opened.close()

        said = f"{path} is damaged at byte {size}: the last change, of deployments/default/last,"
        assert f"{said} is lost; restore a copy if it matters" == opened.lost

    def test_of_the_end_of_the_last_line_loses_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "cluster.journal"
        store = recorded(path)

        self.flipped(path, -1)
        after = Store()
        opened = Journal(path, after)
        opened.close()

        assert content(store) == content(after)
        assert opened.lost is None

    def test_a_line_cut_short_is_nothing_to_speak_of(self, tmp_path: Path) -> None:
        path = tmp_path / "cluster.journal"
        recorded(path)
        path.write_bytes(path.read_bytes()[:-5])

        opened = Journal(path, Store())
        opened.close()

        assert opened.lost is None


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_keeps_its_place(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cluster.journal"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()

    for use in (lambda: Journal(path, Store()), lambda: last_moment(path)):
        with pytest.raises(JournalError, match="is not a regular file; choose another one"):
            use()

    assert not path.is_file()
    assert [path] == list(tmp_path.iterdir())


class TestLinks:
    def test_a_link_stays_one_and_leads_to_the_journal(self, tmp_path: Path) -> None:
        (tmp_path / "disk").mkdir()
        target, link = tmp_path / "disk" / "cluster.journal", tmp_path / "cluster.journal"
        link.symlink_to(target)

        store = recorded(link)
        again = reopened(link)

        assert link.is_symlink()
        assert [target] == list(target.parent.iterdir())
        assert content(store) == content(again) == content(reopened(target))
