"""What a controller takes that knows 1,000 nodes and 10,000 pods, and what one more event costs it.

    python -m benchmarks standing            about a quarter of an hour
    python -m benchmarks standing --smoke    a small cluster: that everything still runs
    python -m benchmarks standing --json     figures for programs

The API server is a sandbox in a process of its own, so that only the controller is measured. Pods
arrive, ``karpenter controller`` makes a node for every ten of them, and consolidation, which is on,
comes to rest. Then nothing happens for five minutes; then annotations of pods are changed one after the
other, and the processor time of the controller is divided by their number: reading the event,
bringing mirror and state up to date, and whatever controllers make of it. Last, pods arrive one by
one that need a node each, while consolidation, which every arrival makes look again, searches all the
others: measured is how long a pod waits for its claim, the second in which more pods are waited
for included, and the longest turn of the event loop meanwhile.
"""

import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import urlopen

import yaml
from benchmarks.endtoend import deployment, list_of, node_pool, time_of
from benchmarks.measuring import ROOT
from benchmarks.options import options
from benchmarks.sampling import load, sampling
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(ROOT / "tests"))  # processes and waiting are helpers of the tests
from helpers.real_cluster import Controller, until

Json = dict[str, Any]

PODS: Final = 10_000
SMOKE_PODS: Final = 100
DEPLOYMENTS: Final = 20
PODS_ON_A_NODE: Final = 10  # of 780m each on a machine of 8 processors
SHAPE: Final = ("780m", "100Mi")
TYPE: Final = "c-8x-amd64-linux"
SETTLING: Final = 240.0  # for the first consolidation pass and its events
SECONDS: Final = 300.0  # at least one consolidation pass, which runs every five minutes
EVENTS: Final = 2000
ARRIVALS: Final = 20
LARGE: Final = ("7", "100Mi")  # fits on no node beside another pod
PATIENCE: Final = 1200.0
MOST_SHARE: Final = 0.02
MOST_MEMORY: Final = 400 * 10**6
MOST_FOR_AN_EVENT: Final = 0.001
LONGEST_WAIT: Final = 2.0  # a second of it is the batching window
LONGEST_WORK: Final = 0.05

_SEARCHES: Final = re.compile(
    r"^karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count\S* (\S+)$", re.M
)

_LOG: Final = "controller.log"


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds, bytes and shares of one core."""

    nodes: int
    pods: int
    filling: float
    filling_processor: float
    share: float
    memory: int
    event: float
    searches: int  # of consolidation, while pods arrived
    wait: float  # of a pod for its claim, the median
    longest_wait: float
    stall: float  # the longest turn of the event loop meanwhile
    work: float  # the most processor time of a turn

    @property
    def is_enough(self) -> bool:
        """Whether the promises are kept."""
        return (
            self.share < MOST_SHARE
            and self.memory < MOST_MEMORY
            and self.event < MOST_FOR_AN_EVENT
            and self.longest_wait < LONGEST_WAIT
            and self.work < LONGEST_WORK
        )


class Api:
    """The sandbox's API, over one connection."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text("utf-8"))
        server = urlsplit(content["clusters"][0]["cluster"]["server"])
        self._prefix = server.path.rstrip("/")
        self._connection = http.client.HTTPConnection(server.hostname or "", server.port)

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """Ask, and return the answer."""
        kind = "merge-patch+json" if method == "PATCH" else "json"
        self._connection.request(
            method,
            f"{self._prefix}{path}",
            json.dumps(body) if body is not None else None,
            {"Content-Type": f"application/{kind}"},
        )
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise SystemExit(f"{method} {path} was answered with {answer.status}: {text!r}")
        found: Json = json.loads(text)
        return found


def main() -> int:
    parser = options("Measure a controller in a large, quiet cluster.", smoke="a small cluster")
    parser.add_argument("--log", type=Path, help="keep the log of the controller in this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="standing-") as folder:
        if arguments.smoke:
            figures = _measured(Path(folder), SMOKE_PODS, 5.0, 5.0, 50, 2)
        else:
            figures = _measured(Path(folder), PODS, SETTLING, SECONDS, EVENTS, ARRIVALS)
        if arguments.log:
            arguments.log.write_bytes((Path(folder) / _LOG).read_bytes())
    if arguments.json:
        print(json.dumps(asdict(figures), indent=2))
    else:
        _show(figures)
    return 0 if arguments.smoke or figures.is_enough else 1


def _measured(
    folder: Path, pods: int, settling: float, seconds: float, events: int, arrivals: int
) -> Figures:
    with bare_sandbox(folder) as kubeconfig:
        api = Api(kubeconfig)
        process = Controller(kubeconfig, folder / _LOG, {"LOG_LEVEL": "debug"})
        try:
            with sampling(process.process.pid) as sampler:
                began = sampler.take()
                each = pods // DEPLOYMENTS
                for number in range(DEPLOYMENTS):
                    path = "/apis/apps/v1/namespaces/default/deployments"
                    api.ask("POST", path, deployment(f"app-{number}", each, *SHAPE))
                until(lambda: _ready(api) == pods, f"{pods} pods run", seconds=PATIENCE)
                full = sampler.take()
                time.sleep(settling)
                quiet = sampler.take()
                time.sleep(seconds)
                still = sampler.take()
                names = _pod_names(api, events)
                for name in names:
                    patch = {"metadata": {"annotations": {"changed": str(time.time())}}}
                    api.ask("PATCH", f"/api/v1/namespaces/default/pods/{name}", patch)
                time.sleep(2)
                ended = sampler.take()
                nodes = len(api.ask("GET", "/api/v1/nodes")["items"])
                arrived = _arrived(api, process, arrivals)
            process.stop()
        finally:
            process.process.kill()
    idle = (still.processor - quiet.processor) / (still.at - quiet.at)
    busy = ended.processor - still.processor - idle * (ended.at - still.at)
    return Figures(
        nodes=nodes,
        pods=pods,
        filling=full.at - began.at,
        filling_processor=full.processor - began.processor,
        share=idle,
        memory=still.memory,
        event=max(busy, 0.0) / len(names),
        searches=arrived.searches,
        wait=statistics.median(arrived.waits),
        longest_wait=max(arrived.waits),
        stall=arrived.stall,
        work=arrived.work,
    )


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """How pods fared that came while consolidation searched."""

    waits: Sequence[float]
    searches: int
    stall: float
    work: float


def _arrived(api: Api, process: Controller, count: int) -> _Arrivals:
    before, began = _searches(process), time.time()
    waits = []
    for number in range(count):
        pod = deployment("large", 1, *LARGE)["spec"]["template"]
        pod |= {"apiVersion": "v1", "kind": "Pod"}
        pod["metadata"] = {"name": f"large-{number}", "namespace": "default"}
        come = time.time()
        api.ask("POST", "/api/v1/namespaces/default/pods", pod)
        # Wait for the node: the next pod could be placed on it
        until(_has_node(api, f"large-{number}"), "a pod has its node", seconds=60)
        waits.append(_claimed(process, come)[0] - come)
    held_up = [each for each in process.lines("event loop held up") if time_of(each) >= began]
    return _Arrivals(
        waits,
        _searches(process) - before,
        max((each["seconds"] for each in held_up), default=0.0),
        max((each["processor"] for each in held_up), default=0.0),
    )


def _has_node(api: Api, name: str) -> Callable[[], bool]:
    path = f"/api/v1/namespaces/default/pods/{name}"
    return lambda: "nodeName" in api.ask("GET", path)["spec"]


def _claimed(process: Controller, since: float) -> list[float]:
    """When claims have been made."""
    times = [time_of(line) for line in process.lines("created nodeclaim")]
    return sorted(at for at in times if at >= since)


def _searches(process: Controller) -> int:
    """How many searches for something to disrupt there have been."""
    with urlopen(process.metrics_url) as answer:
        return sum(int(float(each)) for each in _SEARCHES.findall(answer.read().decode()))


@contextmanager
def bare_sandbox(folder: Path) -> Iterator[Path]:
    """A sandbox without controllers, with a pool of one type; its kubeconfig."""
    kubeconfig, pool = folder / "kubeconfig", folder / "pool.json"
    one_type = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE]}
    pool.write_text(json.dumps(list_of(*node_pool([one_type]))), encoding="utf-8")
    options = ["--no-controllers", "--kubeconfig", str(kubeconfig), "--load", str(pool)]
    process = subprocess.Popen(
        [sys.executable, "-m", "karpenter", "sandbox", *options], stdout=subprocess.DEVNULL
    )
    try:
        until(kubeconfig.exists, "the sandbox is up", seconds=60)
        yield kubeconfig
    finally:
        process.terminate()
        process.wait()


def _ready(api: Api) -> int:
    items = api.ask("GET", "/apis/apps/v1/namespaces/default/deployments")["items"]
    return sum(each.get("status", {}).get("readyReplicas", 0) for each in items)


def _pod_names(api: Api, most: int) -> list[str]:
    items = api.ask("GET", f"/api/v1/namespaces/default/pods?limit={most}")["items"]
    return [each["metadata"]["name"] for each in items]


def _show(figures: Figures) -> None:
    table = Table("what", "figure", "promise")
    table.add_row("nodes and pods", f"{figures.nodes:,} and {figures.pods:,}", "")
    table.add_row("idle, of a core", f"{figures.share:.2%}", f"less than {MOST_SHARE:.0%}")
    table.add_row(
        "memory",
        f"{figures.memory / 10**6:.0f} MB",
        f"less than {MOST_MEMORY / 10**6:.0f} MB",
    )
    table.add_row(
        "processor for one pod event",
        f"{1000 * figures.event:.2f} ms",
        f"less than {1000 * MOST_FOR_AN_EVENT:.0f} ms",
    )
    table.add_row("searches while pods arrived", f"{figures.searches}", "")
    table.add_row("until a pod had its claim, median", f"{figures.wait:.2f} s", "")
    table.add_row(
        "the longest of these", f"{figures.longest_wait:.2f} s", f"less than {LONGEST_WAIT:.0f} s"
    )
    table.add_row("longest turn of the loop", f"{1000 * figures.stall:.0f} ms", "")
    table.add_row(
        "of that, at work",
        f"{1000 * figures.work:.0f} ms",
        f"less than {1000 * LONGEST_WORK:.0f} ms",
    )
    table.add_row("until all pods ran", f"{figures.filling:.0f} s", "")
    table.add_row("processor until then", f"{figures.filling_processor:.0f} s", "")
    console = Console()
    console.print(table)
    console.print(f"load of the machine: {load()[1]:.1f} over five minutes")


if __name__ == "__main__":
    raise SystemExit(main())
