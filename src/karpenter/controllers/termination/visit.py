"""One look at a node that is being removed: what was seen, and what is to be written about it."""

from dataclasses import dataclass
from datetime import datetime

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.model.conditions import Conditions, find, is_true, with_condition


@dataclass(slots=True)
class Visit:
    """What one look at a node works with; the conditions of its claim change along the way."""

    node: Node
    claim: NodeClaim | None
    pods: list[Pod]
    deadline: datetime | None
    now: datetime
    conditions: Conditions = ()

    def __post_init__(self) -> None:
        """Begin with the conditions as they are written."""
        if self.claim is not None:
            self.conditions = self.claim.status.conditions

    @property
    def is_overdue(self) -> bool:
        """Whether the deadline of the node has passed."""
        return self.deadline is not None and self.now > self.deadline

    @property
    def has_changed(self) -> bool:
        """Whether there is something to write."""
        return self.claim is not None and self.conditions != self.claim.status.conditions

    def set(self, kind: str, status: str, reason: str = "", message: str = "") -> None:
        """Set a condition of the claim; a node of no claim has none to set."""
        if self.claim is not None:
            self.conditions = with_condition(
                self.conditions,
                kind,
                status,
                reason,
                message,
                now=self.now,
                generation=self.claim.metadata.generation,
            )

    def seconds_since(self, kind: str) -> float:
        """How long a condition has been as it is."""
        found = find(self.conditions, kind)
        since = found.last_transition_time if found is not None else None
        return (self.now - since).total_seconds() if since is not None else 0.0

    def has_come_true(self, kind: str) -> bool:
        """Whether a condition is true that was not when the look began."""
        before = self.claim.status.conditions if self.claim is not None else ()
        return is_true(self.conditions, kind) and not is_true(before, kind)
