"""Writes the Grafana dashboards of ``monitoring/dashboards``.

A dashboard is a list of rows of panels, and a panel one or two expressions with a unit and a
description; all other fields of Grafana's format follow from that. Run without arguments to
write the files; a test compares them with what would be written.

Expressions about single pods and nodes fall back on the sums that there are with
``METRICS_DETAIL=pool``, so that the same dashboards serve both.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dashboard_panels import CAPACITY, CONTROLLER, DECISIONS, Panel, Row

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "monitoring" / "dashboards"

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24
_HEIGHT: Final = 8
_TITLE_HEIGHT: Final = 1


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard."""

    uid: str  # also the name of its file
    title: str
    description: str
    rows: Sequence[Row]


DASHBOARDS: Final = (
    Dashboard(
        "karpenter-capacity",
        "Karpenter / Capacity and cost",
        "What there is, what it costs, and how well it is used.",
        CAPACITY,
    ),
    Dashboard(
        "karpenter-decisions",
        "Karpenter / Decisions",
        "What is created and disrupted, why, and what is in the way.",
        DECISIONS,
    ),
    Dashboard(
        "karpenter-controller",
        "Karpenter / Controller",
        "How the controllers themselves are doing.",
        CONTROLLER,
    ),
)
# Variable -> the query for its values
VARIABLES: Final = {
    "cluster": "label_values(karpenter_build_info, cluster)",
    "job": 'label_values(karpenter_build_info{cluster=~"$cluster"}, job)',
    "nodepool": 'label_values(karpenter_nodepools_usage{cluster=~"$cluster"}, nodepool)',
    "zone": 'label_values(karpenter_nodes_created_total{cluster=~"$cluster"}, zone)',
    "capacity_type": (
        'label_values(karpenter_nodeclaims_terminated_total{cluster=~"$cluster"}, capacity_type)'
    ),
}


def document(dashboard: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana reads it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["karpenter"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "tags": ["karpenter"],
                "title": "Karpenter",
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_datasource(), *map(_variable, VARIABLES)]},
        "panels": list(_panels(dashboard.rows)),
    }


def text(dashboard: Dashboard) -> str:
    """The file of a dashboard."""
    return json.dumps(document(dashboard), indent=2, ensure_ascii=False) + "\n"


def _datasource() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
    }


def _variable(name: str) -> dict[str, Any]:
    query = VARIABLES[name]
    return {
        "name": name,
        "label": name.replace("_", " ").capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "multi": True,
        "includeAll": True,
        # Also series without the label, such as those of a Prometheus with one cluster only
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panels(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": _TITLE_HEIGHT},
            "panels": [],
        }
        top += _TITLE_HEIGHT
        width = _WIDTH // len(row.panels)
        for position, panel in enumerate(row.panels):
            number += 1
            place = {"x": position * width, "y": top, "w": width, "h": _HEIGHT}
            yield _panel(number, panel, place)
        top += _HEIGHT


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    custom = {"drawStyle": "line", "fillOpacity": 10, "showPoints": "never"}
    if panel.is_stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    shown: dict[str, Any] = {"tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind == "stat":
        custom, shown = {}, {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": custom},
            "overrides": [],
        },
        "options": shown,
        "targets": [
            {
                "refId": chr(ord("A") + position),
                "datasource": _SOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for position, (legend, expression) in enumerate(panel.queries.items())
        ],
    }


def write() -> None:
    """Write all files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.uid}.json").write_text(text(dashboard), "utf-8")


if __name__ == "__main__":
    write()
