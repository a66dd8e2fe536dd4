"""Gauges of nodes that something keeps from being disrupted, as the latest passes found them."""

from collections import Counter
from collections.abc import Iterable, Sequence

from karpenter.controllers.disruption.metrics import snake_case
from karpenter.disruption.blocked_nodes import BlockedNode
from karpenter.telemetry import Metrics


class BlockedGauges:
    """Shows how many nodes are kept for which reason, and what that certainly costs."""

    def __init__(self, metrics: Metrics) -> None:
        self._nodes = metrics.disruption_blocked_nodes
        self._savings = metrics.disruption_blocked_savings
        self._kept: Sequence[BlockedNode] = ()  # whatever budgets allow
        self._beyond_budgets: dict[str, Sequence[BlockedNode]] = {}  # by method
        self._shown: set[tuple[str, str]] = set()  # pool and reason

    def pass_began(self, kept: Sequence[BlockedNode], names: Iterable[str]) -> None:
        """Take in a new pass: the nodes that no method may take, and the names of all there are."""
        present = frozenset(names) - {each.name for each in kept}
        self._kept = kept
        self._beyond_budgets = {
            method: [each for each in nodes if each.name in present]
            for method, nodes in self._beyond_budgets.items()
        }
        self._show()

    def method_ended(self, method: str, beyond_budgets: Sequence[BlockedNode]) -> None:
        """Take in the candidates that a method left because of budgets."""
        self._beyond_budgets[method] = beyond_budgets
        self._show()

    def _show(self) -> None:
        # Methods have the same candidates, and each of them is one node
        beyond = {each.name: each for nodes in self._beyond_budgets.values() for each in nodes}
        nodes: Counter[tuple[str, str]] = Counter()
        savings: dict[str, float] = {}
        for each in (*self._kept, *beyond.values()):
            reason = snake_case(each.why.value)
            nodes[each.node_pool, reason] += 1
            savings[reason] = savings.get(reason, 0.0) + each.savings
        for (pool, reason), count in nodes.items():
            self._nodes.labels(nodepool=pool, reason=reason).set(count)
        for reason, dollars in savings.items():
            self._savings.labels(reason=reason).set(dollars)
        for pool, reason in self._shown - nodes.keys():
            self._nodes.remove(pool, reason)
        for reason in {reason for _, reason in self._shown} - savings.keys():
            self._savings.remove(reason)
        self._shown = set(nodes)
