"""Pages about decisions have one form, and the index has them all."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs/decisions"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_the_parts_of_every_other(path: Path) -> None:
    text = path.read_text("utf-8")
    head = re.match(r"# (\d{4}) \S.*\nStatus: (accepted, \d{4}-\d{2}|superseded by \d{4})\n", text)

    assert head is not None
    assert path.name.startswith(f"{head[1]}-")
    assert re.findall(r"^\*\*(\w+)\.\*\*(?: |$)", text, re.MULTILINE) == [
        "Context",
        "Decision",
        "Consequences",
        "Alternatives",
    ]


def test_the_index_lists_every_page_with_its_title_and_status() -> None:
    index = (FOLDER / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \| (.+) \|$", index, re.MULTILINE)
    heads = [path.read_text("utf-8").split("\n", 2)[:2] for path in PAGES]

    assert rows == [
        (path.name[:4], path.name, title.removeprefix(f"# {path.name[:4]} "), status[8:])
        for path, (title, status) in zip(PAGES, heads, strict=True)
    ]
