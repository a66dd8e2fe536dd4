"""What-ifs: the plans that ``plan`` makes of the same input, and the sentences it refuses input with."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.commands import run
from helpers.dashboard_worlds import DISRUPTION, MOMENT, PLAN, documents, world_of
from karpenter.dashboard.answers.asking import Asking
from karpenter.dashboard.contract import WhatIfRequest
from karpenter.dashboard.questions import BadQuestionError, TooLargeError

TEN: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "ten"},
    "spec": {
        "replicas": 10,
        "selector": {"matchLabels": {"app": "ten"}},
        "template": {
            "metadata": {"labels": {"app": "ten"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]
            },
        },
    },
}


def asked(*files: str, **request: Any) -> dict[str, Any]:
    """The answer about a cluster of files."""
    return Asking(world_of(*(files or DISRUPTION)), None).what_if(WhatIfRequest(**request)).document


def refused(**request: Any) -> BadQuestionError:
    """The refusal of a question about ``examples/disruption``."""
    with pytest.raises(BadQuestionError) as caught:
        asked(**request)
    return caught.value


def pool(**changes: Any) -> dict[str, Any]:
    """The pool of ``examples/disruption`` with another template."""
    (found,) = (each for each in documents(*DISRUPTION) if each["kind"] == "NodePool")
    changed = deepcopy(found)
    changed["spec"]["template"]["spec"] |= changes
    return changed


@pytest.mark.case("DASH-15")
def test_a_drain_says_where_pods_go_and_which_a_budget_holds() -> None:
    world = world_of(*DISRUPTION)
    before = [*world.objects]
    asking = Asking(world, None)
    plan = asking.plan().document

    answer = asking.what_if(WhatIfRequest(drain=["general-web"])).document

    assert {
        "pod": "default/web-0",
        "pdb": "default/web",
        "detail": "PDB default/web allows 0 of 2 for pod default/web-0",
    } in answer["held"]
    assert "general-web" in answer["diff"]["nodesRemoved"]
    assert {"default/web-0", "default/web-1"} <= set(answer["diff"]["podsMoved"])
    assert plan == answer["before"] == Asking(world, None).plan().document
    assert before == [*world.objects]


def test_a_node_that_would_go_anyway_is_named_and_saves_nothing_more() -> None:
    asking = Asking(world_of(*DISRUPTION), None)
    (command,) = (
        each
        for each in asking.plan().document["disruption"]["commands"]
        if each["reason"] == "Empty"
    )
    (node,) = command["candidates"]

    diff = asking.what_if(WhatIfRequest(drain=[node])).document["diff"]

    assert [node] == diff["nodesRemoved"]
    assert diff["hourly"] == pytest.approx(0.0)


def test_a_node_that_is_drained_saves_its_price_less_what_its_pods_need() -> None:
    asking = Asking(world_of(*PLAN), None)
    (node,) = (each.name for each in asking.plans.asked.snapshot.nodes)
    price = asking.explain("node", "", node).document["price"]

    diff = asking.what_if(WhatIfRequest(drain=[node])).document["diff"]

    assert [node] == diff["nodesRemoved"]
    assert ["default/database-0"] == diff["podsMoved"]
    new = sum(each["launch"]["price"] for each in diff["nodesAdded"])
    assert diff["nodesAdded"]
    assert diff["hourly"] <= new - price + 1e-9


@pytest.mark.case("DASH-16")
def test_a_deployment_is_placed_as_plan_would_place_it(tmp_path: Path) -> None:
    file = tmp_path / "ten.yaml"
    file.write_text(yaml.safe_dump(TEN), "utf-8")
    ran = run("plan", *DISRUPTION, "--with", str(file), "--now", MOMENT, "-o", "json")
    printed = json.loads(ran.out)

    answers = [asked(apply=file.read_text("utf-8")), asked(apply=[TEN])]

    for answer in answers:
        assert {k: printed[k] for k in ("provisioning", "disruption")} == answer["after"]
        diff = answer["diff"]
        assert [f"default/ten-{n}" for n in range(10)] == diff["podsPlaced"]
        assert ([], []) == (diff["podsUnplaced"], diff["podsMoved"])
        assert printed["difference"]["cost"]["hourlyChange"] == diff["hourly"]
        added = [claim["launch"]["instanceType"] for claim in diff["nodesAdded"]]
        planned = printed["difference"]["nodesToCreate"]["added"]
        assert sorted(each["instanceType"] for each in planned) == sorted(added)


@pytest.mark.case("DASH-17")
def test_a_new_taint_lets_every_node_of_the_pool_drift(tmp_path: Path) -> None:
    marked = documents(*DISRUPTION)
    for each in marked:
        if each["kind"] == "NodeClaim":
            each["metadata"].setdefault("annotations", {}).update(_hash_now())
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(marked), "utf-8")
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}

    answer = asked(str(file), apply=[pool(taints=[taint])])

    nodes = {each["metadata"]["name"] for each in marked if each["kind"] == "Node"}
    assert sorted(nodes) == answer["drifted"]
    (shown,) = answer["pools"]
    assert ("general", 4) == (shown["nodePool"], shown["nodes"]["count"])


def _hash_now() -> dict[str, str]:
    """The annotations of a claim that was made from the pool as it is."""
    snapshot = world_of(*DISRUPTION).snapshot
    held = snapshot.node_pools["general"].metadata.annotations
    return {key: value for key, value in held.items() if "nodepool-hash" in key}


@pytest.mark.case("DASH-17")
def test_a_misspelt_field_is_refused_with_its_path_and_what_may_be_meant() -> None:
    error = refused(apply=yaml.safe_dump(pool(taint=[])))

    (problem,) = error.problems
    assert "spec.template.spec.taint" == problem.field
    assert "did you mean" in problem.text
    assert "taints" in problem.text
    assert problem.line is not None
    assert str(error).startswith(f"input:{problem.line}: NodePool/general")


def test_a_mistake_is_refused_with_the_sentence_of_plan(tmp_path: Path) -> None:
    text = yaml.safe_dump(pool(expireAfter="tomorrow"))
    file = tmp_path / "input"
    file.write_text(text, "utf-8")
    ran = run("plan", *DISRUPTION, "--with", str(file))

    error = refused(apply=text)

    assert [f"error: {tmp_path}/{each.text}" for each in error.problems] == ran.errors[:-1]


def test_manifests_that_nobody_wrote_as_text_have_no_lines() -> None:
    (problem,) = refused(apply=[pool(expireAfter="tomorrow")]).problems

    assert problem.line is None
    assert problem.text.startswith("input: NodePool/general spec.template.spec.expireAfter: ")


@pytest.mark.case("DASH-18")
def test_too_much_is_refused() -> None:
    with pytest.raises(TooLargeError, match=r"input: 1,153,\d+ bytes are more than 1,048,576"):
        asked(apply="#" * int(1.1 * 1024 * 1024))
    many = [{**TEN, "metadata": {"name": f"d-{n}"}} for n in range(201)]
    for apply in (many, "---\n".join(map(yaml.safe_dump, many))):
        assert "201 objects are more than the 200" in str(refused(apply=apply))


@pytest.mark.case("DASH-18")
def test_broken_yaml_is_refused_with_its_line() -> None:
    (problem,) = refused(apply="kind: NodePool\nmetadata: [a\n").problems

    assert 2 == problem.line
    assert problem.text.startswith("input:2:")


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({}, "nothing is asked: name at least one of drain, apply, delete, set"),
        ({"drain": ["general-wob"]}, "there is no node general-wob; did you mean general-web"),
        ({"delete": ["NodePool/generl"]}, "there is no NodePool generl; did you mean general"),
        ({"delete": ["Pod/web"]}, "there is no Pod web; did you mean default/web-0"),
        ({"delete": ["Deployment/x"]}, "there is no Deployment x: there are no Deployments at all"),
        ({"delete": ["x"]}, "delete: 'x' is not of the form Kind/name or Kind/namespace/name"),
        (
            {"set": {"PREFERENCE_POLIC": "Ignore"}},
            "set: no setting is called PREFERENCE_POLIC; did you mean PREFERENCE_POLICY?",
        ),
        ({"apply": "# nothing\n"}, "input: there is no object in it that a plan depends on"),
    ],
)
def test_what_cannot_be_asked_is_refused(request_: dict[str, Any], sentence: str) -> None:
    assert str(refused(**request_)).startswith(sentence)


def test_a_pool_that_is_deleted_takes_its_nodes_with_it() -> None:
    diff = asked(delete=["NodePool/general"])["diff"]

    assert {"general-web", "general-full"} <= set(diff["nodesRemoved"])
    assert {"default/cache-0", "default/shop-0", "default/web-0"} <= set(diff["podsUnplaced"])
    assert diff["hourly"] < 0


def test_without_the_budget_of_its_pods_a_node_may_go() -> None:
    answer = asked(delete=["PodDisruptionBudget/web"])

    assert "general-web" in _candidates(answer["after"]) | set(answer["diff"]["nodesRemoved"])
    assert "general-web" not in _candidates(answer["before"])


def _candidates(plan: dict[str, Any]) -> set[str]:
    return {name for each in plan["disruption"]["commands"] for name in each["candidates"]}


def test_a_workload_that_is_deleted_takes_its_pods_with_it() -> None:
    answer = asked(*PLAN, delete=["Deployment/web"])

    before, after = answer["before"]["provisioning"], answer["after"]["provisioning"]
    assert any("web-" in pod for pod in _placed(before))
    assert not any("web-" in pod for pod in _placed(after))
    assert answer["diff"]["hourly"] <= 0


def _placed(plan: dict[str, Any]) -> list[str]:
    return [pod for claim in plan["nodeClaims"] for pod in claim["pods"]]


def test_a_setting_counts_only_for_the_plan_with_it() -> None:
    answer = asked(*PLAN, set={"PACKING": "cheapest"})

    assert "packing" not in answer["before"]["provisioning"]["cost"]
    assert "packing" in answer["after"]["provisioning"]["cost"]


def test_a_pool_of_a_class_that_nobody_used_so_far_is_planned_with() -> None:
    empty = {**pool(), "metadata": {"name": "second"}}

    (shown,) = asked(apply=[empty])["pools"]

    assert shown["instanceTypes"]["possible"] > 0
