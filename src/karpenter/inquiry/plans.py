"""The plans that answer a question, each made once, and what they say about single objects.

``explain`` and the dashboard share this, so that both tell the same of an object.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from karpenter.disruption.candidates import Why
from karpenter.disruption.plan import DisruptionPlan
from karpenter.inquiry.names import no_such, no_such_key
from karpenter.inquiry.question import Question
from karpenter.model.conditions import LAUNCHED, find, in_words
from karpenter.report.disruption import disruption_document
from karpenter.report.node_explanation import (
    NodeExplanation,
    PlannedNode,
    explain_node,
    explain_planned,
)
from karpenter.report.nodepool_explanation import NodePoolExplanation, explain_pool
from karpenter.report.pod_explanation import PodExplanation, explain_pod
from karpenter.report.provisioning import provisioning_document
from karpenter.report.static_nodes import StaticNodes
from karpenter.scheduling.provisioning import ProvisioningPlan
from karpenter.scheduling.reasons.pod_verdicts import SolveCapture


class NoSuchObjectError(Exception):
    """There is no object of that name to explain; the sentence says which may be meant."""


class Plans:
    """The plans for a cluster, and the explanations that are made from them.

    A time budget of the question is one for all of its plans together.
    """

    def __init__(self, asked: Question, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin without plans; the time runs from now on."""
        self._asked = asked
        self._monotonic = monotonic
        self._captured = SolveCapture()
        self._deadline: float | None = None
        self.restart()

    def restart(self) -> None:
        """Give the plans that are not made yet the whole time again, for another question."""
        budget = self._asked.time_budget
        self._deadline = None if budget is None else self._monotonic() + budget

    @property
    def asked(self) -> Question:
        """The question, with the time that is left."""
        if self._deadline is None:
            return self._asked
        left = max(0.0, self._deadline - self._monotonic())
        return replace(self._asked, time_budget=left)

    @cached_property
    def made(self) -> ProvisioningPlan:
        """The nodes to create."""
        return self.asked.provisioning(self._captured)

    @cached_property
    def removed(self) -> DisruptionPlan:
        """The nodes to remove."""
        return self.asked.disruption()

    @cached_property
    def with_cheapest(self) -> ProvisioningPlan:
        """The nodes to create, with what packing by price would cost."""
        return self.asked.with_cheapest(self.made)

    @cached_property
    def static(self) -> StaticNodes:
        """What static pools would create and delete."""
        return self.asked.static_nodes(self.made)

    @property
    def is_partial(self) -> bool:
        """Whether something was not evaluated in the plans that were made so far."""
        made, removed = self.__dict__.get("made"), self.__dict__.get("removed")
        return (made is not None and bool(made.plan.unevaluated)) or (
            removed is not None and any(each.why is Why.NOT_EVALUATED for each in removed.blocked)
        )

    def document(self) -> dict[str, Any]:
        """The document of ``plan -o json``."""
        with_repair = self._asked.settings.repair
        return {
            "provisioning": provisioning_document(self.with_cheapest),
            "disruption": disruption_document(self.removed, with_repair=with_repair),
        }

    def pod(self, key: str) -> PodExplanation:
        """The explanation of a pod, named as ``namespace/name``."""
        pods = self._asked.snapshot.pods
        if key not in pods:
            raise NoSuchObjectError(no_such_key("pod", key, sorted(pods)))
        made = self.made
        return explain_pod(key, self._asked.snapshot, made, self._captured)

    def node(self, name: str) -> NodeExplanation | PlannedNode:
        """The explanation of a Node by its name, by its NodeClaim's, or by one that is planned."""
        snapshot = self._asked.snapshot
        for claim in snapshot.unlaunched:
            if claim.metadata.name == name:
                found = find(claim.status.conditions, LAUNCHED)
                why = f": {in_words(found)}" if found is not None else ""
                raise NoSuchObjectError(
                    f"NodeClaim {name} has no node, as it has not launched{why}"
                )
        if snapshot.node(name) is not None:
            return explain_node(name, self.removed, self._asked.view)
        planned = explain_planned(name, self.made)
        if planned is None:
            raise NoSuchObjectError(no_such("node", name, [each.name for each in snapshot.nodes]))
        return planned

    def pool(self, name: str) -> NodePoolExplanation:
        """The explanation of a NodePool."""
        pools = self._asked.snapshot.node_pools
        if name not in pools:
            raise NoSuchObjectError(no_such("NodePool", name, list(pools)))
        return explain_pool(name, self._asked.view())
