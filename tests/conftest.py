"""The conformance ledger as a pytest plugin: which promised rows have passing tests.

``@pytest.mark.row("S0-23")`` ties a test to rows of ``conformance/rows.yaml``; an unknown row is
a collection error. A row is covered when every test tied to it passes, whatever its tier: a test
that was skipped, or that nobody has run, leaves it open. Every run notes in pytest's cache how
those tests went, for as long as sources and tests stay as they are, so that
``pytest --conformance`` can end with covered / total, the rows still open and the tiers that have
not run, without running the slow tiers again.

Beside it, what makes thousands of tests bearable: they are read without the garbage collector, and
no property test is judged by how fast the machine is.
"""

import gc
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

LEDGER = Path(__file__).parent / "conformance" / "rows.yaml"
ROWS_PROPERTY = "conformance_rows"
CACHE_KEY = "conformance/outcomes"
TIERS = {"fast": "make test", "slow": "make slow", "storm": "make slow"}
WORST_FIRST = ("failed", "skipped", "passed")

# On a busy machine the limits of Hypothesis (200 ms an example) would fail what is right
settings.register_profile(
    "any-speed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-speed")

_tied: dict[
    str, tuple[str, list[str]]
] = {}  # test -> its tier and rows, chosen for this run or not
_ran: dict[str, str] = {}  # test -> how it went in this run
_outcomes: dict[str, str] = {}  # the same, of this run or an earlier one
_TREE = pytest.StashKey[str]()


def ledger() -> dict[str, dict[str, str]]:
    """The rows by id, in the order of the file."""
    return {row["id"]: row for row in yaml.safe_load(LEDGER.read_text("utf-8"))}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance", action="store_true", help="print which rows of the ledger are covered"
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Take over what earlier runs noted about exactly these sources and tests."""
    cache = getattr(session.config, "cache", None)
    if cache is None or _is_worker(session.config):
        return
    noted = cache.get(CACHE_KEY, {})
    tree = session.config.stash[_TREE] = _tree(session.config.rootpath)
    if noted.get("tree") == tree:
        _outcomes.update(noted["outcomes"])


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Let no collector look through what is only growing: reading all tests takes a third longer."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect again from now on, without going through all the tests each time."""
    gc.freeze()
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse sets as lists of cases: every worker of pytest-xdist would have an order of its own."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if any(
            isinstance(given, set | frozenset) for given in (*mark.args[1:], *mark.kwargs.values())
        ):
            raise pytest.UsageError(
                f"{metafunc.definition.nodeid}: the cases are a set, whose order differs from"
                " process to process; sort it"
            )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = ledger()
    for item in items:
        rows = list(_rows_of(item))
        unknown = [row for row in rows if row not in known]
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: no such row in the ledger: {unknown}")
        if rows:
            tier = next(
                (each for each in ("slow", "storm") if item.get_closest_marker(each)), "fast"
            )
            _tied[item.nodeid] = (tier, rows)
            item.user_properties.append((ROWS_PROPERTY, rows))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not any(name == ROWS_PROPERTY for name, _ in report.user_properties):
        return
    if report.when == "call" or report.outcome != "passed":
        so_far = _ran.get(report.nodeid, "passed")
        _ran[report.nodeid] = min(so_far, report.outcome, key=WORST_FIRST.index)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note how the tests went; a worker only tells which tests there are."""
    if _is_worker(session.config):
        told: dict[str, Any] = getattr(session.config, "workeroutput", {})
        told["conformance"] = dict(_tied)
        return
    _outcomes.update(_ran)
    tree = session.config.stash.get(_TREE, None)
    if tree is not None and _ran:
        session.config.cache.set(CACHE_KEY, {"tree": tree, "outcomes": _outcomes})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Learn from a worker of pytest-xdist which tests there are: the one who asks reads none."""
    found = getattr(node, "workeroutput", {}).get("conformance", {})
    _tied.update({test: (tier, list(rows)) for test, (tier, rows) in found.items()})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not terminalreporter.config.getoption("--conformance"):
        return
    known = ledger()
    states = {row: _state(row) for row in known}
    write = terminalreporter.write_line
    terminalreporter.section("conformance")
    for tier, target in TIERS.items():
        tests = [test for test, (its, _) in _tied.items() if its == tier]
        ran = sum(test in _outcomes for test in tests)
        hint = "" if ran == len(tests) else f"; the others have not run on this tree: {target}"
        write(f"tests of the tier {tier}: {ran} of {len(tests)} ran{hint}")
    by_owner: dict[str, list[str]] = defaultdict(list)
    for row, fields in known.items():
        by_owner[fields["owner"]].append(row)
    for owner, rows in sorted(by_owner.items()):
        still_open = [row for row in rows if states[row] != "covered"]
        write(f"{owner:6} {len(rows) - len(still_open):3} / {len(rows)}")
        for row in still_open:
            write(f"       {row:7} {states[row]:8} {known[row]['check']}")
    covered = sum(state == "covered" for state in states.values())
    write(f"covered {covered} / total {len(known)}")


def _state(row: str) -> str:
    """How a row stands: the worst of what is known about the tests tied to it."""
    tests = [test for test, (_, rows) in _tied.items() if row in rows]
    outcomes = {_outcomes.get(test) for test in tests}
    if "failed" in outcomes:
        return "failing"
    if "skipped" in outcomes:
        return "skipped"
    if None in outcomes:
        return "not run"
    return "covered" if outcomes else "open"


def _tree(root: Path) -> str:
    """A digest of sources and tests: what was noted about others says nothing about these."""
    digest = hashlib.sha256()
    for path in sorted(_files(root)):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(root: Path) -> Iterable[Path]:
    for folder in ("src", "tests"):
        for pattern in ("*.py", "*.yaml", "*.json"):
            yield from (root / folder).rglob(pattern)


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is a process of pytest-xdist that runs tests for another."""
    return hasattr(config, "workerinput")


def _rows_of(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers("row"):
        yield from marker.args


@pytest.fixture(scope="session", autouse=True)
def _quiet() -> None:
    """Let nothing that logs by itself write into the output of the tests."""
    from karpenter.telemetry.logs import quiet_logger, take_over

    take_over(quiet_logger())
