"""``karpenter record`` with options and folders that cannot be used: one sentence, and nothing else."""

import fcntl
import os
from pathlib import Path

import pytest

from helpers.commands import run
from karpenter.simulate.record.segments import Head, end_line, head_line, whole_line
from unit.simulate.record.test_recording_segments import compressed


@pytest.fixture(autouse=True)
def far_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig of a cluster that does not answer."""
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: far\n"
        "contexts: [{name: far, context: {cluster: far, user: me}}]\n"
        "clusters: [{name: far, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: me, user: {}}]\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("karpenter.kube.retry.RETRIES", 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--for", "0"], "--for 0: nothing would be recorded; give a longer time"),
        (["--for", "soon"], "--for 'soon': is no length of time such as 90s, 1h30m or 7d"),
        (["--keep", "0s"], "--keep 0s: nothing would be recorded; give a longer time"),
        (["--rotate", "5s"], "--rotate 5s: files of less than a minute are too many"),
        (["--rotate", "1Ki"], "--rotate 1Ki: files of less than 64Ki are too many"),
        (
            ["--rotate", "big"],
            "--rotate 'big': is neither a length of time such as 1h nor a size such as 64Mi",
        ),
        (["--key", "k"], "--key goes with --hash-names only"),
        (["--hash-names", "--key", "missing"], "--key missing: no such file or directory"),
        (
            ["--hash-names", "--key", "short"],
            "--key short: has 3 bytes; a key of at least 16 is safe",
        ),
        (["--context", "none"], "there is no context 'none'"),
        (["-n", "shop", "-n", "A B"], "--namespace 'A B': is no name that a namespace can have"),
        (["-n", ""], "--namespace '': is no name that a namespace can have"),
    ],
)
def test_options_that_mean_nothing(options: list[str], sentence: str) -> None:
    Path("short").write_text("abc\n")

    ran = run("record", "-o", "out", *options)

    assert 2 == ran.code
    (error,) = ran.errors
    assert sentence in error
    assert not Path("out").exists()


def test_it_needs_a_folder() -> None:
    ran = run("record")

    assert 2 == ran.code
    assert "--output" in ran.err


def spoilt(name: str) -> None:
    """A folder that cannot be recorded to."""
    path = Path(name)
    if name == "file":
        path.write_text("text")
        return
    if name != "missing/deep":
        path.mkdir()
    segment = path / "events-0001.jsonl.gz"
    if name == "foreign":
        (path / "scenario.yaml").write_text("kind: Scenario\n")
    elif name == "broken":
        segment.write_bytes(b"no recording")
    elif name == "later":
        segment.write_bytes(compressed(b'{"recording": 3}\n'))
    elif name == "hashed":
        head = head_line(Head(1e9, 1, None, "another key"))
        segment.write_bytes(compressed(head, whole_line(1e9), end_line(1e9)))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing/deep", "-o missing/deep: there is no folder "),
        ("file", "-o file: is not a folder"),
        ("foreign", "-o foreign: has a scenario.yaml but no recording; choose another folder"),
        (
            "broken",
            "-o broken: cannot be continued: events-0001.jsonl.gz:1: this is no whole recording",
        ),
        (
            "later",
            "-o later: cannot be continued: events-0001.jsonl.gz:1: the recording has version 3,",
        ),
        ("hashed", "-o hashed: its recording has names of another kind; hash them with the --key"),
    ],
)
def test_folders_that_cannot_be_recorded_to(name: str, sentence: str) -> None:
    spoilt(name)
    before = [*Path(name).glob("*")]

    ran = run("record", "-o", name)

    assert 2 == ran.code
    (error,) = ran.errors
    assert error.startswith(f"error: {sentence}")
    assert before == [*Path(name).glob("*")]


def test_a_folder_that_another_recorder_writes_to() -> None:
    Path("out").mkdir()
    lock = os.open("out", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = run("record", "-o", "out")
    finally:
        os.close(lock)

    assert 2 == ran.code
    assert ran.errors == ["error: -o out: another recorder writes to it"]


def test_a_folder_that_may_not_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out").mkdir()
    # Also for the superuser, who may write everywhere
    monkeypatch.setattr("os.access", lambda path, mode: not mode & os.W_OK)

    ran = run("record", "-o", "out")

    assert 1 == ran.code
    assert ran.errors == ["error: -o out: you may not write to it"]


def test_a_cluster_that_does_not_answer() -> None:
    ran = run("record", "-o", "out")

    assert 1 == ran.code
    (error,) = ran.errors
    assert "error: the cluster cannot be recorded: cannot connect to http://127.0.0.1:1" in error
    assert [] == [*Path("out").glob("*")]


SCENARIO = """\
apiVersion: simulate.karpenter.sh/v1
kind: Scenario
metadata: {name: recording}
until: 1h
workloads: [{name: recorded, recording: {file: "events-*.jsonl.gz"}}]
"""


@pytest.mark.parametrize(
    ("segments", "sentence"),
    [
        ({}, "events-*.jsonl.gz matches no file"),
        ({1: b"nothing"}, "events-0001.jsonl.gz:1: this is no whole recording"),
        ({1: compressed(b'{"recording": 9}\n')}, "the recording has version 9, and only 1 to 2"),
        ({1: compressed(head_line(Head(1e9, 1, None, "")))[:9]}, "none of it is left"),
    ],
)
def test_scenarios_whose_recording_cannot_be_used(
    segments: dict[int, bytes], sentence: str
) -> None:
    Path("scenario.yaml").write_text(SCENARIO)
    for number, data in segments.items():
        Path(f"events-{number:04}.jsonl.gz").write_bytes(data)

    ran = run("simulate", "scenario.yaml", "--check")

    assert 2 == ran.code
    assert sentence in ran.errors[0]


def test_a_recording_without_an_end_is_replayed_with_a_warning() -> None:
    Path("scenario.yaml").write_text(SCENARIO)
    whole = compressed(head_line(Head(1.9e9, 1, None, "")), whole_line(1.9e9), is_finished=False)
    Path("events-0001.jsonl.gz").write_bytes(whole)

    ran = run("simulate", "scenario.yaml", "--check")

    assert 0 == ran.code
    (warning,) = ran.warnings
    assert "events-0001.jsonl.gz: has no end, as its recorder was killed or still runs" in warning
