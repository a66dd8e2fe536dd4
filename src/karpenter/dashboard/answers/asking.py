"""Questions about a cluster, answered from a snapshot: the documents of ``plan`` and ``explain``.

One ``Asking`` holds the plans for one cluster at one moment, so that many questions about it cost one
plan. It reads nothing and writes nothing; it is used in a process of its own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from karpenter.dashboard.answers.savings import bound_of, savings_of
from karpenter.dashboard.answers.what_if import what_if
from karpenter.dashboard.answers.world import World
from karpenter.dashboard.contract import WhatIfRequest
from karpenter.dashboard.questions import BadQuestionError, UnknownObjectError
from karpenter.inquiry.plans import NoSuchObjectError, Plans
from karpenter.inquiry.settings import stopwatch
from karpenter.report.node_explanation import PlannedNode, node_document, planned_document
from karpenter.report.nodepool_explanation import pool_document
from karpenter.report.pod_explanation import explanation_document

POD: Final = "pod"
NODE: Final = "node"
NODE_POOL: Final = "nodepool"
KINDS: Final = (POD, NODE, NODE_POOL)
_DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True)
class Said:
    """A document, and whether the time sufficed for all of it."""

    document: dict[str, Any]
    is_partial: bool = False


class Asking:
    """Answers questions about a cluster at one moment."""

    def __init__(
        self,
        world: World,
        seconds: float | None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take a cluster; ``seconds``: how long the plans for one question may take together."""
        self._world = world
        self._seconds = seconds
        self._monotonic = monotonic

    @cached_property
    def plans(self) -> Plans:
        """The plans."""
        return Plans(self._world.asked(self._seconds), self._monotonic)

    def plan(self) -> Said:
        """The document of ``plan -o json``."""
        self.plans.restart()
        document = self.plans.document()
        return Said(document, self.plans.is_partial)

    def explain(self, kind: str, namespace: str, name: str) -> Said:
        """The document of ``explain KIND NAME -o json``.

        Raises:
            UnknownObjectError: there is no such object.
            BadQuestionError: objects of that kind are not explained.
        """
        try:
            document = self._explained(kind, namespace, name)
        except NoSuchObjectError as error:
            raise UnknownObjectError(str(error)) from error
        return Said(document, self.plans.is_partial)

    def _explained(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        plans = self.plans
        plans.restart()
        if kind == POD:
            return explanation_document(plans.pod(f"{namespace or _DEFAULT_NAMESPACE}/{name}"))
        if kind == NODE:
            found = plans.node(name)
            if isinstance(found, PlannedNode):
                return planned_document(found)
            return node_document(found)
        if kind == NODE_POOL:
            return pool_document(plans.pool(name))
        raise BadQuestionError(f"a {kind} is not explained: one of {', '.join(KINDS)} is")

    def what_if(self, request: WhatIfRequest) -> Said:
        """The plan without and with a change.

        Raises:
            BadQuestionError: something is wrong with the change.
            TooLargeError: it is too much.
        """
        self.plans.restart()
        found = what_if(self._world, request, self.plans, self._seconds)
        document = {
            "before": found.before,
            "after": found.after,
            "diff": msgspec.to_builtins(found.diff),
            "held": found.held,
            "drifted": found.drifted,
            "pools": found.pools,
        }
        return Said(document, found.is_partial)

    def savings(self) -> Said:
        """What the plan would save, what blocks more, and the bound."""
        plans = self.plans
        plans.restart()
        removed = plans.removed
        has_time = stopwatch(plans.asked.time_budget)
        saved = savings_of(removed, plans.asked.view(removed.commands), has_time)
        bound = bound_of(plans.asked.view()) if has_time() else None
        document = {
            "savings": msgspec.to_builtins(saved),
            "bound": bound.hourly if bound is not None else None,
            "gap": bound.gap if bound is not None else None,
        }
        return Said(document, saved.is_partial)
