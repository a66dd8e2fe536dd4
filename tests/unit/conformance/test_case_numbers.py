"""Every case of docs/spec is named by a test or excused, and tests name no case that is not there.

A test names a case by a string that begins with its number, in a marker or in the id of a parameter:
``@pytest.mark.case("SCH-45")``, ``id="DIS-97 a node without a claim"``.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parents[2]
SPECIFICATION = TESTS.parent / "docs" / "spec"
EXCUSES = TESTS / "conformance" / "not_applicable.yaml"
ROW_OF_A_CASE = re.compile(r"^\| ([A-Z][A-Z0-9]*-[A-Z]?\d+) \|", re.MULTILINE)
NUMBER = r"(?:[A-Z][A-Z0-9]*-[A-Z]?\d+)"
NAMING = re.compile(rf"""(?<!["'])["']({NUMBER}(?:, {NUMBER})*)(?=["' ])""")
# These speak about numbers, with examples of them, and prove none
SPEAKING = {TESTS / "conftest.py", Path(__file__), Path(__file__).with_name("test_ledger.py")}
MARKING = re.compile(r"\bmark\.(case|row)\(([^()]*)\)")


def cases_on(page: str) -> list[str]:
    """The numbers of the cases on a page, in its order."""
    return ROW_OF_A_CASE.findall(page)


def series(number: str) -> str:
    """What is before the digits at the end: ``SCH-`` of ``SCH-12``."""
    return number.rstrip("0123456789")


def named_in(source: str, known: frozenset[str]) -> Iterator[str]:
    """The numbers that strings of a file begin with, as far as they are of the series ``known``."""
    for found in NAMING.findall(source):
        yield from (number for number in found.split(", ") if series(number) in known)


def marked_in(source: str) -> Iterator[tuple[str, str]]:
    """The kind of each marker that names cases, with what it names."""
    for kind, arguments in MARKING.findall(source):
        for argument in arguments.split(","):
            if name := argument.strip():
                yield kind, name.strip("\"'")


@cache
def pages() -> dict[str, list[str]]:
    return {
        file.stem: cases_on(file.read_text("utf-8"))
        for file in sorted(SPECIFICATION.glob("*.md"))
        if file.stem != "README"
    }


@cache
def sources() -> dict[str, str]:
    return {
        file.relative_to(TESTS).as_posix(): file.read_text("utf-8")
        for file in sorted(TESTS.rglob("*.py"))
        if file not in SPEAKING
    }


@cache
def named() -> dict[str, list[str]]:
    """The files that name each number."""
    known = frozenset(map(series, every_case()))
    found: dict[str, list[str]] = {}
    for file, source in sources().items():
        for number in named_in(source, known):
            found.setdefault(number, []).append(file)
    return found


def every_case() -> Iterator[str]:
    return (number for numbers in pages().values() for number in numbers)


def excuses(kind: str) -> dict[str, str]:
    loaded: dict[str, dict[str, str]] = yaml.safe_load(EXCUSES.read_text("utf-8"))
    return loaded[kind]


def repeated(found: Iterable[str]) -> list[str]:
    return [each for each, times in Counter(found).items() if times > 1]


def test_every_case_has_a_number_of_its_own() -> None:
    assert [] == repeated(every_case())


def test_no_number_is_missing() -> None:
    """A case that no longer holds is reworded where it stands: others would take its number."""
    in_order = sorted(every_case(), key=lambda number: (series(number), int(digits(number))))
    gaps = {
        name: numbers
        for name, group in groupby(in_order, key=series)
        if list(range(1, len(numbers := [int(digits(each)) for each in group]) + 1)) != numbers
    }

    assert {} == gaps


def digits(number: str) -> str:
    return number.removeprefix(series(number))


def test_every_case_is_named_by_a_test_or_excused() -> None:
    to_come, excused = excuses("pages"), excuses("cases")
    built = (case for page, cases in pages().items() if page not in to_come for case in cases)

    assert [] == [case for case in built if case not in named() and case not in excused]


def test_tests_name_no_case_that_does_not_exist() -> None:
    existing = set(every_case())

    assert {} == {number: files for number, files in named().items() if number not in existing}


def test_markers_name_cases_and_rows_by_their_numbers() -> None:
    kinds = {number: "row" if re.match(r"S\d-", number) else "case" for number in every_case()}
    wrong = [
        f"{file}: mark.{kind}({name!r})"
        for file, source in sources().items()
        for kind, name in marked_in(source)
        if kinds.get(name) != kind and name != "row"  # one that is passed on
    ]

    assert [] == wrong


def test_every_excuse_is_needed_and_has_a_reason() -> None:
    existing = set(every_case())
    needless = [case for case in excuses("cases") if case not in existing or case in named()]

    assert [] == needless
    assert set() == set(excuses("pages")) - set(pages())
    assert [] == [
        case for kind in ("pages", "cases") for case, why in excuses(kind).items() if len(why) < 10
    ]


def test_the_index_leads_to_every_page() -> None:
    index = (SPECIFICATION / "README.md").read_text("utf-8")

    assert [] == [page for page in pages() if f"[{page}]({page}.md)" not in index]


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        pytest.param('@pytest.mark.case("XY-4")', ["XY-4"], id="in a marker"),
        pytest.param('@pytest.mark.case("XY-4", "XY-5")', ["XY-4", "XY-5"], id="two in a marker"),
        pytest.param('param(1, id="XY-7 seven")', ["XY-7"], id="in an id"),
        pytest.param("param(1, id='XY-7')", ["XY-7"], id="alone in an id"),
        pytest.param('param(1, id=f"XY-7 {name}")', ["XY-7"], id="in an id that is made"),
        pytest.param('id="XY-7, XY-8 both"', ["XY-7", "XY-8"], id="two in an id"),
        pytest.param('id="UTF-8 text"', [], id="not a series of ours"),
        pytest.param('id="like XY-7"', [], id="not within a sentence"),
        pytest.param('"""XY-7 and more."""', [], id="not in a docstring"),
        pytest.param('id="XY-7-like"', [], id="not in a word"),
    ],
)
def test_how_a_test_names_cases(source: str, numbers: list[str]) -> None:
    assert numbers == list(named_in(source, frozenset({"XY-"})))


def test_how_markers_are_read() -> None:
    source = """
@pytest.mark.case(
    "XY-4",
    "XY-5",
)
@pytest.mark.row("S0-01")
"""

    assert [("case", "XY-4"), ("case", "XY-5"), ("row", "S0-01")] == list(marked_in(source))


def test_how_a_page_states_cases() -> None:
    page = """
| # | Given | Expect |
|---|---|---|
| XY-1 | a pod | XY-2 of the others |
| **B** | **a group** | |
| V15-D07 | a node | gone |
| 7-1 | no case | |
See XY-3.
"""

    assert ["XY-1", "V15-D07"] == cases_on(page)
