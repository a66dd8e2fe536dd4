"""The pages of the reference are what the code says today."""

import re

import pytest

import reference
from karpenter.cli.controller_flags import OTHERS, SETTINGS
from karpenter.settings import DEFAULT_GATES

PAGES = reference.pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_what_would_be_written(name: str) -> None:
    assert PAGES[name] == (reference.FOLDER / name).read_text("utf-8"), (
        "run: python tools/reference.py"
    )


def test_every_page_is_in_the_index() -> None:
    index = (reference.FOLDER / "README.md").read_text("utf-8")
    there = {path.name for path in reference.FOLDER.glob("*.md")} - {"README.md"}

    assert there >= PAGES.keys()
    assert [] == [name for name in sorted(there) if f"]({name})" not in index]


def test_every_entry_has_a_meaning() -> None:
    rows = [line for text in PAGES.values() for line in text.splitlines() if line.startswith("| `")]
    without = [row for row in rows if not row.split(" | ")[-1].strip(" |")]

    assert len(rows) > 200
    assert [] == without


def test_every_setting_and_gate_is_there() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", PAGES["settings.md"], re.MULTILINE))

    assert named == {flag.variable for flag in (*SETTINGS, *OTHERS)} | DEFAULT_GATES.keys()


def test_a_name_without_a_meaning_is_refused() -> None:
    with pytest.raises(SystemExit, match="no meaning for Novel"):
        reference._meaning("Novel", {})


def test_a_meaning_without_a_name_is_refused() -> None:
    with pytest.raises(SystemExit, match="explains Gone, which does not exist"):
        reference._refuse_unused({"Gone": "of old"}, ["Present"])
