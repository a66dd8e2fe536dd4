"""A long day of a cluster in virtual time: churn, interruptions, faults and restarts, hour after hour.

The replicas of Deployments follow a wave with a period of two hours. Machines are reclaimed with
two minutes' notice or vanish, zones sell out, launches fail, templates change and the controllers
are killed; in a third of every hour requests fail as well. Budgets are checked with each write of
the controllers, memory once an hour. In the end the faults stop, and nothing may be left over.
"""

import asyncio
import gc
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final
from unittest import mock

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from karpenter.clock import Clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.faults import OfferingPattern
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import CloudProvider, CreateError
from karpenter.kube.client import Client
from karpenter.kube.transport import Request, Response, Stream, Transport
from karpenter.simulate.faults import Faults, FaultyTransport, SequentialDice
from karpenter.simulate.invariants import doubled_instances, made_nodes, problems
from karpenter_sandbox.kubelet.faults import FAULT, Fault, Timing
from karpenter_sandbox.status import ApiError
from karpenter_sandbox.store import history

V1: Final = "karpenter.sh/v1"
ZONES: Final = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
TYPE: Final = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}
PODS_ON_A_NODE: Final = 10
NODES_FOR_A_DEPLOYMENT: Final = 10
WAVE_SECONDS: Final = 7200.0
WAVE, NOISE = 0.25, 0.1
HOUR: Final = 3600.0
MINUTE: Final = 60.0
NOTICE_SECONDS: Final = 120.0  # between the notice of an interruption and the end of the machine
# Changes this recent may be missing from the snapshot that a disruption decision was based on
UNSEEN_SECONDS: Final = 60.0
FAULT_RATES: Final = Faults(
    conflict=0.02,
    throttled=0.01,
    broken=0.01,
    lost=0.01,
    unreachable=0.01,
    slow=0.01,
    dropped=0.002,
)
SETTLING_SECONDS: Final = 10.0
SHUTDOWN_SECONDS: Final = 5.0  # that a pod takes to end
HISTORY_BYTES: Final = 2 * 1024 * 1024  # of the changes of one resource
REST_SECONDS: Final = 1800.0  # longer than a launch may take before it is given up


@dataclass(frozen=True, slots=True)
class Hour:
    """What the end of an hour looked like."""

    number: int
    nodes: int
    pods: int
    memory: int  # resident bytes of the process, API server and cluster included


@dataclass(slots=True)
class Account:
    """What happened in a day, and what went wrong."""

    hours: list[Hour] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    launches: int = 0
    voluntary: int = 0  # nodes that disruption began to take away
    evictions: int = 0
    struck: dict[str, int] = field(default_factory=dict)

    @property
    def growth(self) -> float:
        """Memory at the end against that after the first hour."""
        return self.hours[-1].memory / self.hours[0].memory


class LongDay:
    """One day, drawn from a seed."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.rng: Final = random.Random(seed)
        self.account: Final = Account()
        self.deployments: Final = max(nodes // NODES_FOR_A_DEPLOYMENT, 2)
        self.replicas: Final = nodes * PODS_ON_A_NODE // self.deployments
        self.budget: Final = max(nodes // 10, 2)
        self.is_calm = True
        self._cloud: KwokProvider | None = None
        self._run: Autoscaler | None = None
        self._involuntary: dict[str, float] = {}  # claims lost to injected faults, and when
        self.most_missing = 1  # of the pods of a Deployment with a PDB
        self._wanted = {f"app-{number}": self.replicas for number in range(self.deployments)}
        self._unsettled: dict[str, float] = {}  # by Deployment: until when its PDB may be behind
        self._interruptions: set[asyncio.Task[None]] = set()

    @property
    def run(self) -> Autoscaler:
        """The cluster."""
        assert self._run is not None, "the day has not begun"
        return self._run

    @property
    def cloud(self) -> KwokProvider:
        """The cloud of the process that runs now."""
        assert self._cloud is not None, "the day has not begun"
        return self._cloud

    @asynccontextmanager
    async def begun(self, seed: int) -> AsyncIterator[Autoscaler]:
        """The cluster, for as long as the day lasts."""
        async with autoscaler(
            *self._objects(),
            wrap=self._wrap,
            make_cloud=self._make_cloud,
            timing=Timing(shutdown=SHUTDOWN_SECONDS),
            seed=seed,
            starts=False,
        ) as run:
            self._run = run
            run.start()
            yield run

    async def live(self, hours: int, goes_on: Callable[[Hour], bool]) -> None:
        """Let so many hours pass; each ends with a check of the whole cluster."""
        for number in range(1, hours + 1):
            for minute in range(60):
                self.is_calm = minute % 30 < 20
                await self._churn()
                await self._strike()
                await self.run.pass_time(MINUTE)
            if not goes_on(self._look(number)):
                return

    async def end(self) -> None:
        """Stop all faults, and check what is left over."""
        self.is_calm = True
        await asyncio.gather(*self._interruptions)
        self.cloud.faults.restock()
        self.cloud.faults.launch_seconds = 0.0
        await self.run.pass_time(REST_SECONDS)
        self.account.broken += problems(self.run)
        self.account.broken += [
            f"node {node['metadata']['name']} is closed though nothing takes it away"
            for node in made_nodes(self.run)
            if is_tainted(node)
        ]

    def wrote(self, request: Request) -> None:
        """Check the budgets after a write of the controllers."""
        if request.path.endswith("/eviction"):
            self.account.evictions += 1
            self._check_pods_left(request.path.split("/")[-2])
        elif request.method == "DELETE" and "/pods/" in request.path:
            self.account.broken.append(f"a pod was deleted, not evicted: {request.path}")
        elif request.method == "POST" and request.path.endswith("/nodeclaims"):
            self.account.launches += 1
        elif (
            request.method == "PATCH"
            and "/api/v1/nodes/" in request.path
            and b"karpenter.sh/disrupted" in request.body
        ):
            self._check_budget(request.path.rpartition("/")[2])

    def _check_budget(self, name: str) -> None:
        """Check the pool's budget after a node was tainted as disrupted.

        The drain taints nodes whose claim is deleted for any reason; only those that the
        disruption controller removes count against the budget.
        """
        claims = {c.get("status", {}).get("nodeName"): c for c in self.run.claims}
        node = next((n for n in made_nodes(self.run) if n["metadata"]["name"] == name), None)
        if node is None or not is_tainted(node):
            return  # the taint was removed again
        if name not in claims or "deletionTimestamp" in claims[name]["metadata"]:
            return
        self.account.voluntary += 1
        now = self.run.clock.monotonic()
        going = [
            node["metadata"]["name"]
            for node in made_nodes(self.run)
            if (claim := claims.get(node["metadata"]["name"])) is not None
            and ("deletionTimestamp" in claim["metadata"] or is_tainted(node))
            and now - self._involuntary.get(claim["metadata"]["name"], -math.inf) > UNSEEN_SECONDS
        ]
        if len(going) > self.budget:
            self.account.broken.append(
                f"{len(going)} nodes go at a time, {self.budget} are allowed: {sorted(going)}"
            )

    def _check_pods_left(self, name: str) -> None:
        """Check the PDB after an eviction: at most one pod of the Deployment may be unhealthy.

        It is skipped shortly after a machine was lost or the Deployment was scaled: the status of
        the PDB, by which the API server decides, lags behind.
        """
        app = name.rsplit("-", 2)[0]
        is_settled = self.run.clock.monotonic() > self._unsettled.get(app, 0.0)
        if app not in self._guarded() or not is_settled:
            return
        pods = [p for p in self.run.pods if p["metadata"]["labels"].get("app") == app]
        missing = self._wanted[app] - sum(map(_is_healthy, pods))
        if missing > self.most_missing:
            self.account.broken.append(f"{missing} pods of {app} are missing after an eviction")

    def _look(self, number: int) -> Hour:
        run = self.run
        self.account.broken += doubled_instances(run)
        run.lines.clear()  # logs, which a real process does not keep in memory
        hour = Hour(number, len(made_nodes(run)), len(run.pods), resident_memory())
        self.account.hours.append(hour)
        return hour

    async def _churn(self) -> None:
        """Move a tenth of the Deployments along the wave."""
        angle = 2 * math.pi * self.run.clock.monotonic() / WAVE_SECONDS
        for number in range(self.deployments):
            if self.rng.random() < 0.1:
                shift = WAVE * math.sin(angle + number) + self.rng.uniform(-NOISE, NOISE)
                app, replicas = f"app-{number}", round(self.replicas * (1 + shift))
                self._wanted[app] = replicas
                self._unsettle(app)
                await self.run.scale(app, replicas)

    def _unsettle(self, *apps: str) -> None:
        until = self.run.clock.monotonic() + SETTLING_SECONDS
        self._unsettled |= dict.fromkeys(apps, until)

    async def _strike(self) -> None:
        rng, faults = self.rng, self.cloud.faults
        draw = rng.random()
        if draw < 0.05:
            self._note("interruption")
            task = asyncio.create_task(self._interrupt())
            self._interruptions.add(task)
            task.add_done_callback(self._interruptions.discard)
        elif draw < 0.08:
            self._note("machine vanished")
            await self._vanish(self._some_node())
        elif draw < 0.11:
            self._note("zone sold out")
            zone = OfferingPattern(zone=rng.choice(ZONES))
            faults.sell_out(zone, lasts=timedelta(minutes=rng.uniform(1, 20)))
        elif draw < 0.14:
            self._note("launches failed")
            faults.fail_launches(
                lambda: CreateError("CloudIsIll", "try again"), rng.randrange(1, 4)
            )
        elif draw < 0.16:
            self._note("launches slow")
            faults.launch_seconds = rng.choice((0.0, 5.0, 30.0))
        elif draw < 0.18:
            self._note("controllers killed")
            await self.run.kill()
            self.run.start()
            gc.collect()  # frees the memory of the killed process, as an exit would
        elif draw < 0.181:
            self._note("template changed")
            labels = {"metadata": {"labels": {"step": str(rng.randrange(1000))}}}
            body = {"spec": {"template": labels}}
            await self.run.client.patch("merge", V1, "NodePool", None, "default", body)

    def _note(self, what: str) -> None:
        self.account.struck[what] = self.account.struck.get(what, 0) + 1

    def _some_node(self) -> JsonObject | None:
        found = made_nodes(self.run)
        return self.rng.choice(found) if found else None

    async def _interrupt(self) -> None:
        """A machine is reclaimed: its claim is deleted at the notice, as for a message of the cloud."""
        node = self._some_node()
        claims = {c.get("status", {}).get("nodeName"): c for c in self.run.claims}
        claim = claims.get(node["metadata"]["name"]) if node is not None else None
        if claim is None:
            return
        self._involuntary[claim["metadata"]["name"]] = self.run.clock.monotonic()
        with _unless_gone():
            await self.run.client.delete(V1, "nodeclaims", None, claim["metadata"]["name"])
        await self.run.pass_time(NOTICE_SECONDS)
        await self._vanish(node)

    async def _vanish(self, node: JsonObject | None) -> None:
        """A machine is gone from one moment to the next."""
        if node is None:
            return
        name = node["metadata"]["name"]
        for claim in self.run.claims:
            if claim.get("status", {}).get("nodeName") == name:
                self._involuntary[claim["metadata"]["name"]] = self.run.clock.monotonic()
        self._unsettle(*self._wanted)
        patch = {"metadata": {"annotations": {FAULT: Fault.DISAPPEARS.value}}}
        with _unless_gone():  # it was drained in time
            await self.run.client.patch("merge", "v1", "nodes", None, name, patch)

    def _wrap(self, transport: Transport) -> Transport:
        dice = SequentialDice(random.Random(self.rng.random()))
        watched = _Watched(transport, self)
        return FaultyTransport(watched, FAULT_RATES, dice, is_calm=lambda: self.is_calm)

    def _make_cloud(self, kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
        self._cloud = KwokProvider(kube, clock, built_in())
        return self._cloud

    def _guarded(self) -> tuple[str, ...]:
        """The Deployments whose pods leave one at a time."""
        return tuple(f"app-{number}" for number in range(0, self.deployments, 2))

    def _objects(self) -> Iterator[JsonObject]:
        yield kwok_pool(
            "default",
            TYPE,
            disruption={"consolidateAfter": "1m", "budgets": [{"nodes": str(self.budget)}]},
        )
        for number in range(self.deployments):
            app = f"app-{number}"
            yield deployment(app, self.replicas, cpu="350m", terminationGracePeriodSeconds=30)
        for app in self._guarded():
            yield {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": app, "namespace": "default"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}},
            }


class _Watched:
    """Shows every write that was carried out to the day."""

    def __init__(self, inner: Transport, day: LongDay) -> None:
        self._inner = inner
        self._day = day

    async def send(self, request: Request) -> Response:
        answer = await self._inner.send(request)
        if request.is_write and answer.status < 300:
            self._day.wrote(request)
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


async def lived(
    seed: int, nodes: int, hours: int, goes_on: Callable[[Hour], bool] = lambda _: True
) -> Account:
    """Live through the day of a seed, and return what happened in it.

    The API server of the cluster is part of the process. It keeps few old changes, so that its history of
    an hour in which all nodes are replaced is not taken for growth.
    """
    day = LongDay(seed, nodes)
    with mock.patch.object(history, "HISTORY_BYTES", HISTORY_BYTES):
        async with day.begun(seed):
            await day.live(hours, goes_on)
            await day.end()
    return day.account


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Do something to an object that may be gone by now."""
    try:
        yield
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def _is_healthy(pod: JsonObject) -> bool:
    """Whether a PDB counts a pod as healthy."""
    conditions = pod.get("status", {}).get("conditions", ())
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


def is_tainted(node: JsonObject) -> bool:
    """Whether a node has the disrupted taint."""
    return any(taint["key"] == "karpenter.sh/disrupted" for taint in node["spec"].get("taints", ()))


def resident_memory() -> int:
    """The memory that this process holds, in bytes."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("this machine does not say how much memory a process holds")
