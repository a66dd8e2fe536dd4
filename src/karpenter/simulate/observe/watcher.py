"""The observer of a run: it sees every change of the store and of the cloud as they happen."""

from typing import Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter.kube.transport import Request
from karpenter.simulate.observe.levels import HOUR, Grid, Levels
from karpenter.simulate.observe.machines import Life, Machines, Place
from karpenter.simulate.observe.observations import (
    Crowds,
    MarkSeen,
    Observations,
    WorkloadSeen,
)
from karpenter.simulate.observe.pods import Crowd, Pods
from karpenter.simulate.seam import MachineEvent, Mark, PriceChange, View
from karpenter_sandbox.store.store import Event

BILLING_MINIMUM: Final = 60.0
PULLED: Final = "pulled"  # the kind of a mark that counts bytes of images
_WORKLOADS: Final = (("apps", "deployments"), ("apps", "statefulsets"))
_FIXED: Final = "nodes/fixed"


class Watcher:
    """Follows a run, and adds it up at the end."""

    def __init__(self, *, billing_minimum: float = BILLING_MINIMUM) -> None:
        self._billing_minimum = billing_minimum
        self._fixed: set[str] = set()
        self._marks: list[MarkSeen] = []
        self._pools: dict[bytes, JsonObject] = {}  # template -> the pool that has or had it
        self._lowest: dict[Place, float] = {}
        self._pool_ends: dict[str, float] = {}
        self._image_bytes = 0

    def begin(self, view: View) -> None:
        """Begin to follow a run."""
        self._view = view
        self._grid = Grid(view.warmup, view.until, view.grid)
        self._levels = Levels(self._grid)
        self._machines = Machines(self._grid, self._levels, self._billing_minimum)
        self._pods = Pods(view.store, self._grid, self._levels, self._machines.place_of)

    def changed(self, event: Event) -> None:
        """The store has changed."""
        key = event.stored.key
        if key.resource == "pods":
            self._pods.pod_changed(self._view.now(), event)
        elif key.resource == "nodes" and not key.group:
            now = self._view.now()
            self._count_fixed(now, event)
            self._pods.node_changed(now, event)
        elif (key.group, key.resource) in _WORKLOADS:
            self._pods.workload_changed(self._view.now(), event)
        elif key.resource == "nodepools":
            self._note_pool(event)

    def machine(self, event: MachineEvent) -> None:
        """The cloud has launched, announced the end of, or ended a machine."""
        if event.kind == "launched":
            life = Life(
                name=event.name,
                claim=event.claim,
                pool=event.pool,
                instance_type=event.instance_type,
                zone=event.zone,
                capacity_type=event.capacity_type,
                began=event.at,
                price=event.price,
            )
            self._machines.launched(event.at, life)
        elif event.kind == "noticed":
            self._machines.noticed(event.at, event.name)
        else:
            self._pods.machine_gone(event.at, event.name)
            self._machines.gone(event.at, event.name, event.cause)

    def priced(self, change: PriceChange) -> None:
        """A price has moved."""
        place = (change.instance_type, change.zone, change.capacity_type)
        self._lowest[place] = min(change.price, self._lowest.get(place, change.price))
        self._machines.priced(change.at, *place, change.price)

    def marked(self, mark: Mark) -> None:
        """A step of the timeline has happened."""
        if mark.kind == PULLED:
            self._image_bytes += int(mark.text)
        else:
            self._marks.append(MarkSeen(mark.at, mark.kind, mark.text))

    def wrote(self, request: Request) -> None:
        """The autoscaler has just changed something."""
        parts = request.path.split("/")
        if request.method == "DELETE" and len(parts) > 2 and parts[-2] == "pods":
            self._pods.deleted_by_autoscaler(self._view.now(), f"{parts[-3]}/{parts[-1]}")

    def finish(self) -> Observations:
        """Add up what there was."""
        now, grid, levels, pods = self._view.now(), self._grid, self._levels, self._pods
        self._machines.settle(now)
        pending, binding = pods.waits(now)
        names = levels.names()
        return Observations(
            start=self._view.start,
            until=grid.until,
            first=grid.first,
            ended=now,
            step=grid.step,
            times=grid.times(now),
            lives=[life for life in self._machines.lives if _counts(life, grid.first)],
            fixed_node_hours=levels[_FIXED].integral(now) / HOUR,
            pending=pending,
            binding=binding,
            created=pods.created,
            unscheduled=pods.unscheduled(),
            evictions=pods.evictions,
            workloads=[
                WorkloadSeen(name, pods.workloads[name].lowest) for name in sorted(pods.workloads)
            ],
            integrals={name: levels[name].integral(now) for name in names},
            values={name: levels[name].value for name in names},
            means={name: levels[name].means(now) for name in names},
            peaks={name: levels[name].peaks(now) for name in names},
            crowds=[_fewest(pods.crowds[kind], grid.count(now)) for kind in sorted(pods.crowds)],
            pool_ends=self._pool_ends,
            marks=self._marks,
            image_bytes=self._image_bytes,
            pools=[self._pools[template] for template in sorted(self._pools)],
            lowest=self._lowest,
        )

    def _count_fixed(self, now: float, event: Event) -> None:
        """Count nodes that the cloud has not made."""
        name = event.obj["metadata"]["name"]
        if event.type == "DELETED":
            if name in self._fixed:
                self._fixed.discard(name)
                self._levels[_FIXED].add(now, -1)
        elif event.previous is None and self._machines.running(name) is None:
            self._fixed.add(name)
            self._levels[_FIXED].add(now, 1)

    def _note_pool(self, event: Event) -> None:
        metadata = event.obj["metadata"]
        name = metadata["name"]
        template = msgspec.json.encode([name, event.obj["spec"].get("template")])
        self._pools.setdefault(template, event.obj)
        if event.type == "DELETED" or "deletionTimestamp" in metadata:
            self._pool_ends.setdefault(name, self._view.now())


def _counts(life: Life, first: float) -> bool:
    return life.ended is None or life.ended > first


def _fewest(crowd: Crowd, count: int) -> Crowds:
    """The fewest pods of a kind in each interval."""
    found: list[int] = []
    current = 0
    for number in range(count):
        current = crowd.fewest.get(number, crowd.count if number > crowd.seen else current)
        found.append(current)
    return Crowds(crowd.example, frozenset(crowd.places), found)
