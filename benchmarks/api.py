"""What the sandbox's API costs: lists, watches and writes over real HTTP on loopback.

Seconds are those of the processor, and the client runs in the same process, so a real server does
better than these figures: the client's share is in them. A pod is about 1.5 kB here.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.clock import SystemClock
from karpenter_sandbox.backend import Backend, Identity
from karpenter_sandbox.client import Client
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.server.api import Api
from karpenter_sandbox.server.http import Server, serving
from karpenter_sandbox.store.store import Key, Store

Json = dict[str, Any]

PODS = 5000
EVENTS = 20_000
LONGEST_LIST = 0.1  # seconds of the processor for all pods
FEWEST_EVENTS = 10_000.0  # a second, to one watcher
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds of the processor and numbers a second."""

    pods: int
    list_seconds: float
    list_bytes: int
    table_seconds: float
    creates_per_second: float
    patches_per_second: float
    events_per_second: float

    @property
    def is_enough(self) -> bool:
        """Whether the promises are kept."""
        return self.list_seconds <= LONGEST_LIST and self.events_per_second >= FEWEST_EVENTS


def main() -> int:
    parser = options("Measure the sandbox's API.", smoke="few pods")
    arguments = parser.parse_args()
    size = (50, 200) if arguments.smoke else (PODS, EVENTS)
    figures = asyncio.run(_measure(*size))
    if arguments.json:
        print(json.dumps(asdict(figures), indent=2))
    else:
        _show(figures)
    return 0 if figures.is_enough or arguments.smoke else 1


async def _measure(pods: int, events: int) -> Figures:
    backend = Backend(Store(), Registry(), SystemClock(), Identity(1))
    client = Client(backend)
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    started = time.process_time()
    for number in range(pods):
        await client.create(_pod(number))
    creating = time.process_time() - started
    patching = await _patch(client, pods)
    async with serving(Server(Api(backend))) as server:
        listing, size = await _best(server, "application/json")
        table, _ = await _best(server, _TABLE)
        watching = await _watch(server, backend.store, pods, events)
    return Figures(
        pods=pods,
        list_seconds=listing,
        list_bytes=size,
        table_seconds=table,
        creates_per_second=pods / creating,
        patches_per_second=pods / patching,
        events_per_second=events / watching,
    )


async def _patch(client: Client, pods: int) -> float:
    started = time.process_time()
    for number in range(pods):
        status = {"phase": "Running", "podIP": f"10.0.{number // 256}.{number % 256}"}
        await client.patch_status("v1", "pods", "default", f"pod-{number}", status)
    return time.process_time() - started


async def _best(server: Server, accept: str, rounds: int = 3) -> tuple[float, int]:
    found = []
    for _ in range(rounds):
        async with _request(server, "/api/v1/pods", accept) as reader:
            started = time.process_time()
            size = len(await reader.read())
            found.append(time.process_time() - started)
    return min(found), size


async def _watch(server: Server, store: Store, pods: int, events: int) -> float:
    """Follow changes that come in bursts, and wait until the last of them has arrived."""
    keys = [Key("", "pods", "default", f"pod-{number}") for number in range(pods)]
    path = f"/api/v1/pods?watch=1&resourceVersion={store.resource_version}"
    async with _request(server, path, "application/json") as reader:
        await reader.readuntil(b"\r\n\r\n")
        started = time.process_time()
        lines = 0
        for number in range(events):
            key = keys[number % pods]
            obj = store.get(key)
            assert obj is not None
            store.replace(key, {**obj, "step": number})
            if number % 200 == 199:
                await asyncio.sleep(0)
                while lines <= number - 2000:
                    lines += (await reader.read(1 << 20)).count(b"}\n")
        while lines < events:
            lines += (await reader.read(1 << 20)).count(b"}\n")
        return time.process_time() - started


@asynccontextmanager
async def _request(server: Server, path: str, accept: str) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 24)
    head = (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode())
    try:
        yield reader
    finally:
        writer.close()


def _pod(number: int) -> Json:
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {
        "name": "main",
        "image": "app:1",
        "ports": [{"containerPort": 80}],
        "resources": {"requests": requests},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "labels": {"app": "web", "number": str(number)},
        },
        "spec": {"containers": [container], "topologySpreadConstraints": [spread]},
    }


def _show(figures: Figures) -> None:
    table = Table("what", "figure", "promise")
    size = f"{figures.list_bytes / 2**20:.1f} MiB"
    table.add_row(
        f"list of {figures.pods:,} pods ({size})",
        f"{figures.list_seconds * 1000:.0f} ms",
        f"at most {LONGEST_LIST * 1000:.0f} ms",
    )
    table.add_row("the same as a table", f"{figures.table_seconds * 1000:.0f} ms", "")
    table.add_row(
        "events to one watcher",
        f"{figures.events_per_second:,.0f}/s",
        f"at least {FEWEST_EVENTS:,.0f}/s",
    )
    table.add_row("pods created in process", f"{figures.creates_per_second:,.0f}/s", "")
    table.add_row("statuses patched in process", f"{figures.patches_per_second:,.0f}/s", "")
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
