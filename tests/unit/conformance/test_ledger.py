"""The ledger is whole: every promised row once, with an owner and a check in one sentence."""

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

LEDGER = Path(__file__).parents[2] / "conformance" / "rows.yaml"
SPECIFICATION = Path(__file__).parents[4] / "shared" / "spec" / "api.md"
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
    if not SPECIFICATION.exists():
        pytest.skip(f"the specification is not here: {SPECIFICATION}")
    text = SPECIFICATION.read_text("utf-8")
    expected = {
        match[1]: match[2]
        for match in re.finditer(r"^\| (S\d-\d+) \|.*\| (\w+) \| [^|]*\|$", text, re.MULTILINE)
    }

    assert expected == {row["id"]: row["owner"] for row in rows()}


def test_checks_are_all_different() -> None:
    repeated = [check for check, n in Counter(r["check"] for r in rows()).items() if n > 1]

    assert [] == repeated


def test_a_row_counts_only_when_all_its_tests_pass(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(__file__).parents[2].joinpath("conftest.py").read_text("utf-8"))
    pytester.mkdir("conformance").joinpath("rows.yaml").write_text(
        "- {id: A, owner: api, check: works}\n- {id: B, owner: api, check: fails}\n"
        "- {id: C, owner: cli, check: untested}\n"
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.row("A")
        def test_a(): pass

        @pytest.mark.row("A", "B")
        def test_ab(): pass

        @pytest.mark.row("B")
        def test_b(): assert False
        """
    )

    result = pytester.runpytest_subprocess("--conformance", "-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(
        ["api * 1 / 2", "*B *failing*", "cli * 0 / 1", "*C *open*", "covered 1 / total 3"]
    )


def test_an_unknown_row_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(__file__).parents[2].joinpath("conftest.py").read_text("utf-8"))
    pytester.mkdir("conformance").joinpath("rows.yaml").write_text(
        "- {id: A, owner: api, check: works}\n"
    )
    pytester.makepyfile("import pytest\n\n@pytest.mark.row('Z')\ndef test_z(): pass\n")

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    assert result.ret != 0
    result.stderr.fnmatch_lines(["*no such row in the ledger*Z*"])
