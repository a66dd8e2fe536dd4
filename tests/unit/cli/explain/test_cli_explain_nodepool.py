"""``karpenter explain nodepool`` tells what a pool can buy and how much it may still do."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.cluster_texts import instance_type, machine, planned, pod, pool, put
from helpers.commands import run

NOW = "2026-08-01T12:00:00Z"  # a Saturday
LINUX = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
SMALL = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["5"]}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    return tmp_path


def told(*objects: dict[str, Any], args: tuple[str, ...] = ()) -> list[str]:
    file = put("c.json", *objects)
    ran = run("explain", "nodepool", "general", file, "--now", NOW, *args)
    assert (0, []) == (ran.code, ran.errors)
    return ran.out.splitlines()


def data(*objects: dict[str, Any], args: tuple[str, ...] = ()) -> Any:
    return json.loads("\n".join(told(*objects, args=("-o", "json", *args))))


def test_types_that_are_in_are_those_a_plan_would_choose_from() -> None:
    wanted = pool(requirements=[LINUX, SMALL])

    document = data(wanted)
    (claim,) = planned(put("p.json", wanted, pod(cpu="100m")))["nodeClaims"]

    assert len(claim["instanceTypes"]) == document["instanceTypes"]["possible"]
    assert claim["launch"] == document["prices"][0]["cheapest"]


def test_types_that_are_out_have_a_reason() -> None:
    document = data(pool(requirements=[LINUX, SMALL]))

    out = {each["detail"]: each for each in document["instanceTypes"]["excluded"]}
    assert {
        "the pool asks for kubernetes.io/os In [linux]": 72,
        "the pool asks for karpenter.kwok.sh/instance-cpu of at most 4": 54,
    } == {detail: len(each["instanceTypes"]) for detail, each in out.items()}
    assert {"RequirementConflict"} == {each["reason"] for each in out.values()}


def test_limits_count_what_is_there_and_put_types_out() -> None:
    limited = pool(requirements=[LINUX], limits={"cpu": "20", "memory": "1Ti"})

    document = data(limited, *machine())

    assert {
        "cpu": {"limit": "20", "used": "4", "left": "16"},
        "memory": {"limit": "1Ti", "used": "8Gi", "left": "1016Gi"},
    } == document["limits"]
    reasons = {each["detail"]: each["reason"] for each in document["instanceTypes"]["excluded"]}
    assert "LimitExceeded" == reasons["it has more cpu than the pool's limit leaves"]
    assert ["1", "2", "4", "8", "16"] == [size["cpu"] for size in document["prices"]]
    assert 1 == document["nodes"]["count"]


def test_a_pool_with_as_many_nodes_as_it_may_have() -> None:
    document = data(pool(replicas=1, limits={"nodes": "1"}), *machine())

    assert 0 == document["instanceTypes"]["possible"]
    assert ["the limit of 1 nodes is reached"] == [
        each["detail"] for each in document["instanceTypes"]["excluded"]
    ]


def test_what_is_sold_out_is_out() -> None:
    types = [instance_type("a"), instance_type("b", available=False)]
    Path("types.json").write_text(json.dumps(types), "utf-8")

    document = data(pool(), args=("--instance-types", "types.json"))

    assert 1 == document["instanceTypes"]["possible"]
    assert [("SoldOut", ["b"])] == [
        (each["reason"], each["instanceTypes"]) for each in document["instanceTypes"]["excluded"]
    ]


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        pytest.param({"nodes": "10%"}, "budget of 10%: always, 1 node at a time", id="always"),
        pytest.param(
            {"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"},
            "budget of 0: in force now until 2026-08-01 17:00 UTC (in 5 h), 0 nodes at a time"
            " (0 9 * * * for 8h)",
            id="in its window",
        ),
        pytest.param(
            {"nodes": "5", "schedule": "0 9 * * mon-fri", "duration": "8h", "reasons": ["Empty"]},
            "budget of 5 for Empty: not in force now, from 2026-08-03 09:00 UTC (in 45 h)"
            " (0 9 * * mon-fri for 8h)",
            id="outside of its window",
        ),
        pytest.param(
            {"nodes": "2", "schedule": "* * * * *", "duration": "5m"},
            "budget of 2: in force now, 2 nodes at a time (* * * * * for 5m)",
            id="a window that never closes",
        ),
    ],
)
def test_budgets_and_their_windows(budget: dict[str, Any], said: str) -> None:
    lines = told(pool(disruption={"budgets": [budget], "consolidateAfter": "0s"}), *machine())

    assert f"  {said}" in lines


def test_windows_as_data() -> None:
    budget = {"nodes": "5", "schedule": "0 9 * * *", "duration": "8h"}

    document = data(pool(disruption={"budgets": [budget], "consolidateAfter": "Never"}))

    assert [
        {
            "nodes": "5",
            "reasons": None,
            "schedule": "0 9 * * *",
            "duration": "8h",
            "active": True,
            "allowed": 5,
            "opens": "2026-08-02T09:00:00Z",
            "closes": "2026-08-01T17:00:00Z",
            "problem": "",
        }
    ] == document["disruption"]["budgets"]
    assert {"Empty": 5, "Drifted": 5, "Underutilized": 5} == document["disruption"]["remaining"]


def test_a_pool_that_cannot_be_used_says_why() -> None:
    unready = pool()
    unready["status"] = {
        "conditions": [{"type": "Ready", "status": "False", "reason": "NodeClassNotReady"}]
    }

    lines, document = told(unready), data(unready)

    assert "NodePool general makes no nodes: the pool is not ready: NodeClassNotReady" == lines[0]
    assert (False, "NodePoolNotReady") == (document["usable"], document["reason"])


def test_for_people() -> None:
    lines = told(pool(requirements=[LINUX, SMALL], limits={"cpu": "100"}), *machine())

    assert lines[:2] == [
        "NodePool general can make nodes",
        "1 node: $0.1086 per hour, $79.27 per month",
    ]
    assert "Instance types: 18 in, 126 out" in lines
    at = lines.index("The cheapest of each size")
    assert ["cpu", "memory", "type", "zone"] == lines[at + 1].split()[:4]
    assert ["1", "2Gi", "c-1x-amd64-linux"] == lines[at + 2].split()[:3]
    at = lines.index("Limits")
    assert ["cpu", "100", "4", "96"] == lines[at + 2].split()
    assert "  nodes that may be disrupted now: 1 for Empty, 1 for Drifted, 1 for Underutilized" in (
        lines
    )


def test_nodes_nobody_knows_the_price_of_are_counted() -> None:
    unknown = machine(kind="x-4x-gone")

    alone, beside = told(pool(), *unknown), told(pool(), *unknown, *machine("n2"))

    assert "1 node, at an unknown price" == alone[1]
    assert "2 nodes: $0.1086 per hour, $79.27 per month, 1 of them at an unknown price" == beside[1]


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_no_row_of_the_prices_is_broken(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    lines = told(pool())

    at = lines.index("The cheapest of each size")
    end = lines.index("", at)
    assert 12 == end - at - 2  # one line for each size
    assert all(len(line) <= int(columns) for line in lines[at:end])
    if columns != "60":
        assert all("-linux" in line and "test-zone-" in line for line in lines[at + 2 : end])


def test_the_yaml_says_the_same() -> None:
    in_yaml = yaml.safe_load("\n".join(told(pool(), args=("-o", "yaml"))))

    assert in_yaml == data(pool())


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        pytest.param(
            [pool("generic"), pool("batch")],
            "there is no NodePool general; did you mean generic?",
            id="misspelt",
        ),
        pytest.param(
            [pool("x")], "there is no NodePool general among the 1 there are", id="unknown"
        ),
        pytest.param(
            [pod()], "there is no NodePool general: there are no NodePools at all", id="none"
        ),
    ],
)
def test_an_unknown_pool_is_one_sentence(objects: list[dict[str, Any]], said: str) -> None:
    ran = run("explain", "nodepool", "general", put("c.json", *objects))

    assert (2, "", [f"error: {said}"]) == (ran.code, ran.out, ran.errors)


def test_a_pool_whose_limits_leave_no_type_can_make_no_node() -> None:
    lines = told(pool(limits={"nodes": "0"}))

    assert "NodePool general can make no node: no instance type is left" == lines[0]


def test_a_pool_that_never_consolidates_says_so() -> None:
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}

    lines = told(pool(disruption=disruption))

    assert "  nothing is consolidated, as consolidateAfter is Never" in lines


def test_a_static_pool_says_how_many_nodes_it_wants() -> None:
    lines = told(pool(replicas=3))

    assert "0 nodes of the 3 it is to have" == lines[1]
    assert "  nothing is consolidated, as the number of nodes is fixed" in lines
