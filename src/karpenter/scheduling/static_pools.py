"""Static pools: a fixed number of nodes, whatever the pods ask for."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType, Offering
from karpenter.scheduling.compiled.templates import template_requirements
from karpenter.scheduling.plan import Launch
from karpenter.state.departing_pods import is_protected
from karpenter.state.eviction_cost import eviction_cost
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_daemon
from karpenter.state.snapshot import Snapshot
from karpenter.state.static_node_counts import StaticCount, count_static, standing_claims


@dataclass(frozen=True, slots=True)
class StaticOutcome:
    """What a static pool needs to reach its number of nodes."""

    node_pool: str
    replicas: int
    have: int
    create: int
    delete: tuple[str, ...]  # names of nodes or claims, first to go first


def plan_static(
    pools: Iterable[NodePool],
    snapshot: Snapshot,
    *,
    now: datetime,
    deletion_cost_is_ours: bool = False,
) -> tuple[StaticOutcome, ...]:
    """Compare each static pool with what it has."""
    worth = partial(eviction_cost, deletion_cost_is_ours=deletion_cost_is_ours)
    return tuple(_outcome(pool, snapshot, now, worth) for pool in pools)


def static_launches(
    pool: NodePool, types: Iterable[InstanceType], count: int
) -> tuple[Launch | None, ...]:
    """The launches of new nodes of a static pool, the cheapest first.

    A reservation serves as many nodes as it has room for. None stands for a node that cannot be
    launched now.
    """
    held = template_requirements(pool)
    ways = [
        (_launch(kind, offering), offering)
        for kind in types
        if kind.requirements.intersects(held)
        for offering in kind.offerings
        if offering.is_launchable and offering.requirements.intersects(held)
    ]
    ways.sort(
        key=lambda way: (way[0].price, way[0].instance_type, way[0].zone, way[0].capacity_type)
    )
    chosen: list[Launch | None] = []
    taken: Counter[str] = Counter()  # reservation -> nodes
    for launch, offering in ways:
        left = count - len(chosen)
        if offering.is_reserved:
            left = min(left, offering.reservation_capacity - taken[offering.reservation_id])
            taken[offering.reservation_id] += max(0, left)
        chosen += [launch] * left
    return (*chosen, *([None] * (count - len(chosen))))


def _launch(kind: InstanceType, offering: Offering) -> Launch:
    return Launch(
        kind.name, offering.zone, offering.capacity_type, offering.price, offering.is_estimate
    )


def _outcome(
    pool: NodePool, snapshot: Snapshot, now: datetime, worth: Callable[[Pod], float]
) -> StaticOutcome:
    count = count_static(pool, snapshot, now=now)
    going = _first_to_go(pool, snapshot, count, now, worth) if count.surplus else []
    return StaticOutcome(
        pool.metadata.name,
        count.replicas,
        count.staying,
        count.slots(count.missing),
        tuple(name for names in going[: count.surplus] for name in names),
    )


def _first_to_go(
    pool: NodePool,
    snapshot: Snapshot,
    count: StaticCount,
    now: datetime,
    worth: Callable[[Pod], float],
) -> list[tuple[str, ...]]:
    """The order of deletion: each entry makes one claim fewer; a couple is deleted together."""
    standing = standing_claims(pool.metadata.name, snapshot)
    coupled = count.couples.keys() | set(count.couples.values())
    single = {
        key: machine
        for key, machine in sorted(standing.items())
        if key not in coupled and not machine.is_marked
    }
    unlaunched = {claim.metadata.name for claim in snapshot.unlaunched}
    waiting = [key for key in single if key in unlaunched and key not in count.superseded]
    rest = [single[key] for key in single.keys() - unlaunched - count.superseded]
    return [
        *((machine.name,) for key, machine in single.items() if key in count.superseded),
        *(() for _ in count.coming - coupled),  # deleted once its watch event has arrived
        *((key,) for key in waiting),
        *_seen(count.couples, standing),
        *((name,) for name in _cheapest_first(rest, now, worth)),
    ]


def _seen(
    couples: Mapping[str, str], standing: Mapping[str, StateNode]
) -> Iterator[tuple[str, ...]]:
    """The couples, the replacement last; claims without a watch event so far are omitted."""
    for replaced, replacement in sorted(couples.items()):
        found = standing.get(replacement)
        yield (standing[replaced].name, found.name) if found is not None else ()


def _cheapest_first(
    nodes: Iterable[StateNode], now: datetime, worth: Callable[[Pod], float]
) -> list[str]:
    def key(node: StateNode) -> tuple[bool, bool, float, str]:
        protected = any(is_protected(pod, now=now) for pod in node.pods)
        empty = not protected and all(is_daemon(pod) for pod in node.pods)
        cost = sum(map(worth, node.pods)) * node.lifetime_left(now)
        return (not empty, protected, cost, node.name)

    return [node.name for node in sorted(nodes, key=key)]
