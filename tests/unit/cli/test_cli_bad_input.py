"""Bad input is one sentence with file and line, exit code 2, and never a traceback."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.commands import PROVISIONER, run

PROGRAM = [sys.executable, "-m", "karpenter", "convert"]
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            "bad.yaml:1: the byte 0x89 is not UTF-8 text; save the file as UTF-8",
            id="a binary file",
        ),
        pytest.param(
            b"apiVersion: v1\nkind:\0",
            "bad.yaml:2:6: this is binary data (it holds NUL bytes), not UTF-8 text",
            id="NUL bytes",
        ),
        pytest.param(
            b"spec:\n\tlimits: 1\n",
            "bad.yaml:2:1: tabs may not indent YAML: replace the tab with spaces",
            id="tabs",
        ),
        pytest.param(
            b"spec:\n  a: 1\n  a: 2\n",
            "bad.yaml:3:3: the key `a` is already set on line 2; keep one of them",
            id="duplicate keys",
        ),
        pytest.param(
            LAUGHS.encode(),
            "bad.yaml:6:10: aliases such as `*a4` repeat more than 100,000 values; "
            "write out what is meant",
            id="anchors that explode",
        ),
        pytest.param(
            b"- a\n- b\n",
            "bad.yaml:1: an object with apiVersion and kind is expected here, but this is a list",
            id="a list",
        ),
        pytest.param(
            "größe: \x1b[31m\r\n".encode(),
            "bad.yaml:1:8: the control character U+001B is not allowed in YAML; remove it",
            id="control characters",
        ),
    ],
)
@pytest.mark.usefixtures("in_a_folder")
def test_what_cannot_be_read(data: bytes, sentence: str) -> None:
    Path("bad.yaml").write_bytes(data)

    ran = run("convert", "bad.yaml")

    assert (2, "") == (ran.code, ran.out)
    assert [f"error: {sentence}", "error: nothing is converted: 1 problem above"] == ran.errors
    assert len(ran.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("apiVersion: [1]\nkind: Provisioner\n", "1", id="a list for apiVersion"),
        pytest.param("kind: Provisioner\n", "1", id="no apiVersion"),
        pytest.param("apiVersion: karpenter.sh/v1\nkind: 5\n", "2", id="a number for kind"),
        pytest.param(
            "apiVersion: karpenter.sh/v1alpha9\nkind: Provisioner\n", "1", id="an unknown version"
        ),
        pytest.param(
            "apiVersion: karpenter.sh/v1alpha5\nkind: Provisoner\nmetadata: {name: a}\n",
            "2",
            id="an unknown kind of the group",
        ),
        pytest.param(PROVISIONER.replace("30", "[30]"), "8", id="a list for a number"),
        pytest.param(PROVISIONER.replace("30", '"30"'), "8", id="text for a number"),
        pytest.param(PROVISIONER.replace("30", "3.5"), "8", id="a fraction for an integer"),
        pytest.param(PROVISIONER.replace("30", "1e30"), "8", id="a number beyond 64 bits"),
        pytest.param(
            "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec: x\n",
            "4",
            id="text for spec",
        ),
        pytest.param(
            "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: []\nspec: {}\n",
            "3",
            id="a list for metadata",
        ),
        pytest.param(
            "apiVersion: karpenter.sh/v1alpha5\r\nkind: Provisioner\r\nmetadata:\r\n"
            "  name: größe\r\nspec: {providerRef: {name: a}}\r\n",
            "4",
            id="unicode in a name, lines ending in CRLF",
        ),
    ],
)
@pytest.mark.usefixtures("in_a_folder")
def test_what_is_no_good_object(text: str, place: str) -> None:
    Path("bad.yaml").write_bytes(text.encode())

    ran = run("convert", "bad.yaml")

    assert (2, "") == (ran.code, ran.out)
    assert place in {line.split(":")[2] for line in ran.errors[:-1]}


def test_what_a_manifest_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text('apiVersion: karpenter.sh/v1alpha5\nkind: "Prov\\e[2J\\nx"\n')

    ran = run("convert", str(path))

    assert ran.code == 2
    assert "\x1b" not in ran.err
    assert all(line.startswith(("error: ", "warning: ")) for line in ran.err.splitlines())


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "unit", "sentence"),
    [
        pytest.param(
            "n.yaml",
            "[",
            "n.yaml:1: an object with apiVersion and kind is expected here, but this is a list",
            id="brackets",
        ),
        pytest.param(
            "n.yaml",
            "- ",
            "n.yaml:1: the file is larger than the 32 MiB that YAML may have; split it",
            id="dashes",
        ),
        pytest.param(
            "n.yaml",
            "- [[[[[[[[]]]]]]]]\n",
            "n.yaml:1766023: the file is larger than the 32 MiB that YAML may have; split it",
            id="lines of lists",
        ),
        pytest.param(
            "n.json",
            '{"a":',
            "n.json:1:501: lists and mappings are nested more than 100 levels deep",
            id="objects in objects",
        ),
        pytest.param(
            "n.json",
            '{"a":[[],[],[]]}',
            "n.json:1: the file holds more than 16,000,000 values; split it into several files",
            id="lists beside lists",
        ),
    ],
)
def test_a_hundred_megabytes_of_nested_lists(
    name: str, unit: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(unit * (100_000_000 // len(unit)))

    done = subprocess.run(
        [*PROGRAM, name],
        cwd=tmp_path,
        preexec_fn=limit_memory,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (2, "") == (done.returncode, done.stdout)
    assert [f"error: {sentence}", "error: nothing is converted: 1 problem above"] == (
        done.stderr.splitlines()
    )


def on_a_full_disk(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose output goes to a device without room."""
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip(f"there is no {device} here")
    with device.open("wb") as full:
        return subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PROVISIONER)

    done = on_a_full_disk(*PROGRAM, str(tmp_path / "p.yaml"))

    assert done.returncode == 1
    assert done.stderr == "error: the result could not be written: no space left on device\n"


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_on_a_full_disk_is_one_sentence(flag: str) -> None:
    done = on_a_full_disk(sys.executable, "-m", "karpenter", flag)

    assert done.returncode == 1
    assert done.stderr == "error: the result could not be written: no space left on device\n"


def test_a_reader_that_leaves_early_is_no_drama(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PROVISIONER)
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [*PROGRAM, str(tmp_path / "p.yaml")],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)

    assert (1, "") == (done.returncode, done.stderr)
