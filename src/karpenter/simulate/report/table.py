"""The report on a terminal: at most forty lines, a column for each variant."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.simulate.report.fields import METRICS, at
from karpenter.visible import visible

MOST_LINES: Final = 40
_MOST_NAMED: Final = 3
_SHOWN_NAME: Final = 28
_DAY, _HOUR, _MINUTE = 86400, 3600, 60


def table(report: JsonObject) -> str:
    """A report in words and columns."""
    scenario, variants = report["scenario"], report["variants"]
    lines = [_title(scenario), ""]
    lines += _columns(variants)
    notes = [*_frontier(report), *_causes(variants), *_waiting(variants), *_judgements(variants)]
    room = MOST_LINES - len(lines) - 2
    if len(notes) > room:
        notes = [*notes[: room - 1], f"… and {len(notes) - room + 1} more; -o json has them all"]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def written(value: float | None, unit: str) -> str:
    """A figure as people read it."""
    if value is None:
        return "-"
    match unit:
        case "dollars":
            return f"${value:,.2f}"
        case "share":
            return f"{value:.1%}"
        case "seconds":
            return length(value)
        case "bytes":
            return f"{value / 2**20:,.0f} Mi"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def length(seconds: float) -> str:
    """An amount of time in its two largest units."""
    if seconds < _MINUTE:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for large, small, names in (
        (_DAY, _HOUR, ("d", "h")),
        (_HOUR, _MINUTE, ("h", "min")),
        (_MINUTE, 1, ("min", "s")),
    ):
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {names[0]}" + (f" {rest} {names[1]}" if rest else "")
    return f"{whole} s"


def _title(scenario: Mapping[str, Any]) -> str:
    cut = "" if scenario["complete"] else ", cut short"
    name = visible(scenario["name"])
    return f"{name}: {length(scenario['until'])} from {scenario['start']}, seed {scenario['seed']}{cut}"


def _columns(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [_cut(visible(each["name"])) for each in variants]
    rows = [("", *(names if len(names) > 1 else [""]))]
    for metric in METRICS:
        values = [metric.of(each) for each in variants]
        if any(value is not None for value in values):
            rows.append((metric.title, *(written(value, metric.unit) for value in values)))
    if rows[0] == ("", ""):
        rows = rows[1:]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in range(1, len(row)))]
        ).rstrip()
        for row in rows
    ]


def _cut(name: str) -> str:
    return name if len(name) <= _SHOWN_NAME else name[: _SHOWN_NAME - 1] + "…"


def _frontier(report: JsonObject) -> list[str]:
    if report["comparison"] is None:
        return []
    names = ", ".join(visible(name) for name in report["comparison"]["frontier"])
    return [f"no variant beats these in both cost and evictions: {names}"]


def _causes(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for variant in variants:
        causes = at(variant, "disruption.byCause")
        if causes:
            words = ", ".join(f"{count:,} {cause}" for cause, count in causes.items())
            found.append(f"{_of(variant, variants)}evictions: {words}")
    return found


def _waiting(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for variant in variants:
        waiting = at(variant, "pods.unscheduled")
        for each in waiting[:_MOST_NAMED]:
            reason = visible(each["reason"]) or "no reason is known"
            found.append(
                f"{_of(variant, variants)}{visible(each['pod'])} waits for"
                f" {length(each['seconds'])}: {reason}"
            )
        if len(waiting) > _MOST_NAMED:
            found.append(f"{_of(variant, variants)}and {len(waiting) - _MOST_NAMED:,} more wait")
    return found


def _judgements(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for variant in variants:
        of = _of(variant, variants)
        for each in variant["invariants"]:
            for broken in each["broken"][:_MOST_NAMED]:
                when = length(broken["at"])
                found.append(f"✗ {of}{each['id']} at {when}: {visible(broken['text'])}")
        for each in variant["expectations"]:
            mark = "✓" if each["held"] else "✗"
            found.append(f"{mark} {of}{visible(each['sentence'])}")
    return sorted(found, key=lambda line: line[0] != "✗")


def _of(variant: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> str:
    return f"{_cut(visible(variant['name']))}: " if len(variants) > 1 else ""
