"""What rebalancing would save as plain data: the ``rebalance`` part of ``karpenter plan -o json``.

The shape is a contract that other tools depend on; ``plan.schema.json`` states it.
"""

from typing import Any, Final

from karpenter.disruption.rebalance.preview import ExcessRow, FrontierRow, RebalancePreview
from karpenter.report.provisioning import claim_document, estimate_mark

HOURS_PER_MONTH: Final = 730


def rebalance_document(preview: RebalancePreview) -> dict[str, Any]:
    """Write a preview as plain data."""
    return {
        "nowHourly": preview.now_hourly,
        "lowerBoundHourly": preview.lower_bound_hourly,
        "reschedulablePods": preview.reschedulable_pods,
        "heldPods": preview.held_pods,
        "frontier": [_row(row) for row in preview.frontier],
        "excess": [_excess(row) for row in preview.excess],
        "cluster": {"cheapestHourly": preview.cheapest_hourly},
        "isCut": preview.is_cut,
        **estimate_mark(preview.is_estimate),
    }


def saved_per_pod(row: FrontierRow) -> float | None:
    """What each moved pod saves in a month; None where none is moved."""
    return row.savings * HOURS_PER_MONTH / row.moved_pods if row.moved_pods else None


def _row(row: FrontierRow) -> dict[str, Any]:
    return {
        "percent": row.percent,
        "movedPods": row.moved_pods,
        "candidates": list(row.candidates),
        "replacements": [claim_document(claim) for claim in row.replacements],
        "hourly": row.hourly,
        "savingsHourly": row.savings,
        "savingsPerPodMonthly": saved_per_pod(row),
        "refused": row.refusal.test.value if row.refusal is not None else "",
        "detail": row.refusal.detail if row.refusal is not None else "",
    }


def _excess(row: ExcessRow) -> dict[str, Any]:
    return {
        "node": row.node,
        "price": row.price,
        "shares": row.shares,
        "excess": row.excess,
        "pods": row.pods,
        "blocked": row.blocked.why.value if row.blocked is not None else "",
    }
