"""Ask rebalancing about small clusters, with the types of docs/spec/optimize.md.

``s`` 2 cpu/4Gi $0.10, ``m`` 4/8 $0.19, ``l`` 8/16 $0.36, ``x`` 32/64 $2.00, on-demand, in one zone.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, TypedDict, Unpack

from helpers.builders.workloads import PodOptions
from helpers.disruption import DisruptionInputs, context_of, found_by
from helpers.disruption_objects import OD_POOL, Standing, machine, pod_on
from helpers.priced_catalogues import TYPES
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.disruption.commands import Finding
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.disruption.rebalance.settings import RebalanceMode, RebalanceSettings
from karpenter.scheduling.problem import CostOptions, Options
from karpenter.state.nodes import StateNode

COST: Final = CostOptions(node_cost=0.0, min_types=1, min_spot_types=1)
REBALANCING: Final = DisruptionSettings(
    rebalance=RebalanceSettings(mode=RebalanceMode.ON, moves=1.0)
)


class Changes(TypedDict, total=False):
    """What can be said about rebalancing."""

    mode: RebalanceMode
    moves: float
    payback: timedelta
    pod_cost: float
    cooldown: timedelta
    binds_pods: bool


class World(DisruptionInputs, total=False):
    """A cluster, and what is different about rebalancing in it."""

    cost: CostOptions


def rebalance(**changes: Unpack[Changes]) -> DisruptionSettings:
    """Settings of disruption with rebalancing on and any number of moves, unless they say so."""
    return replace(REBALANCING, rebalance=replace(REBALANCING.rebalance, **changes))


def pods_of(count: int, prefix: str, **options: Unpack[PodOptions]) -> list[Pod]:
    """Running pods of 1 cpu and 1Gi unless they say otherwise."""
    options.setdefault("cpu", "1")
    options.setdefault("memory", "1Gi")
    return [pod_on(f"{prefix}{number}", **options) for number in range(count)]


def running(
    name: str,
    kind: InstanceType,
    pods: Sequence[Pod],
    among: Sequence[InstanceType] = TYPES,
    **options: Unpack[Standing],
) -> StateNode:
    """A settled machine of a type, which is one ``among`` others, with these pods."""
    options["instance_type"], options["types"] = kind.name, among
    return machine(name, *pods, **options)


def completed(world: World) -> DisruptionInputs:
    """The cluster with what the cases assume unless they say otherwise."""
    world.setdefault("types", TYPES)
    world.setdefault("pools", [OD_POOL])
    world.setdefault("settings", REBALANCING)
    world.setdefault("options", Options(cost=world.pop("cost", COST)))
    return world


def look(*nodes: StateNode, **world: Unpack[World]) -> DisruptionContext:
    """A pass over a cluster with rebalancing."""
    return context_of(*nodes, **completed(world))


def rebalanced(*nodes: StateNode, **world: Unpack[World]) -> Finding:
    """What rebalancing finds, whatever the methods before it do."""
    return found_by("rebalance", *nodes, **completed(world))
