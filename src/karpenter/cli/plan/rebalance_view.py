"""What rebalancing would save as text: a row for each share of pods that may be moved."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from karpenter.console.screen import (
    QUIET,
    TITLE,
    Column,
    Parts,
    counted,
    fitted,
    in_column,
    per_hour,
    words,
)
from karpenter.disruption.rebalance.preview import ExcessRow, FrontierRow, RebalancePreview
from karpenter.report.rebalance import saved_per_pod

if TYPE_CHECKING:
    from rich.table import Table

_MOST_MACHINES: Final = 10  # of those that cost too much; the JSON output has all
_A_TRIFLE: Final = 0.0001  # dollars per hour


def rebalance_parts(preview: RebalancePreview) -> Parts:
    """Lay out a preview from top to bottom."""
    now = per_hour(preview.now_hourly, is_estimate=preview.is_estimate)
    bound = per_hour(preview.lower_bound_hourly, is_estimate=preview.is_estimate)
    title = f"What moving pods would save: now {now} per hour, no plan can go below {bound}"
    yield words(title, TITLE)
    pods = counted(preview.reschedulable_pods, "pod")
    held = f", {preview.held_pods:,} of them on nodes that may not go now"
    yield words(f"{pods} to move{held if preview.held_pods else ''}")
    yield words("")
    yield _frontier(preview.frontier)
    first: dict[str, str] = {}  # test -> what the first row says that fails it
    for row in preview.frontier:
        if row.refusal is not None:
            first.setdefault(row.refusal.test.value, f"{row.percent:g}%: {row.refusal.detail}")
    for test, detail in first.items():
        yield words(f"  {test} at {detail}", QUIET)
    if preview.cheapest_hourly is not None:
        price = per_hour(preview.cheapest_hourly, is_estimate=preview.is_estimate)
        yield words(f"  all pods packed anew: {price} per hour", QUIET)
    if preview.is_cut:
        yield words("  there was no time for some rows, which repeat the one before them", QUIET)
    costly = [row for row in preview.excess if row.excess >= _A_TRIFLE and row.pods]
    if costly:
        yield words("")
        yield words("Nodes that cost more than their pods are worth", TITLE)
        yield _machines(costly[:_MOST_MACHINES])
        if len(costly) > _MOST_MACHINES:
            yield words(f"  and {counted(len(costly) - _MOST_MACHINES, 'more node')}", QUIET)


def _frontier(rows: Sequence[FrontierRow]) -> "Table":
    def per_pod(row: FrontierRow) -> str:
        saved = saved_per_pod(row)
        return "" if saved is None else f"${saved:,.2f}"

    def saved(row: FrontierRow) -> str:
        before = row.hourly + row.savings
        return f"{row.savings / before:.1%}" if before > 0 else ""

    columns = [
        Column("moved", [f"{row.percent:g}%" for row in rows], is_number=True),
        Column("pods", [f"{row.moved_pods:,}" for row in rows], is_number=True),
        Column("nodes away", [f"{len(row.candidates):,}" for row in rows], is_number=True),
        Column("nodes new", [f"{len(row.replacements):,}" for row in rows], is_number=True),
        Column("$/hour", [in_column(per_hour(row.hourly)) for row in rows], is_number=True),
        Column("saves", list(map(saved, rows)), is_number=True),
        Column("per moved pod and month", list(map(per_pod, rows)), is_number=True, may_go=1),
    ]
    if any(row.refusal is not None for row in rows):
        refused = [row.refusal.test.value if row.refusal else "" for row in rows]
        columns.append(Column("refused", refused))
    return fitted(columns)


def _machines(rows: Sequence[ExcessRow]) -> "Table":
    columns = [
        Column("node", [row.node for row in rows], least=12),
        Column("$/hour", [in_column(per_hour(row.price)) for row in rows], is_number=True),
        Column("excess", [in_column(per_hour(row.excess)) for row in rows], is_number=True),
        Column("pods", [f"{row.pods:,}" for row in rows], is_number=True),
    ]
    if any(row.blocked is not None for row in rows):
        stays = [row.blocked.why.value if row.blocked is not None else "" for row in rows]
        columns.append(Column("stays because", stays, may_go=1))
    return fitted(columns)
