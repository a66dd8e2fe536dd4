"""Instance types with the size nodes of a node class would have, before offerings are added."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass, EC2NodeClassSpec, NetworkInterface
from karpenter.cloud.aws.images.families import Family
from karpenter.cloud.aws.network.placement_groups import PlacementGroup
from karpenter.cloud.aws.types.capacity import EFA_ONLY, Sizing, capacity_of, default_pods
from karpenter.cloud.aws.types.catalogue import Catalogue, CatalogueEntry
from karpenter.cloud.aws.types.facts import TypeFacts, family_and_size
from karpenter.cloud.aws.types.kubelet import KubeletError, KubeletSettings
from karpenter.cloud.aws.types.labels import only, system_requirements, zone_requirements
from karpenter.cloud.aws.types.offerings import Market, capacity_types, is_interruptible
from karpenter.cloud.aws.types.overhead import overhead_of
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources

NITRO: Final = "nitro"
NESTED_VIRTUALIZATION: Final = "nested-virtualization"


@dataclass(frozen=True, slots=True)
class SizedType:
    """A type without its offerings."""

    facts: TypeFacts
    zones: frozenset[str]  # where it is sold and the node class has subnets
    is_compatible: bool
    kind: InstanceType


def sized_types(
    catalogue: Catalogue,
    node_class: EC2NodeClass,
    sizing: Sizing,
    market: Market,
    memory: Mapping[str, int],
) -> Sequence[SizedType]:
    """All types as nodes of a class would be.

    Args:
        catalogue: what EC2 sells.
        node_class: the class, with what it found in its status.
        sizing: what the class and the settings say about sizes.
        market: what the class may have of reservations and placement groups.
        memory: what nodes of a type turned out to have, where any have come.
    """
    zone_ids = {each.zone: each.zone_id for each in node_class.status.subnets}
    found = []
    for entry in catalogue.entries.values():
        facts = entry.facts
        zones = entry.zones & zone_ids.keys()
        try:
            kubelet = sizing.kubelet.on(facts, default_pods(facts, sizing))
        except KubeletError:
            continue  # a condition of the class reports it
        reason = incompatibility(facts, node_class.spec, sizing.family, market.group)
        capacity = capacity_of(facts, sizing, kubelet)
        kind = InstanceType(
            name=facts.name,
            requirements=_requirements(entry, sizing, zones, zone_ids, market),
            offerings=(),
            capacity=_with_memory(capacity, memory.get(facts.name)),
            overhead=overhead_of(facts, sizing, kubelet, capacity),
        )
        found.append(SizedType(facts, zones, reason is None, kind))
    return found


def kubelet_problem(catalogue: Catalogue, sizing: Sizing) -> str | None:
    """Why an expression of a class has no usable result on some type; None if all have."""
    try:
        kubelet: KubeletSettings = sizing.kubelet
        if kubelet.has_expressions:
            for facts in catalogue.facts:
                kubelet.on(facts, default_pods(facts, sizing))
    except KubeletError as error:
        return str(error)
    return None


def _requirements(
    entry: CatalogueEntry,
    sizing: Sizing,
    zones: frozenset[str],
    zone_ids: Mapping[str, str],
    market: Market,
) -> Requirements:
    reserved = market.reserved.get(entry.facts.name, ())
    group = market.group
    placed = (only(ec2_labels.PLACEMENT_GROUP_ID, *([group.id] if group else ())),)
    partitions = group.partition_numbers if group else ()
    return Requirements(
        [
            *entry.requirements,
            *system_requirements(entry.facts, sizing.family),
            *zone_requirements((zone, zone_ids[zone]) for zone in sorted(zones)),
            only(labels.CAPACITY_TYPE, *capacity_types(entry.facts, reserved)),
            only(ec2_labels.CAPACITY_RESERVATION_ID, *(each.id for each in reserved)),
            only(ec2_labels.CAPACITY_RESERVATION_TYPE, *(r.reservation_type for r in reserved)),
            only(ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE, *map(is_interruptible, reserved)),
            *placed,
            only(ec2_labels.PLACEMENT_GROUP_PARTITION, *partitions),
        ]
    )


def _with_memory(capacity: Resources, memory: int | None) -> Resources:
    if memory is None:
        return capacity
    return Resources(
        capacity.cpu, memory, capacity.pods, capacity.ephemeral_storage, capacity.others
    )


def incompatibility(
    facts: TypeFacts, spec: EC2NodeClassSpec, family: Family, group: PlacementGroup | None
) -> str | None:
    """Why a node class cannot launch a type, or None when it can."""
    if family.name == "AL2023" and family_and_size(facts.name)[0] == "a1":
        return "AL2023 does not boot on the first generation of Graviton"
    options = spec.cpu_options
    wants_nesting = options is not None and options.nested_virtualization == "enabled"
    if wants_nesting and NESTED_VIRTUALIZATION not in facts.cpu_features:
        return "the type has no nested virtualization"
    if group is not None and group.strategy not in facts.placement_strategies:
        return f"the type cannot be placed in a {group.strategy} group"
    if spec.connection_tracking is not None and facts.hypervisor != NITRO:
        return "connection tracking can be set on Nitro instances only"
    return _network_incompatibility(facts, spec.network_interfaces)


def _network_incompatibility(facts: TypeFacts, wanted: Sequence[NetworkInterface]) -> str | None:
    if not wanted:
        return None
    if not facts.has_ena:
        return "network interfaces can be set on types with ENA only"
    cards = {card.index: card for card in facts.cards}
    for interface in wanted:
        card = cards.get(interface.network_card_index)
        if card is None:
            return f"the type has no network card {interface.network_card_index}"
        if interface.device_index >= card.interfaces:
            return f"network card {card.index} has no device {interface.device_index}"
    if sum(each.interface_type == EFA_ONLY for each in wanted) > facts.efa_interfaces:
        return "the type has fewer EFA interfaces than the node class asks for"
    return None
