"""Dashboards and alerts name only what the program exports, and say what they show."""

import json
import re
from functools import cache
from typing import Any

import pytest
import yaml

import dashboards
import metrics_reference
from helpers.pages import ROOT, text_of
from helpers.promql import Grouping, PromqlError, Selected, groupings, selected

RULES = ROOT / "monitoring" / "rules.yaml"
RULE_TESTS = ROOT / "monitoring" / "rules_test.yaml"
# Labels that Prometheus adds to every series it scrapes, and one that operators add for many clusters
OF_THE_TARGET = frozenset({"job", "instance", "namespace", "pod", "cluster"})
# Series that Prometheus makes itself
OF_PROMETHEUS = {"up": frozenset[str]()}
# Metrics and labels that the two dashboards of Karpenter's getting-started guide ask for
UPSTREAM = {
    "karpenter_nodes_termination_duration_seconds": "quantile",
    "karpenter_pods_startup_duration_seconds": "quantile",
    "controller_runtime_reconcile_time_seconds_bucket": "controller le",
    "controller_runtime_reconcile_time_seconds_count": "controller",
    "controller_runtime_reconcile_total": "controller",
    "karpenter_nodes_created_total": "nodepool",
    "karpenter_nodes_terminated_total": "nodepool",
    "karpenter_voluntary_disruption_eligible_nodes": "reason",
    "karpenter_voluntary_disruption_decisions_total": "consolidation_type decision reason",
    "karpenter_pods_state": ("arch capacity_type instance_type namespace node nodepool phase zone"),
    "karpenter_nodepools_limit": "nodepool resource_type",
    "karpenter_nodepools_usage": "nodepool resource_type",
    "karpenter_nodes_allocatable": (
        "arch capacity_type instance_type node_name nodepool resource_type zone"
    ),
    "karpenter_nodes_total_pod_requests": "node_name nodepool resource_type",
    "karpenter_nodes_total_daemon_requests": "node_name nodepool resource_type",
}


@cache
def exported() -> dict[str, frozenset[str]]:
    """The labels of all series that can be scraped, by their names."""
    found = dict(OF_PROMETHEUS)
    for family in metrics_reference.families():
        found |= metrics_reference.series_names(family)
    return found


def panels() -> list[dict[str, Any]]:
    return [
        panel
        for dashboard in dashboards.DASHBOARDS
        for panel in dashboards.document(dashboard)["panels"]
        if panel["type"] != "row"
    ]


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return list(group["rules"])


def expressions() -> list[Any]:
    of_panels = [
        pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in panels()
        for target in panel["targets"]
    ]
    return of_panels + [pytest.param(rule["expr"], id=rule["alert"]) for rule in alerts()]


def unknown(expression: str) -> list[str]:
    """What an expression asks for that nothing exports."""
    found = []
    for each in selected(expression):
        if each.metric not in exported():
            found.append(each.metric)
            continue
        known = exported()[each.metric] | OF_THE_TARGET
        found += [f"{each.metric}{{{label}}}" for label in sorted(each.labels - known)]
    # label_replace makes a label of its second argument
    made = set(re.findall(r'"(\w+)", "\$1"', expression))
    for grouping in groupings(expression):
        known = OF_THE_TARGET.union(*(exported().get(name, ()) for name in grouping.metrics), made)
        found += [f"by ({label})" for label in sorted(grouping.labels - known)]
    return found


@pytest.mark.case("OPS-33")
@pytest.mark.parametrize("expression", expressions())
def test_what_an_expression_names_is_exported(expression: str) -> None:
    assert selected(expression)
    assert [] == unknown(expression)


@pytest.mark.case("OPS-33")
@pytest.mark.parametrize(("name", "labels"), UPSTREAM.items())
def test_what_dashboards_of_karpenter_ask_for_is_exported(name: str, labels: str) -> None:
    assert set(labels.split()) <= exported()[name]


@pytest.mark.parametrize(
    ("expression", "strange"),
    [
        ("karpenter_no_such_metric", ["karpenter_no_such_metric"]),
        ('karpenter_build_info{colour="red"}', ["karpenter_build_info{colour}"]),
        ("sum by (colour) (karpenter_build_info)", ["by (colour)"]),
        ("sum by (version) (karpenter_build_info) / on (zone) up", ["by (zone)"]),
        (
            "rate(karpenter_pods_bound_duration_seconds[5m])",
            ["karpenter_pods_bound_duration_seconds"],
        ),
    ],
)
def test_what_is_not_exported_is_found(expression: str, strange: list[str]) -> None:
    assert strange == unknown(expression)


def test_an_expression_is_read_as_prometheus_reads_it() -> None:
    text = 'sum by (a, le) (rate(x_bucket{b="}",c=~"d|e"}[5m])) > 1.5 * on (a) y or absent(z == 1)'

    assert [
        Selected("x_bucket", frozenset("bc")),
        Selected("y", frozenset()),
        Selected("z", frozenset()),
    ] == selected(text)
    assert [
        Grouping(frozenset({"a", "le"}), frozenset({"x_bucket"})),
        Grouping(frozenset({"a"}), frozenset({"x_bucket", "y", "z"})),
    ] == list(groupings(text))
    for bad in ("sum(x", "x{a='b'} § y", "sum(x) by (a)"):
        with pytest.raises(PromqlError):
            list(groupings(bad))


@pytest.mark.case("OPS-33")
@pytest.mark.parametrize("name", dashboards.VARIABLES)
def test_a_variable_has_values_among_the_series_there_are(name: str) -> None:
    query = re.fullmatch(r"label_values\((.+), (\w+)\)", dashboards.VARIABLES[name])
    assert query is not None
    (metric,) = selected(query[1])

    assert name == query[2]
    assert name in exported()[metric.metric] | OF_THE_TARGET


@pytest.mark.case("OPS-33")
@pytest.mark.parametrize("dashboard", dashboards.DASHBOARDS, ids=lambda each: each.uid)
def test_a_dashboard_has_the_variables_and_its_panels_say_what_they_show(
    dashboard: dashboards.Dashboard,
) -> None:
    document = dashboards.document(dashboard)
    known = {each["name"] for each in document["templating"]["list"]}
    shown = [panel for panel in document["panels"] if panel["type"] != "row"]

    assert {"datasource", "cluster", "nodepool", "zone", "capacity_type"} <= known
    assert shown
    for panel in shown:
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
            assert "cluster" in used
            assert used <= known
            for each in selected(target["expr"]):
                assert "cluster" in each.labels
                if not each.metric.startswith("karpenter_"):
                    assert "job" in each.labels, each.metric
    assert len(document["panels"]) == len({panel["id"] for panel in document["panels"]})


def test_the_files_of_dashboards_are_written_from_the_code() -> None:
    for dashboard in dashboards.DASHBOARDS:
        file = dashboards.FOLDER / f"{dashboard.uid}.json"
        assert dashboards.text(dashboard) == file.read_text("utf-8"), "run: make monitoring"
        assert json.loads(file.read_text("utf-8"))["title"] == dashboard.title
    names = {f"{each.uid}.json" for each in dashboards.DASHBOARDS}
    assert names == {file.name for file in dashboards.FOLDER.iterdir()}


@pytest.mark.case("OPS-34")
@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    name = rule["alert"]
    page, _, anchor = rule["annotations"]["runbook"].partition("#")

    assert re.fullmatch(r"\d+m", rule["for"])
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"].endswith(".")
    assert name.lower() == anchor
    assert f"\n## {name}\n" in text_of(page)


@pytest.mark.case("OPS-34")
def test_every_alert_is_tested_to_fire_and_to_stay_silent() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for case in yaml.safe_load(RULE_TESTS.read_text("utf-8"))["tests"]:
        for expected in case["alert_rule_test"]:
            told = fires if expected.get("exp_alerts") else silent
            told.add(expected["alertname"])

    names = {rule["alert"] for rule in alerts()}
    assert names == fires
    assert names == silent


def test_the_page_of_alerts_has_no_alert_that_is_not_there() -> None:
    headings = re.findall(r"^## (\w+)$", text_of("docs/how-to/alerts.md"), re.MULTILINE)

    assert [rule["alert"] for rule in alerts()] == headings
