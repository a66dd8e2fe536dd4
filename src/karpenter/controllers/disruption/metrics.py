"""Metrics of disruption: decisions, disrupted and blocked nodes, pods, failures."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.disruption.blocked_nodes import BlockedNode
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import Command
from karpenter.model import labels
from karpenter.telemetry import Metrics
from karpenter.telemetry.capacity import termination_mode

_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_TIME: Final = timedelta(0)


class Tally:
    """Counts what becomes of commands."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def decided(self, command: Command) -> None:
        """Count a command that is being carried out."""
        facts = _facts(command)
        metrics = self._metrics
        metrics.voluntary_disruption_decisions_total.labels(**facts).inc()
        for pool in sorted({candidate.pool for candidate in command.candidates}):
            metrics.voluntary_disruption_decisions_by_nodepool_total.labels(
                nodepool=pool, **facts
            ).inc()
            if command.terminate_first_reason:
                metrics.voluntary_disruption_terminate_first_decisions_total.labels(
                    nodepool=pool,
                    reason=facts["reason"],
                    terminate_first_reason=command.terminate_first_reason,
                ).inc()

    def disrupted(self, candidate: Candidate, command: Command) -> None:
        """Count a machine whose end, or restart, has begun."""
        claim, metrics = candidate.claim, self._metrics
        policy = candidate.node_pool.spec.disruption.consolidation_policy
        facts = {
            "reason": command.reason.lower(),
            "nodepool": candidate.pool,
            "capacity_type": candidate.capacity_type,
            "consolidation_policy": snake_case(policy) if command.consolidation_type else "",
            "termination_mode": termination_mode(claim),
        }
        metrics.nodeclaims_disrupted_total.labels(**facts).inc()
        if candidate.reschedulable:
            pods = metrics.pods_disruption_initiated_total.labels(**facts)
            pods.inc(len(candidate.reschedulable))
        if command.repair is not None:
            self.unhealthy(claim, command.repair.governing.condition.type, command.drain_bound)

    def unhealthy(self, claim: NodeClaim, condition: str, bound: timedelta | None = None) -> None:
        """Count a machine that is repaired; ``bound`` limits the grace period of its pods."""
        mode = termination_mode(claim)
        if bound is not None:
            mode = "eventual" if bound > _NO_TIME else "forceful"
        held = claim.metadata.labels
        self._metrics.nodeclaims_unhealthy_disrupted_total.labels(
            condition=snake_case(condition),
            nodepool=held.get(labels.NODEPOOL, ""),
            capacity_type=held.get(labels.CAPACITY_TYPE, ""),
            image_id=claim.status.image_id,
            termination_mode=mode,
        ).inc()

    def failed(self, command: Command, missing: int) -> None:
        """Count replacements that did not come up, so that a command was given up."""
        failures = self._metrics.voluntary_disruption_queue_failures_total.labels(**_facts(command))
        failures.inc(missing)


def snake_case(name: str) -> str:
    """A name such as ``WhenEmpty`` as ``when_empty``."""
    return _WORD_START.sub("_", name).lower()


def _facts(command: Command) -> Mapping[str, str]:
    return {
        "decision": command.decision.value,
        "reason": command.reason.lower(),
        "consolidation_type": command.consolidation_type,
    }


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
        # Several methods may leave the same candidate; it counts once
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
