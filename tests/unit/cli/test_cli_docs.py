"""The commands on the page about planning print what the page says they print."""

import re
import shlex
from pathlib import Path

import pytest

from unit.cli.commands import run

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "plan.md").read_text("utf-8")
SHOWN = re.findall(r"```console\n\$ (.+)\n((?:.*\n)*?)```", PAGE)
FILES = re.findall(r"```yaml\n# (\S+\.yaml)\n((?:.*\n)*?)```", PAGE)


def test_there_are_commands_and_a_file_on_the_page() -> None:
    assert ["small.yaml"] == [name for name, _ in FILES]
    assert ["plan", "explain", "plan"] == [
        next(word for word in command.split() if word in ("plan", "explain"))
        for command, _ in SHOWN
    ]


@pytest.mark.parametrize(("command", "expected"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_the_page_shows(
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
