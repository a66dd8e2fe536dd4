"""Pods that only wait for another pass are not said to fit nowhere; real pods go before others."""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import everyone, machine, planned, pod, pool, put
from helpers.commands import run

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def apart(name: str, key: str, cpu: str = "1") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    made = pod(name, cpu, affinity={"podAntiAffinity": required})
    made["metadata"]["labels"] = {"app": "web"}
    return made


def fates(plan: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Which pods are placed, which wait for a pass to come, and which fit nowhere."""
    return (
        sorted(name for claim in plan["nodeClaims"] for name in claim["pods"]),
        sorted(entry["pod"] for entry in plan["deferred"] if entry["reason"] == "NextPass"),
        sorted(entry["pod"] for entry in plan["unplaced"]),
    )


def test_pods_of_which_each_zone_takes_one_wait_for_the_zones_to_be_known() -> None:
    pods = [apart(f"web-{number}", ZONE) for number in range(5)]  # one more than there are zones
    file = put("c.json", pool(), *pods)

    plan = planned(file)

    names = [f"default/web-{number}" for number in range(5)]
    assert (names[:1], names[1:4], names[4:]) == fates(plan)
    assert names == everyone(plan)
    detail = plan["deferred"][0]["detail"]
    assert detail.startswith("waits for the next pass: it fits once the nodes of this plan are up")
    assert "pod anti-affinity" in detail
    told = {event["object"]: event["message"] for event in plan["events"]}
    assert f"Failed to schedule pod, {detail}" == told[f"Pod/{names[1]}"]
    assert "waits" not in told[f"Pod/{names[4]}"]
    shown = run("plan", file, "--only", "provisioning").out
    assert "5 pods to place: 1 on new nodes, 1 fits nowhere, 3 wait for another pass" in shown


def test_a_pod_waits_while_a_planned_node_counts_as_the_largest_it_may_become() -> None:
    pods = [apart(f"web-{number}", HOST, "3") for number in range(3)]
    file = put("c.json", pool(limits={"cpu": "10"}), *pods)

    placed, waiting, nowhere = fates(planned(file))

    assert (["default/web-0"], ["default/web-1"], ["default/web-2"]) == (placed, waiting, nowhere)
    told = run("explain", "pod", "web-1", file).out
    assert "Pod default/web-1 waits for another pass" in told
    assert "fits nowhere" not in told
    assert "Pod default/web-2 fits nowhere" in run("explain", "pod", "web-2", file).out


def test_a_reservation_that_this_plan_takes_is_not_free_in_the_next_pass() -> None:
    # the second pod may go nowhere but to the reservation, which has room for one machine
    kind = {
        "name": "r",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "offerings": [
            {
                "zone": "z1",
                "capacityType": "reserved",
                "price": 0.0,
                "available": True,
                "reservationID": "cr-1",
                "reservationCapacity": 1,
            }
        ],
    }
    Path("types.json").write_text(json.dumps([kind]), "utf-8")
    file = put("c.json", pool(), apart("web-0", HOST), apart("web-1", HOST))

    plan = planned(file, "--instance-types", "types.json")

    _, waiting, _ = fates(plan)
    assert [] == waiting
    assert ["default/web-0", "default/web-1"] == everyone(plan)


def test_a_machine_without_a_node_so_far_takes_no_second_pod_that_wants_to_be_apart() -> None:
    # the machine is large enough for both, and nothing more may be launched
    claim, _ = machine("n1", "c-8x-amd64-linux")
    claim["status"] |= {"capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"}}
    claim["status"] |= {"allocatable": claim["status"]["capacity"], "nodeName": ""}
    launched = {"type": "Launched", "status": "True", "reason": "Launched", "message": ""}
    claim["status"]["conditions"] = [
        {**launched, "lastTransitionTime": "2026-08-01T00:00:00Z"},
    ]
    file = put(
        "c.json", pool(limits={"cpu": "10"}), claim, *(apart(f"w-{n}", HOST, "3") for n in (1, 2))
    )

    plan = planned(file)

    assert [["default/w-1"]] == list(plan["existing"].values())
    assert ([], [], ["default/w-2"]) == fates(plan)


def deployment(replicas: int, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container]},
            },
        },
    }


def of_the_deployment(name: str, cpu: str) -> dict[str, Any]:
    made = pod(name, cpu)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4", "uid": "u-web-5d4"}
    made["metadata"] |= {
        "uid": f"u-{name}",
        "creationTimestamp": "2026-08-01T00:00:00Z",
        "labels": {"app": "web", "pod-template-hash": "5d4"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    return made


def test_a_pod_that_exists_goes_before_larger_ones_that_nobody_has_made_so_far() -> None:
    small = pod("small", "500m")
    small["metadata"] |= {"uid": "u-small", "creationTimestamp": "2026-08-01T00:00:00Z"}
    tight = pool(limits={"cpu": "2"})

    plan = planned(put("c.json", tight, small, deployment(1, "1500m")))

    assert ["default/small"] == [name for claim in plan["nodeClaims"] for name in claim["pods"]][:1]
    assert "default/small" not in [entry["pod"] for entry in plan["unplaced"]]


def test_pods_that_exist_are_counted_against_what_a_workload_would_make() -> None:
    pods = [of_the_deployment(f"web-5d4-{suffix}", "1") for suffix in ("aaaaa", "bbbbb")]

    plan = planned(put("c.json", pool(), deployment(3, "1"), *pods))

    assert ["default/web-0", "default/web-5d4-aaaaa", "default/web-5d4-bbbbb"] == everyone(plan)


def test_in_manifests_alone_the_largest_pod_still_comes_first() -> None:
    plan = planned(
        put("c.json", pool(limits={"cpu": "2"}), pod("small", "1"), deployment(1, "1.9"))
    )

    assert [["default/web-0"]] == [claim["pods"] for claim in plan["nodeClaims"]]
