"""``explain pod`` and ``explain node`` tell why a node that is packed by price is as it is."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import instance_type, machine, pod, pool, put, running
from helpers.commands import run

BY_PRICE = ("--set", "PACKING=cheapest", "--set", "PACKING_NODE_COST=0")
OVERHEAD = 0.1  # cpu that file types keep for the kubelet
CEILING = "cost.karpenter.sh/price-ceiling"
ONE_CPU = {"requests": {"cpu": "1", "memory": "1Gi"}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def sized(name: str, cpu: int, price: float) -> dict[str, Any]:
    """A type with so much cpu for pods, and twice as many GiB."""
    made = instance_type(name, f"{cpu + OVERHEAD}", price=price)
    made["resources"]["memory"] = f"{2 * cpu * 1024 + 120}Mi"
    return made


def sold() -> tuple[str, str]:
    types = [
        sized("s-2x", 2, 0.10),
        sized("m-4x", 4, 0.19),
        sized("l-8x", 8, 0.36),
        sized("x-32x", 32, 2.0),
    ]
    Path("types.json").write_text(json.dumps(types), "utf-8")
    return "--instance-types", "types.json"


def sixteen(**spec: Any) -> str:
    containers = [{"name": "c", "image": "i", "resources": ONE_CPU}]
    return put(
        "c.json", pool(), *(pod(f"web-{n}", containers=containers, **spec) for n in range(16))
    )


def explained(kind: str, name: str, *args: str) -> Any:
    ran = run("explain", kind, name, *args, "-o", "json")
    assert (0, []) == (ran.code, ran.errors)
    return json.loads(ran.out)


def shown(kind: str, name: str, *args: str) -> list[str]:
    ran = run("explain", kind, name, *args)
    assert (0, []) == (ran.code, ran.errors)
    assert all(len(line) <= 80 for line in ran.out.splitlines())
    return ran.out.splitlines()


@pytest.mark.case("OPT-28")
def test_a_pod_is_told_what_its_node_was_chosen_over_and_what_one_more_costs() -> None:
    minimum = ("--set", "PACKING_MIN_TYPES=1")

    place = explained("pod", "web-0", sixteen(), *sold(), *BY_PRICE, *minimum)["place"]

    why = place["why"]
    hourly = {each["candidate"]: each["hourly"] for each in why["alternatives"]}
    assert 2.0 == hourly["karpenter"]
    assert math.isclose(0.72, hourly[why["candidate"]])
    assert math.isclose(0.045, why["oneMore"]["cpu"])
    assert 0.0 == why["oneMore"]["memoryGiB"]
    assert math.isclose(0.045, why["oneMore"]["pod"])
    assert math.isclose(0.045, why["share"])
    assert math.isclose(0.36, why["sharesOnNode"])
    assert math.isclose(0.36, why["price"])
    assert math.isclose(0.045, why["pricePerCpu"])
    assert 0.0 == why["pricePerGiB"]
    assert ("cpu", 100.0) == tuple(why["limitedBy"][0].values())
    assert [{"instanceType": "l-8x", "expectedPrice": 0.36, "because": "cheapest"}] == why[
        "keptTypes"
    ]
    assert [] == why["unknown"]


@pytest.mark.case("OPT-28")
def test_the_same_in_words_on_a_terminal_of_80_columns() -> None:
    minimum = ("--set", "PACKING_MIN_TYPES=2")

    lines = shown("pod", "web-0", sixteen(), *sold(), *BY_PRICE, *minimum)

    start = next(n for n, line in enumerate(lines) if "packed by price" in line)
    assert [
        "│   └── packed by price: greedy was kept, of 4 packings",
        "│       ├── l-8x: $0.0450 per cpu, the cheapest mix for these 8 pods; one more",
        "│       │   cpu here costs $0.0450",
        "│       ├── this pod's share is $0.0450/h",
        "│       ├── the shares of its pods come to $0.3600 of $0.3600/h",
        "│       ├── limited by cpu 100%, memory 50%",
        "│       ├── keeps 2 instance types: l-8x ($0.3600/h, the cheapest), x-32x",
        "│       │   ($2.0000/h, for the minimum)",
        "│       ├── no launch may cost more than $2.0000/h",
        "│       └── other packings",
        "│           ├── karpenter: $2.0000/h on 1 node",
        "│           ├── apart: $2.0000/h on 1 node",
        "│           └── configurations: $0.7200/h on 2 nodes",
    ] == lines[start : start + 13]


def test_in_karpenters_order_nothing_is_said_of_prices() -> None:
    assert "why" not in explained("pod", "web-0", sixteen(), *sold())["place"]


def test_a_packing_that_was_refused_says_why() -> None:
    limited = pool(limits={"nodes": "1"})
    containers = [{"name": "c", "image": "i", "resources": ONE_CPU}]
    file = put("c.json", limited, *(pod(f"web-{n}", containers=containers) for n in range(16)))
    minimum = ("--set", "PACKING_MIN_TYPES=1")

    lines = shown("pod", "web-0", file, *sold(), *BY_PRICE, *minimum)
    why = explained("pod", "web-0", file, *sold(), *BY_PRICE, *minimum)["place"]["why"]

    assert any("x-32x: Karpenter's order put these 16 pods on it" in line for line in lines)
    assert any("greedy: $0.3600/h on 1 node; not possible: it leaves 8" in line for line in lines)
    assert "karpenter" == why["candidate"]
    assert (None, None, None) == (why["oneMore"], why["share"], why["sharesOnNode"])
    assert ["the shares of all pods: Karpenter's order placed them, not their price"] == (
        why["unknown"]
    )


def test_a_pod_that_others_look_at_has_no_share_and_its_neighbours_have() -> None:
    containers = [{"name": "c", "image": "i", "resources": ONE_CPU}]
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "tied"}},
    }
    tied = pod("tied", containers=containers, topologySpreadConstraints=[spread])
    tied["metadata"]["labels"] = {"app": "tied"}
    free = [pod(f"web-{n}", containers=containers) for n in range(15)]
    file = put("c.json", pool(), tied, *free)
    args = (file, *sold(), *BY_PRICE, "--set", "PACKING_MIN_TYPES=1")

    why = explained("pod", "tied", *args)["place"]["why"]

    assert why["share"] is None
    assert math.isclose(0.315, why["sharesOnNode"])
    assert ["the shares of 1 of 8 pods: Karpenter's order placed them, not their price"] == (
        why["unknown"]
    )


def test_a_node_of_a_plan_is_explained_by_its_name() -> None:
    args = (sixteen(), *sold(), *BY_PRICE, "--set", "PACKING_MIN_TYPES=1")
    claims = json.loads(run("plan", *args, "-o", "json").out)["provisioning"]["nodeClaims"]
    name = claims[0]["name"]

    planned = explained("node", name, *args)
    lines = shown("node", name, *args)

    assert ["node", "nodePool", "outcome", "claim", "why"] == list(planned)
    assert ("Planned", claims[0]) == (planned["outcome"], planned["claim"])
    assert planned["why"]["share"] is None
    assert math.isclose(0.36, planned["why"]["sharesOnNode"])
    assert f"Node {name} would be created" == lines[0]
    assert "├── l-8x on-demand in z1 at $0.3600/h, of pool general" == lines[1]
    assert "└── packed by price: greedy was kept, of 4 packings" in lines


def test_a_node_of_a_plan_in_karpenters_order() -> None:
    args = (sixteen(), *sold())
    name = json.loads(run("plan", *args, "-o", "json").out)["provisioning"]["nodeClaims"][0]["name"]

    assert explained("node", name, *args)["why"] is None
    assert any("its pods were packed in Karpenter's order" in e for e in shown("node", name, *args))


def test_a_name_that_neither_cluster_nor_plan_has() -> None:
    ran = run("explain", "node", "nowhere", sixteen(), *sold())

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert "there is no node nowhere" in ran.err


def priced(ceiling: str, **offering: Any) -> tuple[str, str, str]:
    """A machine that was packed by price, with a pod; one of its types is sold no more."""
    sold()
    types = json.loads(Path("types.json").read_text("utf-8"))
    types[3]["offerings"][0]["available"] = False
    types[2]["offerings"][0].update(offering)
    Path("types.json").write_text(json.dumps(types), "utf-8")
    kept = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": ["l-8x", "x-32x"],
    }
    made = machine(
        "n1",
        "l-8x",
        zone="z1",
        claim={"annotations": {CEILING: ceiling}},
        spec={"requirements": [kept]},
    )
    made[1]["status"] = {
        part: {"cpu": "8", "memory": "16Gi", "pods": "110"} for part in ("capacity", "allocatable")
    }
    return (
        put("c.json", pool(), *made, running("web", "n1", cpu="6")),
        "--instance-types",
        "types.json",
    )


def test_of_a_node_that_exists_only_what_is_known_is_told() -> None:
    args = (*priced("0.36"), "--now", "2026-08-01T12:00:00Z")

    why = explained("node", "n1", *args)["why"]
    lines = shown("node", "n1", *args)

    unknown = (why["candidate"], why["oneMore"], why["share"], why["sharesOnNode"])
    assert (None, None, None, None) == unknown
    assert (0.36, 0.36) == (why["price"], why["priceCeiling"])
    assert [
        {"instanceType": "l-8x", "expectedPrice": 0.36, "because": None},
        {"instanceType": "x-32x", "expectedPrice": None, "because": None},
    ] == why["keptTypes"]
    assert {"resource": "cpu", "percent": 75.0} == why["limitedBy"][0]
    assert 3 == len(why["unknown"])
    start = next(n for n, line in enumerate(lines) if "packed by price" in line)
    assert [
        "└── packed by price, by an earlier plan",
        "    ├── taken of its room: cpu 75%",
    ] == lines[start : start + 2]
    assert "    ├── keeps 2 instance types: l-8x ($0.3600/h), x-32x (not on sale now)" in lines
    assert "    ├── no launch may cost more than $0.3600/h" in lines
    assert "    ├── not known: which packing it was made by, and of which others" in lines


def test_a_ceiling_that_cannot_be_read_is_none() -> None:
    args = (*priced("cheap"), "--now", "2026-08-01T12:00:00Z")

    assert explained("node", "n1", *args)["why"]["priceCeiling"] is None


def test_a_node_that_was_not_packed_by_price_has_no_reasons_of_price() -> None:
    file = put("c.json", pool(), *machine("n1"))

    assert explained("node", "n1", file, "--now", "2026-08-01T12:00:00Z")["why"] is None
