"""What there is to buy, as a value that can be sent to another process."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.cloud.provider import RepairPolicy
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.inquiry.question import CloudOffer

Types = tuple[InstanceType, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Supply:
    """The instance types of pools, and what is known about their provider.

    Pools that share a catalogue hold the same tuple: planners compile one once.
    """

    facts: ProviderFacts
    pools: Mapping[str, Types] = field(default_factory=dict)  # by name, those there are
    references: Mapping[str, NodeClassReference] = field(default_factory=dict)  # theirs
    others: Types = ()  # for pools to be, of a class that no pool names so far
    repair_policies: tuple[RepairPolicy, ...] = ()

    def of(self, pool: NodePool) -> Types:
        """What a pool could buy; one that is new, or of another class now, as others of the class."""
        reference = pool.spec.template.spec.node_class_ref
        if not self.facts.serves(reference):
            return ()
        name = pool.metadata.name
        if self.references.get(name) == reference:
            return self.pools[name]
        alike = [each for each, known in self.references.items() if known == reference]
        return self.pools[min(alike)] if alike else self.others

    def catalogues(self) -> list[Types]:
        """Every catalogue once."""
        found = {id(each): each for each in self.pools.values()}
        found.setdefault(id(self.others), self.others)
        return list(found.values())

    def is_same(self, other: "Supply") -> bool:
        """Whether the same is sold at the same prices."""
        return (
            self.pools == other.pools
            and self.references == other.references
            and self.repair_policies == other.repair_policies
        )

    @property
    def offer(self) -> CloudOffer:
        """The same as planners take it."""
        return CloudOffer(self.of, self.facts, self.repair_policies)


def supply_of(offer: CloudOffer, pools: Iterable[NodePool], others: Types = ()) -> Supply:
    """What an offer holds for the pools of a cluster.

    Args:
        offer: of a provider, or of a file.
        pools: those there are.
        others: for pools of a class that none of them names.
    """
    found: dict[str, Types] = {}
    references: dict[str, NodeClassReference] = {}
    for pool in sorted(pools, key=lambda each: each.metadata.name):
        types = offer.catalogue(pool)
        name = pool.metadata.name
        found[name] = next((each for each in found.values() if each == types), types)
        references[name] = pool.spec.template.spec.node_class_ref
    return Supply(offer.facts, found, references, others, tuple(offer.repair_policies))
