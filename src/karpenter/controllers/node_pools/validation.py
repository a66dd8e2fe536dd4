"""Validation of pools beyond what the API server checks."""

from typing import Final

from karpenter.admission.runtime import runtime_findings
from karpenter.api.codec import to_plain
from karpenter.api.karpenter import NodePool
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.node_pools.managed import is_served
from karpenter.controllers.node_pools.readiness import write_conditions
from karpenter.kube.mirror import Key
from karpenter.model.conditions import (
    FALSE,
    GATE_OFF,
    STATIC_CAPACITY,
    TRUE,
    VALIDATION_SUCCEEDED,
    Conditions,
    with_condition,
    without,
)

VALIDATION_FAILED: Final = "NodePoolValidationFailed"


class ValidationController(Controller):
    """Reports in a pool's status whether its specification is valid."""

    name = "nodepool.validation"
    kind = NodePool

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pools = context.mirror(NodePool)
        self._warned: dict[str, int] = {}  # pool uid -> generation whose warnings were logged
        self.follow(self._pools)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pools.get(key[1])
        if pool is None or not is_served(self.context, pool):
            return None
        findings = runtime_findings(to_plain(pool), provider=self.context.cloud.facts.name)
        self._warn(pool, [str(warning) for warning in findings.warnings])
        errors = "; ".join(map(str, findings.errors))
        verdict = (FALSE, VALIDATION_FAILED, errors) if errors else (TRUE, "", "")
        conditions = with_condition(
            pool.status.conditions,
            VALIDATION_SUCCEEDED,
            *verdict,
            now=self.clock.now(),
            generation=pool.metadata.generation,
        )
        await write_conditions(self.context, pool, self._with_gate(pool, conditions))
        return None

    def _with_gate(self, pool: NodePool, conditions: Conditions) -> Conditions:
        """Report on a static pool that its nodes are not created while the gate is off."""
        if pool.spec.replicas is None or self.context.settings.feature_gates[STATIC_CAPACITY]:
            return without(conditions, STATIC_CAPACITY)
        return with_condition(
            conditions,
            STATIC_CAPACITY,
            FALSE,
            GATE_OFF,
            "spec.replicas has no effect while the feature gate StaticCapacity is off; set"
            " FEATURE_GATES=StaticCapacity=true",
            now=self.clock.now(),
            generation=pool.metadata.generation,
        )

    def _warn(self, pool: NodePool, warnings: list[str]) -> None:
        uid, generation = pool.metadata.uid, pool.metadata.generation
        if self._warned.get(uid) == generation:
            return
        self._warned[uid] = generation
        for warning in warnings:
            self.context.decide(
                self.log.info,
                "nodepool is used in part",
                drafts.used_in_part(pool.metadata.name, warning),
                NodePool={"name": pool.metadata.name},
                warning=warning,
            )
