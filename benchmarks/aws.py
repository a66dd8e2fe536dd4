"""What the AWS provider takes: time for the catalogue, calls for a launch, memory, and the loop.

    python -m benchmarks aws            about two minutes
    python -m benchmarks aws --smoke    few launches: that everything still runs
    python -m benchmarks aws --json     figures for programs

AWS is simulated in a process of its own and reached by HTTP, so that boto3 does all that it does
with the real one, and nothing of the simulation is counted. The provider is that of ``karpenter
controller``, with everything loaded that a controller loads. Cold is from nothing to the first list
of all types, the clients of boto3 included; that is what a start waits for, while prices are read
afterwards. Warm is any list after that. How long the event loop was held up is given in processor
time as well, because on a busy machine a turn waits for the processor too; the start, when nothing
else runs yet, is left out.
"""

import argparse
import asyncio
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec
from benchmarks.aws_endpoint import ADDRESS, CLUSTER, KUBECONFIG
from benchmarks.measuring import ROOT, peak_memory, positive
from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.api.codec import convert_as
from karpenter.api.karpenter import NodeClaim, NodeClaimStatus, NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.clock import SystemClock
from karpenter.cloud.aws.ec2.calls import AwsCalls, CompletedCall
from karpenter.cloud.aws.provider import AwsProvider, make_provider
from karpenter.cloud.aws.types.unavailable import Place
from karpenter.cloud.registry import ProviderContext
from karpenter.kube.access.config import load_config
from karpenter.kube.client import Client
from karpenter.kube.errors import AlreadyExistsError
from karpenter.kube.http import HttpTransport
from karpenter.model import labels
from karpenter.model.conditions import READY, is_true
from karpenter.operator.event_loop import WatchedSelector, watched_loop
from karpenter.operator.gc_thresholds import collect_briefly
from karpenter.settings import Settings
from karpenter.telemetry import Metrics, quiet_logger
from karpenter.telemetry.logs import take_over

LAUNCHES: Final = 500
SMOKE_LAUNCHES: Final = 20
ROUNDS: Final = 3
MOST_COLD: Final = 2.0  # seconds
MOST_WARM: Final = 0.05
MOST_MEMORY: Final = 250 * 10**6
MOST_HELD: Final = 0.05
# The batch sizes of the provider. A launch first describes instances by the claim's name
# (idempotency), and EC2 takes 200 values in a filter
_FLEET_WINDOW: Final = 1000
_IDS_WINDOW: Final = 500
_NAMES: Final = 200
_PATIENCE: Final = 120.0
_WARM_LISTS: Final = 20
_NAME: Final = "default"
NODE_ROLE: Final = "KarpenterNodeRole"  # of the simulated account
_REFERENCE: Final = {"group": ec2_labels.DOMAIN, "kind": "EC2NodeClass", "name": _NAME}


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds and bytes."""

    types: int
    offerings: int
    cold: float
    cold_processor: float
    pricing: float  # all prices, on demand and spot
    warm: float
    warm_after_shortage: float
    launches: int
    launching: float
    calls: Mapping[str, int]  # by operation, from the first launch to the last termination
    memory: int  # peak resident bytes
    held: float  # the longest turn of the event loop; 0 if none exceeded the limit
    held_processor: float  # the most processor time of a long turn

    @property
    def allowed(self) -> Mapping[str, int]:
        """How often each operation may be called for the launches and their terminations."""
        names = math.ceil(self.launches / _NAMES)
        ids = math.ceil(self.launches / _IDS_WINDOW)
        return {
            "CreateFleet": math.ceil(self.launches / _FLEET_WINDOW),
            "DescribeInstances": names + ids,
            "TerminateInstances": ids,
        }

    @property
    def promises(self) -> Mapping[str, bool]:
        """What was promised, and whether it was kept."""
        return {
            "cold": self.cold < MOST_COLD,
            "warm": max(self.warm, self.warm_after_shortage) < MOST_WARM,
            "calls": all(self.calls.get(name, 0) <= most for name, most in self.allowed.items()),
            "memory": self.memory < MOST_MEMORY,
            "held": self.held_processor < MOST_HELD,
        }


def main() -> int:
    parser = options("Measure the AWS provider.", smoke="few launches")
    parser.add_argument("--launches", type=positive, default=LAUNCHES)
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="the best of how many")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        return _measure_here(arguments.measure, arguments.launches)
    launches = SMOKE_LAUNCHES if arguments.smoke else arguments.launches
    rounds = 1 if arguments.smoke else arguments.rounds
    with _endpoint() as folder:
        _measured(folder, 1)  # warm-up: readies the node class and fills the endpoint's cache
        measured = [_measured(folder, launches) for _ in range(rounds)]
    figures = min(measured, key=lambda each: each.cold)
    if arguments.json:
        print(json.dumps({**asdict(figures), "promises": dict(figures.promises)}, indent=2))
    else:
        _show(figures)
    return 0 if arguments.smoke or all(figures.promises.values()) else 1


@contextmanager
def _endpoint() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="aws-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "benchmarks.aws_endpoint", name]
        with subprocess.Popen(command, cwd=ROOT) as process:
            try:
                deadline = time.monotonic() + _PATIENCE
                while not (folder / ADDRESS).exists():
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise SystemExit("the simulated AWS did not start")
                    time.sleep(0.1)
                yield folder
            finally:
                process.kill()


def _measured(folder: Path, launches: int) -> Figures:
    command = [sys.executable, "-m", "benchmarks.aws", "--measure", str(folder)]
    done = subprocess.run(
        [*command, "--launches", str(launches)],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **_environment(folder)},
    )
    if done.returncode:
        raise SystemExit("the provider could not be measured")
    return Figures(**json.loads(done.stdout))


def _environment(folder: Path) -> dict[str, str]:
    return {
        "KUBECONFIG": str(folder / KUBECONFIG),
        "AWS_ENDPOINT_URL": (folder / ADDRESS).read_text("ascii"),
        "AWS_ACCESS_KEY_ID": "simulated",
        "AWS_SECRET_ACCESS_KEY": "simulated",
        "AWS_REGION": "us-west-2",
        "CLUSTER_NAME": CLUSTER,
        "CLUSTER_ENDPOINT": "https://sandbox.simulated",
        "CLUSTER_CA_BUNDLE": "c2ltdWxhdGVk",
    }


def _measure_here(folder: Path, launches: int) -> int:
    selector = WatchedSelector()
    turns: list[tuple[float, float]] = []  # those that took long, with their processor time
    selector.report = lambda seconds, processor: turns.append((seconds, processor))
    with asyncio.Runner(loop_factory=lambda: watched_loop(selector)) as runner:
        found = runner.run(_all_of_it({**os.environ, **_environment(folder)}, launches, turns))
    held = {
        "held": max((seconds for seconds, _ in turns), default=0.0),
        "held_processor": max((processor for _, processor in turns), default=0.0),
    }
    print(json.dumps({**found, **held, "memory": peak_memory()}))
    return 0


async def _all_of_it(
    environment: Mapping[str, str], launches: int, turns: list[tuple[float, float]]
) -> dict[str, Any]:
    # The same logging, gc thresholds and modules as in a controller
    take_over(quiet_logger())
    collect_briefly()
    import_module("karpenter.controllers.controllers")  # its memory counts too
    clock = SystemClock()
    transport = HttpTransport(
        load_config(environment), clock, user_agent="benchmark", environment=environment
    )
    kube = Client(transport, clock)
    rng = random.Random(1)
    context = ProviderContext(kube, clock, Settings(), environment, rng, Metrics(with_process=True))
    provider = make_provider(context)
    claims = [_claim(number) for number in range(launches)]
    await asyncio.sleep(0)
    turns.clear()
    try:
        return await _measured_with(provider, kube, claims)
    finally:
        await transport.close()


async def _measured_with(
    provider: AwsProvider, kube: Client, claims: Sequence[NodeClaim]
) -> dict[str, Any]:
    made: list[CompletedCall] = []
    calls = provider.parts.base.calls
    assert isinstance(calls, AwsCalls)
    calls.observe = made.append
    pool = await _ensure(kube)
    is_ready = await _is_ready(kube)
    wall, processor = time.perf_counter(), time.process_time()
    await provider.start()
    types = await provider.instance_types(pool) if is_ready else ()
    cold, cold_processor = time.perf_counter() - wall, time.process_time() - processor
    began = time.perf_counter()
    await provider.parts.pricing.refresh()
    pricing = time.perf_counter() - began
    running = asyncio.ensure_future(provider.run())
    await _until_ready(kube, running)
    types = types or await provider.instance_types(pool)
    warm = [await _timed(provider, pool) for _ in range(_WARM_LISTS)]
    shortages = [await _shortage(provider, pool, kind.name) for kind in types[:_WARM_LISTS]]
    made.clear()
    launching = await _launch_and_end(provider, claims)
    counted = Counter(each.operation for each in made if _is_counted(each))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return {
        "types": len(types),
        "offerings": sum(len(kind.offerings) for kind in types),
        "cold": cold,
        "cold_processor": cold_processor,
        "pricing": pricing,
        "warm": min(warm),
        "warm_after_shortage": min(shortages),
        "launches": len(claims),
        "launching": launching,
        "calls": dict(sorted(counted.items())),
    }


def _is_counted(made: CompletedCall) -> bool:
    """Whether a call counts: further pages do not, as moto's pages are smaller than EC2's."""
    return not made.parameters.get("DryRun") and not made.parameters.get("NextToken")


async def _ensure(kube: Client) -> NodePool:
    """Make sure that there are a node class and a pool."""
    selector = [{"tags": {ec2_labels.DISCOVERY_TAG: CLUSTER}}]
    spec = {
        "role": NODE_ROLE,
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": selector,
        "securityGroupSelectorTerms": selector,
    }
    template = {"spec": {"nodeClassRef": _REFERENCE, "requirements": []}}
    with suppress(AlreadyExistsError):
        await kube.create(EC2NodeClass, {"metadata": {"name": _NAME}, "spec": spec})
    with suppress(AlreadyExistsError):
        await kube.create(NodePool, {"metadata": {"name": _NAME}, "spec": {"template": template}})
    return await kube.get(NodePool, _NAME)


async def _is_ready(kube: Client) -> bool:
    node_class = await kube.get(EC2NodeClass, _NAME)
    return is_true(node_class.status.conditions, READY)


async def _until_ready(kube: Client, running: asyncio.Future[None]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not await _is_ready(kube):
            if running.done():
                await running
            await asyncio.sleep(0.1)


async def _timed(provider: AwsProvider, pool: NodePool) -> float:
    began = time.perf_counter()
    await provider.instance_types(pool)
    return time.perf_counter() - began


async def _shortage(provider: AwsProvider, pool: NodePool, instance_type: str) -> float:
    """List all types right after something of one of them was found to be sold out."""
    unavailable = provider.parts.unavailable
    unavailable.mark(Place(instance_type, "us-west-2a", labels.SPOT))
    try:
        return await _timed(provider, pool)
    finally:
        unavailable.forget()


async def _launch_and_end(provider: AwsProvider, claims: Sequence[NodeClaim]) -> float:
    """Launch all claims at once, then terminate them; return how long the launch took."""
    began = time.perf_counter()
    instances = await asyncio.gather(*map(provider.create, claims))
    seconds = time.perf_counter() - began
    await provider.parts.fleets.finish()
    launched = [
        msgspec.structs.replace(claim, status=NodeClaimStatus(provider_id=instance.provider_id))
        for claim, instance in zip(claims, instances, strict=True)
    ]
    await asyncio.gather(*map(provider.delete, launched))
    return seconds


def _claim(number: int) -> NodeClaim:
    """A claim as the scheduler makes them: any type of a few families that is large enough."""
    families = {"key": ec2_labels.INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m", "r"]}
    body = {
        "metadata": {
            "name": f"{_NAME}-{number:05}",
            "uid": f"{os.getpid()}-{number}",
            "labels": {labels.NODEPOOL: _NAME, ec2_labels.NODE_CLASS: _NAME},
        },
        "spec": {
            "nodeClassRef": _REFERENCE,
            "requirements": [families],
            "resources": {"requests": {"cpu": "3", "memory": "6Gi", "pods": "10"}},
        },
    }
    return convert_as(body, NodeClaim)


def _show(figures: Figures) -> None:
    kept = figures.promises
    table = Table("what", "figure", "promise", "kept")

    def row(what: str, figure: str, promise: str = "", name: str = "") -> None:
        table.add_row(what, figure, promise, ("yes" if kept[name] else "no") if name else "")

    row("types and offerings", f"{figures.types:,} and {figures.offerings:,}")
    row("catalogue, cold", f"{figures.cold:.2f} s", f"less than {MOST_COLD:g} s", "cold")
    row("of it of the processor", f"{figures.cold_processor:.2f} s")
    row("prices, cold", f"{figures.pricing:.2f} s")
    most_warm = f"less than {1000 * MOST_WARM:g} ms"
    row("catalogue, warm", f"{1000 * figures.warm:.2f} ms", most_warm, "warm")
    row("after a shortage", f"{1000 * figures.warm_after_shortage:.2f} ms", most_warm, "warm")
    row(f"{figures.launches} launches at once", f"{figures.launching:.2f} s")
    for operation, count in figures.calls.items():
        most = figures.allowed.get(operation)
        row(f"calls of {operation}", f"{count:,}", "" if most is None else f"at most {most}")
    row("calls that are batched, all", "", "as listed", "calls")
    memory = f"{figures.memory / 10**6:.0f} MB"
    row("memory at its most", memory, f"less than {MOST_MEMORY / 10**6:.0f} MB", "memory")
    most_held = f"less than {1000 * MOST_HELD:.0f} ms"
    longest = f"{1000 * figures.held:.0f} ms" if figures.held else most_held
    row("longest turn of the loop", longest)
    held = f"{1000 * figures.held_processor:.0f} ms" if figures.held else most_held
    row("most work in a turn", held, most_held, "held")
    console = Console()
    console.print(table)
    console.print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    raise SystemExit(main())
