"""A price that nobody has told is marked as an estimate wherever it is written or shown."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from helpers.builders import FACTS_F, NOW, expression, pod
from helpers.disruption import context_of, planned, snapshot
from helpers.disruption_objects import (
    ON_DEMAND_ONLY,
    TYPES,
    kind,
    machine,
    on_demand,
    pod_on,
    pool,
    spot,
)
from karpenter.api.karpenter import NodeOverlay, NodeOverlaySpec, NodeRequirement
from karpenter.api.meta import ObjectMeta
from karpenter.cli.explain.node_view import node_parts
from karpenter.cli.explain.nodepool_view import pool_parts
from karpenter.cli.explain.pod_view import explanation_parts
from karpenter.cli.plan.disruption_view import disruption_parts
from karpenter.cli.plan.provisioning_view import plan_parts
from karpenter.cloud.types import InstanceType
from karpenter.console.screen import ESTIMATES, laid_out
from karpenter.model import labels
from karpenter.report.disruption import disruption_document, reported_reasons
from karpenter.report.node_explanation import explain_node, node_document
from karpenter.report.nodepool_explanation import explain_pool, pool_document
from karpenter.report.pod_explanation import explain_pod, explanation_document
from karpenter.report.provisioning import plan_schema, provisioning_document
from karpenter.scheduling.inputs.overlays import apply_overlays
from karpenter.scheduling.problem import PoolCatalogue
from karpenter.scheduling.provisioning import PassSettings, ProvisioningPlan, plan_provisioning
from karpenter.scheduling.reasons.pod_verdicts import SolveCapture

VALIDATOR = jsonschema_rs.Draft202012Validator(json.loads(plan_schema()))
REASONS = reported_reasons(with_repair=False)


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")


def guessed(*types: InstanceType) -> tuple[InstanceType, ...]:
    return tuple(
        each.with_offerings(tuple(replace(way, is_estimate=True) for way in each.offerings))
        for each in types
    )


GUESSED = guessed(*TYPES)


def provisioning(
    types: Iterable[InstanceType], *names: str, captured: SolveCapture | None = None
) -> ProvisioningPlan:
    catalogue = tuple(types)
    waiting = [pod(name, cpu="3") for name in names]
    return plan_provisioning(
        snapshot(pods=waiting, pools=[pool(requirements=ON_DEMAND_ONLY)]),
        lambda _: catalogue,
        FACTS_F,
        PassSettings(),
        now=NOW,
        witness=captured,
    )


def written(outcome: ProvisioningPlan) -> dict[str, Any]:
    document = provisioning_document(outcome)
    VALIDATOR.validate(json.loads(json.dumps({"provisioning": document})))
    return document


def test_what_is_launched_at_an_estimate_says_so_and_so_does_the_cost() -> None:
    document = written(provisioning(GUESSED, "web"))

    (claim,) = document["nodeClaims"]
    assert (0.4, True) == (claim["launch"]["price"], claim["launch"]["isEstimate"])
    assert document["cost"]["isEstimate"] is True


def test_nothing_is_said_of_a_price_the_cloud_has_told() -> None:
    document = written(provisioning(TYPES, "web"))

    (claim,) = document["nodeClaims"]
    assert {"instanceType", "zone", "capacityType", "price"} == claim["launch"].keys()
    assert "isEstimate" not in document["cost"]


def test_a_plan_shows_estimates_with_a_mark_and_a_footnote() -> None:
    shown = laid_out(plan_parts(provisioning(GUESSED, "web"), snapshot())).splitlines()

    assert "1 node to create: ~$0.4000 per hour, ~$292.00 per month (estimate)" == shown[0]
    assert "less than ~$" in shown[1]
    (row,) = [line for line in shown if line.lstrip().startswith("np-")]
    assert ["~0.4000", "~292.00"] == row.split()[-2:]
    assert f"  {ESTIMATES}" in shown


def test_a_plan_of_told_prices_has_neither_mark_nor_footnote() -> None:
    shown = laid_out(plan_parts(provisioning(TYPES, "web"), snapshot()))

    assert "~" not in shown
    assert "estimate" not in shown


def test_the_story_of_a_pod_marks_its_offers() -> None:
    captured = SolveCapture()
    outcome = provisioning(GUESSED, "web", captured=captured)
    told = explain_pod("default/web", snapshot(pods=[pod("web", cpu="3")]), outcome, captured)

    document = explanation_document(told)
    offers = [document["place"]["launch"], document["place"]["nextBest"]]
    offers += [each["cheapest"] for each in document["nodePools"]]
    assert [True, True, True] == [each["isEstimate"] for each in offers]
    shown = laid_out(explanation_parts(told))
    assert "s4 on-demand in z1 at ~$0.4000/h (~$292.00/month, estimate) is the cheapest" in shown


def test_savings_that_rest_on_an_estimate_say_so() -> None:
    plan = planned(machine("empty"), types=GUESSED)

    document = disruption_document(plan)
    VALIDATOR.validate({"disruption": json.loads(json.dumps(document))})
    (command,) = document["commands"]
    assert command["isEstimate"] is True
    shown = laid_out(disruption_parts(plan, now=NOW, reasons=REASONS))
    assert "1 node to remove: saves ~$0.4000 per hour, ~$292.00 per month (estimate)" in shown
    assert "saves ~$0.4000/h (~$292.00/month, estimate)" in shown


def test_savings_of_told_prices_say_nothing_of_estimates() -> None:
    (command,) = disruption_document(planned(machine("empty")))["commands"]

    assert "isEstimate" not in command


def test_an_estimated_replacement_makes_the_savings_an_estimate() -> None:
    types = (kind("s4", 4, ways=[on_demand(1.0)]), *guessed(kind("new", 4, ways=[on_demand(0.5)])))

    plan = planned(machine("old", pod_on("web", cpu="1")), types=types)

    (command,) = plan.commands
    assert (0.5, True) == (command.savings, command.is_estimate)


def test_a_refusal_for_the_price_marks_both_prices() -> None:
    types = guessed(kind("s4", 4, ways=[on_demand(0.4)]), kind("big", 8, ways=[on_demand(0.5)]))

    (kept,) = planned(machine("n1", pod_on("web", cpu="3")), types=types).blocked

    assert "at ~$0.4/h, not below ~$0.4/h" in kept.detail


def test_the_story_of_a_node_marks_its_price_and_what_a_move_saves() -> None:
    types = guessed(kind("s4", 4, ways=[on_demand(1.0)]), kind("new", 4, ways=[on_demand(0.5)]))
    nodes = [machine("old", pod_on("web", cpu="1"))]

    told = explain_node(
        "old", planned(*nodes, types=types), lambda _: context_of(*nodes, types=types)
    )

    document = node_document(told)
    assert (1.0, True) == (document["price"], document["isEstimate"])
    assert (0.5, True) == (document["move"]["savingsHourly"], document["move"]["isEstimate"])
    shown = laid_out(node_parts(told, now=NOW))
    assert "at ~$1.0000/h (~$730.00/month, estimate)" in shown
    assert "new on-demand in z1 at ~$0.5000/h (estimate)" in shown


def test_the_price_curve_of_a_pool_marks_estimates_one_by_one() -> None:
    types = (kind("told", 2, ways=[spot(0.1)]), *guessed(kind("s4", 4, ways=[on_demand(0.4)])))

    told = explain_pool("np", context_of(machine("n1"), types=types))

    document = pool_document(told)
    assert [False, True] == ["isEstimate" in each["cheapest"] for each in document["prices"]]
    assert document["nodes"]["isEstimate"] is True
    shown = laid_out(pool_parts(told, now=NOW))
    assert "1 node: ~$0.4000 per hour, ~$292.00 per month (estimate)" in shown
    assert f"  {ESTIMATES}" in shown.splitlines()
    rows = [line.split() for line in shown.splitlines() if line.split()[2:3] in (["told"], ["s4"])]
    assert [["0.1000", "73.00", "0.0500"], ["~0.4000", "~292.00", "~0.1000"]] == [
        row[5:8] for row in rows
    ]


@pytest.mark.parametrize(
    ("spec", "price", "is_estimate"),
    [
        pytest.param({"price": "0.3"}, 0.3, False, id="a price of the user's own is none"),
        pytest.param({"price_adjustment": "-50%"}, 0.2, True, id="half an estimate is one"),
        pytest.param({"capacity": {"acme/fuse": "1"}}, 0.4, True, id="capacity changes no price"),
    ],
)
def test_what_an_overlay_makes_of_an_estimate(
    spec: dict[str, Any], price: float, is_estimate: bool
) -> None:
    wanted = expression(labels.INSTANCE_TYPE, "In", "s4")
    requirement = NodeRequirement(key=wanted.key, operator="In", values=wanted.values)
    overlay = NodeOverlay(
        metadata=ObjectMeta(name="mine"), spec=NodeOverlaySpec(requirements=(requirement,), **spec)
    )
    types = guessed(kind("s4", 4, ways=[on_demand(0.4)]))

    (overlaid,) = apply_overlays([overlay], [PoolCatalogue(pool(), types)]).pools

    (way,) = overlaid.instance_types[0].offerings
    assert (price, is_estimate) == (way.price, way.is_estimate)


def test_what_users_read_on_their_nodes_marks_savings() -> None:
    types = guessed(kind("s4", 4, ways=[on_demand(1.0)]), kind("new", 4, ways=[on_demand(0.5)]))

    plan = planned(machine("old", pod_on("web", cpu="1")), types=types)

    said = [event.message for event in plan.events if "savings" in event.message]
    assert said
    assert all("(savings: $0.50), by estimated prices" in each for each in said)
