"""A day of 200 nodes in virtual time, with churn, interruptions, faults and restarts.

    python -m benchmarks long_day                 24 hours of 200 nodes: the better part of an hour
    python -m benchmarks long_day --smoke         two hours of 20 nodes
    python -m benchmarks long_day --nodes 50 --hours 168 --minutes 30    as many hours as fit into 30 minutes

The cluster, its API server, the cloud and the controllers are one process. Deployments follow a wave of
two hours; machines are reclaimed or vanish, zones sell out, launches fail, controllers die and requests
fail in a third of the time. No budget of a pool or of pods may be broken with any write of the
controllers, and when the faults have stopped nothing may be left over. Memory is compared with that
after the first hour.
"""

import json
import math
import sys
import time
from dataclasses import asdict
from typing import Final

from benchmarks.measuring import ROOT, positive
from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.clock import MOST_MOVES, run_virtual
from karpenter.operator.gc_thresholds import collect_rarely
from karpenter.telemetry.logs import quiet_logger, take_over

sys.path.insert(0, str(ROOT / "tests"))  # the cluster and its faults are helpers of the tests
from helpers.long_day import Account, Hour, lived

ON_REQUEST: Final = "it takes the better part of an hour"
NODES, HOURS = 200, 24
SMOKE: Final = (20, 2)
LARGEST_GROWTH: Final = 1.2


def main() -> int:
    parser = options("Live through a long day in virtual time.", smoke="few nodes and hours")
    parser.add_argument("--nodes", type=positive, default=NODES)
    parser.add_argument("--hours", type=positive, default=HOURS)
    parser.add_argument(
        "--minutes", type=positive, help="end after the hour in which so much time is up"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    nodes, hours = SMOKE if arguments.smoke else (arguments.nodes, arguments.hours)
    take_over(quiet_logger())
    collect_rarely()
    began, wall = time.process_time(), time.monotonic()
    most = 60 * arguments.minutes if arguments.minutes else math.inf

    def goes_on(hour: Hour) -> bool:
        print(
            f"hour {hour.number}: {hour.nodes} nodes, {hour.pods} pods,"
            f" {hour.memory / 10**6:.0f} MB, {time.process_time() - began:.0f} s of the processor",
            file=sys.stderr,
            flush=True,
        )
        return time.monotonic() - wall < most

    account = run_virtual(
        lived(arguments.seed, nodes, hours, goes_on),
        seed=str(arguments.seed),
        most_moves=MOST_MOVES * hours,
    )
    processor = time.process_time() - began
    if arguments.json:
        figures = {**asdict(account), "growth": account.growth, "processor": processor}
        print(json.dumps(figures, indent=2))
    else:
        _show(account, processor)
    is_enough = not account.broken and (arguments.smoke or account.growth < LARGEST_GROWTH)
    return 0 if is_enough else 1


def _show(account: Account, processor: float) -> None:
    table = Table("what", "figure", "promise")
    struck = ", ".join(f"{what}: {number}" for what, number in sorted(account.struck.items()))
    first, last = account.hours[0], account.hours[-1]
    table.add_row("hours, and nodes at the end", f"{last.number}, {last.nodes}", "")
    table.add_row("what happened", struck, "")
    table.add_row("claims made", f"{account.launches:,}", "")
    table.add_row("nodes that disruption took", f"{account.voluntary:,}", "")
    table.add_row("pods evicted", f"{account.evictions:,}", "")
    table.add_row("promises broken, things left over", str(len(account.broken)), "none")
    table.add_row("memory after the first hour", f"{first.memory / 10**6:,.0f} MB", "")
    table.add_row(
        "memory at the end",
        f"{last.memory / 10**6:,.0f} MB, {account.growth:.2f} times",
        f"less than {LARGEST_GROWTH} times",
    )
    table.add_row("processor", f"{processor:,.0f} s", "")
    console = Console()
    console.print(table)
    for each in account.broken:
        console.print(f"BROKEN: {each}", markup=False)


if __name__ == "__main__":
    raise SystemExit(main())
