"""What our planners decide about a problem, in the same form as the peer's answers."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.codec import convert
from karpenter.api.karpenter import NodePool
from karpenter.cloud.provider import RepairPolicy
from karpenter.cloud.repair import RepairPolicies
from karpenter.cloud.types import InstanceType, Offering, ProviderFacts
from karpenter.disruption import commands
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.disruption.plan import Search, next_commands
from karpenter.model import durations
from karpenter.model import labels as keys
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.inputs.scheduler_config import parse_scheduler_config
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.problem import Options
from karpenter.scheduling.provisioning import Catalogue, PassSettings, plan_provisioning
from karpenter.state.cluster import ClusterState
from karpenter.state.snapshot import Snapshot
from parity.problems import NODE_CLASS, NOW, RESERVATION_ID, Json, Problem, gates

METHODS: Final = {
    commands.REPAIR: "Repair",
    commands.EMPTY: "Emptiness",
    commands.STATIC_DRIFT: "StaticDrift",
    commands.DRIFT: "Drift",
    commands.MULTI: "MultiNodeConsolidation",
    commands.SINGLE: "SingleNodeConsolidation",
}
FACTS: Final = ProviderFacts(
    name="fake",
    node_classes=((NODE_CLASS["group"], NODE_CLASS["kind"]),),
    well_known_labels=keys.CORE_WELL_KNOWN | {"size", "special", "integer", RESERVATION_ID},
    reservation_id_label=RESERVATION_ID,
)
_NOMINATION: Final = timedelta(seconds=20)


def decide(problem: Problem) -> Json:
    """Decide about a problem."""
    shop = {
        pool: tuple(map(_instance_type, listed)) for pool, listed in problem.instance_types.items()
    }

    def catalogue(pool: NodePool) -> tuple[InstanceType, ...]:
        return shop.get(pool.metadata.name, shop.get("", ()))

    snapshot, now = _snapshot(problem), datetime.fromisoformat(NOW)
    if problem.disrupt:
        return _disruption(problem, snapshot, catalogue, now)
    return _provisioning(problem, snapshot, catalogue, now, shop)


def _provisioning(
    problem: Problem,
    snapshot: Snapshot,
    catalogue: Catalogue,
    now: datetime,
    shop: dict[str, tuple[InstanceType, ...]],
) -> Json:
    outcome = plan_provisioning(snapshot, catalogue, FACTS, _settings(problem), now=now)
    plan = outcome.plan
    return {
        "claims": _claims(plan.claims, shop),
        "existing": {name: sorted(pods) for name, pods in plan.existing.items() if pods},
        "failed": {
            entry.pod: "; ".join(reason.detail for reason in entry.reasons)
            for entry in plan.unplaced
        },
        "deferred": sorted(plan.deferred),
    }


def _disruption(problem: Problem, snapshot: Snapshot, catalogue: Catalogue, now: datetime) -> Json:
    opened = gates(problem)
    policies = [_policy(each) for each in problem.repair_policies]
    settings = DisruptionSettings(
        planning=_settings(problem),
        spot_to_spot=opened.get("SpotToSpotConsolidation", False),
        repair=opened.get("NodeRepair", False),
        terminate_first_drift=opened.get("TerminateFirstDrift", False),
        terminate_first_repair=opened.get("TerminateFirstRepair", False),
    )
    view = DisruptionContext(
        snapshot,
        catalogue,
        FACTS,
        settings,
        now=now,
        policies=RepairPolicies(policies) if settings.repair else None,
    )
    step = next_commands(Search(view))
    shop = {"": tuple(catalogue(pool) for pool in snapshot.node_pools.values())}
    every = {each.name: each for types in shop[""] for each in types}
    found: Json = {"claims": [], "existing": {}, "failed": {}, "deferred": []}
    if step.commands:
        found["method"] = METHODS[step.commands[0].method]
        found["commands"] = [
            {
                "decision": str(command.decision),
                "nodes": sorted(command.names),
                "replacements": _claims(command.replacements, {"": tuple(every.values())}),
            }
            for command in step.commands
        ]
    return found


def _settings(problem: Problem) -> PassSettings:
    opened, options = gates(problem), problem.options
    return PassSettings(
        options=Options(
            respect_preferences=not options.get("ignorePreferences", False),
            best_effort_min_values=options.get("bestEffortMinValues", False),
            reserved_capacity=opened.get("ReservedCapacity", True),
        ),
        overlays=opened.get("NodeOverlay", False),
        buffers=opened.get("CapacityBuffer", False),
        static=opened.get("StaticCapacity", False),
        default_constraints=parse_scheduler_config(options.get("schedulerConfig", "")),
    )


def _snapshot(problem: Problem) -> Snapshot:
    state = ClusterState()
    for each in problem.objects:
        state.apply(convert(each))
    for name in problem.marked:
        state.mark(name)
    for name in problem.nominated:
        state.nominate(name, datetime.fromisoformat(NOW) + _NOMINATION)
    return state.snapshot()


def _policy(wire: Json) -> RepairPolicy:
    grace = wire.get("gracePeriod")
    return RepairPolicy(
        condition_type=wire["type"],
        condition_status=wire["status"],
        reason_regex=wire.get("reasonRegex", ""),
        toleration=_length(wire["toleration"]),
        termination_grace_period=_length(grace) if grace else None,
        priority=wire.get("priority", 0),
        action=wire["action"],
    )


def _length(text: str) -> timedelta:
    length = durations.parse(text)
    assert length is not None
    return length


def _instance_type(wire: Json) -> InstanceType:
    offerings = tuple(map(_offering, wire["offerings"]))
    held: dict[str, Iterable[str]] = {
        keys.INSTANCE_TYPE: (wire["name"],),
        **wire["labels"],
        keys.ZONE: {each["zone"] for each in wire["offerings"]},
        keys.CAPACITY_TYPE: {each["capacityType"] for each in wire["offerings"]},
        RESERVATION_ID: {each["reservation"] for each in wire["offerings"] if each["reservation"]},
    }
    return InstanceType(
        name=wire["name"],
        requirements=Requirements(
            Requirement(key, complement=False, values=frozenset(values))
            for key, values in held.items()
        ),
        offerings=offerings,
        capacity=Resources.from_wire(wire["capacity"]),
        overhead=Resources.from_wire(wire["overhead"]),
        volume_attachment_limits=wire.get("volumeLimits", {}),
    )


def _offering(wire: Json) -> Offering:
    reservation = frozenset({wire["reservation"]} - {""})
    place = Requirements.from_labels(
        {keys.ZONE: wire["zone"], keys.CAPACITY_TYPE: wire["capacityType"]}
    )
    return Offering(
        requirements=place & (Requirement(RESERVATION_ID, False, reservation),),
        price=wire["price"],
        available=wire["available"],
        reservation_id=wire["reservation"],
        reservation_capacity=wire["left"],
    )


def _claims(
    planned: Iterable[PlannedClaim], shop: dict[str, tuple[InstanceType, ...]]
) -> list[Json]:
    return [_claim(each, shop.get(each.node_pool, shop.get("", ()))) for each in planned]


def _claim(planned: PlannedClaim, types: tuple[InstanceType, ...]) -> Json:
    """A claim with the types that it could be launched as."""
    known = {each.name: each for each in types}
    wanted = planned.requirements
    ways = {
        name: [
            way
            for way in known[name].offerings
            if way.is_launchable
            and wanted[keys.ZONE].has(way.zone)
            and wanted[keys.CAPACITY_TYPE].has(way.capacity_type)
            and (not way.reservation_id or wanted[RESERVATION_ID].has(way.reservation_id))
        ]
        for name in planned.instance_types
    }
    return {
        "pool": planned.node_pool,
        "pods": sorted(planned.pods),
        "types": sorted(name for name, some in ways.items() if some),
        "zones": sorted({way.zone for some in ways.values() for way in some}),
        "ways": sorted({way.capacity_type for some in ways.values() for way in some}),
    }
