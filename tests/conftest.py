"""The conformance ledger as a pytest plugin: which promised rows have a passing test.

``@pytest.mark.row("S0-23")`` ties a test to rows of ``conformance/rows.yaml``; an unknown row is
a collection error. ``pytest --conformance`` ends with covered / total and the rows still open.

Beside it, what makes thousands of tests bearable: they are read without the garbage collector.
"""

import gc
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

LEDGER = Path(__file__).parent / "conformance" / "rows.yaml"
ROWS_PROPERTY = "conformance_rows"

_outcomes: dict[str, set[str]] = defaultdict(set)  # row id -> outcomes of the tests tied to it


def ledger() -> dict[str, dict[str, str]]:
    """The rows by id, in the order of the file."""
    return {row["id"]: row for row in yaml.safe_load(LEDGER.read_text("utf-8"))}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance", action="store_true", help="print which rows of the ledger are covered"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Let no collector look through what is only growing: reading all tests takes a third longer."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect again from now on, without going through all the tests each time."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = ledger()
    for item in items:
        rows = list(_rows_of(item))
        unknown = [row for row in rows if row not in known]
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: no such row in the ledger: {unknown}")
        if rows:
            item.user_properties.append((ROWS_PROPERTY, rows))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    for name, rows in report.user_properties:
        if name == ROWS_PROPERTY and isinstance(rows, list):
            for row in rows:
                _outcomes[row].add(report.outcome)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not terminalreporter.config.getoption("--conformance"):
        return
    known = ledger()
    covered = [row for row in known if _outcomes[row] == {"passed"}]
    write = terminalreporter.write_line
    terminalreporter.section("conformance")
    by_owner: dict[str, list[str]] = defaultdict(list)
    for row, fields in known.items():
        by_owner[fields["owner"]].append(row)
    for owner, rows in sorted(by_owner.items()):
        still_open = [row for row in rows if row not in covered]
        write(f"{owner:6} {len(rows) - len(still_open):3} / {len(rows)}")
        for row in still_open:
            state = "failing" if _outcomes[row] else "open"
            write(f"       {row:7} {state:8} {known[row]['check']}")
    write(f"covered {len(covered)} / total {len(known)}")


def _rows_of(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers("row"):
        yield from marker.args


@pytest.fixture(scope="session", autouse=True)
def _quiet() -> None:
    """Let nothing that logs by itself write into the output of the tests."""
    from karpenter.telemetry.logs import quiet_logger, take_over

    take_over(quiet_logger())
