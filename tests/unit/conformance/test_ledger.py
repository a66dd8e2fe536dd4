"""The ledger is whole: every promised row once, with an owner and a check in one sentence."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

LEDGER = Path(__file__).parents[2] / "conformance" / "rows.yaml"
SPECIFICATION = Path(__file__).parents[3] / "docs" / "spec" / "api.md"
OWNERS = {"api", "sched", "life", "disr", "term", "cp", "aws", "helm", "cli", "obs", "docs"}

pytest_plugins = ["pytester"]


def rows() -> list[dict[str, str]]:
    loaded: list[dict[str, str]] = yaml.safe_load(LEDGER.read_text("utf-8"))
    return loaded


def test_every_row_is_listed_once_in_its_series() -> None:
    expected = [
        f"S{series}-{number:02}"
        for series, count in enumerate((55, 38, 104, 43))
        for number in range(1, count + 1)
    ]

    assert expected == [row["id"] for row in rows()]


def test_every_row_has_an_owner_and_a_check() -> None:
    broken = [r["id"] for r in rows() if r["owner"] not in OWNERS or len(r["check"]) < 20]

    assert [] == broken


def test_owners_agree_with_the_specification() -> None:
    text = SPECIFICATION.read_text("utf-8")
    expected = {
        match[1]: match[2]
        for match in re.finditer(r"^\| (S\d-\d+) \|.*\| (\w+) \| [^|]*\|$", text, re.MULTILINE)
    }

    assert expected == {row["id"]: row["owner"] for row in rows()}


def test_checks_are_all_different() -> None:
    repeated = [check for check, n in Counter(r["check"] for r in rows()).items() if n > 1]

    assert [] == repeated


TESTS = Path(__file__).parents[2]
CONFTEST = TESTS.joinpath("conftest.py").read_text("utf-8")
MARKERS = "[pytest]\nmarkers =\n    row\n    slow\n    storm\n"
BEDS = pytest.mark.parametrize(
    "workers",
    [
        pytest.param((), id="one process"),
        pytest.param(("-n", "2"), id="workers", marks=pytest.mark.slow),
    ],
)


def bed(pytester: pytest.Pytester, tests: str, *rows: str) -> None:
    """A project with this plugin, a ledger of ``rows`` and a file of tests."""
    pytester.makeconftest(CONFTEST)
    pytester.makeini(MARKERS)
    listed = "".join(f"- {{id: {row}, owner: api, check: of {row}}}\n" for row in rows)
    pytester.mkdir("conformance").joinpath("rows.yaml").write_text(listed)
    pytester.makepyfile(test_some="import pytest\nrow = pytest.mark.row\n" + tests)


@pytest.mark.slow
def test_a_row_counts_only_when_all_its_tests_pass(pytester: pytest.Pytester) -> None:
    tests = """
@row("A")
def test_a(): pass

@row("A", "B")
def test_ab(): pass

@row("B")
def test_b(): assert False
"""
    bed(pytester, tests, "A", "B", "C")

    result = pytester.runpytest_subprocess("--conformance", "-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(["api * 1 / 3", "*B *failing*", "*C *open*", "covered 1 / total 3"])


def test_no_row_or_case_rests_on_files_outside_the_project() -> None:
    """A fresh clone and one with the seed manifests beside it say the same of every row and case."""
    outside = re.compile(r"\b(SEEDS|needs_seeds|BAD|GOOD|seed\()")
    found = [
        f"{file.name}: {node.name}"
        for file in TESTS.rglob("test_*.py")
        if re.search(r"SEEDS|needs_seeds|import .*\bseed\b", text := file.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(re.search(r"mark\.(row|case)\(", ast.unparse(each)) for each in node.decorator_list)
        and outside.search(ast.unparse(node))
    ]

    assert [] == found


@pytest.mark.slow
def test_a_skipped_test_leaves_its_row_open(pytester: pytest.Pytester) -> None:
    tests = """
@row("A")
def test_a(): pass

@row("A")
def test_needs_more(): pytest.skip("not on this machine")

@row("B")
@pytest.mark.skipif(True, reason="never")
def test_b(): pass

@row("C")
@pytest.mark.xfail
def test_c(): assert False
"""
    bed(pytester, tests, "A", "B", "C")

    result = pytester.runpytest_subprocess("--conformance")

    result.stdout.fnmatch_lines(
        ["*A *skipped*", "*B *skipped*", "*C *skipped*", "covered 0 / total 3"]
    )


TIERS = """
@row("A")
def test_a(): pass

@row("A", "B")
@pytest.mark.slow
def test_slow(): pass

@row("C")
@pytest.mark.storm
def test_storm(): pass
"""
FAST = ("-m", "row and not slow and not storm", "--conformance")


@BEDS
@pytest.mark.slow
def test_tests_of_all_tiers_count_once_they_ran(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    bed(pytester, TIERS, "A", "B", "C")

    first = pytester.runpytest_subprocess(*FAST, *workers)
    pytester.runpytest_subprocess("-m", "slow", *workers)
    then = pytester.runpytest_subprocess(*FAST, *workers)

    first.stdout.fnmatch_lines(
        [
            "tests of the tier fast: 1 of 1 ran",
            "tests of the tier slow: 0 of 1 ran; *make slow",
            "tests of the tier storm: 0 of 1 ran; *make slow",
            "*A *not run*",
            "*B *not run*",
            "*C *not run*",
            "covered 0 / total 3",
        ]
    )
    then.stdout.fnmatch_lines(
        [
            "tests of the tier slow: 1 of 1 ran",
            "tests of the tier storm: 0 of 1 ran; *make slow",
            "*C *not run*",
            "covered 2 / total 3",
        ]
    )


@pytest.mark.slow
def test_what_ran_on_other_sources_counts_no_longer(pytester: pytest.Pytester) -> None:
    bed(pytester, TIERS, "A", "B", "C")
    source = pytester.mkdir("src").joinpath("program.py")
    source.write_text("ANSWER = 1\n")
    pytester.runpytest_subprocess()
    same = pytester.runpytest_subprocess(*FAST)

    source.write_text("ANSWER = 2\n")
    changed = pytester.runpytest_subprocess(*FAST)

    same.stdout.fnmatch_lines(["covered 3 / total 3"])
    changed.stdout.fnmatch_lines(["*slow: 0 of 1 ran; *", "covered 0 / total 3"])


@pytest.mark.slow
def test_a_test_that_fails_now_outweighs_that_it_passed_before(pytester: pytest.Pytester) -> None:
    tests = """
import os

@row("A")
@pytest.mark.slow
def test_a(): assert "BROKEN" not in os.environ
"""
    bed(pytester, tests, "A")
    pytester.runpytest_subprocess()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BROKEN", "1")
        broken = pytester.runpytest_subprocess("-m", "slow", "--conformance")
        pytester.runpytest_subprocess("-m", "slow")
    kept = pytester.runpytest_subprocess(*FAST)

    broken.stdout.fnmatch_lines(["*A *failing*", "covered 0 / total 1"])
    kept.stdout.fnmatch_lines(["*A *failing*", "covered 0 / total 1"])


@pytest.mark.slow
def test_an_unknown_row_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.mkdir("conformance").joinpath("rows.yaml").write_text(
        "- {id: A, owner: api, check: works}\n"
    )
    pytester.makepyfile("import pytest\n\n@pytest.mark.row('Z')\ndef test_z(): pass\n")

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    assert result.ret != 0
    result.stderr.fnmatch_lines(["*no such row in the ledger*Z*"])
