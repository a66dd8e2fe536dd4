"""How long ``karpenter sandbox`` takes until ``kubectl`` can use it.

A process of its own is started as a person would start it, and the clock runs from there to the
moment the kubeconfig appears, which is when the server answers. Compiled modules are kept in a
folder of this run, as an installed program has them; the first start fills it and is not counted.
Both the clock on the wall and the processor are told, because a busy machine distorts the former.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

TARGET = 2.0  # seconds
ROUNDS = 5
_PATIENCE = 60.0
_TICK = 0.002


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds; the best of all rounds."""

    nodes: int
    wall_seconds: float
    processor_seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the start of the sandbox.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--smoke", action="store_true", help="one round, no judgement")
    arguments = parser.parse_args()
    sizes = (3,) if arguments.smoke else (0, 3, 1000)
    rounds = 1 if arguments.smoke else arguments.rounds
    with tempfile.TemporaryDirectory() as folder:
        figures = [_measure(Path(folder), nodes, rounds) for nodes in sizes]
    if arguments.json:
        print(json.dumps([asdict(found) for found in figures], indent=2))
    else:
        _show(figures)
    if arguments.smoke:
        return 0
    return 0 if figures[0].wall_seconds < TARGET else 1


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
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", "from karpenter.cli.app import main; main()", "sandbox"]
    command += ["--kubeconfig", str(kubeconfig), "--nodes", str(nodes)]
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


def _processor_seconds(pid: int) -> float:
    """What a process has used so far; nothing is known where there is no ``/proc``."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
