"""Metrics of disruption: decisions, disrupted nodes and pods, failures."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
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
        """Count a machine that is repaired; ``bound`` is what its pods have at most."""
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
