"""The view: a cluster as columns, made anew from picture to picture in the time of what changed.

A view that was built is not changed any more, but for its ``seq``, which the feed sets; views share
what they have in common. One builder stands for one epoch: its rows keep their ids, and its
dictionaries grow.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from math import fsum
from typing import Any, Final, TypeVar

from karpenter.api.karpenter import NodePool
from karpenter.dashboard.contract import (
    NODE_STATES,
    POD_STATES,
    BudgetLine,
    Dictionaries,
    NodeColumns,
    PodColumns,
    Pool,
    Totals,
    View,
)
from karpenter.dashboard.node_rows import Member, NodeRows
from karpenter.dashboard.picture import Picture, PoolTypes, PriceBook
from karpenter.dashboard.pod_rows import PodRows
from karpenter.dashboard.shown import EVERYTHING, Shown
from karpenter.dashboard.words import Words
from karpenter.decision_log.record import moment_text
from karpenter.model.conditions import READY, TRUE, find
from karpenter.model.resources import CPU, MEMORY, Resources, total

__all__ = ("HOURS", "Picture", "PoolTypes", "PriceBook", "Shown", "ViewBuilder")

HOURS: Final = 730  # of a month
_CLAIMED, _READY = NODE_STATES.index("Claimed"), NODE_STATES.index("Ready")
C = TypeVar("C", NodeColumns, PodColumns)


class ViewBuilder:
    """Builds the views of one epoch."""

    def __init__(
        self,
        *,
        epoch: str,
        source: str,
        provider: str,
        cluster: str,
        is_live: bool,
        shown: Shown = EVERYTHING,
    ) -> None:
        """Begin an epoch; ``shown`` decides which names leave the process."""
        self._epoch, self._source, self._provider = epoch, source, provider
        self._cluster, self._is_live = shown.name(cluster), is_live
        self._shown = shown
        start = Dictionaries()
        self._words: Final = {
            name: Words(getattr(start, name)) for name in Dictionaries.__struct_fields__
        }
        node_ids, pod_ids = count(1), count(1)
        words = self._words
        self._nodes = NodeRows(shown, words, lambda: next(node_ids))
        self._pods = PodRows(
            shown, words["namespace"], words["owner"], words["reason"], lambda: next(pod_ids)
        )
        self._last: View | None = None
        self._pools_seen: tuple[object, ...] = ()

    def build(self, picture: Picture) -> View:
        """The view of a picture."""
        moved = self._nodes.meet(picture.snapshot)
        affected = self._pods.update(picture, self._nodes.place, moved)
        self._nodes.update(picture, self._pods.flags_on, affected)
        last = self._last
        nodes = _columns(NodeColumns, self._nodes.rows, last.nodes if last is not None else None)
        pods = _columns(PodColumns, self._pods.rows, last.pods if last is not None else None)
        view = View(
            epoch=self._epoch,
            source=self._source,
            provider=self._provider,
            cluster=self._cluster,
            is_live=self._is_live,
            at=moment_text(picture.now),
            notices=list(picture.notices),
            dictionaries=self._dictionaries(),
            nodes=nodes,
            pods=pods,
            pools=self._pools(picture, nodes),
            totals=_totals(nodes, pods, self._pods.finished),
        )
        self._last = view
        return view

    @property
    def words(self) -> int:
        """How many texts the dictionaries hold; they only grow, so that a long epoch has to end."""
        return sum(map(len, self._words.values()))

    def _dictionaries(self) -> Dictionaries:
        texts = {name: words.texts() for name, words in self._words.items()}
        if self._last is not None:
            known = self._last.dictionaries
            if all(getattr(known, name) is each for name, each in texts.items()):
                return known
        return Dictionaries(**texts)

    def _pools(self, picture: Picture, nodes: NodeColumns) -> list[Pool]:
        seen = (picture.snapshot.node_pools, nodes)
        if self._last is not None and all(
            a is b for a, b in zip(seen, self._pools_seen, strict=False)
        ):
            return self._last.pools
        self._pools_seen = seen
        members: dict[str, list[Member]] = {}
        for member in self._nodes.members.values():
            members.setdefault(member.pool_name, []).append(member)
        pools = [
            self._pool(pool, members.get(name, []))
            for name, pool in picture.snapshot.node_pools.items()
        ]
        return sorted(pools, key=lambda pool: pool.name)

    def _pool(self, pool: NodePool, members: list[Member]) -> Pool:
        spec = pool.spec
        reference = spec.template.spec.node_class_ref
        prices, is_estimate, unpriced = self._prices(members)
        ready = find(pool.status.conditions, READY)
        is_ready = ready is not None and ready.status == TRUE
        limits = dict(Resources.from_wire(spec.limits).items())
        # Machines that are being removed do not count against limits
        used = total(m.machine.capacity for m in members if not m.machine.is_deleting)
        return Pool(
            name=self._shown.name(pool.metadata.name),
            node_class=f"{reference.kind}/{self._shown.name(reference.name)}",
            is_ready=is_ready,
            reason="" if is_ready or ready is None else ready.reason,
            weight=spec.weight or 0,
            replicas=spec.replicas,
            limits=limits,
            use={name: used[name] for name in sorted({CPU, MEMORY, *limits})},
            nodes=len(members),
            hourly=fsum(prices),
            unpriced=unpriced,
            is_estimate=is_estimate,
            consolidation_policy=spec.disruption.consolidation_policy,
            consolidate_after=spec.disruption.consolidate_after,
            budgets=[
                BudgetLine(
                    nodes=each.nodes,
                    reasons=list(each.reasons) if each.reasons is not None else None,
                    schedule=each.schedule,
                    duration=each.duration,
                )
                for each in spec.disruption.budgets
            ],
        )

    def _prices(self, members: list[Member]) -> tuple[list[float], bool, int]:
        rows = [self._nodes.rows[member.id] for member in members]
        price, estimate = _at("price"), _at("is_estimate")
        known = [row[price] for row in rows if row[price] is not None]
        unpriced = sum(is_unpriced(row[price], row[_at("type")], row[_at("state")]) for row in rows)
        return known, any(row[estimate] for row in rows), unpriced


def is_unpriced(price: float | None, kind: int, state: int) -> bool:
    """Whether a machine has a price that is not known; a claim without a machine costs nothing."""
    return price is None and not (state == _CLAIMED and not kind)


def _at(column: str) -> int:
    return NodeColumns.__struct_fields__.index(column)


def _columns(kind: type[C], rows: Mapping[int, tuple[Any, ...]], last: C | None) -> C:
    """Rows as columns; the last ones where nothing is different."""
    columns: Iterable[tuple[Any, ...]] = zip(*rows.values(), strict=True)
    made = [list(column) for column in columns] or [[] for _ in kind.__struct_fields__]
    if last is not None and all(
        getattr(last, name) == column
        for name, column in zip(kind.__struct_fields__, made, strict=True)
    ):
        return last
    return kind(**dict(zip(kind.__struct_fields__, made, strict=True)))


def _totals(nodes: NodeColumns, pods: PodColumns, finished: int) -> Totals:
    states = Counter(nodes.state)
    phases = Counter(pods.state)
    hourly = fsum(price for price in nodes.price if price is not None)
    machines = [state != _CLAIMED for state in nodes.state]
    bound = [node >= 0 for node in pods.node]
    of_pods = {POD_STATES[state]: phases[state] for state in sorted(phases)}
    if finished:
        of_pods["Finished"] = finished
    return Totals(
        nodes=len(nodes.id),
        ready=states[_READY],
        node_states={NODE_STATES[state]: states[state] for state in sorted(states)},
        pods=len(pods.id),
        pod_states=of_pods,
        waiting=phases[POD_STATES.index("Waiting")],
        hourly=hourly,
        monthly=hourly * HOURS,
        unpriced=sum(map(is_unpriced, nodes.price, nodes.type, nodes.state)),
        is_estimate=any(nodes.is_estimate),
        cpu=_sum_where(nodes.cpu, machines),
        memory=_sum_where(nodes.memory, machines),
        cpu_requested=_sum_where(pods.cpu, bound),
        memory_requested=_sum_where(pods.memory, bound),
    )


def _sum_where(amounts: Iterable[int], counts: Iterable[bool]) -> int:
    return sum(amount for amount, does in zip(amounts, counts, strict=True) if does)
