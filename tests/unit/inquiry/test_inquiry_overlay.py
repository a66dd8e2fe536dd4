"""``plan --with``: what manifests would change, laid over a cluster."""

from pathlib import Path
from typing import Any

import pytest

from karpenter.api.codec import convert
from karpenter.api.pods import Pod
from karpenter.cli.cluster_overlay import overlaid
from unit.cli.cluster_texts import document, node, pod, pool, put, running
from unit.cli.commands import run

ON_DEMAND = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
SPOT = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def web(replicas: int, cpu: Any = "1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("web", cpu)["spec"]},
            **spec,
        },
    }


def of_web(each: dict[str, Any]) -> dict[str, Any]:
    each["metadata"]["labels"] = {"app": "web"}
    return each


def difference(*objects: dict[str, Any], change: list[dict[str, Any]]) -> dict[str, Any]:
    base = put("base.json", *objects)
    found: dict[str, Any] = document(base, "--with", put("change.json", *change))["difference"]
    return found


def test_a_changed_pool_takes_the_place_of_the_one_that_is_there() -> None:
    said = difference(pool(requirements=ON_DEMAND), web(2), change=[pool(requirements=SPOT)])

    (gone,), (new,) = said["nodesToCreate"]["removed"], said["nodesToCreate"]["added"]
    assert ("on-demand", "spot", 1, 1) == (
        gone["capacityType"],
        new["capacityType"],
        gone["count"],
        new["count"],
    )
    cost = said["cost"]
    assert cost["hourlyChange"] == pytest.approx(cost["hourlyAfter"] - cost["hourlyBefore"])
    assert cost["hourlyChange"] < 0
    assert {"added": [], "removed": [], "changed": []} == said["pods"]


def test_more_replicas_are_pods_that_wait() -> None:
    said = difference(pool(), web(2), change=[web(5)])

    assert ["default/web-2", "default/web-3", "default/web-4"] == said["pods"]["added"]
    assert [] == said["pods"]["removed"]
    assert said["cost"]["hourlyChange"] > 0


def test_no_replicas_at_all_leave_nothing_to_create() -> None:
    said = difference(pool(), web(2), change=[web(0)])

    assert ["default/web-0", "default/web-1"] == said["pods"]["removed"]
    assert (1, 0) == (said["nodesToCreate"]["before"], said["nodesToCreate"]["after"])


def test_pods_that_run_count_and_those_that_wait_go_first() -> None:
    runs = of_web(running("web-a", "n1"))
    waits = of_web(pod("web-b"))
    said = difference(pool(), node(), runs, waits, web(2), change=[web(1)])

    assert ["default/web-b"] == said["pods"]["removed"]


def test_another_template_makes_all_pods_anew() -> None:
    said = difference(
        pool(), node(), of_web(running("web-a", "n1")), web(1), change=[web(1, cpu="2")]
    )

    assert (["default/web-0"], ["default/web-a"]) == (
        said["pods"]["added"],
        said["pods"]["removed"],
    )


def test_what_defaults_say_is_no_change_of_the_template() -> None:
    stored = web(1, cpu="1000m")
    stored["spec"]["template"]["spec"] |= {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
    }
    said = difference(
        pool(), node(), of_web(running("web-a", "n1")), stored, change=[web(1, cpu=1)]
    )

    assert {"added": [], "removed": [], "changed": []} == said["pods"]


def test_a_new_pool_gives_a_place_to_pods_that_fit_nowhere() -> None:
    said = difference(pod("lost"), change=[pool()])

    assert [{"pod": "default/lost", "before": "", "after": "NodePool/general"}] == said["pods"][
        "changed"
    ]


def test_people_are_told_what_differs_and_only_then() -> None:
    base = put("base.json", pool(), web(2))

    more = run("plan", base, "--with", put("more.json", web(6)))
    same = run("plan", base, "--with", put("same.json", web(2)))
    alone = run("plan", base)

    told = more.out[more.out.index("What --with changes") :]
    assert "The plan costs $" in told
    assert "+4  web-2, web-3, web-4, web-5" in told
    assert same.out.endswith(
        "What --with changes\n  The plan costs the same\n  The same nodes for the same pods\n"
    )
    assert "What --with changes" not in alone.out


def test_what_is_wrong_with_a_change_is_named_with_its_place() -> None:
    base = put("base.json", pool())

    typo = run("plan", base, "--with", put("a.json", pod("a", nodeSelecter={})))
    twice = run("plan", base, "--with", put("b.json", pod("a"), pod("a")))
    both = run("plan", "-", "--with", "-")

    assert [2, 2, 2] == [typo.code, twice.code, both.code]
    assert 'a.json:1: Pod/a unknown field "spec.nodeSelecter"' in typo.err
    assert "b.json:1: Pod default/a is given twice" in twice.err
    assert "standard input can be read only once" in both.err


def test_a_stateful_set_loses_its_last_ordinals() -> None:
    stateful = {**web(3), "kind": "StatefulSet"}
    smaller = {**web(1), "kind": "StatefulSet"}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "web",
        "uid": "s",
        "controller": True,
    }
    pods = [of_web(running(f"web-{n}", "n1")) for n in range(3)]
    for each in pods:
        each["metadata"]["ownerReferences"] = [owner]

    after = overlaid([convert(each) for each in (stateful, *pods)], [convert(smaller)])

    assert ["web-0"] == [each.metadata.name for each in after.objects if isinstance(each, Pod)]
