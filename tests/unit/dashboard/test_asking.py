"""What the dashboard says of an object is what ``plan`` and ``explain`` say, field by field."""

import json
from functools import cache
from typing import Any

import pytest

from helpers.commands import run
from helpers.dashboard_worlds import DISRUPTION, MOMENT, PLAN, estimated, world_of
from karpenter.dashboard.answers.asking import NODE, NODE_POOL, POD, Asking
from karpenter.dashboard.contract import WhatIfRequest
from karpenter.dashboard.questions import BadQuestionError, UnknownObjectError

EXAMPLES = {"plan": PLAN, "disruption": DISRUPTION}


@cache
def asking(example: str) -> Asking:
    """The answers about an example."""
    return Asking(world_of(*EXAMPLES[example]), None)


def printed(*arguments: str, example: str) -> Any:
    """What a command prints about an example."""
    ran = run(*arguments, *EXAMPLES[example], "--now", MOMENT, "-o", "json")
    assert 0 == ran.code, ran.err
    return json.loads(ran.out)


def names_of(example: str, kind: str) -> list[str]:
    """Every object of a kind in an example."""
    snapshot = asking(example).plans.asked.snapshot
    nodes = [each.name for each in snapshot.nodes]
    return sorted({POD: snapshot.pods, NODE: nodes, NODE_POOL: snapshot.node_pools}[kind])


@pytest.mark.case("DASH-10")
@pytest.mark.parametrize("kind", [POD, NODE, NODE_POOL])
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_explanation_is_that_of_explain(example: str, kind: str) -> None:
    for name in names_of(example, kind):
        namespace, _, bare = name.rpartition("/")

        said = asking(example).explain(kind, namespace, bare)

        assert printed("explain", kind, name, example=example) == said.document
        assert not said.is_partial


@pytest.mark.case("DASH-10")
@pytest.mark.parametrize("example", EXAMPLES)
def test_a_plan_is_that_of_plan(example: str) -> None:
    assert printed("plan", example=example) == asking(example).plan().document


def test_a_node_that_would_be_created_is_explained_by_its_name() -> None:
    (claim, *_) = asking("plan").plan().document["provisioning"]["nodeClaims"]

    said = asking("plan").explain(NODE, "", claim["name"])

    assert printed("explain", "node", claim["name"], example="plan") == said.document


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        (NODE, "general-wob", "there is no node general-wob; did you mean general-web"),
        (POD, "web-7", "there is no pod default/web-7; did you mean default/web-"),
        (NODE_POOL, "zzz", "there is no NodePool zzz among the 1 there are"),
    ],
)
def test_an_unknown_name_is_answered_with_the_one_that_may_be_meant(
    kind: str, name: str, sentence: str
) -> None:
    with pytest.raises(UnknownObjectError, match=sentence):
        asking("disruption").explain(kind, "", name)


def test_a_kind_that_is_not_explained_is_refused() -> None:
    with pytest.raises(BadQuestionError, match="a secret is not explained: one of pod, node"):
        asking("disruption").explain("secret", "", "x")


def test_a_plan_for_which_the_time_did_not_suffice_says_so() -> None:
    said = Asking(world_of(*DISRUPTION), 0.0).plan()

    assert said.is_partial
    blocked = said.document["disruption"]["blocked"]
    assert "NotEvaluated" in {each["reason"] for each in blocked}


def test_every_question_has_the_whole_time_although_plans_are_shared() -> None:
    now = 0.0
    shared = Asking(world_of(*DISRUPTION), 600.0, lambda: now)
    shared.explain(POD, "default", "web-0")
    now = 1000.0

    for said in (shared.savings(), shared.explain(NODE, "", "general-web"), shared.plan()):
        assert not said.is_partial


def test_savings_are_those_of_the_plan_and_of_what_a_budget_of_pods_holds() -> None:
    document = asking("disruption").savings().document
    plan = asking("disruption").plan().document

    commands = plan["disruption"]["commands"]
    assert len(commands) == document["savings"]["commands"]
    saved = sum(each["savingsHourly"] for each in commands)
    assert saved == pytest.approx(document["savings"]["planned"])
    (blocked,) = document["savings"]["blocked"]
    (node,) = blocked["nodes"]
    move = asking("disruption").explain(NODE, "", "general-web").document["move"]
    assert ("PodDisruptionBudget", "general-web", ["PodDisruptionBudget/default/web"]) == (
        blocked["reason"],
        node["node"],
        node["objects"],
    )
    assert move["savingsHourly"] == blocked["hourly"] == node["hourly"]


def test_no_plan_can_go_below_the_bound() -> None:
    document = asking("disruption").savings().document
    now = sum(
        asking("disruption").explain(NODE, "", each.name).document["price"]
        for each in asking("disruption").plans.asked.snapshot.nodes
    )

    assert 0 < document["bound"] <= now - document["savings"]["planned"]
    assert document["gap"] == pytest.approx(now / document["bound"] - 1)


@pytest.mark.parametrize("is_estimate", [False, True])
def test_what_rests_on_estimated_prices_says_so(is_estimate: bool) -> None:
    world = world_of(*DISRUPTION)
    found = Asking(estimated(world) if is_estimate else world, None)

    savings = found.savings().document["savings"]
    diff = found.what_if(WhatIfRequest(drain=["general-web"])).document["diff"]

    assert savings["planned"] > 0
    assert savings["blocked"]
    blocked = [node for each in savings["blocked"] for node in (each, *each["nodes"])]
    marks = {each["isEstimate"] for each in (savings, diff, *blocked)}
    assert {is_estimate} == marks
