"""Which instance types a node class rules out, however much they may be on offer."""

from collections.abc import Sequence
from typing import Final

from karpenter.api.node_classes.ec2 import EC2NodeClassSpec, NetworkInterface
from karpenter.cloud.aws.images.families import Family
from karpenter.cloud.aws.network.placement_groups import PlacementGroup
from karpenter.cloud.aws.types.capacity import EFA_ONLY
from karpenter.cloud.aws.types.facts import TypeFacts, family_and_size

NITRO: Final = "nitro"
NESTED_VIRTUALIZATION: Final = "nested-virtualization"


def incompatibility(
    facts: TypeFacts, spec: EC2NodeClassSpec, family: Family, group: PlacementGroup | None
) -> str | None:
    """Why instances of a type cannot be had with a node class, or None when they can."""
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
