"""What static pools would create and delete, and what that costs.

Nodes of static pools are made from the template of their pool, for no pod in particular. Each is
priced as the cheapest offering that its pool allows, as for a replacement.
"""

from collections import Counter
from dataclasses import dataclass, field

from karpenter.disruption.context import DisruptionContext
from karpenter.scheduling.plan import Launch
from karpenter.scheduling.provisioning import ProvisioningPlan
from karpenter.scheduling.static_pools import static_launches
from karpenter.state.nodes import StateNode


@dataclass(frozen=True, slots=True)
class Deleted:
    """A node that its static pool gives up."""

    name: str
    price: float | None  # an hour; None when not known
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class StaticNodes:
    """The nodes that static pools would create and delete."""

    created: Counter[tuple[str, Launch | None]] = field(default_factory=Counter)  # with the pool
    deleted: tuple[Deleted, ...] = ()

    @property
    def hourly(self) -> float:
        """What the new nodes cost an hour, as far as they can be launched."""
        return sum(
            launch.price * count
            for (_, launch), count in self.created.items()
            if launch is not None
        )

    @property
    def is_estimate(self) -> bool:
        """Whether that rests on an estimated price."""
        return any(launch is not None and launch.is_estimate for _, launch in self.created)

    def launches(self, pool: str) -> Counter[Launch | None]:
        """What the new nodes of a pool would be launched as."""
        found = {launch: n for (name, launch), n in self.created.items() if name == pool}
        return Counter(found)


def static_nodes(made: ProvisioningPlan, view: DisruptionContext) -> StaticNodes:
    """Look up what a plan would create and delete for static pools in the cluster it is for."""
    created: Counter[tuple[str, Launch | None]] = Counter()
    for each in made.static:
        pool = view.snapshot.node_pools[each.node_pool]
        types = view.inspection.types.get(each.node_pool, {})
        launches = static_launches(pool, types.values(), each.create)
        created.update((each.node_pool, launch) for launch in launches)
    unlaunched = {claim.metadata.name: claim for claim in view.snapshot.unlaunched}
    deleted = []
    for name in (name for each in made.static for name in each.delete):
        machine = view.snapshot.node(name) or StateNode(node=None, node_claim=unlaunched[name])
        found = view.inspection.described(machine)
        deleted.append(Deleted(name, found.known_price, found.is_estimate))
    return StaticNodes(created, tuple(deleted))
