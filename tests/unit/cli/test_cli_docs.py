"""The commands on the pages about plans print what the pages say they print."""

import re
import shlex
from pathlib import Path

import pytest

from unit.cli.commands import run

ROOT = Path(__file__).resolve().parents[3]
PAGE = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("plan.md", "explain.md"))
SHOWN = re.findall(r"```console\n\$ (.+)\n((?:.*\n)*?)```", PAGE)
FILES = re.findall(r"```yaml\n# (\S+\.yaml)\n((?:.*\n)*?)```", PAGE)


def test_there_are_commands_and_a_file_on_the_pages() -> None:
    assert ["small.yaml"] == [name for name, _ in FILES]
    assert ["plan", "plan", "plan", "plan", "explain", "explain", "explain"] == [
        next(word for word in command.split() if word in ("plan", "explain"))
        for command, _ in SHOWN
    ]


@pytest.mark.parametrize(("command", "expected"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_its_page_shows(
    command: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES:
        Path(name).write_text(text, "utf-8")
    Path("examples").symlink_to(ROOT / "examples")
    words = shlex.split(command)
    if words[0].startswith("COLUMNS="):
        monkeypatch.setenv("COLUMNS", words.pop(0).removeprefix("COLUMNS="))
    assert words.pop(0) == "karpenter"

    ran = run(*words)

    assert (0, expected) == (ran.code, ran.out)
