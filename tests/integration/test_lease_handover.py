"""A replica that is told to stop hands the lease over within three seconds, whatever it was doing.

Two replicas with all controllers share a cluster, in virtual time. The leader ends as after SIGTERM, in
the middle of work that takes long; the other leads within three seconds of the clock, and the work is
done once.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.long_day import is_tainted
from karpenter.clock import Clock, run_virtual
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.controllers.context import Context
from karpenter.controllers.controllers import make_controllers
from karpenter.controllers.manager import Manager, Process
from karpenter.decision_log.record import Draft, Kind, Outcome
from karpenter.kube.client import Client
from karpenter.kube.events import Recorder
from karpenter.kube.lease import Election
from karpenter.kube.transport import Request, Response, Transport
from karpenter.notifications.notifier import Notifier
from karpenter.operator.run import shut_down
from karpenter.runtime import Runnable
from karpenter.simulate.engine.traffic import PassingTransport
from karpenter.simulate.invariants import made_nodes, problems
from karpenter_sandbox.kubelet.faults import Timing
from karpenter_sandbox.server.transport import MemoryTransport

HANDOVER_SECONDS: Final = 3.0
LAUNCH_SECONDS: Final = 20.0
POD_SHUTDOWN_SECONDS: Final = 60.0
FIRST, SECOND = "first", "second"


@dataclass(frozen=True)
class Write:
    """A write that the API server has carried out."""

    at: float
    by: str
    path: str
    body: bytes

    @property
    def is_release(self) -> bool:
        return self.path.endswith("/leases/lease") and b'"holderIdentity":""' in self.body


class NotingTransport(PassingTransport):
    """Passes requests on, and notes all writes but events, which carry no decision."""

    def __init__(self, inner: Transport, by: str, clock: Clock, writes: list[Write]) -> None:
        super().__init__(inner)
        self._by = by
        self._clock = clock
        self._writes = writes

    async def send(self, request: Request) -> Response:
        answer = await super().send(request)
        if request.is_write and not request.path.endswith("/events"):
            write = Write(self._clock.monotonic(), self._by, request.path, request.body)
            self._writes.append(write)
        return answer


class HangingChannel:
    """A sink that never answers."""

    async def send(self, message: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    def where(self) -> str:
        return "a sink that hangs"

    async def close(self) -> None:
        return


class Replica:
    """One of two processes, put together as the program does."""

    def __init__(self, run: Autoscaler, name: str, writes: list[Write], sinks: Path | None) -> None:
        clock, rng = run.clock, random.Random(name)
        transport = NotingTransport(MemoryTransport(run.cluster.api), name, clock, writes)
        self.election = Election(
            Client(transport, clock),
            clock,
            name="lease",
            namespace="default",
            identity=name,
            rng=rng,
        )
        kube = Client(transport, clock, may_write=self.election.is_leading)
        self.cloud = KwokProvider(kube, clock, built_in())
        process = Process(
            kube=kube,
            cloud=self.cloud,
            clock=clock,
            settings=run.settings,
            recorder=Recorder(kube, clock, rng=rng),
            metrics=run.metrics,
            log=run.log,
            rng=rng,
        )
        self.decisions = process.decisions
        self.notifier = Notifier(
            str(sinks),
            process.decisions,
            lambda _: HangingChannel(),
            clock=clock,
            log=run.log,
            metrics=run.metrics,
            rng=rng,
        )

        def controllers(context: Context) -> list[Runnable]:
            made = list(make_controllers(context))
            return [*made, self.notifier] if sinks is not None else made

        self.manager = Manager(process, controllers, self.election)
        self._task = asyncio.create_task(self.manager.run(), name=name)

    async def stop(self) -> None:
        """End as after SIGTERM."""
        await shut_down(self._task, self.notifier.flush)


@dataclass
class Pair:
    """Two replicas of one cluster, of which the first leads."""

    run: Autoscaler
    first: Replica
    second: Replica
    writes: list[Write]

    async def hand_over(self) -> float:
        """Stop the leader; return how many seconds later the other leads."""
        clock = self.run.clock
        began = clock.monotonic()
        stopping = asyncio.create_task(self.first.stop())
        await self.run.until(self.second.manager.leading.is_set, seconds=30, step=0.01)
        led = clock.monotonic()
        await stopping
        return led - began

    def assert_one_acted_at_a_time(self) -> None:
        """The first wrote nothing after its release, the second nothing before it."""
        (released,) = (at for at, write in enumerate(self.writes) if write.is_release)
        assert {FIRST} == {write.by for write in self.writes[: released + 1]}
        assert {SECOND} == {write.by for write in self.writes[released + 1 :]}


async def nothing(_: Pair) -> None:
    """The leader has nothing to do."""


async def a_launch(pair: Pair) -> None:
    """The cloud takes long to answer."""
    pair.first.cloud.faults.launch_seconds = LAUNCH_SECONDS
    await pair.run.apply(deployment("late", 20))
    await pair.run.until(lambda: len(pair.run.claims) > 1)
    assert 1 == len(made_nodes(pair.run))


async def a_drain(pair: Pair) -> None:
    """Pods take long to end."""
    (node,) = made_nodes(pair.run)
    await pair.run.client.delete("v1", "nodes", None, node["metadata"]["name"])
    await pair.run.until(lambda: any("deletionTimestamp" in p["metadata"] for p in pair.run.pods))


async def a_batch(pair: Pair) -> None:
    """Pods have come, and the batch is still open."""
    await pair.run.apply(deployment("late", 20))
    await pair.run.pass_time(0.5)
    assert 1 == len(pair.run.claims)


async def a_consolidation(pair: Pair) -> None:
    """A command has tainted its nodes."""
    await pair.run.apply(deployment("gone", 60))
    await pair.run.pass_time(30)
    await pair.run.scale("gone", 0)
    await pair.run.until(lambda: any(map(is_tainted, made_nodes(pair.run))))


async def a_notification(pair: Pair) -> None:
    """A sink does not answer."""
    await pair.run.pass_time(10)  # until the configuration has been read
    draft = Draft(kind=Kind.INTERRUPT, outcome=Outcome.BEGUN, reason="Spot", text="a node goes")
    pair.first.decisions.add(pair.run.clock.now(), draft)


Work = Callable[[Pair], Awaitable[None]]


@pytest.mark.case("OPS-10", "OPS-11")
@pytest.mark.parametrize(
    ("work", "later"),
    [
        (nothing, 0.0),  # the other looks at the lease every two seconds: at different moments
        (nothing, 0.7),
        (nothing, 1.4),
        (a_batch, 0.0),
        (a_launch, 0.0),
        (a_drain, 0.0),
        (a_consolidation, 0.0),
        (a_notification, 0.0),
        (a_notification, 0.7),
        (a_notification, 1.4),
    ],
)
def test_the_other_leads_within_three_seconds(work: Work, later: float, tmp_path: Path) -> None:
    sinks = tmp_path / "notifications.yaml"
    (tmp_path / "url").write_text("https://hooks.example.com/x\n", "utf-8")
    sink = {"name": "hook", "type": "webhook", "urlFile": str(tmp_path / "url")}
    sinks.write_text(json.dumps({"sinks": [sink]}), "utf-8")

    async def scene() -> None:
        pool = kwok_pool("default", disruption={"consolidateAfter": "0s"})
        timing = Timing(shutdown=POD_SHUTDOWN_SECONDS)
        async with autoscaler(pool, timing=timing, starts=False) as run:
            writes: list[Write] = []
            await run.apply(deployment("early", 3, terminationGracePeriodSeconds=90))
            first = Replica(run, FIRST, writes, sinks)
            await run.until(first.manager.leading.is_set)
            second = Replica(run, SECOND, writes, sinks)
            await run.until(lambda: len(run.running) == 3)
            pair = Pair(run, first, second, writes)
            await work(pair)
            await run.pass_time(later)

            waited = await pair.hand_over()
            await run.pass_time(300)

            assert waited <= HANDOVER_SECONDS
            pair.assert_one_acted_at_a_time()
            assert [] == problems(run)
            await second.stop()

    run_virtual(scene())
