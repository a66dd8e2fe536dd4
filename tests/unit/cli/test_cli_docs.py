"""The commands on the pages about plans print what the pages and pictures say they print."""

import html
import re
import shlex
from pathlib import Path

import pytest

from unit.cli.commands import run

ROOT = Path(__file__).resolve().parents[3]
PAGE = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("plan.md", "explain.md"))
SHOWN = re.findall(r"```console\n\$ (.+)\n((?:.*\n)*?)```", PAGE)
PICTURE = (ROOT / "docs" / "images" / "plan.svg").read_text("utf-8")
PIECE = re.compile(r'<text [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*clip-path[^>]*>([^<]*)</text>')
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


def test_the_picture_of_a_plan_is_one_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "118")

    ran = run("plan", "examples/plan")

    assert ["$ karpenter plan examples/plan", *ran.out.splitlines()] == drawn(PICTURE)


def drawn(picture: str) -> list[str]:
    """The lines of a picture of a terminal."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for across, down, text in PIECE.findall(picture):
        shown = html.unescape(text).replace("\xa0", " ").strip("\n")
        lines.setdefault(float(down), []).append((float(across), shown))
    return ["".join(text for _, text in sorted(lines[down])).rstrip() for down in sorted(lines)]
