"""A line in the log when a node begins to match a repair policy, and when it no longer does."""

from collections.abc import Callable
from typing import Any

from karpenter.api.nodes import Node
from karpenter.cloud.repair import RepairBook, RepairMatch, RepairPolicies
from karpenter.controllers.world import World
from karpenter.model.conditions import timestamp


class RepairNotes:
    """Follows the conditions of nodes; heartbeats change nothing."""

    def __init__(self, world: World, policies: RepairPolicies, log: Any) -> None:
        self._log = log
        self._book = RepairBook(policies)
        self._end: Callable[[], None] = world.mirror(Node).on_change(self._notice)

    def end(self) -> None:
        """Follow no more."""
        self._end()

    def _notice(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._book.forget(old.metadata.name)
            return
        name = new.metadata.name
        before = self._book.matches(name)
        if not self._book.observe(new):
            return
        after = self._book.matches(name)
        for match in after:
            if match not in before:
                self._log.debug("matched repair policy", Node={"name": name}, **_facts(match))
        if before and not after:
            self._log.debug("no longer matches any repair policy", Node={"name": name})


def _facts(match: RepairMatch) -> dict[str, Any]:
    policy, condition = match.policy, match.condition
    return {
        "condition": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "reason-regex": policy.reason_regex,
        "fallback": match.is_fallback,
        "action": policy.action,
        "eligible-at": timestamp(match.eligible_at()),
        "termination-grace-period": policy.termination_grace_period,
    }
