"""How long pods wait for their claims beside a hostile pod, with a controller that runs.

    python -m benchmarks hostile_live            some minutes
    python -m benchmarks hostile_live --smoke    few wishes and pods: that everything still runs
    python -m benchmarks hostile_live --json     figures for programs

A sandbox stands for the cluster and ``karpenter controller`` runs in a process of its own. Pods that
need a node each arrive one after the other; then a pod arrives that lists thousands of preferences
and fits nowhere, so that every pass has to check it; then as many others. Measured is how long pods
wait for their claims in both halves of one run, the second in which more pods are waited for
included, the memory of the controller, the longest turn of its event loop, and whether it has ever
lost its lease.
"""

import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.endtoend import deployment, time_of
from benchmarks.hostile import ENTRIES, HARMS
from benchmarks.measuring import ROOT
from benchmarks.options import options
from benchmarks.sampling import sampling
from benchmarks.standing import Api, bare_sandbox
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(ROOT / "tests"))  # processes and waiting are helpers of the tests
from helpers.real_cluster import Controller, until

Json = dict[str, Any]

ARRIVALS: Final = 10
LARGE: Final = ("7", "100Mi")  # fits beside nothing on its machine
MOST_TIMES_AS_LONG: Final = 2.0
MOST_MEMORY_MORE: Final = 150 * 10**6
_HARMS: Final = ("spreads", "prefers-apart-host")
_PODS: Final = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds and bytes."""

    harm: str
    entries: int
    wait: float  # of a pod for its claim, the median, before the hostile pod came
    wait_beside: float  # and after
    longest_beside: float
    memory: int
    memory_beside: int  # the peak
    stall: float  # the longest turn of the event loop
    terms: int  # of leadership

    @property
    def ratio(self) -> float:
        """How many times as long pods wait."""
        return self.wait_beside / self.wait

    @property
    def is_enough(self) -> bool:
        """Whether ordinary pods hardly notice."""
        return (
            self.ratio < MOST_TIMES_AS_LONG
            and self.memory_beside - self.memory < MOST_MEMORY_MORE
            and self.terms == 1
        )


def main() -> int:
    """Measure and report; the exit code says whether the promises are kept."""
    parser = options("Measure waiting for a node beside hostile pods.", smoke="few wishes and pods")
    parser.add_argument("--only", default=",".join(_HARMS), help="which harms (%(default)s)")
    arguments = parser.parse_args()
    entries, arrivals = (20, 2) if arguments.smoke else (ENTRIES, ARRIVALS)
    figures = [_measured(harm, entries, arrivals) for harm in arguments.only.split(",")]
    if arguments.json:
        print(json.dumps([asdict(f) | {"ratio": f.ratio} for f in figures], indent=2))
    else:
        _show(figures)
    return 0 if arguments.smoke or all(found.is_enough for found in figures) else 1


def _measured(harm: str, entries: int, arrivals: int) -> Figures:
    with (
        tempfile.TemporaryDirectory(prefix="hostile-") as name,
        bare_sandbox(Path(name)) as kubeconfig,
    ):
        api = Api(kubeconfig)
        process = Controller(kubeconfig, Path(name) / "log", {"LOG_LEVEL": "debug"})
        try:
            process.until_leading()
            with sampling(process.process.pid) as sampler:
                alone = [_wait(api, process, f"alone-{n}") for n in range(arrivals)]
                before = sampler.take().memory
                api.ask("POST", _PODS, _pod("harm", "100000", **HARMS[harm](entries)))
                beside, memory = [], [before]
                for number in range(arrivals):
                    beside.append(_wait(api, process, f"beside-{number}"))
                    memory.append(sampler.take().memory)
            held_up = [line["seconds"] for line in process.lines("event loop held up")]
            terms = len(process.lines("became leader"))
            process.stop()
        finally:
            process.process.kill()
    return Figures(
        harm=harm,
        entries=entries,
        wait=statistics.median(alone),
        wait_beside=statistics.median(beside),
        longest_beside=max(beside),
        memory=before,
        memory_beside=max(memory),
        stall=max(held_up, default=0.0),
        terms=terms,
    )


def _pod(name: str, cpu: str, **spec: Any) -> Json:
    pod = deployment("large", 1, cpu, LARGE[1])["spec"]["template"]
    pod["spec"] |= spec
    metadata = {"name": name, "namespace": "default", "labels": {"app": "large"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


def _wait(api: Api, process: Controller, name: str) -> float:
    """How long a new pod waits for its claim; it has its node when this returns."""
    come = time.time()
    api.ask("POST", _PODS, _pod(name, LARGE[0]))
    until(
        lambda: "nodeName" in api.ask("GET", f"{_PODS}/{name}")["spec"],
        "a pod has its node",
        seconds=600,
    )
    created = (time_of(line) for line in process.lines("created nodeclaim"))
    return min(at for at in created if at >= come) - come


def _show(figures: list[Figures]) -> None:
    table = Table("harm", "entries", "wait", "beside it", "ratio", "longest", "memory", "beside it")
    table.add_column("longest turn")
    table.add_column("terms")
    for found in figures:
        table.add_row(
            found.harm,
            f"{found.entries:,}",
            f"{found.wait:.2f} s",
            f"{found.wait_beside:.2f} s",
            f"{found.ratio:.2f}x",
            f"{found.longest_beside:.2f} s",
            f"{found.memory / 1e6:,.0f} MB",
            f"{found.memory_beside / 1e6:,.0f} MB",
            f"{found.stall * 1e3:,.0f} ms",
            f"{found.terms}",
        )
    Console(width=None if Console().is_terminal else 120).print(table)


if __name__ == "__main__":
    raise SystemExit(main())
