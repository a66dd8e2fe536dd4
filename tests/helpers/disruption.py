"""Ask disruption about small clusters: settled machines, and what one pass or a whole plan decides.

    step = decided(machine("n1", pod_on("a", cpu="1")), machine("n2"))
    assert ["n2"] == going(step)

A machine is settled: registered, initialized, ready and consolidatable. Its size and price are
those of its type; ``TYPES`` are ``s1`` to ``s32``, which cost a dime per cpu on demand and 3 cents
on spot, wherever they run. Pools are ready, consolidate at once and have budgets of 100%.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, TypedDict, Unpack

import msgspec

from helpers.builders import (
    FACTS_F,
    NOW,
    READY,
    RESERVATION_ID,
    MachineOptions,
    PodOptions,
    condition,
    expression,
    instance_type,
    node,
    node_claim,
    node_pool,
    offering,
    owner,
    pdb,
    pod,
)
from karpenter.api.karpenter import (
    Budget,
    CapacityBuffer,
    Disruption,
    NodeClaim,
    NodePool,
    NodeRequirement,
)
from karpenter.api.meta import Condition
from karpenter.api.nodes import Taint
from karpenter.api.pods import Pod, PodTemplate
from karpenter.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.cloud.repair import RepairPolicies
from karpenter.cloud.types import InstanceType, Offering
from karpenter.disruption.candidates import Blocked, Kind
from karpenter.disruption.commands import Command, Finding
from karpenter.disruption.context import (
    DisruptionContext,
    DisruptionSettings,
    Memory,
    Timer,
    no_hurry,
)
from karpenter.disruption.plan import (
    METHODS,
    DisruptionPlan,
    MethodResult,
    Search,
    next_commands,
    plan_disruption,
)
from karpenter.model import labels as keys
from karpenter.scheduling.problem import Options
from karpenter.scheduling.provisioning import Catalogue, PassSettings
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot

LONG_AGO: Final = NOW - timedelta(hours=12)
WEB: Final = {"app": "web"}
SETTLED: Final = ("Launched", "Registered", "Initialized", "Consolidatable")
OD_PER_CPU: Final = 0.1
SPOT_PER_CPU: Final = 0.03


def kind(
    name: str,
    cpu: int,
    *,
    price: float | None = None,
    ways: Iterable[Offering] | None = None,
    reservations: Iterable[Offering] = (),
) -> InstanceType:
    """A type with so many cpus, on demand and on spot in z1 and z2, or only in these ways."""
    usual = [
        offering(zone, way, rate * cpu if price is None else price)
        for way, rate in ((keys.ON_DEMAND, OD_PER_CPU), (keys.SPOT, SPOT_PER_CPU))
        for zone in ("z1", "z2")
    ]
    return instance_type(
        name,
        cpu=str(cpu),
        memory=f"{4 * cpu}Gi",
        slots=110,
        offerings=usual if ways is None else ways,
        reservations=reservations,
    )


def on_demand(price: float, zone: str = "z1", *, available: bool = True) -> Offering:
    return offering(zone, keys.ON_DEMAND, price, available=available)


def spot(price: float, zone: str = "z1", *, available: bool = True) -> Offering:
    return offering(zone, keys.SPOT, price, available=available)


TYPES: Final = tuple(kind(f"s{cpu}", cpu) for cpu in (1, 2, 4, 8, 16, 32))


ON_DEMAND_ONLY: Final = (expression(keys.CAPACITY_TYPE, "In", keys.ON_DEMAND),)
SPOT_ONLY: Final = (expression(keys.CAPACITY_TYPE, "In", keys.SPOT),)


class PoolOptions(TypedDict, total=False):
    """What can be said about a pool."""

    budgets: Sequence[Budget | str] | None
    after: str
    policy: str
    requirements: Sequence[NodeSelectorRequirement | NodeRequirement]
    replicas: int
    limits: Mapping[str, str]
    taints: Sequence[Taint]
    annotations: Mapping[str, str]  # of the pool itself
    deleted: datetime
    conditions: Sequence[Condition]
    weight: int


def pool(name: str = "np", **options: Unpack[PoolOptions]) -> NodePool:
    """A pool whose nodes may all be disrupted at once."""
    made = node_pool(
        name,
        requirements=options.get("requirements", ()),
        replicas=options.get("replicas"),
        limits=options.get("limits"),
        taints=options.get("taints", ()),
        deleted=options.get("deleted"),
        conditions=options.get("conditions", (READY,)),
        weight=options.get("weight"),
    )
    stated = options.get("budgets", ("100%",)) or ()
    budgets = tuple(Budget(nodes=b) if isinstance(b, str) else b for b in stated)
    disruption = Disruption(
        consolidate_after=options.get("after", "0s"),
        consolidation_policy=options.get("policy", "WhenEmptyOrUnderutilized"),
        budgets=budgets,
    )
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, annotations=options.get("annotations", {})),
        spec=msgspec.structs.replace(made.spec, disruption=disruption),
    )


class Standing(MachineOptions, total=False):
    """What can be said about a settled machine."""

    claim_conditions: Sequence[Condition]  # besides, or in place of, those of a settled one
    node_conditions: Sequence[Condition]
    without: Sequence[str]  # conditions it lacks
    grace_period: str
    expire_after: str
    last_pod_event: datetime
    marked: bool
    nominated_until: datetime
    registered: bool
    initialized: bool
    types: Sequence[InstanceType]  # where its type is found
    claim_annotations: Mapping[str, str]


def machine(name: str, *on: Pod, **options: Unpack[Standing]) -> StateNode:
    """A settled machine with pods on it; an ``s4`` on demand in z1 unless it says otherwise."""
    options.setdefault("instance_type", "s4")
    options.setdefault("created", LONG_AGO)
    plain = MachineOptions()
    for key in MachineOptions.__annotations__:
        if key in options:
            plain[key] = options[key]  # type: ignore[literal-required]
    known = {each.name: each for each in options.get("types", TYPES)}
    made = known.get(options["instance_type"])
    if made is not None:
        plain.setdefault("cpu", made.allocatable.to_wire()["cpu"])
        plain.setdefault("memory", made.allocatable.to_wire()["memory"])
    if not options.get("pool", "np"):  # one without a pool has started all the same
        started = {keys.REGISTERED: "true", keys.INITIALIZED: "true"}
        plain["labels"] = {**started, **options.get("labels", {})}
    plain["conditions"] = tuple(options.get("node_conditions", (READY,)))
    real = node(
        name,
        registered=options.get("registered", True),
        initialized=options.get("initialized", True),
        **plain,
    )
    plain["conditions"] = _claim_conditions(options)
    claim = node_claim(name, **plain)
    return StateNode(
        node=real,
        node_claim=_with_details(claim, options),
        pods=tuple(_bound(each, name) for each in on),
        is_marked=options.get("marked", False),
        nominated_until=options.get("nominated_until"),
    )


def pod_on(name: str, **options: Unpack[PodOptions]) -> Pod:
    """A pod of a ReplicaSet that runs where its machine is and takes half a cpu."""
    options.setdefault("cpu", "500m")
    options.setdefault("owners", [owner("ReplicaSet", "web")])
    options.setdefault("labels", WEB)
    options.setdefault("node_name", "somewhere")
    return pod(name, **options)


def pods_on(count: int, name: str, **options: Unpack[PodOptions]) -> list[Pod]:
    """As many like pods of a ReplicaSet."""
    return [pod_on(f"{name}-{number}", **options) for number in range(count)]


def pdb_of(
    allowed: int = 0,
    *,
    name: str = "pdb",
    labels: Mapping[str, str] = WEB,
    namespace: str = "default",
    max_unavailable: int | str | None = 1,
    unhealthy_policy: str = "",
) -> PodDisruptionBudget:
    """A budget of pods that allows so many disruptions now."""
    made = pdb(
        name,
        labels=labels,
        namespace=namespace,
        max_unavailable=max_unavailable,
        unhealthy_policy=unhealthy_policy,
    )
    status = PodDisruptionBudgetStatus(disruptions_allowed=allowed, expected_pods=2)
    return msgspec.structs.replace(made, status=status)


class World(TypedDict, total=False):
    """What a cluster has besides its machines."""

    pools: Sequence[NodePool]
    types: Sequence[InstanceType]
    types_of: Mapping[str, Sequence[InstanceType]]
    pods: Sequence[Pod]  # that wait
    pdbs: Sequence[PodDisruptionBudget]
    unlaunched: Sequence[NodeClaim]
    buffers: Sequence[CapacityBuffer]
    templates: Sequence[PodTemplate]
    settings: DisruptionSettings
    options: Options
    now: datetime
    in_progress: Sequence[str]
    memory: Memory
    policies: RepairPolicies
    timer: Timer


def snapshot(*nodes: StateNode, **world: Unpack[World]) -> Snapshot:
    waiting = {key_of(each): each for each in world.get("pods", ())}
    running = {key_of(each): each for found in nodes for each in found.pods}
    return Snapshot(
        nodes=nodes,
        unlaunched=tuple(world.get("unlaunched", ())),
        pods=running | waiting,
        unbound_pods=waiting,
        node_pools=_named(world.get("pools", (pool(),))),
        pdbs={f"{b.metadata.namespace}/{b.metadata.name}": b for b in world.get("pdbs", ())},
        capacity_buffers={
            f"{b.metadata.namespace}/{b.metadata.name}": b for b in world.get("buffers", ())
        },
        pod_templates={
            f"{t.metadata.namespace}/{t.metadata.name}": t for t in world.get("templates", ())
        },
    )


def look(*nodes: StateNode, **world: Unpack[World]) -> DisruptionContext:
    """Begin a pass over a cluster."""
    return DisruptionContext(
        snapshot(*nodes, **world),
        catalogue_of(world),
        FACTS_F,
        settings_of(world),
        now=world.get("now", NOW),
        in_progress=world.get("in_progress", ()),
        memory=world.get("memory"),
        policies=world.get("policies"),
        timer=world.get("timer", no_hurry),
    )


def decided(*nodes: StateNode, **world: Unpack[World]) -> MethodResult:
    """What one pass decides."""
    return next_commands(Search(look(*nodes, **world)))


def found_by(method: str, *nodes: StateNode, **world: Unpack[World]) -> Finding:
    """What one method finds, whatever those before it do."""
    return METHODS[method](Search(look(*nodes, **world)))


def planned(*nodes: StateNode, **world: Unpack[World]) -> DisruptionPlan:
    """Everything that would be begun now."""
    return plan_disruption(
        snapshot(*nodes, **world),
        catalogue_of(world),
        FACTS_F,
        settings_of(world),
        now=world.get("now", NOW),
        policies=world.get("policies"),
        memory=world.get("memory"),
    )


def blocked(
    name: str, *nodes: StateNode, kind: Kind = Kind.GRACEFUL, **world: Unpack[World]
) -> str:
    """Why a machine is no candidate; nothing when it is one."""
    found = look(*nodes, **world).standing(kind)[name]
    return str(found.why) if isinstance(found, Blocked) else ""


def going(step: MethodResult | Finding | DisruptionPlan) -> list[str]:
    """The machines that go, in the order of the commands."""
    return [name for command in step.commands for name in command.names]


def only(step: MethodResult | Finding | DisruptionPlan) -> Command:
    """The command, when there must be exactly one."""
    (command,) = step.commands
    return command


def catalogue_of(world: World) -> Catalogue:
    """The types of each pool."""
    types = tuple(world.get("types", TYPES))
    own = {name: tuple(some) for name, some in world.get("types_of", {}).items()}
    return lambda wanted: own.get(wanted.metadata.name, types)


def settings_of(world: World) -> DisruptionSettings:
    given = world.get("settings", DisruptionSettings())
    planning = PassSettings(
        options=world.get("options", given.planning.options),
        static=True,
        buffers=bool(world.get("buffers")),
    )
    return replace(given, planning=planning)


def reserved_on(name: str, reservation: str, *on: Pod, **options: Unpack[Standing]) -> StateNode:
    """A settled machine that runs on a reservation."""
    options["capacity_type"] = keys.RESERVED
    options["labels"] = {**options.get("labels", {}), RESERVATION_ID: reservation}
    return machine(name, *on, **options)


def _claim_conditions(options: Standing) -> tuple[Condition, ...]:
    said = {c.type: c for c in options.get("claim_conditions", ())}
    usual = {kind: condition(kind, at=LONG_AGO) for kind in SETTLED}
    return tuple(
        each for name, each in (usual | said).items() if name not in options.get("without", ())
    )


def _with_details(claim: NodeClaim, options: Standing) -> NodeClaim:
    return msgspec.structs.replace(
        claim,
        metadata=msgspec.structs.replace(
            claim.metadata,
            annotations=options.get("claim_annotations", claim.metadata.annotations),
        ),
        spec=msgspec.structs.replace(
            claim.spec,
            termination_grace_period=options.get("grace_period"),
            expire_after=options.get("expire_after", "720h"),
        ),
        status=msgspec.structs.replace(
            claim.status, last_pod_event_time=options.get("last_pod_event")
        ),
    )


def _bound(each: Pod, name: str) -> Pod:
    return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, node_name=name))


def _named(some: Iterable[NodePool]) -> dict[str, NodePool]:
    return {each.metadata.name: each for each in some}
