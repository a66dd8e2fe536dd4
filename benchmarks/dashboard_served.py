"""The dashboard that ``dashboard`` measures: served in a process of its own, for a cluster in its memory.

Lists and watches are answered from memory, as an API server would, so that what is measured is the
dashboard: mirrors, views, deltas, answers, history and server are those of ``karpenter dashboard``.
The process is told what to do in lines of standard input, and answers each with a line of JSON.
"""

import asyncio
import gc
import json
import math
import random
import sys
import time
from asyncio import events
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec
from benchmarks.catalogues import FACTS
from benchmarks.consolidation import cluster
from benchmarks.workloads import SEED

from karpenter.api.codec import WatchEvent
from karpenter.api.karpenter import NodePool
from karpenter.api.meta import ListMeta, ObjectList, OwnerReference, Resource
from karpenter.api.pods import Pod
from karpenter.clock import SystemClock
from karpenter.cloud.types import InstanceType
from karpenter.dashboard.answers.answers import Origin
from karpenter.dashboard.delta import delta
from karpenter.dashboard.feed import Published
from karpenter.dashboard.history import History
from karpenter.dashboard.homes.followed import Market, Options, followed_dashboard
from karpenter.dashboard.homes.offered import Offered
from karpenter.dashboard.picture import Picture, PriceBook
from karpenter.dashboard.view import ViewBuilder
from karpenter.disruption.context import DisruptionSettings
from karpenter.inquiry.question import CloudOffer
from karpenter.operator.gc_thresholds import collect_rarely
from karpenter.settings import Settings
from karpenter.state.cluster import ClusterState

R = TypeVar("R", bound=Resource)
Json = dict[str, Any]

CHANGED: Final = 100  # pods at a time
CHURN_SECONDS: Final = 1.0
_HISTORY_SECONDS: Final = 86_400.0
_PROBE_SECONDS: Final = 0.005
_ROUNDS: Final = 5
_REPLICA_SETS: Final = 250
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_NAMESPACES: Final = (*("web", "shop", "search", "billing", "batch", "ml"), *("ops", "mail"))
_replace = msgspec.structs.replace


class Reads:
    """What an API server answers to a client that lists and watches."""

    def __init__(self, objects: list[Resource]) -> None:
        self._objects: dict[type[Resource], dict[str, Resource]] = {}
        self._watches: dict[type[Resource], list[asyncio.Queue[WatchEvent[Any]]]] = {}
        self._version = 0
        for each in objects:
            self._put(each)

    def _put(self, changed: Resource) -> Resource:
        self._version += 1
        metadata = _replace(changed.metadata, resource_version=str(self._version))
        kept = _replace(changed, metadata=metadata)
        key = f"{metadata.namespace}/{metadata.name}"
        self._objects.setdefault(type(changed), {})[key] = kept
        return kept

    def of(self, kind: type[R]) -> list[R]:
        """All objects of a kind."""
        return cast("list[R]", list(self._objects.get(kind, {}).values()))

    def change(self, changed: Resource) -> None:
        """Have an object in place of that of its name, and tell those who watch."""
        event: WatchEvent[Any] = WatchEvent("MODIFIED", self._put(changed))
        for each in self._watches.get(type(changed), ()):
            each.put_nowait(event)

    async def page(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList[R]:
        """One page of a list."""
        first = int(continue_token or 0)
        found = self.of(kind)
        last = first + (limit or len(found))
        following = str(last) if last < len(found) else ""
        metadata = ListMeta(resource_version=str(self._version), continue_token=following)
        return ObjectList(metadata, tuple(found[first:last]))

    @asynccontextmanager
    async def watch(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        resource_version: str,
        seconds: float,
        field_selector: str = "",
    ) -> AsyncIterator[AsyncIterator[WatchEvent[R]]]:
        """The changes from now on."""
        queue: asyncio.Queue[WatchEvent[R]] = asyncio.Queue()
        self._watches.setdefault(kind, []).append(queue)

        async def changes() -> AsyncIterator[WatchEvent[R]]:
            while True:
                yield await queue.get()

        try:
            yield changes()
        finally:
            self._watches[kind].remove(queue)


@dataclass(slots=True)
class Turns:
    """How long the event loop was held up."""

    late: list[float] = field(default_factory=list)  # seconds that a timer came too late
    longest: float = 0.0  # of one turn, on the processor

    def document(self) -> Json:
        """The figures, and begin anew."""
        late, longest = sorted(self.late), self.longest
        self.late, self.longest = [], 0.0
        return {
            "p99": late[math.ceil(0.99 * len(late)) - 1] if late else 0.0,
            "late": late[-1] if late else 0.0,
            "turn": longest,
        }


async def _probe(turns: Turns) -> None:
    """Look how late a timer is, again and again."""
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(_PROBE_SECONDS)
        turns.late.append(time.perf_counter() - begun - _PROBE_SECONDS)


def _meter(turns: Turns) -> None:
    """Have every callback of the loop timed, by what it takes of the processor.

    asyncio has no hook for that except its debug mode, which slows everything down.
    """
    run = events.Handle.__dict__["_run"]

    def timed(handle: events.Handle) -> None:
        begun = time.thread_time()
        run(handle)
        turns.longest = max(turns.longest, time.thread_time() - begun)

    setattr(events.Handle, "_run", timed)  # noqa: B010 the type of the class does not name it


class Served:
    """The dashboard, and what it is told to do."""

    def __init__(self, reads: Reads, turns: Turns) -> None:
        self._reads = reads
        self._turns = turns
        self._at = 0
        self._churning: asyncio.Task[None] | None = None

    def change(self) -> Json:
        """Change so many pods, other ones each time: those that run end, those that end run."""
        begun = time.time()
        pods = self._reads.of(Pod)
        for number in range(CHANGED):
            pod = pods[(self._at + number) % len(pods)]
            ending = None if pod.metadata.deletion_timestamp else datetime.now(UTC)
            metadata = _replace(pod.metadata, deletion_timestamp=ending)
            self._reads.change(_replace(pod, metadata=metadata))
        self._at += CHANGED
        return {"at": begun}

    def churn(self) -> Json:
        """Change pods each second, until told again."""
        if self._churning is None:
            self._churning = asyncio.create_task(self._churn())
        else:
            self._churning.cancel()
            self._churning = None
        return {}

    async def _churn(self) -> None:
        while True:
            self.change()
            await asyncio.sleep(CHURN_SECONDS)

    def turns(self) -> Json:
        """How long the event loop was held up since this was asked last."""
        return self._turns.document()

    def memory(self) -> Json:
        """What the process holds."""
        gc.collect()
        for line in Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith("VmRSS:"):
                return {"memory": int(line.split()[1]) * 1024}
        raise SystemExit("this machine does not say how much memory a process holds")


def objects_of(nodes: int) -> tuple[list[Resource], tuple[InstanceType, ...]]:
    """A cluster of so many nodes with ten pods each, and what there is to buy."""
    snapshot, types = cluster(nodes, is_loose=False)
    rng = random.Random(SEED)
    found: list[Resource] = list(snapshot.node_pools.values())
    teams = [rng.choice(_NAMESPACES) for _ in range(_REPLICA_SETS)]
    sets = [(team, f"{team}-{number}-{_letters(rng, 9)}") for number, team in enumerate(teams)]
    found += [_named(pod, rng, sets) for pod in snapshot.pods.values()]
    for machine in snapshot.nodes:
        found += [each for each in (machine.node, machine.node_claim) if each is not None]
    return found, types


def _named(pod: Pod, rng: random.Random, sets: Sequence[tuple[str, str]]) -> Pod:
    """A pod with a name such as ReplicaSets give, which does not compress as numbers would."""
    namespace, owner = rng.choice(sets)
    name = f"{owner}-{_letters(rng, 5)}"
    reference = OwnerReference("apps/v1", "ReplicaSet", owner, uid=owner, controller=True)
    metadata = _replace(
        pod.metadata, name=name, namespace=namespace, uid=name, owner_references=(reference,)
    )
    return _replace(pod, metadata=metadata)


def _letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(_LETTERS, k=count))


def _views(objects: list[Resource], offer: CloudOffer) -> Json:
    """How long views and deltas take, and how large they are."""
    state = ClusterState()
    for each in objects:
        state.apply(each)
    pods = [each for each in objects if isinstance(each, Pod)]
    snapshot, now = state.snapshot(), SystemClock().now()
    settings = DisruptionSettings()
    types = PriceBook().types(snapshot, offer.catalogue, offer.facts, settings, now=now)
    views, deltas = [], []
    for _ in range(_ROUNDS):
        builder = ViewBuilder(epoch="e", source="live", provider="", cluster="", is_live=True)
        picture = Picture(state.snapshot(), now, types)
        begun = time.process_time()
        view = builder.build(picture)
        views.append(time.process_time() - begun)
        for pod in pods[:CHANGED]:
            ending = None if pod.metadata.deletion_timestamp else now
            metadata = _replace(pod.metadata, deletion_timestamp=ending)
            state.apply(_replace(pod, metadata=metadata))
        following = Picture(state.snapshot(), now, types)
        begun = time.process_time()
        built = builder.build(following)
        between = time.process_time()
        built.seq = view.seq + 1
        msgspec.json.encode(delta(view, built))
        deltas.append((between - begun, time.process_time() - between))
        for pod in pods[:CHANGED]:
            state.apply(pod)
    published = Published(view)
    begun = time.process_time()
    size = len(published.compressed)
    return {
        "built": min(views),
        "followed": min(again for again, _ in deltas),
        "delta": min(compared for _, compared in deltas),
        "zipped": time.process_time() - begun,
        "bytes": len(published.body),
        "gzipped": size,
    }


async def _serve(nodes: int) -> None:
    objects, types = objects_of(nodes)
    offer = CloudOffer(lambda pool: types, FACTS)
    said = _views(objects, offer)
    reads, turns, clock = Reads(objects), Turns(), SystemClock()
    options = Options(Origin("live", FACTS.name, "benchmark"), is_observed=True)
    history = History(seconds=_HISTORY_SECONDS)
    async with followed_dashboard(reads, clock, options, history=history) as dashboard:
        offered = Offered(offer, dashboard.home.followed.of(NodePool).list)
        dashboard.home.trade(Market(offered.supply, Settings(), "Made up.", "The defaults."))
        await dashboard.home.followed.reached()
        _say({**said, "url": dashboard.address.url, "page": dashboard.address.page})
        await _obey(Served(reads, turns), turns)


async def _obey(served: Served, turns: Turns) -> None:
    """Do what lines of standard input say, until they end."""
    _meter(turns)
    probing = asyncio.create_task(_probe(turns))
    told: dict[str, Callable[[], Json]] = {
        name: getattr(served, name) for name in ("change", "churn", "turns", "memory")
    }
    while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
        _say(told[word]())
    probing.cancel()


def _say(document: Json) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    collect_rarely()  # as every command
    asyncio.run(_serve(int(sys.argv[1])))
