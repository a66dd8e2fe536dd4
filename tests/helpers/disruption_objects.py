"""Pools, machines and pods for tests of disruption.

A machine is settled: registered, initialized, ready and consolidatable. Its size and price are
those of its type; ``TYPES`` are ``s1`` to ``s32``, which cost a dime per cpu on demand and 3 cents
on spot, wherever they run. Pools are ready, consolidate at once and have budgets of 100%.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypedDict, Unpack

import msgspec

from helpers.builders import (
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
from karpenter.api.karpenter import Budget, Disruption, NodeClaim, NodePool, NodeRequirement
from karpenter.api.meta import Condition
from karpenter.api.nodes import Taint
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

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


OD_POOL: Final = pool(requirements=ON_DEMAND_ONLY)
SPOT_POOL: Final = pool(requirements=SPOT_ONLY)


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
    if not options.get("pool", "np"):  # also without a pool the machine is initialized
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
