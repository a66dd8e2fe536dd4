"""How long commands take from their start to their end, and ``karpenter sandbox`` until it is ready.

A process of its own is started as a person would start it. Commands are those that read a few small
files, so that nearly all of their time is the start. The clock of the sandbox runs to the moment the
kubeconfig appears, which is when the server answers. Compiled modules are kept in a folder of this
run, as an installed program has them; the first start fills it and is not counted. Both the clock on
the wall and the processor are shown, because a busy machine distorts the former.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.options import options
from rich.console import Console
from rich.table import Table

TARGET = 2.0  # seconds
ROUNDS = 5
ROOT = Path(__file__).resolve().parent.parent
_PLAN = ("examples/plan/cluster.yaml", "examples/plan/workloads.yaml")
# Arguments, the allowed processor seconds, and those measured before AWS plans used a table of
# instance types
COMMANDS: Final = (
    (("--help",), 0.5, 0.16),
    (("crds",), 0.5, 0.26),
    (("convert", "examples/legacy/provisioner.yaml"), 0.5, 0.32),
    (("explain", "nodepool", "general", *_PLAN), 0.5, 0.45),
    (("plan", *_PLAN), 0.5, 0.47),
    (("plan", "--provider", "aws", "examples/aws-plan"), 1.5, 3.34),
)
_PATIENCE = 60.0
_TICK = 0.002
_PROGRAM = (sys.executable, "-c", "from karpenter.cli.app import main; main()")


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds; the best of all rounds."""

    nodes: int
    wall_seconds: float
    processor_seconds: float


@dataclass(frozen=True, slots=True)
class CommandFigures:
    """What a command took, in seconds; the best of all rounds."""

    command: str
    wall_seconds: float
    processor_seconds: float
    processor_seconds_before: float
    promise: float


def main() -> int:
    parser = options("Measure the start of commands and the sandbox.", smoke="one round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    sizes = (3,) if arguments.smoke else (0, 3, 1000)
    rounds = 1 if arguments.smoke else arguments.rounds
    with tempfile.TemporaryDirectory() as folder:
        commands = [_measure_command(Path(folder), rounds, *each) for each in COMMANDS]
        figures = [_measure(Path(folder), nodes, rounds) for nodes in sizes]
    if arguments.json:
        told = {
            "commands": [asdict(found) for found in commands],
            "sandbox": [asdict(found) for found in figures],
        }
        print(json.dumps(told, indent=2))
    else:
        _show_commands(commands)
        _show(figures)
    if arguments.smoke:
        return 0
    is_kept = all(found.processor_seconds < found.promise for found in commands)
    return 0 if is_kept and figures[0].wall_seconds < TARGET else 1


def _measure_command(
    folder: Path, rounds: int, arguments: tuple[str, ...], promise: float, before: float
) -> CommandFigures:
    _run(folder, arguments)
    found = [_run(folder, arguments) for _ in range(rounds)]
    return CommandFigures(
        command=" ".join(("karpenter", *arguments)),
        wall_seconds=min(wall for wall, _ in found),
        processor_seconds=min(processor for _, processor in found),
        processor_seconds_before=before,
        promise=promise,
    )


def _run(folder: Path, arguments: tuple[str, ...]) -> tuple[float, float]:
    used, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [*_PROGRAM, *arguments],
        cwd=ROOT,
        env=_environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    wall, now = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def _measure(folder: Path, nodes: int, rounds: int) -> Figures:
    _start(folder, nodes)
    found = [_start(folder, nodes) for _ in range(rounds)]
    return Figures(
        nodes=nodes,
        wall_seconds=min(wall for wall, _ in found),
        processor_seconds=min(processor for _, processor in found),
    )


def _start(folder: Path, nodes: int) -> tuple[float, float]:
    kubeconfig = folder / "kubeconfig"
    environment = _environment(folder)
    command = [*_PROGRAM, "sandbox", "--kubeconfig", str(kubeconfig), "--nodes", str(nodes)]
    started = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            while not kubeconfig.exists():
                if process.poll() is not None or time.perf_counter() - started > _PATIENCE:
                    raise SystemExit("the sandbox did not start")
                time.sleep(_TICK)
            wall, processor = time.perf_counter() - started, _processor_seconds(process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=_PATIENCE)
    return wall, processor


def _environment(folder: Path) -> dict[str, str]:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _processor_seconds(pid: int) -> float:
    """What a process has used so far; nothing is known where there is no ``/proc``."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _show_commands(figures: list[CommandFigures]) -> None:
    table = Table("command", "until it ends", "of the processor", "before", "promise")
    for found in figures:
        table.add_row(
            found.command,
            f"{found.wall_seconds:.2f} s",
            f"{found.processor_seconds:.2f} s",
            f"{found.processor_seconds_before:.2f} s",
            f"less than {found.promise:g} s",
        )
    Console().print(table)


def _show(figures: list[Figures]) -> None:
    table = Table("nodes", "until ready", "of the processor", "promise")
    for found in figures:
        table.add_row(
            f"{found.nodes:,}",
            f"{found.wall_seconds:.2f} s",
            f"{found.processor_seconds:.2f} s",
            f"less than {TARGET:g} s" if not found.nodes else "",
        )
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
