"""How near ``karpenter simulate`` comes to a real control plane: one scenario, run both ways.

    python -m benchmarks fidelity                                     perf-basic: half an hour
    python -m benchmarks fidelity --scenario mine.yaml --until 5m     another one, for so long
    python -m benchmarks fidelity --runs 1                            one real run; three show how far they spread
    python -m benchmarks fidelity --smoke                             a few pods, 80 s
    python -m benchmarks fidelity --json                              figures for programs

The scenario is simulated, then run in real time on the control plane of ``make control-plane``: kwok plays
the kubelets, and ``karpenter controller`` is a process with the rights of the installation. Users do the
same things at the same times (``fidelity_real.py``), and one observer adds up both sides from nothing but
changes of objects (``fidelity_figures.py``). What real runs differ by among themselves is added to what the
simulation may be off (``fidelity_report.py``). The exit code is 1 if a figure is off by more.

Who waits for what is real: a machine with other work to do makes control plane and controller slower.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.fidelity_figures import Figures, StoreObserver
from benchmarks.fidelity_real import DRIVEN, RealRunError, changes_in, load_of, real_run, undriven
from benchmarks.fidelity_report import Row, rows, table
from benchmarks.measuring import ROOT, positive
from benchmarks.options import options
from benchmarks.sampling import load as machine_load
from rich.console import Console

from karpenter.simulate.lengths import is_length, seconds
from karpenter.simulate.observing import make_observers
from karpenter.simulate.runs import setup_of
from karpenter.simulate.scenario.reader import Loaded, Options, ScenarioError, load
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks
from karpenter.telemetry import quiet_logger
from karpenter.telemetry.logs import take_over

sys.path.insert(0, str(ROOT / "tests"))  # the control plane is a fixture of the tests
from control_plane.build import missing
from control_plane.cluster import obstacle

ON_REQUEST: Final = "it takes half an hour"
SCENARIO: Final = ROOT / "examples" / "scenarios" / "perf-basic.yaml"
UNTIL: Final = "9m"  # of that scenario, which has come to rest by then
RUNS: Final = 3
LONGEST: Final = 900.0
SMOKE: Final = """\
apiVersion: simulate.karpenter.sh/v1
kind: Scenario
metadata: {name: smoke}
until: 80s
workloads:
- {name: web, pod: {cpu: "1", memory: 1Gi}, steps: [{at: 0s, replicas: 4}, {at: 15s, replicas: 0}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["4"]}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5s}
"""
_USAGE: Final = 2


class UsageError(Exception):
    """A scenario that cannot be run both ways; one sentence."""


def main() -> int:
    parser = options("Compare a simulation with real runs.", smoke="a few pods, one real run")
    parser.add_argument("--scenario", type=Path, help="the file of a scenario (perf-basic)")
    parser.add_argument("--until", help="another end than the scenario's; at most 15m")
    parser.add_argument("--runs", type=positive, default=RUNS, help="real runs (3)")
    parser.add_argument("--log", type=Path, help="keep the controller's log of the last real run")
    arguments = parser.parse_args()
    absent = [program.name for program in missing()] if arguments.smoke else []
    problem = f"{', '.join(absent)} not built, see `make control-plane`" if absent else obstacle()
    if problem:
        print(f"SKIPPED: nothing was compared; {problem}", file=sys.stderr)
        return 0
    try:
        loaded = smoke() if arguments.smoke else read(arguments.scenario, arguments.until)
    except (UsageError, ScenarioError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _USAGE
    simulated, real = simulated_run(loaded), []
    try:
        for number in range(1 if arguments.smoke else arguments.runs):
            _tell(f"real run {number + 1}, {loaded.until:.0f} s")
            real.append(real_run(loaded, log=arguments.log))
    except RealRunError as error:
        _tell(f"error: {error}")
        return 1
    found = rows(simulated, real)
    if arguments.json:
        print(json.dumps(_document(simulated, real, found), indent=2))
    else:
        _show(loaded, found)
    return 0 if arguments.smoke or all(each.agrees for each in found) else 1


def read(file: Path | None, until: str | None) -> Loaded:
    """Read a scenario that is to be run both ways.

    Raises:
        UsageError: it lasts too long, or has what cannot be driven in real time.
        ScenarioError: something is wrong with it.
        OSError: it cannot be read.
    """
    if until is not None and not is_length(until):
        raise UsageError(f"--until: {until!r} is not a length of time such as 9m")
    path = SCENARIO if file is None else file
    chosen = UNTIL if file is None and until is None else until
    loaded = load(str(path), path.read_bytes(), path.parent, Options(until=chosen))
    return checked(loaded)


def smoke() -> Loaded:
    """A scenario that shows that the program works."""
    return checked(load("smoke.yaml", SMOKE.encode(), ROOT, Options()))


def checked(loaded: Loaded) -> Loaded:
    """A scenario that can be run in real time.

    Raises:
        UsageError: it cannot.
    """
    if loaded.until > LONGEST:
        minutes = f"{loaded.until / 60:g} min"
        raise UsageError(
            f"{loaded.name} lasts {minutes}, and real runs at most 15: say --until 15m"
        )
    if left_out := undriven(loaded.scenario):
        raise UsageError(f"{loaded.name}: {', '.join(left_out)}: {DRIVEN}")
    return loaded


def simulated_run(loaded: Loaded) -> Figures:
    """Run the first variant of a scenario as ``karpenter simulate`` does, and observe it as a real one."""
    take_over(quiet_logger())
    minimum = seconds(loaded.scenario.billing.minimum)
    changes = changes_in(load_of(loaded))
    observer = StoreObserver(changes, billing_minimum=minimum)
    observers = [*make_observers(billing_minimum=minimum), observer]
    *_, figures = run_world(setup_of(loaded, 0), Hooks(observers=observers)).observed
    assert isinstance(figures, Figures)
    return figures


def _show(loaded: Loaded, found: list[Row]) -> None:
    console = Console()
    console.print(table(found))
    off = [each.name for each in found if not each.agrees]
    console.print(f"{loaded.scenario.metadata.name}, {loaded.until:.0f} s")
    console.print(f"load of the machine: {machine_load()[1]:.1f} over five minutes")
    console.print(f"off by more than is allowed: {', '.join(off)}" if off else "it agrees")


def _document(simulated: Figures, real: list[Figures], found: list[Row]) -> dict[str, object]:
    return {
        "rows": [{**asdict(each), "agrees": each.agrees} for each in found],
        "simulated": asdict(simulated),
        "real": [asdict(each) for each in real],
        "load": machine_load(),
    }


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
