"""Ask disruption about small clusters: what one pass or a whole plan decides.

step = decided(machine("n1", pod_on("a", cpu="1")), machine("n2"))
assert ["n2"] == going(step)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypedDict, Unpack

from helpers.builders import FACTS_F, NOW
from helpers.disruption_objects import TYPES, pool
from karpenter.api.karpenter import CapacityBuffer, Commitment, NodeClaim, NodePool
from karpenter.api.pods import Pod, PodTemplate
from karpenter.api.policy import PodDisruptionBudget
from karpenter.cloud.repair import RepairPolicies
from karpenter.cloud.types import InstanceType
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
from karpenter.scheduling.problem import Options
from karpenter.scheduling.provisioning import Catalogue, PassSettings
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot


class DisruptionInputs(TypedDict, total=False):
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
    commitments: Sequence[Commitment]
    now: datetime
    in_progress: Sequence[str]
    memory: Memory
    policies: RepairPolicies
    timer: Timer


def snapshot(*nodes: StateNode, **world: Unpack[DisruptionInputs]) -> Snapshot:
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
        commitments={each.metadata.name: each for each in world.get("commitments", ())},
        pod_templates={
            f"{t.metadata.namespace}/{t.metadata.name}": t for t in world.get("templates", ())
        },
    )


def context_of(*nodes: StateNode, **world: Unpack[DisruptionInputs]) -> DisruptionContext:
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


def decided(*nodes: StateNode, **world: Unpack[DisruptionInputs]) -> MethodResult:
    """What one pass decides."""
    return next_commands(Search(context_of(*nodes, **world)))


def found_by(method: str, *nodes: StateNode, **world: Unpack[DisruptionInputs]) -> Finding:
    """What one method finds, whatever those before it do."""
    return METHODS[method](Search(context_of(*nodes, **world)))


def planned(*nodes: StateNode, **world: Unpack[DisruptionInputs]) -> DisruptionPlan:
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
    name: str, *nodes: StateNode, kind: Kind = Kind.GRACEFUL, **world: Unpack[DisruptionInputs]
) -> str:
    """Why a machine is no candidate; nothing when it is one."""
    found = context_of(*nodes, **world).standing(kind)[name]
    return str(found.why) if isinstance(found, Blocked) else ""


def going(step: MethodResult | Finding | DisruptionPlan) -> list[str]:
    """The machines that go, in the order of the commands."""
    return [name for command in step.commands for name in command.names]


def only(step: MethodResult | Finding | DisruptionPlan) -> Command:
    """The command, when there must be exactly one."""
    (command,) = step.commands
    return command


def catalogue_of(world: DisruptionInputs) -> Catalogue:
    """The types of each pool."""
    types = tuple(world.get("types", TYPES))
    own = {name: tuple(some) for name, some in world.get("types_of", {}).items()}
    return lambda wanted: own.get(wanted.metadata.name, types)


def settings_of(world: DisruptionInputs) -> DisruptionSettings:
    given = world.get("settings", DisruptionSettings())
    planning = PassSettings(
        options=world.get("options", given.planning.options),
        static=True,
        buffers=bool(world.get("buffers")),
        commitments=bool(world.get("commitments")),
    )
    return replace(given, planning=planning)


def _named(some: Iterable[NodePool]) -> dict[str, NodePool]:
    return {each.metadata.name: each for each in some}
