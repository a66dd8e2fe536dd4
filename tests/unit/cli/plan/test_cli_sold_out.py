"""What the simulated provider has sold out is sold out for ``plan`` and ``explain`` too."""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import planned, pod, pool, put, reasons
from helpers.commands import run

SPOT_ONLY = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KWOK_SOLD_OUT", raising=False)
    monkeypatch.setenv("COLUMNS", "200")


def node_class(sold_out: str, name: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": name, "annotations": {"karpenter.kwok.sh/sold-out": sold_out}},
    }


def ways(plan: dict[str, Any]) -> list[str]:
    return [claim["launch"]["capacityType"] for claim in plan["nodeClaims"]]


def test_the_annotation_of_a_node_class_is_heeded() -> None:
    plan = planned(put("c.json", pool(), pod(), node_class("*/*/spot")))

    assert ["on-demand"] == ways(plan)


def test_a_node_class_speaks_for_its_own_pools_only() -> None:
    own = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "other"}
    objects = [node_class("*/*/*", "other"), node_class("", "default")]
    file = put("c.json", pool(), pool("other", nodeClassRef=own, weight=5), pod(), *objects)

    plan = planned(file)

    assert [("general", "spot")] == [
        (claim["nodePool"], claim["launch"]["capacityType"]) for claim in plan["nodeClaims"]
    ]


def test_the_variable_of_the_controller_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWOK_SOLD_OUT", "*/*/spot")

    assert ["on-demand"] == ways(planned(put("c.json", pool(), pod())))
    assert ["on-demand"] == ways(planned(put("c.json", pool(), pod(), node_class("c-*/*/spot"))))


def test_a_list_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run("plan", put("c.json", pool(), pod(), node_class("spot")))

    assert 0 == ran.code
    assert "annotation karpenter.kwok.sh/sold-out of KWOKNodeClass default: 'spot' names" in ran.err
    monkeypatch.setenv("KWOK_SOLD_OUT", "spot")
    assert ["error: KWOK_SOLD_OUT: 'spot' names no offerings"] == [
        line.partition(";")[0] for line in run("plan", put("c.json", pool(), pod())).errors
    ]


def test_a_pool_whose_requirements_could_be_met_is_not_to_blame() -> None:
    spot = pool(requirements=[SPOT_ONLY])
    file = put("c.json", spot, pod(), node_class("*/*/spot"))

    plan = planned(file)

    assert {"default/web": ["SoldOut"]} == reasons(plan)
    told = {event["object"]: event["message"] for event in plan["events"]}
    assert {"Pod/default/web", "NodePool/general"} == told.keys()
    for message in told.values():
        assert "sold out: every offering that the pool's requirements allow" in message
    explained = run("explain", "pod", "web", file).out
    assert "✗ room: sold out: every offering that the pool's requirements allow" in explained
    bought = json.loads(run("explain", "nodepool", "general", file, "-o", "json").out)
    assert ["SoldOut"] == [each["reason"] for each in bought["instanceTypes"]["excluded"]]


def test_a_pod_is_told_that_what_it_asks_for_is_sold_out() -> None:
    selector = {"karpenter.sh/capacity-type": "spot"}
    plan = planned(put("c.json", pool(), pod(nodeSelector=selector), node_class("*/*/spot")))

    (entry,) = plan["unplaced"]
    (reason,) = entry["reasons"]
    assert "SoldOut" == reason["reason"]
    assert (
        "sold out: 144 instance types with karpenter.sh/capacity-type In [spot]"
        in (reason["detail"])
    )


def test_a_pod_for_which_only_sold_out_types_have_room_is_told_so() -> None:
    big = [f"{family}-256x-{arch}-*/*/*" for family in "csm" for arch in ("amd64", "arm64")]
    plan = planned(put("c.json", pool(), pod(cpu="200"), node_class(",".join(big))))

    (entry,) = plan["unplaced"]
    (reason,) = entry["reasons"]
    assert "SoldOut" == reason["reason"]
    assert "room for it, unavailable now; of what is left, needs 200 cpu" in reason["detail"]


def test_what_no_offering_ever_was_is_not_called_sold_out() -> None:
    nothing = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]}
    plan = planned(put("c.json", pool(requirements=[nothing]), pod(), node_class("*/*/spot")))

    assert {"default/web": ["NoCompatibleInstanceTypes"]} == reasons(plan)
