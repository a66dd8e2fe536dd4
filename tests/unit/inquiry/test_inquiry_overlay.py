"""``plan --with``: what manifests would change, laid over a cluster."""

from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import document, machine, node, pod, pool, put, running
from helpers.commands import run
from karpenter.api.codec import convert
from karpenter.api.pods import Pod
from karpenter.inquiry.overlay import overlaid

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


def fixed(replicas: int, way: str = "on-demand", name: str = "fixed", **spec: Any) -> Any:
    wanted = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [SMALL]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [way]},
    ]
    return pool(name, replicas=replicas, requirements=wanted, **spec)


SMALL = "c-4x-amd64-linux"
PRICE = 4 * 0.025 + 8 * 2**30 / 10**9 * 0.001  # of 4 cpus and 8 GiB, on demand
ON_ITS_OWN = [["--only", "provisioning"], []]


@pytest.mark.parametrize("args", ON_ITS_OWN)
def test_more_replicas_of_a_static_pool_are_nodes_to_create(args: list[str]) -> None:
    base = put("base.json", fixed(1), *machine("n1", SMALL, node_pool="fixed"))

    said = document(base, *args, "--with", put("more.json", fixed(3)))["difference"]

    assert (0, 2) == (said["nodesToCreate"]["before"], said["nodesToCreate"]["after"])
    assert [
        {
            "nodePool": "fixed",
            "instanceType": SMALL,
            "zone": "test-zone-a",
            "capacityType": "on-demand",
            "count": 2,
        }
    ] == said["nodesToCreate"]["added"]
    assert pytest.approx(2 * PRICE) == said["cost"]["hourlyChange"]


@pytest.mark.parametrize("args", ON_ITS_OWN)
def test_fewer_replicas_of_a_static_pool_are_nodes_to_remove(args: list[str]) -> None:
    nodes = [*machine("n1", SMALL, node_pool="fixed"), *machine("n2", SMALL, node_pool="fixed")]
    base = put("base.json", fixed(2), *nodes, running("web", "n1"))

    said = document(base, *args, "--with", put("fewer.json", fixed(1)))["difference"]

    assert {"added": ["n2"], "removed": []} == said["nodesToRemove"]
    assert pytest.approx(-PRICE) == said["cost"]["hourlyChange"]


def test_a_new_static_pool_is_told_to_people_with_what_it_costs() -> None:
    base = put("base.json", pool())

    out = run("plan", base, "--with", put("new.json", fixed(2))).out

    assert out.startswith("2 nodes to create for static pools: $0.2172 per hour, $158.54 per month")
    told = out[out.index("What --with changes") :]
    assert "The plan costs $0.2172 per hour more, $158.54 per month\n" in told
    assert f"node to create  +2  {SMALL} test-zone-a on-demand of fixed" in told


def test_nodes_for_pods_and_for_static_pools_are_told_apart() -> None:
    out = run("plan", put("base.json", pool(), fixed(1), pod())).out

    first, _, second = out.splitlines()[:3]
    assert first.startswith("1 node to create: $")
    assert second == "1 more node to create for static pools: $0.1086 per hour, $79.27 per month"


def test_what_cannot_be_launched_has_no_price_and_the_change_none_either() -> None:
    base = put("base.json", pool())
    change = put("new.json", fixed(2, way="reserved"))

    said = document(base, "--with", change)["difference"]
    out = run("plan", base, "--with", change).out

    assert {"hourlyBefore": 0.0, "hourlyAfter": None, "hourlyChange": None} == said["cost"]
    assert [("", 2)] == [
        (each["instanceType"], each["count"]) for each in said["nodesToCreate"]["added"]
    ]
    assert out.startswith("2 nodes to create for static pools, which cannot be launched now\n")
    assert "because the price of a new node of fixed is" in out


def test_a_price_that_both_plans_lack_makes_no_difference() -> None:
    gone = machine("n1", SMALL, zone="elsewhere", spec={"expireAfter": "1h"})
    base = [pool(), *gone]

    same = difference(*base, web(1), change=[web(1)])["cost"]
    new = difference(pool(), *gone, change=[fixed(1)])["cost"]

    assert {"hourlyBefore": None, "hourlyAfter": None, "hourlyChange": 0.0} == same
    assert (None, pytest.approx(PRICE)) == (new["hourlyAfter"], new["hourlyChange"])


def test_a_price_that_one_plan_lacks_leaves_the_change_unknown() -> None:
    nodes = [
        *machine("n1", SMALL, node_pool="fixed"),
        *machine("n2", SMALL, node_pool="fixed", zone="elsewhere"),
    ]
    base = put("base.json", fixed(2), *nodes, running("web", "n1"))
    change = put("fewer.json", fixed(1))

    said = document(base, "--only", "provisioning", "--with", change)["difference"]
    out = run("plan", base, "--only", "provisioning", "--with", change).out

    assert {"hourlyBefore": 0.0, "hourlyAfter": None, "hourlyChange": None} == said["cost"]
    assert "Whether the plan costs more or less is unknown, because the price of n2 is" in out


def test_pods_of_a_replica_set_that_is_named_like_its_own_are_not_a_deployments() -> None:
    others = {**web(1), "kind": "ReplicaSet", "metadata": {"name": "web-api"}}
    theirs = running("theirs", "n1")
    theirs["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web-api",
            "uid": "r",
            "controller": True,
        }
    ]

    after = overlaid([convert(each) for each in (web(0), others, theirs)], [convert(web(0))])

    assert ["theirs"] == [each.metadata.name for each in after.objects if isinstance(each, Pod)]
