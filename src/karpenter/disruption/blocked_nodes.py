"""Nodes whose disruption is blocked, and the savings that are certainly lost by that.

A pass has a reason for every machine that no method may take, and for every candidate beyond a
budget. Where such a node holds no pods that would have to move, removing it saves its whole price;
the savings of any other node are unknown without a simulation.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from karpenter.disruption.candidates import Blocked, Candidate, Kind, Why
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.costs import price_of
from karpenter.state.departing_pods import is_reschedulable

# Unmanaged machines, and machines that are being deleted, are not blocked
_NOT_KEPT: Final = frozenset({Why.NOT_MANAGED, Why.IN_PROGRESS, Why.DELETING})


@dataclass(frozen=True, slots=True)
class BlockedNode:
    """A node that stays, with the reason."""

    name: str
    node_pool: str
    why: Why
    savings: float  # certain savings in dollars per hour; zero when unknown


def blocked_nodes(view: DisruptionContext) -> Iterator[BlockedNode]:
    """The nodes that no graceful method may take, whatever budgets allow."""
    for machine in view.snapshot.nodes:
        verdict = view.standing(Kind.GRACEFUL)[machine.name]
        if isinstance(verdict, Candidate) or verdict.why in _NOT_KEPT or machine.node is None:
            continue
        savings = 0.0
        if not any(map(is_reschedulable, machine.pods)):
            savings = price_of(machine, view.inspection.types.get(machine.node_pool, {})) or 0.0
        yield BlockedNode(machine.name, machine.node_pool, verdict.why, savings)


def beyond_budgets(view: DisruptionContext, verdicts: Iterable[Blocked]) -> Iterator[BlockedNode]:
    """The candidates that only a budget blocks."""
    for verdict in verdicts:
        candidate = view.standing(Kind.GRACEFUL).get(verdict.node)
        if verdict.why is Why.BUDGET and isinstance(candidate, Candidate):
            savings = candidate.price if candidate.is_empty else 0.0
            yield BlockedNode(candidate.name, candidate.pool, verdict.why, savings)
