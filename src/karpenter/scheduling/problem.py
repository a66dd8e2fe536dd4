"""The solver's input: pods, machines, pools, and the settings that shape the plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.model.requirements import Requirements
from karpenter.scheduling.commitments import Ledger
from karpenter.scheduling.compiled.topology_groups import NamespaceDirectory
from karpenter.scheduling.devices.inputs import DeviceInputs
from karpenter.scheduling.inputs.daemons import Daemon
from karpenter.scheduling.spot.risk import SpotRisk
from karpenter.state.nodes import StateNode

_NONE: Final[Mapping[str, frozenset[str]]] = {}
MOST_INSTANCE_TYPES = 600


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volumes of a pod, resolved."""

    alternatives: tuple[Requirements, ...] = ()  # one has to be met; empty means any node
    attached: Mapping[str, frozenset[str]] = field(default_factory=lambda: _NONE)
    # CSI driver -> persistent volume claims it attaches ("namespace/name")


NO_VOLUMES: Final = PodVolumes()


class PackingMode(StrEnum):
    """How pods are packed."""

    KARPENTER = "karpenter"
    CHEAPEST = "cheapest"


@dataclass(frozen=True, slots=True)
class CostOptions:
    """How prices shape a plan; a pool's annotations may override them."""

    packing: PackingMode = PackingMode.KARPENTER
    budget: float = 1.0  # nominal seconds for one plan
    node_cost: float = 0.02  # fixed cost of a node besides its price, in dollars per hour
    min_types: int = 5  # that a claim keeps, launched on-demand
    min_spot_types: int = 15  # and launched on spot
    price_slack: float = 0.1  # types up to this fraction above the cheapest are kept too
    is_forced: bool = False  # pools may not choose another packing
    risk: SpotRisk | None = None  # what interruptions of spot cost; None: nothing


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of the controller that change plans."""

    respect_preferences: bool = True
    best_effort_min_values: bool = False
    ignore_device_claims: bool = True
    reserved_capacity: bool = True
    strict_reservations: bool = True  # pods wait for a reservation rather than use other capacity
    most_instance_types: int = MOST_INSTANCE_TYPES  # listed on a claim
    reservation_credits: Mapping[str, int] = field(default_factory=dict)
    cost: CostOptions = field(default_factory=CostOptions)


@dataclass(frozen=True, slots=True)
class PoolCatalogue:
    """A pool that may be used, with the instance types it may use."""

    node_pool: NodePool
    instance_types: tuple[InstanceType, ...]


@dataclass(frozen=True, slots=True)
class BoundVolumes:
    """What is attached to a machine, and what it could attach, by CSI driver."""

    attached: Mapping[str, frozenset[str]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything a plan depends on."""

    pods: Sequence[Pod]  # to be placed; they have passed intake
    nodes: Sequence[StateNode]
    pools: Sequence[PoolCatalogue]  # those that may be used
    facts: ProviderFacts
    options: Options = field(default_factory=Options)
    daemons: Sequence[Daemon] = ()
    namespaces: NamespaceDirectory = field(default_factory=lambda: NamespaceDirectory({}))
    volumes: Mapping[str, PodVolumes] = field(default_factory=dict)  # pod uid -> its volumes
    node_volumes: Mapping[str, BoundVolumes] = field(default_factory=dict)  # node name -> volumes
    default_spread: Mapping[str, tuple[TopologySpreadConstraint, ...]] = field(
        default_factory=dict
    )  # pod uid -> constraints it gets because it states none
    devices: DeviceInputs = field(default_factory=DeviceInputs)
    ledger: Ledger | None = None  # None: there are no commitments to count on
