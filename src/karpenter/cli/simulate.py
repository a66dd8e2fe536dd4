"""``karpenter simulate``: a scenario in virtual time, with the real controllers."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from karpenter.cli.simulate_seeds import read_seeds, run_storms
from karpenter.console import output
from karpenter.console.help_pages import unset_argument, unset_option

if TYPE_CHECKING:
    from karpenter.decision_log.record import DecisionRecord
    from karpenter.simulate.scenario.reader import Loaded, Options
    from karpenter.simulate.seam import Run

HELP = """\
Run a cluster in virtual time: hours in seconds, with the real controllers, the same every time.

A scenario names pools, workloads and what happens. The report says what it cost, how long pods \
waited, what was disrupted, and why; variants of the scenario stand side by side in it. Exit code 3: \
something that the scenario expects did not hold.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter simulate examples/scenarios/diurnal-web.yaml

  karpenter simulate diurnal-web.yaml --until 2h --report report.html

  karpenter simulate diurnal-web.yaml --set PACKING=cheapest -o json

  karpenter simulate scenarios/ --check
"""

EXIT_NOT_HELD: Final = 3
EXIT_INTERRUPTED: Final = 130
_STANDARD_INPUT: Final = "-"


def simulate(
    scenarios: Annotated[
        list[str] | None,
        unset_argument("Scenarios: files, folders, or - for standard input.", metavar="SCENARIO"),
    ] = None,
    seed: Annotated[
        int | None,
        unset_option("The seed of all chance, instead of the scenario's.", metavar="N", min=0),
    ] = None,
    until: Annotated[
        str | None,
        unset_option("When to end, instead of when the scenario says.", metavar="LENGTH"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        unset_option(
            "A setting of the controllers, for every variant; repeatable.",
            "--set",
            metavar="NAME=VALUE",
        ),
    ] = None,
    instance_types: Annotated[
        str | None,
        unset_option("Instance types as a JSON list, instead of the scenario's.", metavar="FILE"),
    ] = None,
    provider: Annotated[
        str | None,
        unset_option("The simulated cloud, instead of the scenario's: kwok.", metavar="NAME"),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Report on all scenarios side by side; first: baseline."),
    ] = False,
    jobs: Annotated[
        int | None,
        unset_option(
            "How many variants run at once; by default, as many as there are processors.",
            metavar="N",
            min=1,
        ),
    ] = None,
    form: Annotated[
        Literal["table", "json", "yaml", "html"],
        typer.Option("--output", "-o", help="What to print."),
    ] = "table",
    reports: Annotated[
        list[Path] | None,
        unset_option(
            "Write the report to a file, whose name ends in .html or .json; repeatable.",
            "--report",
            metavar="FILE",
        ),
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Print every decision with its reason.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Say what is wrong with the scenarios; run nothing.")
    ] = False,
    schema: Annotated[
        Literal["scenario", "report"] | None,
        unset_option("Print the JSON Schema of scenarios or of reports."),
    ] = None,
    seeds: Annotated[
        str | None,
        unset_option(
            "Run the scenario, or its first variant, with each of these seeds, and its faults.",
            "--seeds",
            metavar="FIRST..LAST",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        unset_option(
            "Where outcomes of seeds are, and go; those that are there are not run again.",
            "--resume",
            metavar="DIR",
        ),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="End with the first seed that breaks a promise.")
    ] = False,
    shrink: Annotated[
        bool,
        typer.Option(help="Make broken seeds small: the fewest faults and workloads they need."),
    ] = True,
    allow_outside: Annotated[
        bool,
        typer.Option("--allow-outside", help="Let a scenario read files outside its own folder."),
    ] = False,
    large: Annotated[
        bool, typer.Option("--large", help="Allow more than 100,000 pods at once.")
    ] = False,
) -> None:
    """Run scenarios and report on them."""
    if schema is not None:
        _print_schema(schema)
        return
    if not scenarios:
        output.fail("no scenario: name a file or a folder, or - for standard input (see --help)")
    _check_reports(reports or [])
    _check_provider(provider)
    of_runs = {"--seed": seed is not None, "--report": reports, "--timeline": timeline}
    of_runs |= {"--compare": compare, "--output": form != "table"}
    of_seeds = {"--resume": resume, "--fail-fast": fail_fast, "--no-shrink": not shrink}
    _check_seeds(of_runs, of_seeds, has_seeds=seeds is not None)
    with output.progress("reading"):
        from karpenter.simulate.scenario.reader import Options

        options = Options(
            seed=seed,
            until=until,
            settings=_assignments(settings or []),
            instance_types=instance_types,
            allow_outside=allow_outside,
            is_large=large,
        )
        loaded = _load_all(scenarios, options)
    for each in loaded:
        for text in each.warnings:
            output.warning(text)
    has_report = bool(reports) or form == "html"
    _check_together(loaded, is_compared=compare, has_report=has_report and not check)
    if check:
        for each in loaded:
            variants = len(each.variants)
            count = f"{variants} variant{'' if variants == 1 else 's'}"
            output.write(f"{each.name}: {each.scenario.metadata.name} can be run; {count}\n")
        return
    if seeds is not None:
        _storm(
            loaded,
            read_seeds(seeds),
            jobs,
            resume,
            fails_fast=fail_fast,
            shrinks=shrink,
            given=_given(options),
        )
        return
    made = _Made(form, reports or [], is_one=compare)
    _run_all(loaded, jobs, made, shows_decisions=timeline)


def _storm(
    loaded: "list[Loaded]",
    seeds: range,
    jobs: int | None,
    resume: Path | None,
    *,
    fails_fast: bool,
    shrinks: bool,
    given: Sequence[str],
) -> None:
    from karpenter.simulate.runs import Interrupts, usable_cores

    if len(loaded) > 1:
        output.fail("--seeds is about one scenario; name only one")
    interrupts = Interrupts()
    with interrupts.watched():
        run_storms(
            loaded[0],
            seeds,
            jobs=jobs or usable_cores(),
            resumes=resume,
            is_failing_fast=fails_fast,
            shrinks=shrinks,
            given=given,
            is_stopped=interrupts.is_stopped,
        )


def _print_schema(schema: str) -> None:
    if schema == "scenario":
        from karpenter.simulate.scenario.schema import schema as of_scenario

        output.write(output.render([of_scenario()], "json"))
    else:
        from karpenter.simulate.report.schema import schema as of_report

        output.write(output.render([of_report()], "json"))


def _given(options: "Options") -> list[str]:
    """The options that a seed has to be replayed with, to meet what it met."""
    found = [f"--set={name}={value}" for name, value in options.settings.items()]
    if options.until is not None:
        found.append(f"--until={options.until}")
    if options.instance_types is not None:
        found.append(f"--instance-types={options.instance_types}")
    switches = (("--allow-outside", options.allow_outside), ("--large", options.is_large))
    return found + [name for name, is_on in switches if is_on]


def _check_seeds(
    of_runs: Mapping[str, object], of_seeds: Mapping[str, object], *, has_seeds: bool
) -> None:
    """Refuse options that would have no effect: an option is given for a reason."""
    idle = [name for name, given in (of_runs if has_seeds else of_seeds).items() if given]
    if idle and has_seeds:
        output.fail(f"{idle[0]} goes without --seeds, which reports on promises alone")
    if idle:
        output.fail(f"{idle[0]} goes with --seeds only")


def _check_reports(reports: list[Path]) -> None:
    for file in reports:
        if file.suffix not in (".html", ".json"):
            output.fail(f"--report {file}: the name ends neither in .html nor in .json")
        if not file.absolute().parent.is_dir():
            output.fail(f"--report {file}: there is no folder {file.parent}")


def _check_provider(name: str | None) -> None:
    from karpenter.simulate.scenario.models import PROVIDERS

    if name is not None and name not in PROVIDERS:
        output.fail(
            f"--provider {name}: scenarios run on the simulated cloud {' or '.join(PROVIDERS)},"
            " to which --instance-types gives the types and prices of another"
        )


def _check_together(loaded: "list[Loaded]", *, is_compared: bool, has_report: bool) -> None:
    """Scenarios side by side last equally long; that users ask for the same is only better."""
    from karpenter.simulate.lengths import seconds

    if not is_compared:
        if len(loaded) > 1 and has_report:
            output.fail(
                "a report is about one scenario; name only one with --report and -o html,"
                " or give --compare"
            )
        return
    if len(loaded) < 2:
        output.fail("--compare: name at least two scenarios")
    first = loaded[0]
    for other in loaded[1:]:
        for what, mine, its in (
            ("lasts", first.scenario.until, other.scenario.until),
            ("has a warm-up of", first.scenario.warmup, other.scenario.warmup),
        ):
            if seconds(mine) != seconds(its):
                hint = "; give --until" if what == "lasts" else ""
                output.fail(f"--compare: {other.name} {what} {its}, and {first.name} {mine}{hint}")
        if other.demand_sha256 != first.demand_sha256:
            output.warning(
                f"{other.name}: its users ask for something else than those of {first.name}, so not"
                " every difference is one of pools and settings"
            )


def _assignments(settings: list[str]) -> dict[str, str]:
    from karpenter.settings import SettingError, Settings, with_assignments

    found = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not (name and equals):
            output.fail(f"--set {text!r}: write NAME=VALUE, such as PACKING=cheapest")
        try:
            with_assignments(Settings(), {name: value})
        except SettingError as error:
            output.fail(f"--set {text}: {error}")
        found[name.upper().replace("-", "_")] = value
    return found


def _load_all(names: list[str], options: "Options") -> "list[Loaded]":
    from karpenter.os_errors import os_reason
    from karpenter.simulate.scenario.reader import ScenarioError, load, scenarios_in

    loaded, problems = [], 0
    for name in names:
        try:
            if name == _STANDARD_INPUT:
                found = [("<stdin>", sys.stdin.buffer.read(), Path())]
            else:
                files = scenarios_in(Path(name))
                found = [(str(file), file.read_bytes(), file.parent) for file in files]
        except OSError as error:
            output.error(f"{name}: {os_reason(error)}")
            problems += 1
            continue
        if not found:
            output.error(f"{name}: the folder holds no scenario")
            problems += 1
        for file, data, folder in found:
            try:
                loaded.append(load(file, data, folder, options))
            except ScenarioError as error:
                for text in error.problems:
                    output.error(text)
                problems += len(error.problems)
    if problems:
        output.fail(f"nothing is run: {problems} problem{'s' if problems > 1 else ''} above")
    return loaded


@dataclass(slots=True)
class _Made:
    """What is made of runs: reports on a terminal and in files, of each scenario or of all."""

    form: str
    files: list[Path]
    is_one: bool  # all scenarios side by side
    documents: list[dict[str, Any]] = field(default_factory=list)

    def add(self, made: dict[str, Any], source: str) -> None:
        """A scenario has been run."""
        self.documents.append(made)
        if not self.is_one:
            self._write(made, source)

    def end(self, loaded: "list[Loaded]") -> None:
        """All scenarios have been run, or those up to an interrupt."""
        from karpenter.simulate.report.side_by_side import names_of, side_by_side

        if self.is_one:
            run = loaded[: len(self.documents)]
            names = names_of([e.scenario.metadata.name for e in run], [e.name for e in run])
            self.documents = [side_by_side(self.documents, names)]
            self._write(self.documents[0], "---\n".join(each.text for each in run))
        if self.form in ("json", "yaml"):
            output.write(output.render(self.documents, "json" if self.form == "json" else "yaml"))

    def _write(self, made: dict[str, Any], source: str) -> None:
        _write_reports(self.files, made, source)
        if self.form in ("table", "html"):
            _print(made, self.form, source)


def _run_all(
    loaded: "list[Loaded]", jobs: int | None, made: _Made, *, shows_decisions: bool
) -> None:
    from karpenter.simulate.progress import ProgressLine
    from karpenter.simulate.report.document import document, document_held
    from karpenter.simulate.runs import Interrupts, Showing, run_scenario, usable_cores

    interrupts, has_held = Interrupts(), True
    for each in loaded:
        count = 1 if shows_decisions else min(jobs or usable_cores(), len(each.variants))
        with interrupts.watched(), ProgressLine(len(each.variants)) as line:
            showing = Showing(
                decided=_tell if shows_decisions else None,
                progress=line.progress,
                done=line.done,
            )
            try:
                run = run_scenario(each, jobs=count, interrupts=interrupts, showing=showing)
            except KeyboardInterrupt:  # the second Ctrl-C
                raise typer.Exit(EXIT_INTERRUPTED) from None
        _warn(run, each)
        found = document(run)
        has_held &= document_held(found)
        made.add(found, each.text)
        if interrupts.is_stopped():
            break
    made.end(loaded)
    if interrupts.is_stopped():
        raise typer.Exit(EXIT_INTERRUPTED)
    if not has_held:
        raise typer.Exit(EXIT_NOT_HELD)


def _tell(record: "DecisionRecord") -> None:
    output.note(f"{record.at[11:19]} {record.kind} {record.reason}: {record.text}")


def _warn(run: "Run", loaded: "Loaded") -> None:
    for text in run.warnings[len(loaded.warnings) :]:
        output.warning(text)
    for variant in run.variants:
        for text in variant.problems:
            output.warning(f"the controllers caught an unexpected error: {text}")


def _write_reports(reports: list[Path], made: dict[str, Any], source: str) -> None:
    from karpenter.os_errors import os_reason
    from karpenter.simulate.report.html import page

    for file in reports:
        is_page = file.suffix == ".html"
        text = page(made, source) if is_page else output.render([made], "json")
        # Beside it and then in its place: a full disk leaves the report of an earlier run as it was
        real = file.resolve()
        part = real.with_name(f".{real.name}.part")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(real)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            output.fail(f"{file}: {os_reason(error)}", output.EXIT_FAILED)


def _print(made: dict[str, Any], form: str, source: str) -> None:
    if form == "html":
        from karpenter.simulate.report.html import page

        output.write(page(made, source))
    else:
        from karpenter.simulate.report.table import table

        output.write(table(made))
