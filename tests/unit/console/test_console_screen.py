"""Tables fit the screen, names are counted and sorted as people do, and markup stays text."""

import sys

import pytest

from karpenter.console import screen
from karpenter.console.screen import (
    Column,
    counted,
    fitted,
    in_order,
    laid_out,
    sample,
    shortened,
    words,
)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c"], "a, b, c"),
        (["a", "b", "c", "d"], "a, b +2"),
    ],
)
def test_a_few_names_and_how_many_more(names: list[str], shown: str) -> None:
    assert shown == sample(names)


def test_names_are_sorted_the_way_people_count() -> None:
    names = ["web-10", "web-2", "web", "api-1", "9-lives", "web-2-b"]

    assert ["api-1", "web", "web-2", "web-2-b", "web-10", "9-lives"] == in_order(names)


@pytest.mark.parametrize(
    ("number", "shown"), [(1, "1 node"), (0, "0 nodes"), (1200, "1,200 nodes")]
)
def test_numbers_have_their_noun(number: int, shown: str) -> None:
    assert shown == counted(number, "node")


def test_columns_go_in_the_order_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [
        Column("name", ["a" * 20]),
        Column("second", ["b" * 20], may_go=2),
        Column("first", ["c" * 20], may_go=1),
        Column("price", ["1"], is_number=True),
    ]
    headers = []
    for width in (80, 60, 40):
        monkeypatch.setattr(screen, "width", lambda width=width: width)
        headers.append(laid_out([fitted(columns)]).splitlines()[0].split())

    assert [
        ["name", "second", "first", "price"],
        ["name", "second", "price"],
        ["name", "price"],
    ] == headers


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (20, "ip-10-0-12-34.local"),
        (19, "ip-10-0-12-34.local"),
        (13, "ip-10-0-…ocal"),
        (7, "ip-1…al"),
    ],
)
def test_a_long_name_loses_its_middle(most: int, shown: str) -> None:
    assert shown == shortened("ip-10-0-12-34.local", most)
    assert len(shown) <= most


def test_cells_are_shortened_before_columns_go() -> None:
    columns = [
        Column("name", ["a" * 30], least=10),
        Column("second", ["b" * 20], may_go=1, least=10),
        Column("price", ["1"], is_number=True),
    ]

    heads, cells = [], []
    for room in (80, 60, 50, 29, 25):
        head, row = laid_out([fitted(columns, room)]).splitlines()
        heads.append(len(head.split()))
        cells.append([len(cell) for cell in row.split()])

    assert [3, 3, 3, 3, 2] == heads
    assert [[30, 20, 1], [30, 20, 1], [21, 20, 1], [10, 10, 1], [17, 1]] == cells


def test_names_are_cut_only_once_everything_else_has_gone() -> None:
    columns = [
        Column("name", ["a" * 30], at_worst=10),
        Column("second", ["b" * 20], may_go=1),
        Column("price", ["1"], is_number=True),
    ]

    rows = [laid_out([fitted(columns, room)]).splitlines()[1:] for room in (60, 40, 25)]

    assert [[30, 20, 1], [30, 1], [17, 1]] == [
        [len(cell) for line in row for cell in line.split()] for row in rows
    ]


def test_what_looks_like_markup_is_text() -> None:
    assert "[red]x[/red] :smile:\n" == laid_out([words("[red]x[/red] :smile:")])


def test_control_characters_are_spelled_out() -> None:
    assert "a\\x1b[2Jb\n" == laid_out([words("a\x1b[2Jb")])


@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [
        pytest.param({}, True, id="a terminal"),
        pytest.param({"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param({"TERM": "dumb"}, False, id="a dumb terminal"),
    ],
)
def test_colour_is_for_people(
    environment: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    shown = laid_out([words("bad", screen.BAD)])

    assert is_coloured == ("\x1b[31m" in shown)
