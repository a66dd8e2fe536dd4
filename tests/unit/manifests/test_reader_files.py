"""Files, folders and standard input are found in a fixed order; each failure is one sentence."""

import errno
import io
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from karpenter.manifests.files import Loaded, load


def load_here(*names: str, recursive: bool = False, stdin: bytes = b"") -> Loaded:
    return load(names, recursive=recursive, standard_input=io.BytesIO(stdin))


def kinds(loaded: Loaded) -> list[str]:
    assert loaded.errors == []
    return [document.data["kind"] for document in loaded.documents]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of manifests, which is also the working directory."""
    for name in ("b.yaml", "a.yml", "c.json", "d.txt", ".hidden.yaml", "sub/e.yaml", ".git/f.yaml"):
        path = tmp_path / "manifests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"kind": "{path.stem}"}}')
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("names", "recursive", "expected"),
    [
        pytest.param(["manifests"], False, ["a", "b", "c"], id="a folder, by name"),
        pytest.param(["manifests"], True, ["a", "b", "c", "e"], id="a folder and those below"),
        pytest.param(["manifests/d.txt"], False, ["d"], id="a file of any name"),
        pytest.param(["manifests/.hidden.yaml"], False, [".hidden"], id="a hidden file by name"),
        pytest.param(
            ["manifests/sub", "manifests/b.yaml"], False, ["e", "b"], id="in the order given"
        ),
        pytest.param(["-", "manifests/b.yaml"], False, ["stdin", "b"], id="standard input"),
        pytest.param(["/dev/null"], False, [], id="an empty file"),
    ],
)
def test_what_is_read(names: list[str], recursive: bool, expected: list[str]) -> None:
    loaded = load_here(*names, recursive=recursive, stdin=b"kind: stdin\n")

    assert expected == kinds(loaded)


@pytest.mark.usefixtures("folder")
def test_a_folder_that_links_back_to_itself_is_read_once() -> None:
    Path("manifests/sub/loop").symlink_to(Path("manifests").absolute())

    loaded = load_here("manifests", recursive=True)

    assert kinds(loaded) == ["a", "b", "c", "e"]


@pytest.mark.usefixtures("folder")
def test_a_link_to_a_file_and_to_a_folder_is_followed() -> None:
    Path("linked").mkdir()
    Path("linked/x.yaml").symlink_to(Path("manifests/b.yaml").absolute())
    Path("linked/y").symlink_to(Path("manifests/sub").absolute())

    loaded = load_here("linked", recursive=True)

    assert kinds(loaded) == ["b", "e"]


def broken_link() -> None:
    Path("gone.yaml").symlink_to("nowhere.yaml")


def circle() -> None:
    Path("one.yaml").symlink_to("two.yaml")
    Path("two.yaml").symlink_to("one.yaml")


def a_socket() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.yaml")


def nothing() -> None:
    """Leave the folder as it is."""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("prepare", "name", "sentence"),
    [
        pytest.param(nothing, "no.yaml", "no.yaml: no such file or folder", id="missing"),
        pytest.param(
            nothing,
            "manifests/b.yaml/x",
            "manifests/b.yaml/x: a part of this path is a file, not a folder",
            id="below a file",
        ),
        pytest.param(nothing, "", '"": the name of the file is empty', id="an empty name"),
        pytest.param(nothing, "x" * 300, f"{'x' * 300}: the name is too long", id="a long name"),
        pytest.param(
            broken_link, "gone.yaml", "gone.yaml: the symbolic link points to nothing", id="a link"
        ),
        pytest.param(
            circle, "one.yaml", "one.yaml: its symbolic links lead in a circle", id="a circle"
        ),
        pytest.param(
            a_socket, "socket.yaml", "socket.yaml: no such device or address", id="a socket"
        ),
        pytest.param(
            lambda: Path("empty").mkdir(),
            "empty",
            "empty: the folder holds no .yaml, .yml, .json file; -R looks into its subfolders, too",
            id="an empty folder",
        ),
    ],
)
def test_what_cannot_be_read(prepare: Callable[[], None], name: str, sentence: str) -> None:
    prepare()

    loaded = load_here(name)

    assert [sentence] == [str(error) for error in loaded.errors]


@pytest.mark.usefixtures("folder")
def test_an_empty_folder_even_below() -> None:
    Path("empty/below").mkdir(parents=True)

    loaded = load_here("empty", recursive=True)

    assert [str(error) for error in loaded.errors] == [
        "empty: the folder holds no .yaml, .yml, .json file"
    ]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("method", "name"), [("open", "manifests/b.yaml"), ("iterdir", "manifests")]
)
def test_permission(method: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(path: Path, *_: object) -> None:
        # Raised by hand: nothing can be denied to root, whom containers often run as.
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, method, deny)

    loaded = load_here(name)

    assert [str(error) for error in loaded.errors] == [f"{name}: permission to read it is denied"]


@pytest.mark.usefixtures("folder")
def test_one_bad_file_does_not_hide_the_others() -> None:
    Path("manifests/b.yaml").write_text("a: [")

    loaded = load_here("no.yaml", "manifests", "-", stdin=b"a: 1\na: 2\n")

    assert [error.name for error in loaded.errors] == ["no.yaml", "manifests/b.yaml", "<stdin>"]
    assert [document.data["kind"] for document in loaded.documents] == ["a", "c"]


def test_standard_input_that_the_shell_has_closed() -> None:
    loaded = load(["-"], recursive=False, standard_input=None)

    assert [str(error) for error in loaded.errors] == ["<stdin>: standard input is closed"]


class Endless(io.RawIOBase):
    """A stream without end that counts what is taken from it."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        self.taken += size
        return (self.text * (size // len(self.text) + 1))[:size]


def test_no_more_is_read_than_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karpenter.manifests.limits.MAX_YAML_BYTES", 2**20)
    stream = Endless(b"- ")

    loaded = load(["-"], recursive=False, standard_input=stream)  # type: ignore[arg-type]

    assert [str(error) for error in loaded.errors] == [
        "<stdin>:1: the file is larger than the 1 MiB that YAML may have; split it"
    ]
    assert stream.taken == 2**20 + 1
