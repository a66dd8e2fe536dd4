"""Static pools: a fixed number of nodes, whatever the pods ask for."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from karpenter.admission.durations import go_duration
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.model.quantity import units
from karpenter.model.resources import NODES
from karpenter.state.departing import is_protected
from karpenter.state.eviction import eviction_cost
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_daemon
from karpenter.state.snapshot import Snapshot

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
    name = pool.metadata.name
    machines = snapshot.nodes_of(name)
    running = [node for node in machines if not node.is_deleting]
    waiting = [
        claim.metadata.name
        for claim in snapshot.unlaunched
        if claim.metadata.labels.get("karpenter.sh/nodepool") == name
        and claim.metadata.deletion_timestamp is None
    ]
    replicas = pool.spec.replicas or 0
    have = len(running) + len(waiting)
    create = max(0, replicas - have)
    limit = pool.spec.limits.get(NODES)
    if limit is not None:
        create = max(0, min(create, units(limit) - len(machines) - len(waiting)))
    removable = [*sorted(waiting), *_cheapest_first(pool, running, now, worth)]
    return StaticOutcome(name, replicas, have, create, tuple(removable[: max(0, have - replicas)]))


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
