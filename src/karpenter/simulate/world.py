"""The world of one run: cluster, controllers and cloud, and what steps of the timeline do to them."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.api.times import in_seconds
from karpenter.clock import VirtualLoop, running_clock
from karpenter.cloud.kwok.faults import OfferingPattern, parse_patterns
from karpenter.cloud.types import InstanceType
from karpenter.decision_log.record import DecisionRecord
from karpenter.kube.client import Client
from karpenter.kube.transport import Request, Transport
from karpenter.model import labels
from karpenter.settings import Settings, with_assignments
from karpenter.simulate.amounts import Drawer, Samples, matches
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand.generators import changed_template
from karpenter.simulate.demand.objects import API_VERSIONS
from karpenter.simulate.demand.recorded_start import RecordedStart
from karpenter.simulate.engine.cloud import (
    Machine,
    Machines,
    SimulatedCloud,
    is_machine,
    market_of,
)
from karpenter.simulate.engine.controllers import Controllers, OffsetClock
from karpenter.simulate.engine.delays import DrawnDelays
from karpenter.simulate.engine.furnishing import Furnishing
from karpenter.simulate.engine.price_moves import PriceMove
from karpenter.simulate.engine.traffic import SeenTransport, SlowTransport
from karpenter.simulate.faults import Faults, FaultyTransport, KeyedDice
from karpenter.simulate.lengths import seconds, share
from karpenter.simulate.scenario.models import (
    ClientLimit,
    Interruptions,
    Pick,
    RequestFaults,
    Scenario,
)
from karpenter.simulate.seam import MachineEvent, Mark, Observer, PriceChange
from karpenter.simulate.timeline import Undo
from karpenter.simulate.variants import ResolvedVariant, inverse, is_target
from karpenter_sandbox.client_limits import ClientLimits, Limit
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.kubelet.faults import Fault
from karpenter_sandbox.server.transport import MemoryTransport
from karpenter_sandbox.status import ApiError
from karpenter_sandbox.store.store import Event

# Virtual time in which an empty cluster starts, before the scenario begins
PRELUDE: Final = 10.0
# The last part of it, in which a cluster gets what a recorded one had
FURNISHING: Final = 4.0
_NOT_FOUND: Final = 404
_HOURS: Final = {"h": 3600.0, "d": 86_400.0}


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


class World:
    """What one run happens to; most steps return what undoes them."""

    def __init__(self, setup: Setup, hooks: Hooks, chance: Chance) -> None:
        self._setup = setup
        self._hooks = hooks
        self._scenario = setup.scenario
        self._chance = chance
        self.clock: Final = running_clock()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.thinking = seconds(setup.scenario.control_plane.thinking)
        self._own_clock = OffsetClock(loop)
        self.market: Final = market_of(setup.types, self.clock)
        self.machines: Final = Machines(self.now, self.market.price, self._tell)
        self.machines.on_launch.append(self._expose)
        self._delays = DrawnDelays(
            setup.scenario, setup.variant.machines, self._chance, setup.samples, self._pulled
        )
        self.cluster: Final = Cluster(
            self.clock,
            seed=setup.seed,
            is_strict=True,
            delays=self._delays,
            limits=_limits(setup.scenario),
        )
        self._faulty: FaultyTransport | None = None  # whose probabilities steps change
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
        self.tasks: Final[set[asyncio.Task[None]]] = set()  # that outlast the step they began with
        self.problems: list[str] = []

    def now(self) -> float:
        """Virtual seconds since the start of the scenario."""
        return self.clock.monotonic() - PRELUDE

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
        there = self.machines.there
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
            self.machines.noticed(name)
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
        self.market.faults.sell_out(*_patterns(offerings), lasts=length)

    async def restock(self, offerings: Sequence[str]) -> None:
        """Make offerings available again."""
        self.market.faults.restock(*_patterns(offerings))

    async def zone_down(self, zone: str) -> tuple[list[str], Undo]:
        """Let all machines of a zone fall silent, and sell everything there out."""
        machines, pattern = self.cluster.machines, OfferingPattern(zone=zone)
        machines.lost_zones |= {zone}
        self.market.faults.sell_out(pattern)
        nodes = [
            node["metadata"]["name"]
            for node in self.cluster.store.list("", "nodes")
            if (node["metadata"].get("labels") or {}).get(labels.ZONE) == zone
        ]

        async def undo() -> None:
            machines.lost_zones -= {zone}
            self.market.faults.restock(pattern)

        return nodes, undo

    async def set_price(self, match: str, factor: float | None, price: float | None) -> Undo:
        """Let offerings cost something else from now on."""
        before = {
            name: self.market.price(name)
            for name in self.market.list_prices
            if matches(match, "/".join(name))
        }
        changed = {
            name: price if price is not None else old * (1.0 if factor is None else factor)
            for name, old in before.items()
        }
        self.move_prices(PriceMove(self.now(), changed))

        async def undo() -> None:
            self.move_prices(PriceMove(self.now(), before))

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
        self.problems += self.controllers.problems()
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

    async def set_faults(self, faults: RequestFaults) -> Undo:
        """Let requests of the controllers go wrong as often as this from now on."""
        faulty = self._faulty
        assert faulty is not None, "a scenario with such a step has a transport that goes wrong"
        before = faulty.faults
        faulty.faults = Faults(
            **{
                each.name: share(often)
                for each in fields(Faults)
                if (often := getattr(faults, each.name)) is not None
            }
        )

        async def undo() -> None:
            faulty.faults = before

        return undo

    async def furnish(
        self, starts: Sequence[RecordedStart], ask: Callable[[], Awaitable[None]]
    ) -> list[str]:
        """Let the cluster have what recorded ones had, before the scenario starts.

        Args:
            starts: what they had.
            ask: asks for what users had asked for.

        Returns:
            A warning about what cannot be there.
        """
        furnishing = Furnishing(self.cluster, self.machines, self._setup.start, starts)
        pools = {
            obj["metadata"]["name"] for obj in self.cluster.store.list("karpenter.sh", "nodepools")
        }
        self._delays.is_furnishing = True
        try:
            with self.cluster.furnished():
                await ask()
                warnings = await furnishing.add_machines(pools, self.market.list_prices)
                await furnishing.place_pods(self.clock, lambda: -self.now())
        finally:
            self._delays.is_furnishing = False
        return warnings

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
            self.market,
            self.machines,
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
        await self.clock.sleep(drawn)
        if self.machines.there.get(machine.name) is machine:
            self.mark("interrupt", "1 node", [machine.name])
            await self.interrupt([machine.name], seconds(hazard.notice))

    async def _take_back(self, name: str, notice: float) -> None:
        await self.clock.sleep(notice)
        self._noticed.pop(name, None)
        await self._vanish(name, "interrupted")

    async def _vanish(self, name: str, cause: str) -> None:
        """A machine is gone from one moment to the next."""
        if name not in self.machines.there:
            return
        self.cluster.machines.inject(name, Fault.DISAPPEARS)
        self._delays.machine_gone(name, self.clock.now())
        self.machines.gone(name, cause)
        try:
            await self.cluster.client.delete("v1", "nodes", None, name)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise

    def move_prices(self, move: PriceMove) -> None:
        changed = {
            name: price for name, price in move.prices.items() if self.market.price(name) != price
        }
        self.market.prices.set(changed)
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

    def follow(self, event: Event) -> None:
        """Note what ends and what is gone."""
        key = event.stored.key
        if (key.group, key.resource) == ("", "pods"):
            self._delays.pod_changed(event.obj, self.clock.now(), is_gone=event.type == "DELETED")
        if event.type != "DELETED":
            return
        if (key.group, key.resource) == ("", "nodes"):
            self.machines.gone(key.name, "deleted")
            self.cluster.machines.clear(key.name)
            self._delays.forget("nodes", event.obj)
        elif (key.group, key.resource) == ("", "pods"):
            self._delays.forget("pods", event.obj)
        elif (key.group, key.resource) == ("karpenter.sh", "nodeclaims"):
            self.machines.claim_gone(key.name, self._has_node)

    def _has_node(self, name: str) -> bool:
        return any(
            node["metadata"]["name"] == name for node in self.cluster.store.list("", "nodes")
        )

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
            transport = SlowTransport(transport, self.clock, latency)
        transport = self._hooks.wrap(transport)
        if isinstance(transport, FaultyTransport):
            self._faulty = transport
        elif any(step.faults for step in self._scenario.timeline):
            dice = KeyedDice(self._setup.seed)
            transport = self._faulty = FaultyTransport(transport, Faults(), dice, clock=self.clock)
        return transport

    def _wrote(self, request: Request) -> None:
        for observer in self._hooks.observers:
            observer.wrote(request)

    async def _restart(self, settings: Settings) -> None:
        self.problems += self.controllers.problems()
        was_running = self.controllers.is_running
        await self.controllers.kill()
        self.controllers.settings = settings
        if was_running:
            self.controllers.start()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def settings_of(variant: ResolvedVariant) -> Settings:
    """The settings of the controllers.

    Raises:
        SettingError: they cannot be read.
    """
    return with_assignments(Settings(), variant.settings)


def _limits(scenario: Scenario) -> ClientLimits:
    plane = scenario.control_plane
    return ClientLimits(_limit(plane.controller_manager), _limit(plane.scheduler))


def _limit(limit: ClientLimit) -> Limit | None:
    return Limit(limit.qps, max(1, limit.burst)) if limit.qps > 0 else None


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
