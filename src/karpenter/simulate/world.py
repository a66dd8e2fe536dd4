"""One run of one variant: a cluster, the real controllers, users and mishaps, in virtual time."""

import asyncio
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.api.times import earlier, in_seconds
from karpenter.clock import VirtualLoop, run_virtual, running_clock
from karpenter.cloud.kwok.faults import OfferingPattern, parse_patterns
from karpenter.cloud.types import InstanceType
from karpenter.decision_log.record import DecisionRecord
from karpenter.kube.client import Client
from karpenter.kube.transport import Request, Transport
from karpenter.model import labels
from karpenter.settings import Settings, with_assignments
from karpenter.simulate.amounts import Drawer, Samples, matches
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand.generators import Demand, changed_template
from karpenter.simulate.demand.objects import API_VERSIONS
from karpenter.simulate.demand.operations import Operation
from karpenter.simulate.engine.cloud import (
    Machine,
    Machines,
    SimulatedCloud,
    is_machine,
    market_of,
)
from karpenter.simulate.engine.controllers import Controllers, OffsetClock
from karpenter.simulate.engine.delays import DrawnDelays
from karpenter.simulate.engine.price_moves import PriceMove, price_moves
from karpenter.simulate.engine.traffic import SeenTransport, SlowTransport
from karpenter.simulate.lengths import seconds, share, shown
from karpenter.simulate.scenario.models import ClientLimit, Interruptions, Pick, Scenario
from karpenter.simulate.seam import (
    MachineEvent,
    Mark,
    Observer,
    PriceChange,
    VariantRun,
    View,
)
from karpenter.simulate.timeline import Moment, Undo, happen, moments
from karpenter.simulate.variants import ResolvedVariant, inverse, is_target
from karpenter_sandbox.client_limits import ClientLimits, Limit
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.controllers.cluster.service_accounts import first_account, root_certificate
from karpenter_sandbox.kubelet.faults import SIMULATED, Fault
from karpenter_sandbox.server.transport import MemoryTransport
from karpenter_sandbox.status import ApiError
from karpenter_sandbox.store.store import Event

# Virtual time in which an empty cluster starts, before the scenario begins
PRELUDE: Final = 10.0
_NEXT_LOOK: Final = 10.0  # virtual seconds between two looks at whether to stop
_CONFLICT, _NOT_FOUND = 409, 404
# Kinds that others depend on come first, whatever the order of the files
_FIRST: Final = (
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "KWOKNodeClass",
    "Node",
)
_HOURS: Final = {"h": 3600.0, "d": 86_400.0}
_MOST_GRID: Final = 2000
_FINEST_GRID: Final = 10.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    at: float
    until: float
    nodes: int
    pods: int
    dollars: float  # per hour


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a run follows from."""

    scenario: Scenario
    variant: ResolvedVariant
    files: Mapping[str, bytes]
    manifests: Mapping[str, Sequence[JsonObject]]  # that steps apply, by their files
    samples: Samples
    types: tuple[InstanceType, ...]
    start: datetime
    seed: int
    until: float


@dataclass(slots=True)
class Hooks:
    """What a run reports to, and asks."""

    observers: Sequence[Observer] = ()
    decided: Callable[[DecisionRecord], None] | None = None
    progress: Callable[[Progress], None] | None = None
    is_stopped: Callable[[], bool] = field(default=lambda: False)
    wrap: Callable[[Transport], Transport] = field(default=lambda transport: transport)


def run_world(setup: Setup, hooks: Hooks) -> VariantRun:
    """Run a variant from beginning to end in virtual time."""
    start = earlier(setup.start, in_seconds(PRELUDE))
    return run_virtual(_lived(setup, hooks), start=start, seed=setup.seed)


async def _lived(setup: Setup, hooks: Hooks) -> VariantRun:
    return await World(setup, hooks).live()


class World:
    """The world of one run, and what the steps of the timeline do to it."""

    def __init__(self, setup: Setup, hooks: Hooks) -> None:
        self._setup = setup
        self._hooks = hooks
        self._scenario = setup.scenario
        self._chance = Chance(setup.seed)
        self._clock = running_clock()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._own_clock = OffsetClock(loop)
        self._market = market_of(setup.types, self._clock)
        self._machines = Machines(self.now, self._market.price, self._tell)
        self._machines.on_launch.append(self._expose)
        self._delays = DrawnDelays(
            setup.scenario, setup.variant.machines, self._chance, setup.samples, self._pulled
        )
        self.cluster: Final = Cluster(
            self._clock,
            seed=setup.seed,
            is_strict=True,
            delays=self._delays,
            limits=_limits(setup.scenario),
        )
        self.controllers: Final = Controllers(
            self._own_clock,
            self._transport(),
            self._make_cloud,
            settings_of(setup.variant),
            setup.seed,
        )
        self._cloud: SimulatedCloud | None = None
        self._launches: Counter[str] = Counter()
        self._noticed: dict[str, None] = {}  # nodes of machines that will be taken back
        self._tasks: set[asyncio.Task[None]] = set()
        self._warnings: list[str] = []
        self._problems: list[str] = []

    def now(self) -> float:
        """Virtual seconds since the start of the scenario."""
        return self._clock.monotonic() - PRELUDE

    async def live(self) -> VariantRun:
        """Run from the start to the end, or to where it is stopped."""
        await self.cluster.start()
        try:
            await self._clock.sleep(PRELUDE - self._clock.monotonic())
            return await self._lived()
        finally:
            await self.cluster.stop()

    async def _lived(self) -> VariantRun:
        observers = self._hooks.observers
        store = self.cluster.store
        view = self._view()
        for observer in observers:
            observer.begin(view)
            store.on_change(observer.changed)
        store.on_change(self._follow)
        decided = self._hooks.decided
        if decided is not None:
            self.controllers.decisions.follow(lambda record, _: decided(record))
        play = asyncio.create_task(self._play(), name="play")
        try:
            is_complete = await self._until_end(play)
            ended = self.now()
            observed = tuple(observer.finish() for observer in observers)
            self._problems += self.controllers.problems()
            records = tuple(self.controllers.decisions.newest())[::-1]
        finally:
            play.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(play, *self._tasks, return_exceptions=True)
            await self.controllers.kill()
        return VariantRun(
            name=self._setup.variant.name,
            ended=ended,
            is_complete=is_complete,
            observed=observed,
            decisions=records,
            problems=tuple(self._problems),
            settings=self._setup.variant.settings,
            warnings=tuple(self._warnings),
        )

    def _view(self) -> View:
        scenario, until = self._scenario, self._setup.until
        every = scenario.report.every
        grid = seconds(every) if every else max(_FINEST_GRID, until / _MOST_GRID)
        return View(
            start=self._setup.start,
            until=until,
            warmup=seconds(scenario.warmup),
            grid=grid,
            store=self.cluster.store,
            types=self._setup.types,
            now=self.now,
            price=lambda *offering: self._market.price(offering),
        )

    async def _until_end(self, play: "asyncio.Task[None]") -> bool:
        """Wait for the end; return whether it was reached."""
        until = self._setup.until
        ended = asyncio.Event()
        play.add_done_callback(lambda _: ended.set())
        while (left := until - self.now()) > 0:
            if self._hooks.is_stopped():
                return False
            if ended.is_set():
                await play
                await self._clock.sleep(min(_NEXT_LOOK, left))
            else:
                await self._clock.wait(ended, seconds=min(_NEXT_LOOK, left))
            if self._hooks.progress is not None:
                self._hooks.progress(self._progress())
        if play.done():
            await play
        return True

    def _progress(self) -> Progress:
        store = self.cluster.store
        there = self._machines.there.values()
        return Progress(
            at=self.now(),
            until=self._setup.until,
            nodes=store.count("", "nodes"),
            pods=store.count("", "pods"),
            dollars=sum(self._market.price(machine.offering) for machine in there),
        )

    # --- What happens, in order

    async def _play(self) -> None:
        """Create what is there from the start, then let things happen at their times."""
        await self._begin()
        number = itertools.count()
        due: list[tuple[float, int, int, Any]] = []  # a heap of undos
        streams = heapq.merge(self._price_events(), self._steps(), self._demand(), key=_order)
        upcoming = next(streams, None)
        while upcoming is not None or due:
            # What is undone at an instant comes before what happens then
            if due and (upcoming is None or due[0][0] <= upcoming[0]):
                at, _, _, undo = heapq.heappop(due)
                await self._wait_until(at)
                await self._tried(undo, "undo")
                continue
            assert upcoming is not None
            at, _, event = upcoming
            await self._wait_until(at)
            if isinstance(event, Moment):
                undo = await self._step(event)
                if undo is not None:
                    ends = at + (seconds(event.step.for_) if event.step.for_ else 0.0)
                    heapq.heappush(due, (ends, event.index, next(number), undo))
            elif isinstance(event, PriceMove):
                self._move_prices(event)
            else:
                await self._operate(event)
            upcoming = next(streams, None)

    async def _begin(self) -> None:
        objects = with_node_classes(self._setup.variant.objects)
        for obj in sorted(objects, key=_rank):
            await self._create(obj)
        for workload in self._scenario.workloads:
            await self._ensure_namespace(workload.namespace)
        self.controllers.start()

    def _price_events(self) -> Iterator[tuple[float, int, Any]]:
        moves = price_moves(
            self._setup.variant.prices,
            self._market.list_prices,
            self._setup.files,
            self._chance,
            self._setup.until,
        )
        return ((move.at, 0, move) for move in moves)

    def _steps(self) -> Iterator[tuple[float, int, Any]]:
        found = moments(self._scenario, self._setup.variant.name, self._setup.until)
        return ((moment.at, 1, moment) for moment in found)

    def _demand(self) -> Iterator[tuple[float, int, Any]]:
        setup = self._setup
        demand = Demand(
            setup.scenario, self._chance, setup.samples, setup.files, setup.until, setup.start
        )
        return ((operation.at, 2, operation) for operation in demand.operations())

    async def _wait_until(self, at: float) -> None:
        # The clock's own sum, so that the same instant has the same number
        left = at + PRELUDE - self._clock.monotonic()
        if left > 0:
            await self._clock.sleep(left)

    async def _step(self, moment: Moment) -> Undo | None:
        undos: list[Undo | None] = []

        async def take() -> None:
            undos.append(await happen(moment, self, self._chance, self._setup.manifests))

        await self._tried(take, f"timeline[{moment.index}]")
        return undos[0] if undos else None

    async def _tried(self, what: Callable[[], Awaitable[None]], where: str) -> None:
        """Do what users ask for; a refusal of the API is a warning, as on their terminal."""
        try:
            await what()
        except ApiError as error:
            self._warnings.append(f"{shown(self.now())} {where}: {error}")

    async def _operate(self, operation: Operation) -> None:
        client = self.cluster.client
        where = (operation.api_version, operation.kind, operation.namespace, operation.name)

        async def take() -> None:
            match operation.verb:
                case "create":
                    await self._ensure_namespace(operation.namespace)
                    await client.create(operation.body or {}, namespace=operation.namespace)
                case "apply":
                    await self._ensure_namespace(operation.namespace)
                    await client.patch(
                        "apply", *where, operation.body, field_manager="user", force=True
                    )
                case "merge":
                    await client.patch("merge", *where, operation.body)
                case "scale":
                    await client.scale(*where, operation.replicas)
                case "delete":
                    await client.delete(*where, propagation="Background")

        await self._tried(take, f"{operation.verb} {operation.kind}/{operation.name}")

    # --- What steps of the timeline do

    async def apply(self, objects: Sequence[JsonObject]) -> Undo:
        """Apply objects; undone, those that were new are deleted."""
        made = []
        for obj in objects:
            known = await self.cluster.find(obj, "default")
            if known is None:
                made.append(obj)
            metadata = obj["metadata"]
            namespace = metadata.get("namespace", "default")
            place = (obj["apiVersion"], obj["kind"], namespace, metadata["name"])
            await self.cluster.client.patch("apply", *place, obj, field_manager="user", force=True)

        async def undo() -> None:
            await self.delete([f"{obj['kind']}/{obj['metadata']['name']}" for obj in made])

        return undo

    async def delete(self, targets: Sequence[str]) -> None:
        """Delete objects and what they own."""
        for target in targets:
            where = self._place(target)
            await self.cluster.client.delete(*where, propagation="Background")

    async def patch(self, target: str, patch: JsonObject) -> Undo:
        """Merge a patch into an object."""
        where = self._place(target)
        before = await self.cluster.client.get(*where)
        await self.cluster.client.patch("merge", *where, patch)
        back = inverse(before, patch)

        async def undo() -> None:
            await self.cluster.client.patch("merge", *where, back)

        return undo

    async def scale(self, target: str, replicas: int) -> Undo:
        """Ask for another number of replicas."""
        where = self._place(target)
        before = (await self.cluster.client.get(*where))["spec"].get("replicas", 1)
        await self.cluster.client.scale(*where, replicas)

        async def undo() -> None:
            await self.cluster.client.scale(*where, before)

        return undo

    async def rollout(self, target: str, version: str) -> None:
        """Change the template of pods."""
        await self.cluster.client.patch("merge", *self._place(target), changed_template(version))

    def pick(self, wanted: Pick, draw: Callable[[str], float]) -> list[str]:
        """The names of some machines' nodes."""
        there = self._machines.there
        found = [
            node
            for node in self.cluster.store.list("", "nodes")
            if is_machine(node)
            and node["metadata"]["name"] in there
            and node["metadata"]["name"] not in self._noticed
            and _is_wanted(node, wanted)
        ]
        ranks: dict[str, Any] = {
            "random": lambda node: draw(node["metadata"]["name"]),
            "oldest": _birth,
            "newest": _birth,
        }
        found.sort(key=ranks[wanted.order], reverse=wanted.order == "newest")
        if wanted.count is not None:
            found = found[: wanted.count]
        elif wanted.percent is not None:
            found = found[: math.floor(len(found) * wanted.percent / 100 + 0.5)]
        return [node["metadata"]["name"] for node in found]

    async def interrupt(self, nodes: Sequence[str], notice: float) -> None:
        """Announce that machines are taken back, and take them after a while."""
        for name in nodes:
            self._noticed[name] = None
            self._machines.noticed(name)
            if self._cloud is not None:
                self._cloud.kwok.interruptions.notice(name)
            self._spawn(self._take_back(name, notice))

    async def fail(self, nodes: Sequence[str], fault: str) -> Undo:
        """Let something go wrong with nodes."""
        kind = Fault(fault)
        for name in nodes:
            if kind is Fault.DISAPPEARS:
                await self._vanish(name, "disappeared")
            else:
                self.cluster.machines.inject(name, kind)

        async def undo() -> None:
            for name in nodes:
                self.cluster.machines.clear(name)

        return undo

    async def sold_out(self, offerings: Sequence[str], lasts: float | None) -> None:
        """Sell offerings out, for a while or for good."""
        length = in_seconds(lasts) if lasts is not None else None
        self._market.faults.sell_out(*_patterns(offerings), lasts=length)

    async def restock(self, offerings: Sequence[str]) -> None:
        """Make offerings available again."""
        self._market.faults.restock(*_patterns(offerings))

    async def zone_down(self, zone: str) -> tuple[list[str], Undo]:
        """Let all machines of a zone fall silent, and sell everything there out."""
        machines, pattern = self.cluster.machines, OfferingPattern(zone=zone)
        machines.lost_zones |= {zone}
        self._market.faults.sell_out(pattern)
        nodes = [
            node["metadata"]["name"]
            for node in self.cluster.store.list("", "nodes")
            if (node["metadata"].get("labels") or {}).get(labels.ZONE) == zone
        ]

        async def undo() -> None:
            machines.lost_zones -= {zone}
            self._market.faults.restock(pattern)

        return nodes, undo

    async def set_price(self, match: str, factor: float | None, price: float | None) -> Undo:
        """Let offerings cost something else from now on."""
        before = {
            name: self._market.price(name)
            for name in self._market.list_prices
            if matches(match, "/".join(name))
        }
        changed = {
            name: price if price is not None else old * (1.0 if factor is None else factor)
            for name, old in before.items()
        }
        self._move_prices(PriceMove(self.now(), changed))

        async def undo() -> None:
            self._move_prices(PriceMove(self.now(), before))

        return undo

    async def set_settings(self, settings: Mapping[str, str]) -> Undo:
        """Restart the controllers with other settings."""
        before = self.controllers.settings
        await self._restart(with_assignments(before, settings))

        async def undo() -> None:
            await self._restart(before)

        return undo

    async def kill(self) -> Undo:
        """End the controllers, as if their process had died."""
        self._problems += self.controllers.problems()
        self._cloud = None
        await self.controllers.kill()

        async def undo() -> None:
            self.controllers.start()

        return undo

    async def set_clock(self, seconds: float) -> Undo:
        """Let the time of day of the controllers be off."""
        self._own_clock.offset = in_seconds(seconds)

        async def undo() -> None:
            self._own_clock.offset = timedelta()

        return undo

    def mark(self, kind: str, text: str, nodes: Sequence[str]) -> None:
        """Tell observers of a step."""
        mark = Mark(self.now(), kind, text, tuple(nodes))
        for observer in self._hooks.observers:
            observer.marked(mark)

    # --- The cloud

    def _make_cloud(self, kube: Client, clock: OffsetClock) -> SimulatedCloud:
        machines = self._setup.variant.machines
        self._cloud = SimulatedCloud(
            kube,
            clock,
            self._market,
            self._machines,
            self.controllers.decisions,
            (Drawer(self._chance, "launch", self._setup.samples), machines.launch),
            self._launches,
        )
        # A queue of notices outlives the process that reads it
        self._cloud.kwok.interruptions.notice(*self._noticed)
        return self._cloud

    def _expose(self, machine: Machine) -> None:
        """Draw when a machine of a kind that is taken back by chance will be."""
        for hazard in self._scenario.interruptions:
            if matches(hazard.match, machine.path):
                self._spawn(self._hazard(machine, hazard))
                return

    async def _hazard(self, machine: Machine, hazard: Interruptions) -> None:
        percent, _, unit = hazard.rate.partition("/")
        rate = share(percent) / _HOURS[unit]
        if rate <= 0:
            return
        drawn = self._chance.exponential("interruption", machine.path, machine.number) / rate
        if self.now() + drawn >= self._setup.until:
            return
        await self._clock.sleep(drawn)
        if self._machines.there.get(machine.name) is machine:
            self.mark("interrupt", "1 node", [machine.name])
            await self.interrupt([machine.name], seconds(hazard.notice))

    async def _take_back(self, name: str, notice: float) -> None:
        await self._clock.sleep(notice)
        self._noticed.pop(name, None)
        await self._vanish(name, "interrupted")

    async def _vanish(self, name: str, cause: str) -> None:
        """A machine is gone from one moment to the next."""
        if name not in self._machines.there:
            return
        self.cluster.machines.inject(name, Fault.DISAPPEARS)
        self._machines.gone(name, cause)
        try:
            await self.cluster.client.delete("v1", "nodes", None, name)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise

    def _move_prices(self, move: PriceMove) -> None:
        changed = {
            name: price for name, price in move.prices.items() if self._market.price(name) != price
        }
        self._market.prices.set(changed)
        for name, price in changed.items():
            change = PriceChange(self.now(), *name, price)
            for observer in self._hooks.observers:
                observer.priced(change)

    def _tell(self, event: MachineEvent) -> None:
        for observer in self._hooks.observers:
            observer.machine(event)

    def _pulled(self, node: str, size: int) -> None:
        self.mark("pulled", str(size), [node])

    # --- The cluster

    def _follow(self, event: Event) -> None:
        """Note what is gone."""
        if event.type != "DELETED":
            return
        key = event.stored.key
        if (key.group, key.resource) == ("", "nodes"):
            self._machines.gone(key.name, "deleted")
            self.cluster.machines.clear(key.name)
            self._delays.forget("nodes", event.obj)
        elif (key.group, key.resource) == ("", "pods"):
            self._delays.forget("pods", event.obj)
        elif (key.group, key.resource) == ("karpenter.sh", "nodeclaims"):
            self._machines.claim_gone(key.name, self._has_node)

    def _has_node(self, name: str) -> bool:
        return any(
            node["metadata"]["name"] == name for node in self.cluster.store.list("", "nodes")
        )

    async def _create(self, obj: JsonObject) -> None:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "default")
        await self._ensure_namespace(namespace)
        if obj["kind"] == "Node":
            annotations = {SIMULATED: "fake", **(metadata.get("annotations") or {})}
            obj = {**obj, "metadata": {**metadata, "annotations": annotations}}

        async def take() -> None:
            await self.cluster.client.create(obj, namespace=namespace)

        await self._tried(take, f"{obj['kind']}/{metadata.get('name', '')}")

    async def _ensure_namespace(self, name: str) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        if await self.cluster.find(namespace) is not None:
            return
        # A controller would make them as well, but not before the first pods come
        for obj in (namespace, first_account(name), root_certificate(name)):
            await self.cluster.client.create(obj)

    def _place(self, target: str) -> tuple[str, str, str, str]:
        """Where an object is: in the namespace of the workload of its name, else in the default one."""
        kind, _, name = target.partition("/")
        version = API_VERSIONS.get(kind, "v1")
        namespaces = {each.name: each.namespace for each in self._scenario.workloads}
        namespace = namespaces.get(name, "default")
        for obj in self._setup.variant.objects:
            if is_target(obj, target):
                version, namespace = obj["apiVersion"], obj["metadata"].get("namespace", "default")
        return version, kind, namespace, name

    def _transport(self) -> Transport:
        transport: Transport = SeenTransport(MemoryTransport(self.cluster.api), self._wrote)
        latency = seconds(self._scenario.control_plane.latency)
        if latency:
            transport = SlowTransport(transport, self._clock, latency)
        return self._hooks.wrap(transport)

    def _wrote(self, request: Request) -> None:
        for observer in self._hooks.observers:
            observer.wrote(request)

    async def _restart(self, settings: Settings) -> None:
        self._problems += self.controllers.problems()
        was_running = self.controllers.is_running
        await self.controllers.kill()
        self.controllers.settings = settings
        if was_running:
            self.controllers.start()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def settings_of(variant: ResolvedVariant) -> Settings:
    """The settings of the controllers.

    Raises:
        SettingError: they cannot be read.
    """
    return with_assignments(Settings(), variant.settings)


def with_node_classes(objects: Sequence[JsonObject]) -> list[JsonObject]:
    """The objects with the KWOKNodeClasses that pools name; such a class says nothing by itself."""
    known = {obj["metadata"].get("name") for obj in objects if obj["kind"] == "KWOKNodeClass"}
    found = list(objects)
    for obj in objects:
        spec = (((obj.get("spec") or {}).get("template") or {}).get("spec")) or {}
        reference = spec.get("nodeClassRef") or {} if obj["kind"] == "NodePool" else {}
        name = reference.get("name")
        if reference.get("kind") == "KWOKNodeClass" and name and name not in known:
            known.add(name)
            version = API_VERSIONS["KWOKNodeClass"]
            metadata = {"name": name}
            found.append(
                {"apiVersion": version, "kind": "KWOKNodeClass", "metadata": metadata, "spec": {}}
            )
    return found


def _limits(scenario: Scenario) -> ClientLimits:
    plane = scenario.control_plane
    return ClientLimits(_limit(plane.controller_manager), _limit(plane.scheduler))


def _limit(limit: ClientLimit) -> Limit | None:
    return Limit(limit.qps, max(1, limit.burst)) if limit.qps > 0 else None


def _order(event: tuple[float, int, Any]) -> tuple[float, int]:
    return event[:2]


def _rank(obj: JsonObject) -> int:
    kind = obj.get("kind")
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def _patterns(offerings: Sequence[str]) -> tuple[OfferingPattern, ...]:
    return parse_patterns(",".join(offerings))


def _is_wanted(node: JsonObject, wanted: Pick) -> bool:
    held = node["metadata"].get("labels") or {}
    asked = {
        labels.NODEPOOL: wanted.pool,
        labels.ZONE: wanted.zone,
        labels.CAPACITY_TYPE: wanted.capacity_type,
        labels.INSTANCE_TYPE: wanted.type,
        **wanted.selector,
    }
    return all(held.get(key) == value for key, value in asked.items() if value is not None)


def _birth(node: JsonObject) -> tuple[str, str]:
    return node["metadata"]["creationTimestamp"], node["metadata"]["name"]
