"""What a run of a scenario comes to, read from its store alone, be the cluster simulated or real.

The observer of a simulation's report adds up. Here it is told of nothing but changes of objects, as a
real cluster tells of nothing else: a machine is there from the creation of its Node until the Node is gone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.cloud.kwok.machine import PROVIDER_PREFIX
from karpenter.kube.transport import Request
from karpenter.model import labels
from karpenter.simulate.observe.machines import Life, cost_of
from karpenter.simulate.observe.watcher import Watcher
from karpenter.simulate.seam import MachineEvent, Mark, PriceChange, View
from karpenter_sandbox.conditions import is_true
from karpenter_sandbox.store.store import Event

_SCALED: Final = frozenset({("apps", "deployments"), ("apps", "statefulsets")})
_OFFERING: Final = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)


@dataclass(frozen=True, slots=True)
class Phase:
    """From a change of what users want to the next one, or to the end; times from its beginning."""

    at: float
    wanted: int  # replicas of Deployments and StatefulSets
    all_run: float | None  # until all of them ran at once; None if no more are wanted, or never
    rest: float  # until the last node came or went
    nodes: int  # at its end


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run came to."""

    phases: Sequence[Phase]
    dollar_hours: float
    evictions: int
    types: Mapping[str, int]  # of all machines that were bought
    zones: Mapping[str, int]
    running: int  # pods that were Ready in the end
    left: Sequence[str]  # claims without a node and nodes without a claim, in the end
    course: Sequence[tuple[float, int]]  # how many nodes there were, and since when


class StoreObserver:
    """Follows the objects of a cluster; an observer of simulations that looks away from their cloud."""

    def __init__(self, changes: Sequence[float], *, billing_minimum: float) -> None:
        """Prepare; ``changes`` are the moments at which users want something else, in order."""
        self._changes = changes
        self._watcher = Watcher(billing_minimum=billing_minimum)
        self._wanted: dict[tuple[str, str, str], int] = {}
        self._ready: set[str] = set()
        self._is_whole = False
        self._whole: list[float] = []  # moments from which on all wanted pods ran
        self._wanted_at: list[tuple[float, int]] = [(0.0, 0)]
        self._course: list[tuple[float, int]] = [(0.0, 0)]

    def begin(self, view: View) -> None:
        """Begin to follow a cluster."""
        self._view = view
        self._watcher.begin(view)

    def changed(self, event: Event) -> None:
        """An object has changed."""
        key = event.stored.key
        place, now = (key.group, key.resource), self._view.now()
        if place == ("", "nodes"):
            self._node_changed(now, event)
        self._watcher.changed(event)
        if place == ("", "pods"):
            self._pod_changed(event)
        elif place in _SCALED:
            self._workload_changed(now, event)
        self._judge(now)

    def machine(self, event: MachineEvent) -> None:
        """A real cluster has nobody who would say so."""

    def priced(self, change: PriceChange) -> None:
        """Prices that move cannot be driven in real time."""

    def marked(self, mark: Mark) -> None:
        """Nobody marks anything in a real cluster."""

    def wrote(self, request: Request) -> None:
        """What others see of a write is the change."""

    def finish(self) -> Figures:
        """Add up what there was."""
        seen = self._watcher.finish()
        bought = [life for life in seen.lives if life.began >= seen.first]
        dollars = cost_of(seen.lives)["dollarHours"]
        assert isinstance(dollars, float)
        return Figures(
            phases=self._phases(seen.ended),
            dollar_hours=dollars,
            evictions=len(seen.evictions),
            types=_counted(bought, "instance_type"),
            zones=_counted(bought, "zone"),
            running=len(self._ready),
            left=self._left(),
            course=tuple(self._course),
        )

    def _node_changed(self, now: float, event: Event) -> None:
        if event.type == "MODIFIED":
            return
        self._course.append((now, self._view.store.count("", "nodes")))
        if _is_machine(event.obj):
            self._watcher.machine(self._machine(now, event))

    def _machine(self, now: float, event: Event) -> MachineEvent:
        """The beginning or the end of a machine, which are those of its Node."""
        metadata = event.obj["metadata"]
        held = metadata.get("labels") or {}
        kind, zone, capacity_type = (held.get(key, "") for key in _OFFERING)
        return MachineEvent(
            kind="gone" if event.type == "DELETED" else "launched",
            at=now,
            name=metadata["name"],
            claim="",
            pool=held.get(labels.NODEPOOL, ""),
            instance_type=kind,
            zone=zone,
            capacity_type=capacity_type,
            price=self._view.price(kind, zone, capacity_type),
        )

    def _pod_changed(self, event: Event) -> None:
        obj, uid = event.obj, event.obj["metadata"]["uid"]
        is_going = event.type == "DELETED" or "deletionTimestamp" in obj["metadata"]
        is_running = (obj.get("status") or {}).get("phase") == "Running" and is_true(obj, "Ready")
        if is_running and not is_going:
            self._ready.add(uid)
        else:
            self._ready.discard(uid)

    def _workload_changed(self, now: float, event: Event) -> None:
        key, metadata = event.stored.key, event.obj["metadata"]
        is_gone = event.type == "DELETED" or "deletionTimestamp" in metadata
        replicas = 0 if is_gone else int(event.obj["spec"].get("replicas", 1))
        self._wanted[key.resource, key.namespace, key.name] = replicas
        wanted = sum(self._wanted.values())
        if wanted != self._wanted_at[-1][1]:
            self._wanted_at.append((now, wanted))

    def _judge(self, now: float) -> None:
        wanted = self._wanted_at[-1][1]
        is_whole = 0 < wanted <= len(self._ready)
        if is_whole and not self._is_whole:
            self._whole.append(now)
        self._is_whole = is_whole

    def _phases(self, ended: float) -> tuple[Phase, ...]:
        begins = [at for at in self._changes if at < ended] or [0.0]
        return tuple(
            self._phase(begin, end) for begin, end in zip(begins, [*begins[1:], ended], strict=True)
        )

    def _phase(self, begin: float, end: float) -> Phase:
        before = _last(self._wanted_at, begin)
        wanted = _last(self._wanted_at, end)
        grown = [at for at, count in self._wanted_at if begin <= at < end and count == wanted]
        whole = [at for at in self._whole if grown and grown[0] <= at < end]
        moves = [at for at, _ in self._course if begin <= at < end]
        return Phase(
            at=begin,
            wanted=wanted,
            all_run=whole[0] - begin if whole and wanted > before else None,
            rest=moves[-1] - begin if moves else 0.0,
            nodes=_last(self._course, end),
        )

    def _left(self) -> tuple[str, ...]:
        store = self._view.store
        nodes = {node["metadata"]["name"] for node in store.list("", "nodes")}
        machines = {
            node["metadata"]["name"] for node in store.list("", "nodes") if _is_machine(node)
        }
        claimed = {
            claim["metadata"]["name"]: (claim.get("status") or {}).get("nodeName", "")
            for claim in store.list("karpenter.sh", "nodeclaims")
        }
        alone = [f"NodeClaim/{claim}" for claim, node in claimed.items() if node not in nodes]
        return (*alone, *(f"Node/{name}" for name in sorted(machines - set(claimed.values()))))


def _last(levels: Sequence[tuple[float, int]], end: float) -> int:
    """What was set last before a moment."""
    return next((value for at, value in reversed(levels) if at < end), 0)


def _counted(lives: Sequence[Life], name: str) -> dict[str, int]:
    return dict(sorted(Counter(str(getattr(life, name)) for life in lives).items()))


def _is_machine(node: JsonObject) -> bool:
    spec: Mapping[str, Any] = node.get("spec") or {}
    return str(spec.get("providerID", "")).startswith(PROVIDER_PREFIX)
