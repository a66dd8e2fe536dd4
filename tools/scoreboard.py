"""Runs the standard scenarios, compares their figures with those that are expected, and writes ``docs/scoreboard.md``.

``python tools/scoreboard.py`` runs all of them, those named with ``python tools/scoreboard.py perf-basic``. Figures
that moved are told, written to ``examples/scenarios/expected.json`` and to the page, and end the command with exit
code 1: whoever moves a figure shows it in the same commit. Nothing in either file depends on the machine. Scenarios
that follow a trace, which is no part of the repository, are left out where it is missing, and keep their figures.

A test compares the page with what would be written, and another one runs the shortest scenarios.
"""

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from karpenter.manifests.reader import read as manifests
from karpenter.simulate.report.document import document
from karpenter.simulate.report.fields import METRICS, Metric
from karpenter.simulate.report.table import written
from karpenter.simulate.runs import Interrupts, Showing, run_scenario, usable_cores
from karpenter.simulate.scenario.reader import Loaded, Options, ScenarioError, is_scenario, load

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "examples" / "scenarios"
EXPECTED: Final = FOLDER / "expected.json"
PAGE: Final = ROOT / "docs" / "scoreboard.md"
# In the order of the page; those of a trace are in a folder of their own, where the trace is put
STANDARD: Final = (
    "perf-basic",
    "perf-do-not-disrupt",
    "perf-drift",
    "perf-host-spread",
    "perf-host-spread-xl",
    "perf-interference",
    "perf-wide",
    "diurnal-web",
    "batch-bursts",
    "cron-thrash",
    "spot-storm",
    "zone-outage",
    "drift-roll",
    "black-friday",
    "traces/dsb",
    "traces/azure-llm",
    "traces/openb",
)
# Run only where they are named: each takes minutes of processor time
LONG: Final = (
    "perf-host-spread-xl",
    "perf-interference",
    "diurnal-web",
    "batch-bursts",
    "traces/openb",
)
HEADLINES: Final = (
    *METRICS,
    Metric("atEnd.requested.cpu", "cpu requested at the end", "share"),
    Metric("atEnd.requested.memory", "memory requested at the end", "share"),
    Metric("atEnd.lastNodeChange", "last change", "seconds"),
)
_SHOWN: Final = (
    "cost.dollarHours",
    "cost.lowerBound.gap",
    "nodes.most",
    "nodes.created",
    "pods.created",
    "pods.pendingSeconds.p95",
    "disruption.evictions",
    "disruption.reEvictions",
    "atEnd.lastNodeChange",
)
_DIGITS: Final = 6  # significant ones: beyond them, the solvers of two machines may differ
PARTS: Final = ("byPool", "byCapacityType", "byZone", "byType")
_TRACES: Final = "traces/"
_HEAD: Final = """# Scoreboard

<!-- written by tools/scoreboard.py from examples/scenarios/expected.json -->

What the [standard scenarios](../examples/scenarios) of [`karpenter simulate`](simulate.md) come to, with one seed and the
controllers' defaults. `make scoreboard` runs them, compares their figures with those of
[`expected.json`](../examples/scenarios/expected.json), and writes both anew: a change that moves a figure shows it in the same
commit. Figures have six digits, and are equal on any machine. `make scoreboard SCENARIOS=perf-basic` runs one of them. Those that
take long are run only where they are named:
{long}.

What each figure is, [the report](simulate-report.md) says. *Last change* is the time from the start until the last machine came or
went.
"""


def read(name: str) -> Loaded:
    """A standard scenario, ready to be run."""
    file = FOLDER / f"{name}.yaml"
    return load(str(file.relative_to(ROOT)), file.read_bytes(), file.parent, Options())


def inputs_of(loaded: Loaded) -> str:
    """A digest of all that figures follow from: not of words, and not of what is expected in the end.

    Every step of the timeline counts, also one that only judges: timers that are due at one instant
    have no order of their own, and one more among them may change it.
    """
    (document,) = [
        each for each in manifests(loaded.text.encode(), loaded.name) if is_scenario(each)
    ]
    said = {key: document.data[key] for key in document.data if key not in ("metadata", "expect")}
    held = (said, loaded.objects, loaded.catalogue, loaded.demand_sha256)
    return hashlib.sha256(msgspec.json.encode(held, order="deterministic")).hexdigest()


def measured(loaded: Loaded) -> dict[str, Any]:
    """Run a scenario with all its variants, and return its report."""
    interrupts = Interrupts()
    with interrupts.watched():
        jobs = min(usable_cores(), len(loaded.variants))
        run = run_scenario(loaded, jobs=jobs, interrupts=interrupts, showing=Showing())
    if interrupts.is_stopped():
        raise KeyboardInterrupt
    return document(run)


def entry(loaded: Loaded, report: Mapping[str, Any]) -> dict[str, Any]:
    """What is expected of a scenario: its inputs, and the headline figures of each variant."""
    return {
        "inputs": inputs_of(loaded),
        "variants": {
            variant["name"]: {metric.path: _rounded(metric.of(variant)) for metric in HEADLINES}
            for variant in report["variants"]
        },
    }


def moved(name: str, now: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[str]:
    """What is no longer as it was expected, a sentence each."""
    if before is None:
        yield f"{name}: is new"
        return
    variants, others = now["variants"], before["variants"]
    for variant in sorted(others.keys() - variants.keys()):
        yield f"{name}: {variant} is gone"
    for variant, figures in variants.items():
        was = others.get(variant)
        if was is None:
            yield f"{name}: {variant} is new"
            continue
        for path, value in figures.items():
            if value != was.get(path):
                yield f"{name}: {variant}: {path} is {value}, and was {was.get(path)}"


def not_held(name: str, report: Mapping[str, Any]) -> Iterator[str]:
    """What a report breaks: promises, expectations, and that its parts add up."""
    for variant in report["variants"]:
        of = f"{name}: {variant['name']}"
        for each in variant["expectations"]:
            if not each["held"]:
                yield f"{of}: {each['sentence']}"
        for each in variant["invariants"]:
            for broken in each["broken"][:1]:
                yield f"{of}: {each['id']} ({each['promise']}): {broken['text']}"
        cost, series = variant["cost"], variant["series"]
        total = cost["dollarHours"]
        for parts in PARTS:
            if not math.isclose(total, math.fsum(cost[parts].values()), abs_tol=1e-9):
                yield f"{of}: cost.{parts} does not add up to {total}"
        integral = math.fsum(series["dollarsHourly"]) * series["step"] / 3600
        if not math.isclose(total, integral, rel_tol=0.01):
            yield f"{of}: the series of dollars comes to {integral}, and the cost to {total}"


def expected() -> dict[str, Any]:
    """The figures that are expected, by scenario."""
    found: dict[str, Any] = json.loads(EXPECTED.read_bytes()) if EXPECTED.exists() else {}
    return found


def page(figures: Mapping[str, Any]) -> str:
    """The page as it would be written."""
    shown = [metric for path in _SHOWN for metric in HEADLINES if metric.path == path]
    lines = [f"| scenario | variant | {' | '.join(metric.title for metric in shown)} |"]
    lines.append(f"| --- | --- |{' ---: |' * len(shown)}")
    for name in figures:
        title, variants = name.removeprefix(_TRACES), figures[name]["variants"]
        for variant, values in variants.items():
            cells = [written(values[metric.path], metric.unit) for metric in shown]
            label = variant if len(variants) > 1 else ""
            lines.append(f"| [`{title}`](#{title}) | {label} | {' | '.join(cells)} |")
    long = ", ".join(f"`{name.removeprefix(_TRACES)}`" for name in LONG)
    return "\n".join(
        [_HEAD.format(long=long), *lines, "", "## The scenarios", "", *_sections(figures)]
    )


def _sections(figures: Mapping[str, Any]) -> Iterator[str]:
    for name in STANDARD:
        file = FOLDER / f"{name}.yaml"
        # The comment at the top, which says what the scenario is about
        comment = []
        for line in file.read_text("utf-8").splitlines():
            if not line.startswith("#"):
                break
            comment.append(line.removeprefix("#").strip())
        yield f"### {name.removeprefix(_TRACES)}"
        yield ""
        yield from comment
        yield ""
        run = "" if name in figures else " It has not been run for this page."
        yield f"[`examples/scenarios/{name}.yaml`](../examples/scenarios/{name}.yaml).{run}"
        yield ""


def save(figures: Mapping[str, Any]) -> None:
    """Write the figures, in the order of the page, and the page."""
    ordered = {name: figures[name] for name in STANDARD if name in figures}
    EXPECTED.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
    PAGE.write_text(page(ordered), "utf-8")


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run scenarios, compare and write; return the exit code."""
    parser = argparse.ArgumentParser(
        description="Run the standard scenarios of examples/scenarios."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of scenarios, by default all")
    names = parser.parse_args(arguments).names or [name for name in STANDARD if name not in LONG]
    unknown = [name for name in names if name not in STANDARD]
    if unknown:
        parser.error(
            f"no standard scenario is called {unknown[0]}; there are {', '.join(STANDARD)}"
        )
    problems = 0
    for name in names:
        try:
            loaded = read(name)
        except ScenarioError as error:
            _tell(f"{name}: {'; '.join(error.problems)}")
            # A trace that is not there is no problem; anything else is
            problems += not name.startswith(_TRACES)
            continue
        report = measured(loaded)
        now = entry(loaded, report)
        found = [*moved(name, now, expected().get(name)), *not_held(name, report)]
        for text in found:
            _tell(text)
        _tell(f"{name}: {report['host']['processorSeconds']:.0f} s of processor time")
        problems += len(found)
        save({**expected(), name: now})
    _tell("what is above is not as expected" if problems else "all is as expected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
