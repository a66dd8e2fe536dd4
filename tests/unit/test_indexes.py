"""The indexes of pages and examples have everything, and the commands they give work."""

import re
import shlex
from pathlib import Path

import pytest

from helpers.commands import run

ROOT = Path(__file__).parents[2]
EXAMPLES = (ROOT / "examples/README.md").read_text("utf-8")
COMMANDS = re.findall(r"(?:^\$ |\| `)karpenter ((?:plan|explain|convert) [^`\n]+)", EXAMPLES, re.M)


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text("utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}

    assert len(pages) > 10
    assert [page for page in sorted(pages) if f"]({page})" not in index] == []


def test_every_page_is_in_the_menu_of_the_site() -> None:
    menu = re.findall(r"^      - .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    folders = ("docs", "docs/reference", "docs/how-to")
    pages = {path for folder in folders for path in (ROOT / folder).glob("*.md")}

    assert len(menu) == len(set(menu))
    assert [name for name in menu if not (ROOT / name).is_file()] == []
    assert {path.relative_to(ROOT).as_posix() for path in pages} - set(menu) == set()


def test_every_example_is_in_the_index() -> None:
    folders = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}
    rows = re.findall(r"^\| \[`(.+)`\]\(\1\) \|", EXAMPLES, re.M)

    assert len(rows) > 5
    assert folders - {"__pycache__"} == set(rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_for_examples_work(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    ran = run(*shlex.split(command))

    assert (0, "") == (ran.code, "".join(re.findall(r"^error.*", ran.err, re.M)))
    assert ran.out


def test_there_are_commands_for_every_way_to_ask() -> None:
    assert {"plan", "explain", "convert"} == {command.split()[0] for command in COMMANDS}


def test_pages_are_short() -> None:
    folders = ("docs", "docs/reference", "docs/how-to")
    pages = [path for folder in folders for path in (ROOT / folder).glob("*.md")]
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in pages}
    most = {"cli.md": 400}  # a section for each command, written from the program

    assert {} == {name: count for name, count in lines.items() if count > most.get(name, 250)}
