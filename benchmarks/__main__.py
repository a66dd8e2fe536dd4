"""Run benchmarks, all of them or by name, each in a process of its own.

    python -m benchmarks                       all of them, an hour and a quarter
    python -m benchmarks --list                which there are
    python -m benchmarks solver decode         some of them
    python -m benchmarks solver --only a       flags after a single name are that benchmark's own
    python -m benchmarks --smoke               few objects, no judgement: that everything still runs
    python -m benchmarks --json                one object for programs, a key for each benchmark

A benchmark is a module of this folder that defines ``main``; nothing else has to name it. It takes
``--smoke`` and ``--json`` (see ``options``), and its exit code says whether its targets are met. One
that sets ``ON_REQUEST`` runs only when it is named, and says there why.
"""

import ast
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
SHARED: Final = ("--smoke", "--json")  # flags that every benchmark takes
_USAGE: Final = 2


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A module that measures something."""

    name: str
    about: str  # the first line of its docstring
    on_request: str  # why it does not run with the others; empty if it does


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the run of a benchmark went."""

    name: str
    exit_code: int
    seconds: float
    figures: Any = None  # what it printed with --json; nothing if it was left out


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name; they are read, not imported, as some take seconds to load."""
    found = {}
    for path in sorted(HERE.glob("[!_]*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            about = (ast.get_docstring(tree) or "").partition("\n")[0]
            found[path.stem] = Benchmark(path.stem, about, _on_request(tree))
    return found


def _on_request(tree: ast.Module) -> str:
    for node in tree.body:
        match node:
            case ast.AnnAssign(
                target=ast.Name(id="ON_REQUEST"), value=ast.Constant(value=str(reason))
            ):
                return reason
    return ""


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; the exit code is 1 if anything missed its targets or failed."""
    known = benchmarks()
    split = next((n for n, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    names, flags = arguments[:split], arguments[split:]
    problem = _problem(known, names, flags)
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return _USAGE
    if not names and {"-h", "--help"} & set(flags):
        print(__doc__)
        return 0
    if "--list" in flags:
        print(_listed(known))
        return 0
    chosen = names or [name for name, each in known.items() if not each.on_request]
    outcomes = [_run(name, flags) for name in chosen]
    if "--json" in flags:
        print(json.dumps({each.name: each.figures for each in outcomes}, indent=2))
    if len(outcomes) > 1:
        print(_summary(outcomes), file=sys.stderr)
    return int(any(each.exit_code for each in outcomes))


def _problem(known: dict[str, Benchmark], names: Sequence[str], flags: Sequence[str]) -> str:
    unknown = [name for name in names if name not in known]
    if unknown:
        return f"there is no benchmark {', '.join(unknown)}; choose among {', '.join(known)}"
    own = [flag for flag in flags if flag not in (*SHARED, "--list", "-h", "--help")]
    if own and len(names) != 1:
        return f"{own[0]} belongs to a single benchmark; name the one that takes it before it"
    return ""


def _run(name: str, flags: Sequence[str]) -> Outcome:
    takes_json = "--json" in flags
    print(f"== {name}", file=sys.stderr, flush=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", f"{HERE.name}.{name}", *flags],
        check=False,
        cwd=HERE.parent,
        stdout=subprocess.PIPE if takes_json else None,
        text=True,
    )
    seconds = time.monotonic() - began
    figures = json.loads(done.stdout) if takes_json and done.stdout.startswith(("{", "[")) else None
    return Outcome(name, done.returncode, seconds, figures)


def _listed(known: dict[str, Benchmark]) -> str:
    width = max(map(len, known))
    lines = []
    for name, each in known.items():
        lines.append(f"{name:{width}}  {each.about}")
        if each.on_request:
            lines.append(f"{'':{width}}  (only when named: {each.on_request})")
    return "\n".join(lines)


def _summary(outcomes: Sequence[Outcome]) -> str:
    width = max(len(each.name) for each in outcomes)
    lines = [
        f"{each.name:{width}}  {each.seconds:>5.0f} s  "
        + ("ok" if each.exit_code == 0 else f"NOT OK (exit code {each.exit_code})")
        for each in outcomes
    ]
    return "\n".join(["", *lines])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
