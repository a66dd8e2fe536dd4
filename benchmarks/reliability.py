"""A real control plane under 1,000 pods while controllers, API server and etcd are killed.

    python -m benchmarks reliability            a quarter of an hour
    python -m benchmarks reliability --smoke    few pods, one leader killed

Pods arrive with each disturbance: the replicas are restarted one after the other, the leader is killed
once a minute for ten minutes, then the API server, then etcd. After each of them all pods must run, each
bound once, and each machine must have one claim. In the end all pods go, and nothing may be left.
"""

import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.measuring import ROOT
from benchmarks.options import options
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(ROOT / "tests"))  # the control plane is a fixture of the tests
from control_plane.build import missing
from control_plane.cluster import obstacle
from helpers.reliability import Convergence, Reliability, reliability

ON_REQUEST: Final = "it takes a quarter of an hour"
MINUTE: Final = 60.0


def main() -> int:
    parser = options("Kill everything under load.", smoke="few pods, one leader killed")
    arguments = parser.parse_args()
    absent = [program.name for program in missing()]
    problem = f"{', '.join(absent)} not built, see `make control-plane`" if absent else obstacle()
    if problem:
        print(f"SKIPPED: nothing was killed; {problem}", file=sys.stderr)
        return 0
    kills, pods = (1, 30) if arguments.smoke else (10, 1000)
    pause = 0.0 if arguments.smoke else MINUTE
    with (
        tempfile.TemporaryDirectory(prefix="reliability-") as folder,
        reliability(Path(folder)) as run,
    ):
        made = _killed(run, pods, kills, pause)
        converged = run.converged
    if arguments.json:
        print(json.dumps([asdict(each) for each in converged], indent=2))
    else:
        _show(converged, made)
    return 0


def _killed(run: Reliability, pods: int, kills: int, pause: float) -> int:
    """Go through all disturbances, and return how many claims were made in all."""
    step = pods // (kills + 3)
    wanted = step
    run.disturb("replicas restarted in turn", wanted, run.rolling_restart)
    _tell(run)
    for number in range(kills):
        began = time.monotonic()
        wanted += step
        run.disturb(f"leader killed ({number + 1})", wanted, run.kill_the_leader)
        _tell(run)
        time.sleep(max(0.0, pause - (time.monotonic() - began)))
    wanted += step
    run.disturb("API server killed", wanted, run.cluster.plane.restart_api_server)
    _tell(run)
    run.disturb("etcd killed", pods, run.cluster.plane.restart_etcd)
    _tell(run)
    made = run.claims_made()
    run.end()
    return made


def _tell(run: Reliability) -> None:
    last = run.converged[-1]
    print(f"{last.what}: {last.pods} pods, {last.seconds:.0f} s", file=sys.stderr, flush=True)


def _show(converged: list[Convergence], made: int) -> None:
    table = Table("what", "pods in all", "all run again after")
    for each in converged:
        table.add_row(each.what, f"{each.pods:,}", f"{each.seconds:.0f} s")
    console = Console()
    console.print(table)
    console.print(f"{made} claims were made, one for each machine; none was left in the end")


if __name__ == "__main__":
    raise SystemExit(main())
