"""Static pools: a fixed number of nodes, whatever the pods ask for."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from karpenter.admission.durations import go_duration
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.state.departing import is_protected
from karpenter.state.eviction import eviction_cost
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_daemon
from karpenter.state.snapshot import Snapshot
from karpenter.state.static_count import StaticCount, count_static, standing_claims

_NANOSECONDS = 10**9


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
    """What to remove for one claim fewer, two, and so on; for a couple that is both of them."""
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
        *(() for _ in count.coming - coupled),  # its turn comes when it has been seen
        *((key,) for key in waiting),
        *_seen(count.couples, standing),
        *((name,) for name in _cheapest_first(pool, rest, now, worth)),
    ]


def _seen(
    couples: Mapping[str, str], standing: Mapping[str, StateNode]
) -> Iterator[tuple[str, ...]]:
    """The couples, the replacement last; nobody can remove one that has not been seen yet."""
    for replaced, replacement in sorted(couples.items()):
        found = standing.get(replacement)
        yield (standing[replaced].name, found.name) if found is not None else ()


def _cheapest_first(
    pool: NodePool, nodes: Iterable[StateNode], now: datetime, worth: Callable[[Pod], float]
) -> list[str]:
    def key(node: StateNode) -> tuple[bool, bool, float, str]:
        protected = any(is_protected(pod, now=now) for pod in node.pods)
        empty = not protected and all(is_daemon(pod) for pod in node.pods)
        cost = sum(map(worth, node.pods)) * _lifetime_left(pool, node, now)
        return (not empty, protected, cost, node.name)

    return [node.name for node in sorted(nodes, key=key)]


def _lifetime_left(pool: NodePool, node: StateNode, now: datetime) -> float:
    """The part of its life a node has before it, from one when new to zero when it expires."""
    expiry = pool.spec.template.spec.expire_after
    if node.node_claim is not None:
        expiry = node.node_claim.spec.expire_after
    length = go_duration(expiry)
    created = node.node_claim.metadata.creation_timestamp if node.node_claim else None
    if not length or created is None:
        return 1.0
    age = (now - created).total_seconds()
    return max(0.0, min(1.0, 1 - age * _NANOSECONDS / length))
