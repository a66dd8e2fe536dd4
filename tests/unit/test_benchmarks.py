"""``python -m benchmarks`` finds every benchmark, runs what was asked for, and says how it went."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.endtoend_rebalance import instance_types_file, prices, teams

from karpenter.cloud.kwok.catalogue import load

ROOT = Path(__file__).parents[2]
HERE = ROOT / "benchmarks"
ALL: list[str] = list(runpy.run_path(str(HERE / "__main__.py"))["benchmarks"]())

MET = '''"""Something that meets its targets.

More about it.
"""
import sys

def main() -> int:
    print('{"flags": "' + " ".join(sys.argv[1:]) + '"}')
    return 0

if __name__ == "__main__":
    raise SystemExit(main())
'''
MISSED = MET.replace("meets", "misses").replace("return 0", "return 1")
ASKED_FOR = MET.replace("def main", 'ON_REQUEST: str = "it takes a week"\n\ndef main')
HELPER = '"""No benchmark: it has nothing to run."""\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with benchmarks of our own beside the program that runs them."""
    benchmarks = tmp_path / "benchmarks"
    benchmarks.mkdir()
    shutil.copy(HERE / "__main__.py", benchmarks)
    for name, text in {"met": MET, "missed": MISSED, "week": ASKED_FOR, "helper": HELPER}.items():
        (benchmarks / f"{name}.py").write_text(text, "utf-8")
    return tmp_path


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _ran(done: subprocess.CompletedProcess[str]) -> list[str]:
    return re.findall(r"^== (\w+)$", done.stderr, re.MULTILINE)


def test_a_module_with_a_main_is_a_benchmark(folder: Path) -> None:
    listed = _run(folder, "--list").stdout
    assert listed.splitlines() == [
        "met     Something that meets its targets.",
        "missed  Something that misses its targets.",
        "week    Something that meets its targets.",
        "        (only when named: it takes a week)",
    ]


def test_all_of_them_run_although_one_misses_its_targets(folder: Path) -> None:
    done = _run(folder, "--smoke")
    assert ["met", "missed"] == _ran(done)
    assert done.returncode == 1
    assert "NOT OK" in done.stderr.splitlines()[-1]
    assert '{"flags": "--smoke"}' in done.stdout


def test_one_runs_by_name_with_flags_of_its_own(folder: Path) -> None:
    done = _run(folder, "week", "--rounds", "3")
    assert ["week"] == _ran(done)
    assert done.stdout == '{"flags": "--rounds 3"}\n'
    assert done.returncode == 0


def test_figures_of_several_are_one_json_object(folder: Path) -> None:
    done = _run(folder, "met", "missed", "--json")
    assert json.loads(done.stdout) == {"met": {"flags": "--json"}, "missed": {"flags": "--json"}}
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["fast", "met"],
            "error: there is no benchmark fast; choose among met, missed, week\n",
        ),
        (
            ["met", "missed", "--rounds", "3"],
            "error: --rounds belongs to a single benchmark; name the one that takes it before it\n",
        ),
    ],
)
def test_a_wrong_command_line_runs_nothing(folder: Path, arguments: list[str], said: str) -> None:
    done = _run(folder, *arguments)
    assert (said, 2) == (done.stderr, done.returncode)


def test_every_benchmark_has_its_figures_in_the_table() -> None:
    table = (HERE / "README.md").read_text("utf-8")
    rows = set(re.findall(r"^\| (\w+)(?:, \w+)? \|", table, re.MULTILINE))
    assert {"compare", "decode", "endtoend", "solver"} <= set(ALL)
    assert set(ALL) <= rows


def test_the_simulated_provider_sells_the_machines_of_the_rebalance_at_their_prices() -> None:
    sold = load(instance_types_file().encode(), "instance-types.json")

    assert {kind.name: {prices()[kind.name]} for kind in sold} == {
        kind.name: {way.price for way in kind.offerings} for kind in sold
    }


@pytest.mark.parametrize("pods", [2, 20, 1000, 1013])
def test_the_teams_of_the_rebalance_have_as_many_pods_as_asked_for(pods: int) -> None:
    assert pods == sum(team.replicas for team in teams(pods))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_benchmark_takes_the_same_flags(name: str) -> None:
    done = _run(ROOT, name, "--help")
    assert done.returncode == 0, done.stderr
    assert "--smoke" in done.stdout
    assert "--json" in done.stdout
