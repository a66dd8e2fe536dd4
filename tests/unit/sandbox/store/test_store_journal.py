"""A store in a file: it comes back as it was, whatever happened to the process."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from karpenter_sandbox.store import journal
from karpenter_sandbox.store.errors import Gone
from karpenter_sandbox.store.journal import Journal, JournalError
from karpenter_sandbox.store.store import Key, Store


def key(name: str) -> Key:
    return Key("apps", "deployments", "default", name)


def obj(name: str, **parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **parts}


def content(store: Store) -> list[tuple[Key, int, Any]]:
    return [(stored.key, stored.rv, stored.obj) for stored in store.everything()]


def recorded(path: Path) -> Store:
    """A store with some history, written to ``path`` without being closed."""
    store = Store()
    Journal(path, store)
    store.create(key("kept"), obj("kept", text='"é\n\u2028'))
    store.create(key("gone"), obj("gone"))
    store.replace(key("kept"), obj("kept", n=2))
    store.remove(key("gone"))
    return store


def reopened(path: Path) -> Store:
    store = Store()
    Journal(path, store).close()
    return store


def rewritten_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Store]:
    """An empty store whose journal is rewritten once it has 2000 bytes, and its file."""
    monkeypatch.setattr(journal, "_SMALLEST_REWRITE", 2000)
    path = tmp_path / "cluster.journal"
    store = Store()
    Journal(path, store)
    return path, store


def test_a_store_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "cluster.journal"
    before = recorded(path)

    after = reopened(path)

    assert content(before) == content(after)
    assert before.resource_version == after.resource_version


def test_a_counter_survives_although_the_last_object_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "cluster.journal"
    store = recorded(path)
    store.create(key("last"), obj("last"))
    store.remove(key("last"))

    twice = reopened(path) and reopened(path)

    assert store.resource_version == twice.resource_version


def test_a_watch_from_before_the_restart_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "cluster.journal"
    recorded(path)

    after = reopened(path)

    with pytest.raises(Gone):
        after.watch("apps", "deployments", None, 2)
    after.watch("apps", "deployments", None, after.resource_version)


@pytest.mark.parametrize("lost", range(1, 40), ids=lambda lost: f"cut {lost} bytes short")
def test_a_line_cut_short_by_a_crash_is_dropped(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "cluster.journal"
    store = recorded(path)
    whole = content(store)
    size = path.stat().st_size
    store.create(key("late"), obj("late"))
    assert path.stat().st_size - size > lost

    path.write_bytes(path.read_bytes()[:-lost])

    assert whole == content(reopened(path))


def test_changes_after_a_cut_line_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "cluster.journal"
    recorded(path)
    path.write_bytes(path.read_bytes()[:-3])
    store = Store()
    Journal(path, store)

    store.create(key("later"), obj("later"))

    assert content(store) == content(reopened(path))


def test_a_file_damaged_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cluster.journal"
    recorded(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))

    with pytest.raises(JournalError, match="is damaged at byte"):
        reopened(path)


def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n")

    with pytest.raises(JournalError, match="is not a journal of a sandbox cluster"):
        reopened(path)

    assert "dear diary\n" == path.read_text()


def test_an_empty_file_is_a_new_journal(tmp_path: Path) -> None:
    path = tmp_path / "cluster.journal"
    path.touch()

    assert [] == content(reopened(path))


def test_a_folder_that_is_not_there_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file or directory; choose another file"):
        Journal(tmp_path / "nowhere" / "cluster.journal", Store())


def test_a_long_history_is_rewritten_to_what_it_describes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store = rewritten_early(tmp_path, monkeypatch)
    store.create(key("a"), obj("a", n=0))

    for number in range(500):
        store.replace(key("a"), obj("a", n=number))

    assert path.stat().st_size < 4000
    assert content(store) == content(reopened(path))
    assert ["cluster.journal"] == [entry.name for entry in tmp_path.iterdir()]


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.journal"
    recorded(path)

    assert 0o600 == path.stat().st_mode & 0o777


def test_a_journal_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "cluster.journal"
    holding = (
        "import sys, pathlib\n"
        "from karpenter_sandbox.store.journal import Journal\n"
        "from karpenter_sandbox.store.store import Store\n"
        "held = Journal(pathlib.Path(sys.argv[1]), Store())\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert "held\n" == other.stdout.readline()
        before = path.read_bytes()

        with pytest.raises(JournalError, match="is kept by another sandbox that runs; stop that"):
            Journal(path, Store())

        assert before == path.read_bytes()
        other.communicate("")

    assert () == tuple(reopened(path).everything())
