"""Scenarios of ``karpenter simulate`` as tests write them, and what can be seen of their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from helpers.autoscaler import kwok_pool
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.kube.transport import Request
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand.generators import Demand
from karpenter.simulate.demand.operations import Operation
from karpenter.simulate.lengths import seconds
from karpenter.simulate.scenario.models import API_VERSION, Scenario
from karpenter.simulate.seam import MachineEvent, Mark, PriceChange, VariantRun, View
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.variants import named_variants, resolved
from karpenter.simulate.world import Hooks, Setup
from karpenter_sandbox.store.store import Event

JsonObject = dict[str, Any]
SMALL = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4", "8"]}
SPOT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
QUICK = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}


def small_pool(*requirements: JsonObject, **spec: Any) -> JsonObject:
    """A pool of small machines that consolidates soon."""
    return kwok_pool("default", SMALL, *requirements, **{"disruption": QUICK, **spec})


def scenario(**fields: Any) -> Scenario:
    """A scenario of an hour; ``fields`` are as in a file."""
    body = {
        "apiVersion": API_VERSION,
        "kind": "Scenario",
        "metadata": {"name": "test"},
        "until": "1h",
        **fields,
    }
    return msgspec.convert(body, Scenario)


def steps(name: str, *levels: tuple[str, int], **workload: Any) -> JsonObject:
    """A workload that is scaled."""
    listed = [{"at": at, "replicas": replicas} for at, replicas in levels]
    return {"name": name, "pod": {"cpu": "1", "memory": "1Gi"}, "steps": listed, **workload}


def demand_of(wanted: Scenario, files: Mapping[str, bytes] | None = None) -> Demand:
    """What users of a scenario ask for."""
    start = datetime.fromisoformat(wanted.start.replace("Z", "+00:00"))
    return Demand(wanted, Chance(wanted.seed), {}, files or {}, seconds(wanted.until), start)


def operations_of(
    wanted: Scenario, verb: str, files: Mapping[str, bytes] | None = None
) -> list[Operation]:
    """The operations of one verb."""
    return [each for each in demand_of(wanted, files).operations() if each.verb == verb]


@dataclass
class PodLife:
    """What happened to one pod, in virtual seconds."""

    name: str
    created: float
    ready: float | None = None
    gone: float | None = None
    finished: float | None = None


@dataclass
class Watched:
    """Everything that a test may want to know about a run; an observer."""

    machines: list[MachineEvent] = field(default_factory=list)
    prices: list[PriceChange] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    writes: int = 0
    created: dict[str, list[float]] = field(default_factory=dict)  # plural -> times
    pods: dict[str, PodLife] = field(default_factory=dict)  # by uid
    replicas: list[tuple[float, str, int]] = field(default_factory=list)
    node_counts: list[tuple[float, int]] = field(default_factory=list)
    view: View | None = None

    def begin(self, view: View) -> None:
        self.view = view

    def now(self) -> float:
        assert self.view is not None
        return self.view.now()

    def changed(self, event: Event) -> None:
        plural, now, obj = event.stored.key.resource, self.now(), event.obj
        if event.type == "ADDED":
            self.created.setdefault(plural, []).append(now)
        if plural == "pods":
            self._pod(event.type, obj, now)
        elif plural == "nodes" and event.type != "MODIFIED":
            assert self.view is not None
            self.node_counts.append((now, self.view.store.count("", "nodes")))
        elif plural == "deployments":
            self.replicas.append((now, event.stored.key.name, obj["spec"]["replicas"]))

    def _pod(self, change: str, obj: JsonObject, now: float) -> None:
        life = self.pods.setdefault(obj["metadata"]["uid"], PodLife(obj["metadata"]["name"], now))
        status = obj.get("status") or {}
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        if status.get("phase") == "Running" and conditions.get("Ready") == "True":
            life.ready = now if life.ready is None else life.ready
        if status.get("phase") == "Succeeded" and life.finished is None:
            life.finished = now
        if change == "DELETED":
            life.gone = now

    def machine(self, event: MachineEvent) -> None:
        self.machines.append(event)

    def priced(self, change: PriceChange) -> None:
        self.prices.append(change)

    def marked(self, mark: Mark) -> None:
        self.marks.append(mark)

    def wrote(self, request: Request) -> None:
        self.writes += 1

    def finish(self) -> object:
        return self.writes

    def events(self, kind: str) -> list[MachineEvent]:
        """The events of machines of one kind."""
        return [each for each in self.machines if each.kind == kind]

    def nodes_at(self, moment: float) -> int:
        """How many nodes there were."""
        counts = [count for at, count in self.node_counts if at <= moment]
        return counts[-1] if counts else 0

    def replicas_at(self, name: str, moment: float) -> int:
        """How many replicas a Deployment had."""
        found = [count for at, each, count in self.replicas if each == name and at <= moment]
        return found[-1]


def setup_of(
    wanted: Scenario, *objects: JsonObject, files: Mapping[str, bytes] | None = None
) -> Setup:
    """The only variant of a scenario, ready to be run."""
    demand = demand_of(wanted)
    return Setup(
        scenario=wanted,
        variant=resolved(wanted, objects or [small_pool()], named_variants(wanted)[0], {}),
        files=files or {},
        manifests={},
        samples={},
        types=built_in(),
        start=demand.start,
        seed=wanted.seed,
        until=demand.until,
    )


def simulated(
    wanted: Scenario,
    *objects: JsonObject,
    files: Mapping[str, bytes] | None = None,
    **changes: Any,
) -> tuple[Watched, VariantRun]:
    """Run the only variant of a scenario, and return what was seen."""
    watched = Watched()
    made = replace(setup_of(wanted, *objects, files=files), **changes)
    run = run_world(made, Hooks(observers=[watched]))
    assert (run.problems, run.warnings) == ((), ())
    return watched, run


def share_of(values: Sequence[float], bound: float) -> float:
    """Which part of values is below a bound."""
    return sum(value < bound for value in values) / len(values)


def start_of(wanted: Scenario) -> datetime:
    """When a scenario starts."""
    return datetime.fromisoformat(wanted.start.replace("Z", "+00:00")).astimezone(UTC)
