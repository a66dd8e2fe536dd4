"""The kubeconfig of a sandbox belongs to the sandbox that runs, and to nobody else."""

from pathlib import Path

import pytest
import typer

from helpers.server import cluster
from karpenter_sandbox.command.kubeconfig import make_way, published
from karpenter_sandbox.server.http import Server

STALE = "apiVersion: v1\nkind: Config\ncurrent-context: karpenter-sandbox\n"


@pytest.fixture
def server() -> Server:
    return Server(cluster().api, port=8443, token="sesame")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


def test_it_is_there_for_as_long_as_the_sandbox_runs(server: Server, path: Path) -> None:
    make_way(path)
    with published(server, path):
        assert "http://127.0.0.1:8443/sesame" in path.read_text()
        assert 0o600 == path.stat().st_mode & 0o777
        assert [path] == list(path.parent.iterdir())

    assert not path.exists()


def test_another_sandbox_leaves_it_alone(
    server: Server, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with published(server, path):
        before = path.read_text()

        with pytest.raises(typer.Exit) as refused:
            make_way(path)

        assert before == path.read_text()
    said = f"error: {path} leads to another sandbox, which still runs; stop that one, or choose"
    assert (2, True) == (refused.value.exit_code, capsys.readouterr().err.startswith(said))


def test_reading_it_in_the_same_process_does_not_give_it_up(server: Server, path: Path) -> None:
    with published(server, path):
        path.read_text()

        with pytest.raises(typer.Exit):
            make_way(path)


def test_one_that_was_left_behind_makes_way(server: Server, path: Path) -> None:
    path.write_text(STALE)

    make_way(path)

    assert not path.exists()
    with published(server, path):
        assert "sesame" in path.read_text()


def test_of_two_that_start_at_once_the_second_is_refused(
    server: Server, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_way(path)
    make_way(path)
    with published(server, path):
        with pytest.raises(typer.Exit), published(server, path):
            pytest.fail("there is no room for two")

        assert "sesame" in path.read_text()
    assert "which still runs" in capsys.readouterr().err
    assert [] == list(path.parent.iterdir())


def test_what_somebody_else_has_put_there_is_not_removed(server: Server, path: Path) -> None:
    with published(server, path):
        path.unlink()
        path.write_text("something else")

    assert "something else" == path.read_text()


def test_one_that_is_gone_already_is_no_trouble(server: Server, path: Path) -> None:
    with published(server, path):
        path.unlink()

    assert not path.exists()


def test_a_link_stays_one(server: Server, path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "kubeconfig"
    target.write_text(STALE)
    path.symlink_to(target)

    make_way(path)
    with published(server, path):
        assert path.is_symlink()
        assert "sesame" in target.read_text()
        with pytest.raises(typer.Exit):
            make_way(target)

    assert path.is_symlink()
    assert [] == list(target.parent.iterdir())


def test_a_folder_that_cannot_be_written_is_one_sentence(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as refused, published(server, tmp_path / "absent" / "file"):
        pytest.fail("there is no such folder")

    assert 1 == refused.value.exit_code
    assert 1 == len(capsys.readouterr().err.splitlines())
