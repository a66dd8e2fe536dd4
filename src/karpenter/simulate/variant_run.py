"""One run of one variant in virtual time, from start to end: what happens when, and who sees it."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.api.times import earlier, in_seconds
from karpenter.clock import run_virtual
from karpenter.decision_log.record import DecisionRecord
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand.generators import Demand
from karpenter.simulate.demand.objects import API_VERSIONS
from karpenter.simulate.demand.operations import Operation
from karpenter.simulate.engine.price_moves import PriceMove, price_moves
from karpenter.simulate.lengths import seconds, shown
from karpenter.simulate.report.document import outcomes_so_far
from karpenter.simulate.scenario.models import Expectation
from karpenter.simulate.seam import VariantRun, View
from karpenter.simulate.timeline import Moment, Undo, happen, moments
from karpenter.simulate.world import FURNISHING, PRELUDE, Hooks, Progress, Setup, World
from karpenter_sandbox.controllers.cluster.service_accounts import first_account, root_certificate
from karpenter_sandbox.kubelet.faults import SIMULATED
from karpenter_sandbox.status import ApiError

_NEXT_LOOK: Final = 10.0  # virtual seconds between two looks at whether to stop
# Kinds that others depend on come first, whatever the order of the files
_FIRST: Final = (
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "KWOKNodeClass",
    "Node",
)
_OF_BOUND: Final = "cost.lowerBound"
_MOST_GRID: Final = 2000
_FINEST_GRID: Final = 10.0


def run_world(setup: Setup, hooks: Hooks) -> VariantRun:
    """Run a variant from beginning to end in virtual time."""
    start = earlier(setup.start, in_seconds(PRELUDE))
    return run_virtual(_lived(setup, hooks), start=start, seed=setup.seed)


async def _lived(setup: Setup, hooks: Hooks) -> VariantRun:
    return await _Runner(setup, hooks).live()


class _Runner:
    """Lets what a scenario says happen to a world, in order, and observers see it."""

    def __init__(self, setup: Setup, hooks: Hooks) -> None:
        self._setup = setup
        self._hooks = hooks
        self._scenario = setup.scenario
        self._chance = Chance(setup.seed)
        self._world = World(setup, hooks, self._chance)
        self._warnings: list[str] = []
        self._judged: list[JsonObject] = []  # outcomes of expectations of steps
        demand = Demand(
            setup.scenario, self._chance, setup.samples, setup.files, setup.until, setup.start
        )
        self._starts = demand.recorded_starts()
        self._asked = demand.operations()

    async def live(self) -> VariantRun:
        """Run from the start to the end, or to where it is stopped."""
        await self._world.cluster.start()
        try:
            ahead = FURNISHING if self._starts else 0.0
            await self._world.clock.sleep(PRELUDE - ahead - self._world.clock.monotonic())
            return await self._lived()
        finally:
            await self._world.cluster.stop()

    async def _lived(self) -> VariantRun:
        observers = self._hooks.observers
        store = self._world.cluster.store
        view = self._view()
        for observer in observers:
            observer.begin(view)
            store.on_change(observer.changed)
        store.on_change(self._world.follow)
        decided = self._hooks.decided
        if decided is not None:
            self._world.controllers.decisions.follow(lambda record, _: decided(record))
        play = asyncio.create_task(self._play(), name="play")
        try:
            is_complete = await self._until_end(play)
            ended = self._world.now()
            observed = tuple(observer.finish() for observer in observers)
            self._world.problems += self._world.controllers.problems()
            records = tuple(self._world.controllers.decisions.newest())[::-1]
            left = self._left(ended, records, observed, is_complete=is_complete)
        finally:
            play.cancel()
            for task in self._world.tasks:
                task.cancel()
            await asyncio.gather(play, *self._world.tasks, return_exceptions=True)
            await self._world.controllers.kill()
        return left

    def _view(self) -> View:
        scenario, until = self._scenario, self._setup.until
        every = scenario.report.every
        grid = seconds(every) if every else max(_FINEST_GRID, until / _MOST_GRID)
        return View(
            start=self._setup.start,
            until=until,
            warmup=seconds(scenario.warmup),
            grid=grid,
            store=self._world.cluster.store,
            types=self._setup.types,
            now=self._world.now,
            price=lambda *offering: self._world.market.price(offering),
        )

    async def _until_end(self, play: "asyncio.Task[None]") -> bool:
        """Wait for the end; return whether it was reached."""
        until = self._setup.until
        ended = asyncio.Event()
        play.add_done_callback(lambda _: ended.set())
        while (left := until - self._world.now()) > 0:
            if self._hooks.is_stopped():
                return False
            if ended.is_set():
                await play
                await self._world.clock.sleep(min(_NEXT_LOOK, left))
            else:
                await self._world.clock.wait(ended, seconds=min(_NEXT_LOOK, left))
            if self._hooks.progress is not None:
                self._hooks.progress(self._progress())
        if play.done():
            await play
        return True

    def _progress(self) -> Progress:
        store = self._world.cluster.store
        there = self._world.machines.there.values()
        return Progress(
            at=self._world.now(),
            until=self._setup.until,
            nodes=store.count("", "nodes"),
            pods=store.count("", "pods"),
            dollars=sum(self._world.market.price(machine.offering) for machine in there),
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
                self._world.move_prices(event)
            else:
                await self._operate(event)
            upcoming = next(streams, None)

    async def _begin(self) -> None:
        objects = with_node_classes(self._setup.variant.objects)
        for obj in sorted(objects, key=_rank):
            await self._create(obj)
        for workload in self._scenario.workloads:
            await self._ensure_namespace(workload.namespace)
        if self._starts:
            self._warnings += await self._world.furnish(self._starts, self._ask_for_the_first)
            await self._wait_until(0.0)
        self._world.controllers.start()

    async def _ask_for_the_first(self) -> None:
        """Ask for all that users ask for at the very start."""
        for operation in self._asked:
            if operation.at > 0:
                self._asked = itertools.chain([operation], self._asked)
                return
            await self._operate(operation)

    def _price_events(self) -> Iterator[tuple[float, int, Any]]:
        moves = price_moves(
            self._setup.variant.prices,
            self._world.market.list_prices,
            self._setup.files,
            self._chance,
            self._setup.start.timestamp(),
            self._setup.until,
        )
        return ((move.at, 0, move) for move in moves)

    def _steps(self) -> Iterator[tuple[float, int, Any]]:
        found = moments(self._scenario, self._setup.variant.name, self._setup.until)
        return ((moment.at, 1, moment) for moment in found)

    def _demand(self) -> Iterator[tuple[float, int, Any]]:
        return ((operation.at, 2, operation) for operation in self._asked)

    async def _wait_until(self, at: float) -> None:
        # The clock's own sum, so that the same instant has the same number
        left = at + PRELUDE - self._world.clock.monotonic()
        if left > 0:
            await self._world.clock.sleep(left)

    async def _step(self, moment: Moment) -> Undo | None:
        undos: list[Undo | None] = []

        async def take() -> None:
            undos.append(await happen(moment, self._world, self._chance, self._setup.manifests))

        await self._tried(take, f"timeline[{moment.index}]")
        if moment.step.expect is not None:
            self._judge(moment.step.expect)
        return undos[0] if undos else None

    def _judge(self, expected: Sequence[Expectation]) -> None:
        """Judge the report as it would be if the run ended here."""
        now = self._world.now()
        records = tuple(self._world.controllers.decisions.newest())[::-1]
        watcher, bound, *_ = self._hooks.observers
        # Judges of promises may be asked only once, and the bound takes its time
        is_bound_asked = any(each.path.startswith(_OF_BOUND) for each in expected)
        seen = (watcher.finish(), bound.finish() if is_bound_asked else [])
        so_far = self._left(now, records, seen, is_complete=False)
        self._judged += outcomes_so_far(so_far, expected)

    def _left(
        self,
        ended: float,
        records: tuple[DecisionRecord, ...],
        observed: tuple[object, ...],
        *,
        is_complete: bool,
    ) -> VariantRun:
        """What the run has left behind at a moment."""
        return VariantRun(
            name=self._setup.variant.name,
            ended=ended,
            is_complete=is_complete,
            observed=observed,
            decisions=records,
            problems=tuple(self._world.problems),
            settings=self._setup.variant.settings,
            warnings=tuple(self._warnings),
            expectations=tuple(self._judged),
        )

    async def _tried(self, what: Callable[[], Awaitable[None]], where: str) -> None:
        """Do what users ask for; a refusal of the API is a warning, as on their terminal."""
        try:
            await what()
        except ApiError as error:
            self._warnings.append(f"{shown(self._world.now())} {where}: {error}")

    async def _operate(self, operation: Operation) -> None:
        client = self._world.cluster.client
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

    async def _create(self, obj: JsonObject) -> None:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "default")
        await self._ensure_namespace(namespace)
        if obj["kind"] == "Node":
            annotations = {SIMULATED: "fake", **(metadata.get("annotations") or {})}
            obj = {**obj, "metadata": {**metadata, "annotations": annotations}}

        async def take() -> None:
            await self._world.cluster.client.create(obj, namespace=namespace)

        await self._tried(take, f"{obj['kind']}/{metadata.get('name', '')}")

    async def _ensure_namespace(self, name: str) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        if await self._world.cluster.find(namespace) is not None:
            return
        # A controller would make them as well, but not before the first pods come
        for obj in (namespace, first_account(name), root_certificate(name)):
            await self._world.cluster.client.create(obj)


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


def _order(event: tuple[float, int, Any]) -> tuple[float, int]:
    return event[:2]


def _rank(obj: JsonObject) -> int:
    kind = obj.get("kind")
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
