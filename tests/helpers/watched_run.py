"""Observers beside the whole cluster of ``helpers.autoscaler``, and the report of what they saw."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from helpers.autoscaler import Autoscaler, CloudMaker, JsonObject, autoscaler, kwok_cloud
from karpenter.api.karpenter import NodeClaim
from karpenter.clock import Clock, running_clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.provider import CloudProvider, Instance
from karpenter.kube.transport import Request, Response, Transport
from karpenter.model import labels
from karpenter.simulate.engine.cloud import Market, market_of
from karpenter.simulate.observing import make_observers
from karpenter.simulate.seam import MachineEvent, Observer, Run, VariantRun, View
from karpenter_sandbox.store.store import Event


@dataclass
class WatchedRun:
    """A cluster, and those who watch it."""

    run: Autoscaler
    view: View
    observers: Sequence[Observer]

    def finished(self, name: str = "base") -> VariantRun:
        """What the run has left behind so far."""
        return VariantRun(
            name=name,
            ended=self.view.now(),
            is_complete=True,
            observed=tuple(each.finish() for each in self.observers),
            decisions=tuple(self.run.decisions.newest())[::-1],
            problems=(),
            settings={},
        )


@dataclass
class _Eyes:
    """Shows cloud, store and writes to observers, as the world of a scenario does."""

    observers: Sequence[Observer]
    market: Market
    now: Any = None
    names: set[str] = field(default_factory=set)

    def cloud(self, inner: CloudProvider) -> CloudProvider:
        eyes = self
        create = inner.create

        async def watched(claim: NodeClaim) -> Instance:
            instance = await create(claim)
            eyes.launched(claim, instance)
            return instance

        cast(Any, inner).create = watched
        return inner

    def launched(self, claim: NodeClaim, instance: Instance) -> None:
        name = instance.provider_id.removeprefix("kwok://")
        if name in self.names:
            return
        self.names.add(name)
        self._tell("launched", name, claim.metadata.name, instance.labels)

    def changed(self, event: Event) -> None:
        key = event.stored.key
        if key.resource == "nodes" and event.type == "DELETED" and key.name in self.names:
            self._tell("gone", key.name, "", event.obj["metadata"]["labels"], cause="deleted")
        for each in self.observers:
            each.changed(event)

    def _tell(self, kind: str, name: str, claim: str, held: Any, cause: str = "") -> None:
        keys = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
        instance_type, zone, capacity_type = (held[key] for key in keys)
        event = MachineEvent(
            kind,
            self.now(),
            name,
            claim,
            held.get(labels.NODEPOOL, ""),
            instance_type,
            zone,
            capacity_type,
            # The label has it too, but rounded: that is less than the bound, now and then
            self.market.price((instance_type, zone, capacity_type)),
            cause,
        )
        for each in self.observers:
            each.machine(event)


class _Watched:
    """Shows writes that were carried out to observers."""

    def __init__(self, inner: Transport, observers: Sequence[Observer]) -> None:
        self._inner = inner
        self._observers = observers

    async def send(self, request: Request) -> Response:
        answer = await self._inner.send(request)
        if request.is_write and answer.status < 300:
            for each in self._observers:
                each.wrote(request)
        return answer

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def watched_run(
    *objects: JsonObject,
    until: float,
    grid: float = 10.0,
    warmup: float = 0.0,
    make_cloud: CloudMaker = kwok_cloud,
    observers: Sequence[Observer] | None = None,
    **options: Any,
) -> AsyncIterator[WatchedRun]:
    """A cluster that is watched from its first object on."""
    watching = make_observers() if observers is None else observers
    types = built_in()
    market = market_of(types, running_clock())
    eyes = _Eyes(watching, market)

    def cloud(kube: Any, clock: Clock, rng: Any) -> CloudProvider:
        return eyes.cloud(make_cloud(kube, clock, rng))

    async with autoscaler(
        make_cloud=cloud,
        wrap=lambda transport: _Watched(transport, watching),
        starts=False,
        **options,
    ) as run:
        clock = running_clock()
        began = clock.monotonic()
        eyes.now = lambda: clock.monotonic() - began
        view = View(
            start=clock.now(),
            until=until,
            warmup=warmup,
            grid=grid,
            store=run.cluster.store,
            types=types,
            now=eyes.now,
            price=lambda *offering: market.price(offering),
        )
        for each in watching:
            each.begin(view)
        run.cluster.store.on_change(eyes.changed)
        await run.apply(*objects)
        run.start()
        yield WatchedRun(run, view, watching)


def run_of(*variants: VariantRun, name: str = "test", expect: Sequence[Any] = ()) -> Run:
    """A run of these variants."""
    scenario = SimpleNamespace(
        metadata=SimpleNamespace(name=name, description="made by a test"), expect=list(expect)
    )
    return Run(
        scenario=cast(Any, scenario),
        sha256="0" * 64,
        demand_sha256="1" * 64,
        seed=1,
        variants=variants,
        warnings=(),
        not_modelled=("networks",),
        wall_seconds=1.0,
        processor_seconds=1.0,
        peak_bytes=2**20,
    )
