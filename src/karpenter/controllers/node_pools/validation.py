"""Whether a pool means something the API server could not judge."""

from typing import Final

from karpenter.admission.runtime import runtime_findings
from karpenter.api.codec import to_plain
from karpenter.api.karpenter import NodePool
from karpenter.controllers.node_pools.served import is_served
from karpenter.controllers.node_pools.writing import write_conditions
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World
from karpenter.kube.mirror import Key
from karpenter.model.conditions import (
    FALSE,
    GATE_OFF,
    STATIC_CAPACITY,
    TRUE,
    Conditions,
    with_condition,
    without,
)

VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"
VALIDATION_FAILED: Final = "NodePoolValidationFailed"


class ValidationController(Controller):
    """Tells in a pool's status whether it can be used as it is written."""

    name = "nodepool.validation"
    kind = NodePool

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pools = world.mirror(NodePool)
        self._warned: dict[str, int] = {}  # pool uid -> generation whose doubts were told
        self.follow(self._pools)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pools.get(key[1])
        if pool is None or not is_served(self.world, pool):
            return None
        findings = runtime_findings(to_plain(pool), provider=self.world.cloud.facts.name)
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
        await write_conditions(self.world, pool, self._with_gate(pool, conditions))
        return None

    def _with_gate(self, pool: NodePool, conditions: Conditions) -> Conditions:
        """Let a pool say that nobody makes the nodes it asks for, as long as nobody does."""
        if pool.spec.replicas is None or self.world.settings.feature_gates[STATIC_CAPACITY]:
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
            self.log.info(
                "nodepool is used in part", NodePool={"name": pool.metadata.name}, warning=warning
            )
